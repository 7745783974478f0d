"""Tallies as they travel (docs/protocol.md §13): bytes beside their entropy, and what a device fetches for a round.

Tallies are drawn by the law that the planner comes to for ε = 1 and so many people, with Zipf's law for what people
send; ``plain`` has no cover. ``entropy_bytes`` is what the law of all cells leaves no coder to save: that of two
relays' negative binomials, made wider by the people's own packages (plain: of Poisson counts of known means, which no
coder knows). ``bytes_over_entropy`` nearer to 1 is better. ``canonical_bytes`` is what would travel uncoded. The same
planes are given to ``lzma``, ``bz2`` and to the program zstd, which times itself in memory (null where it is not
installed). Speeds are MB of canonical bytes a CPU second; memory is what Python and numpy held at most.

``round`` is what a device fetches to believe a round at 10,000 bins: its news, which are manifest, opening, tally,
checkpoint and lines of the log, padded under the seal to a multiple of 4,096 bytes. Documents are those of a small
experiment whose rounds are played here: they do not grow with bins. ``v1`` is the figure of version 1, whose tally
travelled uncoded. Beside it ``look`` is one fresh look at the log, of which there are two in a window, and
``canary_run`` and ``recounted_shard`` what a device fetches to find its canary, and to count a shard again.

    ./secvm bench tally [--people 10000] [--turns 20]
"""

from __future__ import annotations

import argparse
import bz2
import lzma
import math
import re
import shutil
import subprocess
import tempfile
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._measuring import fewest_s
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Swift
from secvm.learning.aggregate.tally import Tally
from secvm.learning.cover_law import RELAYS, Noise, RelayCover, relay_budget
from secvm.learning.experiment import Experiment
from secvm.learning.thinning import Thinning
from secvm.privacy.planning.relay_plan import plan_relays, question_for
from secvm.privacy.target import PrivacyTarget
from secvm.protocol.documents.blobs import encode_tally, read_tally_bytes
from secvm.protocol.plain.sealed_requests import SEALED_ANSWER_BYTES, fetch_answer
from secvm.protocol.relays.news import make_news
from secvm.protocol.relays.submission import RECOUNTED_ONE_IN
from secvm_lab.rigs.histories.relayed_history import RelayedHistory
from secvm_lab.rigs.histories.relayed_rounds import relayed_document
from secvm_lab.rigs.histories.witnessed_log import known_log_terms

