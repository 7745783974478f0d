"""Ingest: what arrives is made durable in groups, acknowledged, and opened behind the scenes.

 1. A sealed capsule's key id names its epoch. An epoch that takes no capsules now refuses it at once.
 2. It waits a millisecond or two for others; the group is packed and committed by a thread, while the event loop goes
    on. Only then is it acknowledged. No arrival time is kept, and no order is promised.
 3. The opener (``coordinator.intake.opener``) turns sealed groups into records.
 4. When the driver has closed the epoch in the store, ``finish`` returns once nothing of it is sealed any more.

Somebody who asks while the epoch is being closed is told "stale", and then nothing was stored. A capsule that came
twice may be stored twice; the count knows it by its digest. Memory is bounded: beyond the limits the answer is
"try-later".
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass

from secvm.coordinator.intake.opener import Opener
from secvm.coordinator.intake.running import CurrentRounds
from secvm.coordinator.problem_responses import problem_response
from secvm.coordinator.store.port import CoordinatorStore, Deposit
from secvm.crypto.sealing.capsules import MAX_CAPSULE_BYTES, first_bytes, pack, unpack
from secvm.crypto.sealing.lanes import Lanes
from secvm.errors import MalformedMessageError, RefusedPackageError
from secvm.protocol.problems import PROBLEMS, Problem
from secvm.runtime.clock import Clock
from secvm.runtime.disk.group_commit import GroupCommit
from secvm.runtime.http.server import HttpResponse
from secvm.runtime.logs import SILENT, Log
from secvm.runtime.metrics import Metrics

#: What to answer, once it is known whether something was stored; None says that it was.
Reply = Callable[[Problem | None], HttpResponse]

#: Capsules that are stored as one group: the opener takes several groups at once into memory.
GROUP = 1000


@dataclass(frozen=True, slots=True)
class IngestLimits:
    """Limits on what may wait for its commit."""

    #: How long the first of a group waits for others: a commit costs about as much.
    tick_ms: float = 1.0
    requests: int = 20_000
    content_bytes: int = 2**28


@dataclass(slots=True)
class _Item:
    """What one request brought, and how to answer it. A capsule, groups, or a deposit of groups."""

    reply: Reply
    size: int
    epoch: int
    capsule: bytes = b""
    #: Packed capsules, by epoch.
    groups: Sequence[tuple[int, bytes]] = ()
    deposit: Deposit | None = None
    #: How many packages it holds, as far as a seal lets it be known: so many capsules.
    packages: int = 1
    #: Whether it was stored, once that is known.
    took: bool = False


@dataclass(eq=False, repr=False)
class Ingest:
    """Between the routes and the store. For one event loop; the store is used in other threads.

    ``look_s`` and ``fresh`` are for the opener, where there are other nodes. ``steady``: a clock that nobody sets, by
    which commits are timed; without one they are not.
    """

    store: CoordinatorStore
    clock: Clock
    _: KW_ONLY
    metrics: Metrics
    log: Log = SILENT
    limits: IngestLimits = IngestLimits()
    lanes: InitVar[Lanes | None] = None
    look_s: InitVar[float | None] = None
    fresh: InitVar[Callable[[], Awaitable[None]] | None] = None
    steady: Clock | None = None

    def __post_init__(
        self, lanes: Lanes | None, look_s: float | None, fresh: Callable[[], Awaitable[None]] | None
    ) -> None:
        self._present = CurrentRounds()
        self._opener = Opener(self.store, metrics=self.metrics, log=self.log, lanes=lanes, look_s=look_s, fresh=fresh)
        self._waiting_bytes = 0
        self._commits: GroupCommit[_Item, HttpResponse] = GroupCommit(
            self._commit,
            self.limits.tick_ms,
            waiting=self.limits.requests,
            failed=self._not_stored,
            settled=self._settled,
        )
        self._stored = self.metrics.counter("stored_requests", "Requests whose content was made durable.")
        self._packages = self.metrics.counter("packages", "Packages made durable, sealed as they came.")
        self._commit_count = self.metrics.counter("commits", "Commits of what came within a moment.")
        self._commit_ms = self.metrics.counter("commit_milliseconds", "How long all of those took together.")
        self._commit_faults = self.metrics.counter("commit_faults", "Requests whose content could not be stored.")

    def update(self, present: CurrentRounds) -> None:
        """Take packages for these rounds from now on."""
        self._present = present
        self._opener.update(present)

    def start(self) -> None:
        """Begin to open capsules in the background."""
        self._opener.start()

    async def finish(self, epoch: int) -> None:
        """Return when all that was stored for the epoch is opened. The driver has closed it before."""
        await self._opener.finish(epoch)

    async def close(self) -> None:
        """Answer whoever waits, and stop. Before the store is closed, and after the last request."""
        await self._commits.close()
        await self._opener.close()

    # ── taking: each raises ``RemoteProtocolError`` for what is refused at once ──────────────────────────────────────

    def check_room(self, size: int) -> None:
        """Refuse where so many bytes more cannot wait."""
        if self._commits.full or self._waiting_bytes + size > self.limits.content_bytes:
            raise RefusedPackageError("too much waits already", problem="try-later")

    def take_capsule(self, capsule: bytes, reply: Reply) -> asyncio.Future[HttpResponse]:
        """Take one sealed capsule."""
        size = len(capsule)
        if not 0 < size <= MAX_CAPSULE_BYTES:
            raise MalformedMessageError("a capsule has another size", problem="wrong-size")
        return self._add(_Item(reply, size, self._epoch(capsule[0]), capsule=capsule))

    def take_batch(self, packed: bytes, reply: Reply) -> asyncio.Future[HttpResponse]:
        """Many at once, for a steady load: all of them are stored, or refused."""
        key_ids = first_bytes(packed)
        if not key_ids:
            raise MalformedMessageError("a batch without capsules")
        if key_ids.count(key_ids[0]) != len(key_ids):
            # Taken by one epoch and refused by another, it could be answered neither with yes nor with no.
            raise MalformedMessageError("a batch of several epochs")
        epoch = self._epoch(key_ids[0])
        groups = [(epoch, packed)]
        if len(key_ids) > GROUP:
            capsules = unpack(packed)
            groups = [(epoch, pack(capsules[i : i + GROUP])) for i in range(0, len(capsules), GROUP)]
        return self._add(_Item(reply, len(packed), epoch, groups=groups, packages=len(key_ids)))

    def take_deposit(
        self, deposit: Deposit, packed: Sequence[bytes], reply: Reply, *, packages: int
    ) -> asyncio.Future[HttpResponse]:
        """A relay's whole epoch, of so many capsules."""
        self._present.check_epoch(deposit.epoch, self.clock.now())
        groups = [(deposit.epoch, group) for group in packed]
        size = sum(len(group) for group in packed)
        return self._add(_Item(reply, size, deposit.epoch, groups=groups, deposit=deposit, packages=packages))

    def _epoch(self, key_id: int) -> int:
        epoch = self._present.epoch_of(key_id)
        self._present.check_epoch(epoch, self.clock.now())
        return epoch

    def _add(self, item: _Item) -> asyncio.Future[HttpResponse]:
        self.check_room(item.size)
        self._waiting_bytes += item.size
        return self._commits.add(item)

    # ── committing, in a thread ──────────────────────────────────────────────────────────────────────────────────────

    def _commit(self, items: list[_Item]) -> list[HttpResponse]:
        begun = None if self.steady is None else self.steady.now()
        answers = self._commit_all(items)
        if self.steady is not None and begun is not None:
            self._commit_count.add()
            self._commit_ms.add(self.steady.now() - begun)
        return answers

    def _commit_all(self, items: list[_Item]) -> list[HttpResponse]:
        singles: defaultdict[int, list[bytes]] = defaultdict(list)
        sealed: defaultdict[int, list[bytes]] = defaultdict(list)
        for item in items:
            if item.capsule:
                singles[item.epoch].append(item.capsule)
            elif item.deposit is None:
                for epoch, packed in item.groups:
                    sealed[epoch].append(packed)
        for epoch, capsules in singles.items():
            sealed[epoch].append(pack(capsules))
        took_sealed = {epoch: self.store.append_sealed(epoch, groups) for epoch, groups in sealed.items()}
        answers = []
        for item in items:
            if item.deposit is not None:
                took = self.store.deposit(item.deposit, [packed for _, packed in item.groups])
            else:
                took = took_sealed[item.epoch]
            item.took = took
            answers.append(item.reply(None if took else PROBLEMS["stale"]))
        return answers

    def _not_stored(self, _error: Exception) -> HttpResponse:
        self._commit_faults.add()
        return problem_response(PROBLEMS["try-later"])

    def _settled(self, items: list[_Item], durable: bool) -> None:
        """In the event loop again, just before the answers."""
        if not durable:
            self.log.tell("commit-failed", requests=len(items))
        self._waiting_bytes -= sum(item.size for item in items)
        if durable:
            self._stored.add(len(items))
            self._packages.add(sum(item.packages for item in items if item.took))
            for epoch in {item.epoch for item in items}:
                self._opener.notice(epoch)
