"""Shards counted again on all cores, one after another in flat memory, whatever each of them shows.

A shard is judged by itself (``recount.Recount``), so processes share nothing but what a round is: its document,
manifest and opening, as bytes. A few shards are counted here; of many, each process has a couple at a time, so that the
memory is that of a few shards however many there are. Lanes are used where they were built.
"""

from __future__ import annotations

import enum
import hashlib
import multiprocessing
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from types import TracebackType
from typing import Self

from secvm.crypto.sealing.layers import BulkSealer
from secvm.errors import BadProofError, RemoteProtocolError
from secvm.protocol.documents.experiment import read_published
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import Opening
from secvm.protocol.relays.recount import Recount, ShardTally
from secvm.protocol.relays.shards import read_run
from secvm.runtime.lanes import Mode, find_lanes

#: A round of fewer shards is counted in this process: others take a second to be there.
MANY_SHARDS = 8


@dataclass(frozen=True, slots=True)
class OpenedRound:
    """What a round is, for whoever counts: bytes that were judged already."""

    #: The experiment's envelope.
    experiment: bytes
    #: Payloads.
    manifest: bytes
    opening: bytes


@dataclass(frozen=True, slots=True)
class ServedShard:
    """The files of a shard, as they are served; None where one is not."""

    shard: int
    run: bytes | None
    capsules: bytes | None
    tally: bytes | None


class ShardVerdict(enum.Enum):
    """What a shard's files show."""

    TRUE = "true"
    RUN = "its digests are not those under the mixing relay's root"
    CAPSULES = "its capsules are not those of its digests"
    TALLY = "its sub-tally is not under the root of the shards"
    COUNT = "its sub-tally is not what its capsules give"
    NOT_SERVED = "its digests, its capsules or its sub-tally are not served"


@dataclass(frozen=True, slots=True)
class JudgedShard:
    """One shard, counted again where that could be."""

    verdict: ShardVerdict
    #: Packages that were counted again, and how many of them are junk.
    recounted: int = 0
    junk: int = 0
    #: SHA-256 of its digests side by side.
    digests_hash: bytes = b""
    #: The sub-tally that the opening is bound to, or, where that is not served, what was counted.
    sub_tally: bytes | None = None


class Recounter:
    """The processes of one audit; none are started before there is much to count."""

    def __init__(self, *, processes: int | None = None, many: int = MANY_SHARDS, lanes: Mode = "auto") -> None:
        self._processes = (os.cpu_count() or 1) if processes is None else processes
        self._lanes: Mode = lanes
        self._many = many
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def judge(
        self, opened: OpenedRound, shards: int, files: Iterable[ServedShard]
    ) -> Iterator[tuple[ServedShard, JudgedShard]]:
        """Each of a round's shards, in order; ``files`` is read as far ahead as there are hands."""
        if self._processes < 2 or shards < self._many:
            yield from ((shard, judge_shard(opened, shard, self._lanes)) for shard in files)
            return
        if self._pool is None:
            # Not forked: this process may have threads.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._processes, mp_context=context)
        waiting = deque[tuple[ServedShard, Future[JudgedShard]]]()
        for shard in files:
            waiting.append((shard, self._pool.submit(judge_shard, opened, shard, self._lanes)))
            if len(waiting) > 2 * self._processes:
                first, judged = waiting.popleft()
                yield first, judged.result()
        while waiting:
            first, judged = waiting.popleft()
            yield first, judged.result()


def judge_shard(opened: OpenedRound, files: ServedShard, lanes: Mode = "auto") -> JudgedShard:
    """One shard, counted again. Total: whatever the files are, it says what they show."""
    recount = _recount(opened, lanes)
    if files.run is None:
        return JudgedShard(ShardVerdict.NOT_SERVED)
    try:
        run = read_run(files.run, shard=files.shard, capsules=recount.capsules)
        recount.check_run(run)
    except RemoteProtocolError:
        return JudgedShard(ShardVerdict.RUN)
    digests_hash = hashlib.sha256(b"".join(run.digests)).digest()
    if files.capsules is None:
        return JudgedShard(ShardVerdict.NOT_SERVED, digests_hash=digests_hash)
    try:
        recount.check_capsules(run, files.capsules)
    except BadProofError:
        return JudgedShard(ShardVerdict.CAPSULES, digests_hash=digests_hash)
    counted = recount.count(files.capsules)
    verdict, sub_tally = ShardVerdict.TRUE, counted.sub_tally
    if files.tally is None:
        verdict = ShardVerdict.NOT_SERVED
    else:
        try:
            signed = ShardTally.from_bytes(files.tally)
            recount.check_tally(run, signed)
            sub_tally = signed.sub_tally
            verdict = ShardVerdict.TRUE if sub_tally == counted.sub_tally else ShardVerdict.COUNT
        except RemoteProtocolError:
            verdict = ShardVerdict.TALLY
    return JudgedShard(verdict, counted.capsules, counted.junk, digests_hash, sub_tally)


@lru_cache(maxsize=8)
def _recount(opened: OpenedRound, lanes: Mode) -> Recount:
    document = read_published(opened.experiment)
    manifest, opening = RelayedManifest.from_bytes(opened.manifest), Opening.from_bytes(opened.opening)
    return Recount.of(document, manifest, opening, bulk_sealer(lanes))


@cache
def bulk_sealer(lanes: Mode = "auto") -> BulkSealer:
    """With this machine's lanes, looked for once."""
    return BulkSealer(find_lanes(lanes).lanes)