#: What a device fetched for a round in version 1 at 10,000 bins: docs/results/capacity.md before tallies were coded.
V1_BYTES = 172_128
_FEATURES, _UNITS = 100, 10
_DATE = "Thu, 01 Jan 2026 00:00:00 GMT"
#: Capsules of a shard, and bytes of a digest and of an inner capsule.
_SHARD, _DIGEST_BYTES, _INNER_BYTES = 4096, 32, 80


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--people", type=int, default=10_000, help="devices in a round")
    parser.add_argument("--turns", type=int, default=20, help="turns of each contestant")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Code tallies of all kinds."""
    people, turns = arguments.people, arguments.turns
    results: dict[str, object] = {"people": people}
    coded = {}
    for bins in (1_000, 10_000):
        for name, cover in (("covered", planned_cover(bins, people)), ("plain", None)):
            tally, experiment, entropy = drawn_tally(bins, people, cover)
            key = f"{name}_{bins}"
            coded[key] = len(encode_tally(tally, experiment))
            results[key] = _measured(tally, experiment, entropy, turns)
    return results | {"round": round_bytes(coded["covered_10000"])}


def planned_cover(bins: int, people: int) -> RelayCover:
    """What the planner chooses for ε = 1, δ = 1e-6 and two labels."""
    target = PrivacyTarget(Fraction(1), Fraction(1, 10**6))
    return plan_relays(question_for(target=target, people=people, bins=bins, features=_FEATURES)[0]).cover


def drawn_tally(bins: int, people: int, cover: RelayCover | None, seed: int = 1) -> tuple[Tally, Experiment, float]:
    """A net tally, its experiment, and its entropy in bytes."""
    budget = relay_budget(violable=1, features=_FEATURES)
    experiment = Experiment(
        n_bins=bins,
        labels=("a", "b"),
        rule=Swift(),
        thinning=Thinning(rho=Fraction(4)),
        features_per_person=_FEATURES,
        budget=budget,
        cover=cover,
    )
    dice = np.random.default_rng(seed)
    zipf = dice.permutation(1 / np.arange(1, bins + 1))
    means = np.append(people * _UNITS / 2 * zipf / zipf.sum(), people / 4)
    tally, bits = aggregate.empty_tally(experiment), 0.0
    for part in (tally.plus, tally.minus):
        part[0] = dice.poisson(means)
    tally.participants[:], tally.cells[:] = dice.poisson(people / 3, 2), dice.poisson(people / 12, (2, 2))
    law: tuple[Noise | None, ...] = (None,) * 4
    if cover is not None:
        law = (cover.train, cover.train, cover.participation, cover.test)
    parts = (tally.plus, tally.minus, tally.participants, tally.cells)
    sent = (means, means, np.full(2, people / 3), np.full(4, people / 12))
    for part, noise, each in zip(parts, law, sent, strict=True):
        bits += sum(_entropy(noise, round(mean, 1 if mean < 100 else -1)) for mean in each.tolist())
        if noise is not None:
            shape, chance = float(RELAYS * noise.shape), float(1 / (1 + noise.odds))
            np.add(part, dice.negative_binomial(shape, chance, part.shape), out=part)
    return tally, experiment, bits / 8


@cache
def _entropy(noise: Noise | None, mean: float) -> float:
    """Bits of a cell of this cover to which people send so many packages on average."""
    if noise is None:
        counts = np.arange(int(mean + 12 * math.sqrt(mean) + 20))
        return _bits(counts * math.log(mean or 1e-9) - mean - _log_factorials(counts))
    shape, odds = RELAYS * float(noise.shape), float(noise.odds)
    counts = np.arange(int(shape * odds + 20 * math.sqrt(shape * odds * (1 + odds))))
    gammas = np.array([math.lgamma(count + shape) for count in counts]) - math.lgamma(shape)
    nats = gammas - _log_factorials(counts) - shape * math.log1p(odds) + counts * math.log(odds / (1 + odds))
    # Noise is all but normal, and people's packages make it a little wider.
    return _bits(nats) + math.log2(1 + mean / float(RELAYS * noise.variance)) / 2


def _log_factorials(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.array([math.lgamma(count + 1) for count in counts])


def _bits(nats: NDArray[np.float64]) -> float:
    return float(-(np.exp(nats) * nats).sum() / math.log(2))


def _measured(tally: Tally, experiment: Experiment, entropy: float, turns: int) -> dict[str, object]:
    data = encode_tally(tally, experiment)
    assert read_tally_bytes(data, experiment) == tally
    planes = zlib.decompress(data)
    size = 8 * sum(part.size for part in (tally.plus, tally.minus, tally.participants, tally.cells))
    return {
        "canonical_bytes": size,
        "bytes": len(data),
        "entropy_bytes": round(entropy),
        "bytes_over_entropy": round(len(data) / entropy, 4),
        "canonical_over_bytes": round(size / len(data), 2),
        "code_mb_s": round(size / 1e6 / fewest_s(lambda: encode_tally(tally, experiment), turns), 1),
        "read_mb_s": round(size / 1e6 / fewest_s(lambda: read_tally_bytes(data, experiment), turns), 1),
        "code_peak_kb": _peak_kb(lambda: encode_tally(tally, experiment)),
        "read_peak_kb": _peak_kb(lambda: read_tally_bytes(data, experiment)),
        "lzma_bytes": len(lzma.compress(planes, preset=9)),
        "bz2_bytes": len(bz2.compress(planes)),
        "zlib_6_bytes": len(zlib.compress(planes)),
        **{f"zstd_{level}": _zstd(planes, level, size) for level in (3, 19)},
    }


def _peak_kb(work: Callable[[], object]) -> int:
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return round(peak / 1000)


def _zstd(planes: bytes, level: int, size: int) -> dict[str, float] | None:
    """Bytes and speeds as zstd's own benchmark tells them, of canonical bytes like ours."""
    program = shutil.which("zstd")
    if program is None:
        return None
    with tempfile.NamedTemporaryFile() as file:
        file.write(planes)
        file.flush()
        told = subprocess.run([program, f"-b{level}", "-i1", file.name], capture_output=True, text=True, check=True)
    last = re.split(r"[\r\n]", told.stdout.strip() or told.stderr.strip())
    found = re.search(r"->\s*(\d+).*?,\s*([\d.]+) MB/s,\s*([\d.]+) MB/s", " ".join(last))
    if found is None:
        return None
    scale = size / len(planes)
    return {
        "bytes": int(found[1]),
        "code_mb_s": round(scale * float(found[2]), 1),
        "read_mb_s": round(scale * float(found[3]), 1),
    }


def round_bytes(tally: int) -> dict[str, Any]:
    """What a device fetches for a round with two relays and a tally of so many bytes."""
    history = RelayedHistory(relayed_document(log=known_log_terms()))
    for _ in range(3):
        history.announce()
        history.conclude()
    history.announce()
    news = make_news(history.files.get, history.document.digest, 4)
    assert news is not None
    news = replace(news, tally=bytes(tally))
    padded, content = padded_bytes(len(news.to_bytes())), len(news.to_bytes())
    parts = {name: len(getattr(news, name)) for name in ("manifest", "opening", "tally", "checkpoint")}
    return {
        "v1": V1_BYTES,
        "content": parts | {"lines": content - sum(parts.values())},
        "content_bytes": content,
        "padded_bytes": padded,
        "v1_over_content": round(V1_BYTES / content, 2),
        "v1_over_padded": round(V1_BYTES / padded, 2),
        "look": padded_bytes(len(news.checkpoint)),
        "canary_run": padded_bytes(_SHARD * _DIGEST_BYTES),
        "recounted_shard": padded_bytes(_SHARD * _INNER_BYTES),
        "recounted_one_in": RECOUNTED_ONE_IN,
    }


def padded_bytes(size: int) -> int:
    """What travels for an answer of so many bytes."""
    return len(fetch_answer(200, bytes(size), _DATE)) + SEALED_ANSWER_BYTES
