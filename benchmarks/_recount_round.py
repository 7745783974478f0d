"""Helper of ``recount``: a round of so many packages as a folder of public files, or such a folder counted again."""

from __future__ import annotations

import hashlib
import os
import pickle
import resource
import time
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from secvm.auditor.relayed.recounter import OpenedRound, Recounter, ServedShard, ShardVerdict
from secvm.crypto.sealing.layers import EPHEMERAL_BYTES, INNER_BYTES, BulkSealer, inner_layer
from secvm.crypto.signing import Envelope
from secvm.errors import SecVMError
from secvm.learning.cover_law import Noise, RelayCover
from secvm.protocol.canonical import digest_of
from secvm.protocol.codec import AddressedPackage, encode
from secvm.protocol.documents.experiment import HashedBins, publish, read_published
from secvm.protocol.relays.counting import Cells, sub_tally_of
from secvm.protocol.relays.recount import RawCount, ShardTally
from secvm.protocol.relays.shards import SHARD, ShardRun, shard_count
from secvm.runtime.lanes import find_lanes
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR, MIX, RelayedRound, relayed_document, relayed_experiment
from secvm_lab.rigs.histories.shard_tree import ShardTree

BINS = 1_000
_BLOCK = 1 << 16


def bench_round() -> RelayedRound:
    """A round of an experiment with a thousand bins; who took part is no matter here."""
    noise = {"shape": Fraction(3), "odds": Fraction(1, 2)}
    cover = RelayCover(
        train=Noise(cells=2 * (BINS + 1), **noise), participation=Noise(cells=4, **noise),
        test=Noise(cells=4, **noise), parts=4, packages=8_000, train_share=Fraction(7, 10),
    )  # fmt: skip
    experiment = relayed_experiment(n_bins=BINS, cover=cover)
    document = relayed_document(experiment=experiment, binning=HashedBins(bins=BINS, salt=bytes(16)))
    return RelayedRound(document=document, clients=1, refused=0)


def make(place: str, packages: int) -> None:
    """Seal packages of random cells, sort them and write their shards, with what a counter must know of the round."""
    folder, sealer = Path(place), BulkSealer(find_lanes().lanes, threads=os.cpu_count() or 1)
    told = bench_round()
    cells, label = Cells.of(told.document.experiment), told.label
    listed = [encode(AddressedPackage(told.document.experiment_id, 1, cells.package_of(i))) for i in range(cells.count)]
    table = np.frombuffer(b"".join(listed), np.uint8).reshape(cells.count, -1)
    dice = np.random.default_rng(packages)
    capsules = np.empty((packages, INNER_BYTES), np.uint8)
    named = dice.integers(0, cells.count, packages)
    for at in range(0, packages, _BLOCK):
        some = table[named[at : at + _BLOCK]]
        sealed = sealer.seal(
            inner_layer(label), told.count_key.public_key, os.urandom(EPHEMERAL_BYTES * len(some)), some.tobytes()
        )
        capsules[at : at + _BLOCK] = np.frombuffer(sealed, np.uint8).reshape(-1, INNER_BYTES)
    digests = np.empty((packages, 4), ">u8")
    for i in range(packages):
        digests[i] = np.frombuffer(hashlib.sha256(capsules[i].tobytes()).digest(), ">u8")
    order = np.lexsort(digests.T[::-1])
    tree, sub_tallies = ShardTree(label), []
    for k in range(shard_count(packages)):
        part = order[k * SHARD : (k + 1) * SHARD]
        sub_tallies.append(sub_tally_of(named[part].astype(np.int64)))
        tree.append([digest.tobytes() for digest in digests[part]], sub_tallies[k])
    for k in range(shard_count(packages)):
        part, proof = order[k * SHARD : (k + 1) * SHARD], tree.proof(k)
        run = ShardRun(k, packages, proof.mix_path, tuple(digest.tobytes() for digest in digests[part]))
        (folder / f"shard-{k}").write_bytes(run.to_bytes())
        (folder / f"capsules-{k}").write_bytes(capsules[part].tobytes())
        (folder / f"tally-{k}").write_bytes(ShardTally(proof.path, sub_tallies[k]).to_bytes())
    count = replace(told.mix_count, capsules=packages, root=tree.mix_root)
    opening = replace(told.opening, mix_count=count.signed(MIX), shards=tree.root)
    opened = OpenedRound(publish(told.document, keys=(COORDINATOR,)), told.manifest.data, opening.data)
    (folder / "round").write_bytes(pickle.dumps((opened, packages)))


def read_round(folder: Path) -> tuple[OpenedRound, int]:
    """The round in a folder, and how many packages it has."""
    # We have just written it.
    opened, packages = pickle.loads((folder / "round").read_bytes())
    return opened, packages


def files_of(folder: Path, packages: int) -> Iterator[ServedShard]:
    """Its shards, one after another."""
    for k in range(shard_count(packages)):
        run, capsules, tally = ((folder / f"{name}-{k}").read_bytes() for name in ("shard", "capsules", "tally"))
        yield ServedShard(k, run, capsules, tally)


def count(place: str, processes: int) -> dict[str, object]:
    """Count the round again, as an audit does."""
    folder = Path(place)
    opened, packages = read_round(folder)
    document = read_published(opened.experiment, digest=digest_of(Envelope.from_bytes(opened.experiment).payload))
    raw = RawCount(Cells.of(document.experiment), capsules=packages)
    wall, cpu, counted = time.perf_counter(), _cpu(), 0
    with Recounter(processes=processes, lanes="auto") as recounting:
        for _, judged in recounting.judge(opened, shard_count(packages), files_of(folder, packages)):
            if judged.verdict is not ShardVerdict.TRUE or judged.sub_tally is None or judged.junk:
                raise SecVMError(f"a shard of the benchmark is not true: {judged.verdict.value}")
            raw.add(judged.digests_hash, judged.sub_tally)
            counted += judged.recounted
    if counted != packages:
        raise SecVMError(f"{counted} packages were counted again, of {packages}")
    own, others = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "packages": packages,
        "seconds": time.perf_counter() - wall,
        "cpu_s": _cpu() - cpu,
        "peak_mb": own / 1024,
        "process_peak_mb": others / 1024,
    }


def _cpu() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)
