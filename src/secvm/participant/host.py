"""Host: one event loop that carries one device, or hundreds of them for a test.

A heap holds when each device wants to be woken; whatever happens to a device puts it in anew, and entries that are out
of date are passed over. What need not be on the disk at once is written for all devices every ``FLUSH_MS``, and when
nothing is under way any more: whoever looks at the device from another process then sees what came of it.

When it is to stop: nothing new is begun, what is under way gets a few seconds, everything is written and synced. What
was not answered by then is sent again after the next start: the same bytes, which count once.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Sequence
from typing import Any

from secvm.participant.device import Device, Job
from secvm.runtime.clock import Clock
from secvm.runtime.logs import Log
from secvm.runtime.service import any_of

FLUSH_MS = 1000
#: How often devices that sleep look whether a person has paused, joined or forgotten.
LOOK_MS = 2000
#: Jobs under way at once, all devices together.
PARALLEL_JOBS = 256
#: How long the last answers are waited for, in seconds of the machine.
_DRAIN_S = 5.0
#: After so many askings in a row that brought no manifest the log says so.
_UNANSWERED = 5
_COUNTED = ("devices", "ended", "abstaining", "distrusting", "waiting", "acknowledged", "lost", "canaries")
_COUNTED_PER_ROUND = ("joined", "done", "waiting", "acknowledged", "lost")


class Host:
    """Carries devices until it is told to stop."""

    def __init__(
        self, devices: Sequence[Device], *, clock: Clock, log: Log | None = None, parallel_jobs: int = PARALLEL_JOBS
    ) -> None:
        self._devices = list(devices)
        self._clock = clock
        self._log = log
        self._parallel = parallel_jobs
        self._heap: list[tuple[int, int]] = []
        self._wanted = [-1] * len(self._devices)
        #: Those that have something to write, perhaps.
        self._attended: set[int] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._backlog: deque[tuple[int, Job]] = deque()
        self._sleeps_until = 0
        self._poked = asyncio.Event()
        self._fault: BaseException | None = None
        self._stopping = False
        self._unanswered = self._shut = False

    async def run(self, stop: asyncio.Event) -> None:
        """Carry the devices until ``stop`` is set. A fault of ours in any of them ends the whole, loudly."""
        watching = asyncio.create_task(self._watch(stop))
        flush_at = look_at = self._clock.now()
        for index in range(len(self._devices)):
            self._schedule(index)
        try:
            while not stop.is_set() and self._fault is None:
                now = self._clock.now()
                self._wake_due(now)
                if now >= flush_at:
                    self._flush()
                    flush_at = now + FLUSH_MS
                if now >= look_at:
                    self._look()
                    look_at = now + LOOK_MS
                await self._sleep(min(flush_at, look_at, self._next()))
        finally:
            self._stopping = True
            watching.cancel()
            await self._drain()
            for device in self._devices:
                device.close()
        if self._fault is not None:
            raise self._fault

    def status(self) -> dict[str, Any]:
        """Counts, by experiment: who takes part, canaries that are still to be looked for, and per round who joined and
        what is still waiting.
        """
        counts_of: dict[str, Any] = {}
        for device in self._devices:
            for digest, membership in device.memberships.items():
                sums = counts_of.setdefault(digest, {**dict.fromkeys(_COUNTED, 0), "rounds": {}})
                sums["devices"] += 1
                sums["canaries"] += membership.canaries
                sums["ended"] += membership.ended
                sums["abstaining"] += membership.abstains
                sums["distrusting"] += membership.distrusts
                for counts in membership.counts():
                    row = sums["rounds"].setdefault(counts.round_number, dict.fromkeys(_COUNTED_PER_ROUND, 0))
                    row["joined"] += 1
                    row["done"] += counts.done
                    for name in ("waiting", "acknowledged", "lost"):
                        row[name] += getattr(counts, name)
                        sums[name] += getattr(counts, name)
        return counts_of

    # ── the loop ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _watch(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._poked.set()

    def _wake_due(self, now: int) -> None:
        while self._next() <= now:
            _, index = heapq.heappop(self._heap)
            self._wanted[index] = -1
            self._attend(index)

    def _attend(self, index: int) -> None:
        """Let one device begin what it can, and note when it wants to be woken."""
        if self._stopping:
            return
        self._attended.add(index)
        for job in self._devices[index].wake():
            if len(self._running) < self._parallel:
                self._begin(index, job)
            else:
                self._backlog.append((index, job))
        self._schedule(index)

    def _begin(self, index: int, job: Job) -> None:
        task = asyncio.create_task(self._devices[index].carry_out(job))
        self._running.add(task)
        task.add_done_callback(lambda done: self._ended(index, done))

    def _ended(self, index: int, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._fault = self._fault or task.exception()
            self._poked.set()
            return
        if self._stopping:
            return
        if self._backlog:
            self._begin(*self._backlog.popleft())
        try:
            self._attend(index)
            if not self._running:
                self._flush()
        except BaseException as fault:  # noqa: BLE001  (a callback cannot raise; ``run`` does it)
            self._fault = self._fault or fault
            self._poked.set()

    def _schedule(self, index: int) -> None:
        at = self._devices[index].wake_at
        if at != self._wanted[index]:
            self._wanted[index] = at
            heapq.heappush(self._heap, (at, index))
            if at < self._sleeps_until:
                self._poked.set()

    def _next(self) -> int:
        """The next time at which a device wants something; entries out of date are dropped."""
        while self._heap and self._wanted[self._heap[0][1]] != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else 2**62

    async def _sleep(self, until: int) -> None:
        self._sleeps_until = until
        await any_of(self._clock.sleep_until(until), self._poked.wait())
        self._poked.clear()
        self._sleeps_until = 0

    # ── now and then ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _flush(self) -> None:
        for index in self._attended:
            self._devices[index].flush()
        self._attended.clear()

    def _look(self) -> None:
        for index, device in enumerate(self._devices):
            device.look()
            self._schedule(index)
        self._tell_of_manifests()
        self._tell_of_tor()

    def _tell_of_manifests(self) -> None:
        """Once when none can be had, once when that is over: nobody would see otherwise that a relay is away."""
        failed = max(
            (membership.unanswered for device in self._devices for membership in device.memberships.values()), default=0
        )
        if (failed >= _UNANSWERED) != self._unanswered and (failed == 0 or not self._unanswered):
            self._unanswered = not self._unanswered
            if self._log is not None:
                self._log.tell("no-manifest" if self._unanswered else "manifest-again", failed=failed)

    def _tell_of_tor(self) -> None:
        """Once when it is away, once when it is there again."""
        shut = any(device.shut is not None for device in self._devices)
        if shut != self._shut:
            self._shut = shut
            if self._log is not None:
                self._log.tell("no-tor" if shut else "tor-again")

    async def _drain(self) -> None:
        self._backlog.clear()
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=_DRAIN_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        if self._log is not None:
            self._log.tell("stopped", participants=len(self._devices))
