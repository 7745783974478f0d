"""What a round with two relays costs, measured here, and the arithmetic for 200,000, 10 million and 1 billion devices.

Every cost is measured in this run on the real parts: a device seals its submission, computes a step and recounts a
shard; the entry relay takes submissions into its file; both relays draw and seal cover, the mixing relay opens; the
coordinator opens and counts. Each is CPU time of one core, the fewest of several turns. Sizes are those of real
messages, padded and under the seal. Cover and tally are those of the planner for ε = 1, 10,000 bins and 100,000 people.
The assumptions and the arithmetic are in ``benchmarks/_capacity_plan.py``; prices are assumptions. ``--page`` writes
inputs and tables into docs/results/capacity.md.

    ./secvm bench capacity [--packages 8192] [--page docs/results/capacity.md]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import _capacity_plan as arithmetic
from benchmarks import relay_cover
from benchmarks._measuring import fewest_s, memory_mb
from benchmarks.tally import drawn_tally, padded_bytes, planned_cover, round_bytes
from secvm.coordinator.relayed.run_counting import count_run
from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.layers import EPHEMERAL_BYTES, BulkSealer, inner_layer, outer_layer
from secvm.crypto.sealing.oblivious import GatewayKey, GatewayKeys, seal_request
from secvm.errors import SecVMError
from secvm.learning import aggregate
from secvm.learning.cover_law import relay_budget
from secvm.learning.package import NullPackage
from secvm.participant.trust.trust_policy import REFETCHES
from secvm.protocol.codec import AddressedPackage, encode
from secvm.protocol.documents.blobs import encode_tally, read_tally_bytes
from secvm.protocol.plain.sealed_requests import SEALED_ANSWER_BYTES, fetch_answer, fetch_request
from secvm.protocol.relays.counting import CapsuleReader
from secvm.protocol.relays.shards import SHARD
from secvm.protocol.relays.submission import SECRETS_BYTES, draw_order, seal_submission
from secvm.protocol.trust.relayed_chain import RelayedChain, RelayedServed
from secvm.relay.admission import Identity
from secvm.relay.entry.intake import Intake, IntakeLimits, read_submission
from secvm.runtime.lanes import build_lanes, find_lanes
from secvm_lab.rigs.histories.relayed_history import RelayedHistory
from secvm_lab.rigs.histories.relayed_rounds import RelayedRound, relayed_document, relayed_experiment

_BINS, _PEOPLE, _FEATURES = 10_000, 100_000, 100
_DATE = "Thu, 01 Jan 2026 00:00:00 GMT"
#: The path of a run of digests: its hashes for a billion capsules.
_RUN_BYTES = 1 + 32 * 18 + 32 * SHARD
_SUBMISSIONS = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--packages", type=int, default=2 * SHARD, help="capsules to measure opening with")
    parser.add_argument("--page", type=Path, help="write inputs and tables into this page")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Measure, then calculate."""
    started = time.monotonic()
    try:
        build_lanes()
    except SecVMError as error:
        sys.stderr.write(f"without lanes: {error}\n")
    costs = {**_round(), **_device(), **_entry(), **_cover(), **_opening(arguments.packages)}
    if arguments.page is not None:
        _write(arguments.page, costs)
    return {
        "costs": costs,
        "assumptions": arithmetic.ASSUMPTIONS,
        "device": {name: round(value, 3) for name, value in arithmetic.per_device(costs).items()},
        "plans": {
            str(devices): {name: round(value, 3) for name, value in arithmetic.plan(costs, devices).items()}
            for devices in arithmetic.SCALES
        },
        "peak_rss_mb": round(memory_mb(), 1),
        "seconds": round(time.monotonic() - started, 1),
    }


def _write(page: Path, costs: dict[str, float]) -> None:
    text = page.read_text(encoding="utf-8")
    inputs = json.dumps({"costs": costs, "assumptions": arithmetic.ASSUMPTIONS}, indent=2)
    text = arithmetic.with_block(text, "inputs", f"```json\n{inputs}\n```")
    text = arithmetic.with_block(text, "device", arithmetic.device_table(costs))
    page.write_text(arithmetic.with_block(text, "plan", arithmetic.table(costs)), encoding="utf-8")


# ── sizes, and what a device computes ────────────────────────────────────────────────────────────────────────────────


def _round() -> dict[str, float]:
    """The documents and the tally of a round, and the step that a device computes from them."""
    tally, experiment, _ = drawn_tally(_BINS, _PEOPLE, planned_cover(_BINS, _PEOPLE))
    cover, data, state = experiment.cover, encode_tally(tally, experiment), aggregate.start(experiment)
    assert cover is not None
    sizes = round_bytes(len(data))
    history = RelayedHistory(relayed_document())
    history.announce()
    history.conclude()
    history.announce()
    place = f"/v1/experiment/{history.document.digest}"
    served = RelayedServed(
        manifests=tuple(history.files[f"{place}/manifest/{number}"] for number in (1, 2)),
        openings={1: history.files[f"{place}/opening/1"]},
        tallies={name.removeprefix("/v1/blob/"): data for name, data in history.files.items() if "/blob/" in name},
        ending=None,
    )
    believe = fewest_s(lambda: RelayedChain(history.document).check(served))
    step = fewest_s(lambda: aggregate.step(experiment, state, read_tally_bytes(data, experiment)), 10)
    after = aggregate.step(experiment, state, tally)
    model = (
        after.to_bytes(),
        *(weights.to_bytes() for weights in (aggregate.training_weights(experiment, after),) * 2),
    )
    gateway = GatewayKeys([key := GatewayKey(1, X25519PrivateKey(bytes(range(32))))])
    asked = seal_request(key.configuration, fetch_request(f"{place}/manifest/1"), os.urandom)
    news = bytes(sizes["padded_bytes"] - SEALED_ANSWER_BYTES)
    run = fetch_answer(200, bytes(_RUN_BYTES), _DATE)

    def serve(*contents: bytes) -> None:
        for content in contents:
            gateway.open(asked.capsule).seal_response(content, os.urandom)

    return {
        "cover_packages": cover.packages,
        "uncoded_news_bytes": padded_bytes(sizes["content_bytes"] - len(data) + 8 * 2 * (_BINS + 1)),
        "news_bytes": sizes["padded_bytes"],
        "looks_bytes": REFETCHES * sizes["look"],
        "run_bytes": padded_bytes(_RUN_BYTES),
        "shard_bytes": sizes["recounted_shard"],
        "log_bytes_per_round": sizes["content_bytes"] + sum(map(len, model)),
        "verify_ms": round(1e3 * (believe + step), 2),
        "fetches_cpu_us": round(1e6 * fewest_s(lambda: serve(news), 50), 1),
        "run_cpu_us": round(1e6 * fewest_s(lambda: serve(run), 50), 1),
    }


def _device() -> dict[str, float]:
    """A submission is sealed, without lanes."""
    body, seconds = _submission()
    head = f"POST /submit/{64 * '0'} HTTP/1.1\r\nhost: relay.example\r\ncontent-length: {len(body)}\r\n\r\n"
    return {
        "packages_per_device": relay_budget(violable=1, features=_FEATURES),
        "submission_bytes": len(head) + len(body),
        "submission_ms": round(1e3 * seconds, 2),
    }


def _submission(turns: int = 3) -> tuple[bytes, float]:
    budget = relay_budget(violable=1, features=_FEATURES)
    experiment = relayed_experiment(features_per_person=_FEATURES, budget=budget)
    document = relayed_document(experiment=experiment)
    manifest = RelayedRound(document=document).manifest

    def words() -> Iterator[int]:
        while True:
            yield int.from_bytes(os.urandom(8), "little")

    def seal() -> bytes:
        order, secrets = draw_order(budget, words()), os.urandom(budget * SECRETS_BYTES)
        return seal_submission(document, manifest, [NullPackage()] * budget, order=order, ephemerals=secrets).body

    return seal(), fewest_s(seal, turns)


# ── relays and coordinator ───────────────────────────────────────────────────────────────────────────────────────────


def _entry() -> dict[str, float]:
    """Submissions into the entry relay's file, in groups as they come."""
    budget = relay_budget(violable=1, features=_FEATURES)
    bodies = [_submission(1)[0] for _ in range(_SUBMISSIONS)]
    limits = IntakeLimits(quota=1, network_quota=10**6, submissions=10**9)
    with tempfile.TemporaryDirectory() as folder:
        intake = Intake(Path(folder) / "intake", os.urandom)

        def take() -> None:
            group = [
                read_submission(Identity(b"client %d" % i), body, budget=budget, token_bytes=0)
                for i, body in enumerate(bodies)
            ]
            intake.take(group, limits)

        # Once: what was taken is not taken again.
        seconds = fewest_s(take, 1)
        taken = intake.submissions()
        intake.close()
    if taken != _SUBMISSIONS:
        raise SecVMError(f"the entry relay took {taken} of {_SUBMISSIONS} submissions")
    return {"entry_intake_us": round(1e6 * seconds / _SUBMISSIONS, 1)}


def _cover() -> dict[str, float]:
    """Cover of each relay, drawn, sealed and sorted."""
    parser = argparse.ArgumentParser()
    relay_cover.add_arguments(parser)
    found = relay_cover.run(parser.parse_args(["--bins", "100", "--packages", "40500", "--threads", "1"]))
    return {
        f"{role}_cover_us": round(1e6 * float(str(found[f"{role}_cpu_s"])) / 40_500, 2) for role in ("entry", "mix")
    }


def _opening(packages: int) -> dict[str, float]:
    """The mixing relay opens; the coordinator opens and counts, and so does a device that recounts a shard."""
    packages = max(1, packages // SHARD) * SHARD
    made = RelayedRound()
    label, mix = made.label, X25519PrivateKey(os.urandom(32))
    found = find_lanes("auto").lanes
    quick, readable = BulkSealer(found), BulkSealer()
    null = encode(AddressedPackage(made.document.experiment_id, 1, NullPackage()))
    secrets = os.urandom(packages * EPHEMERAL_BYTES)
    inner = quick.seal(inner_layer(label), made.count_key.public_key, secrets, null * packages)
    outer = quick.seal(outer_layer(label), mix.public_key, os.urandom(packages * EPHEMERAL_BYTES), inner)

    def count(sealer: BulkSealer) -> float:
        reader = CapsuleReader.of(made.document, made.manifest, made.count_seed, sealer)
        return 1e6 * fewest_s(lambda: count_run(inner, reader)) / packages

    one_by_one = count(readable)
    return {
        "mix_open_us": round(1e6 * fewest_s(lambda: quick.open_all(outer_layer(label), mix, outer)) / packages, 2),
        "count_us": round(one_by_one, 2),
        "count_lanes_us": 0 if found is None else round(count(quick), 2),
        "recount_ms": round(one_by_one * SHARD / 1000, 1),
    }
