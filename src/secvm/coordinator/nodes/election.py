"""Election: of all nodes that could drive, one does, as long as it renews its lease in time.

 1. A candidate asks the store to lead (``CoordinatorStore.lead``), again and again. The lease runs by the store's own
    clock, which all nodes have in common.
 2. Whoever gets a term drives, and asks again after a third of its lease. Here the lease is counted from *before* the
    question, by a clock that nobody sets, so that it ends here no later than there.
 3. Driving ends at once when the lease cannot be renewed in time, when the store says that somebody else leads
    (``StaleDriverError``), or when the store fails. The node goes on as a gateway, and is a candidate again.
 4. On SIGTERM the driver ends between two steps and resigns: the next one need not wait for the lease to run out.

None of this keeps two drivers apart: a node can be stopped between looking at its lease and using it. The store does,
which looks at the term in the same transaction as the change (fencing). This only sees to it that somebody drives.

Every attempt has a name of its own, so that nothing of an earlier one, nor of a process before a restart, is taken for
the driver of now.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any

from secvm.coordinator.store.port import CoordinatorStore
from secvm.crypto.sealing.kem import RandomBytes
from secvm.errors import StaleDriverError, StoreError
from secvm.runtime.clock import Clock
from secvm.runtime.logs import SILENT, Log
from secvm.runtime.metrics import Metrics
from secvm.runtime.service import any_of, end_all

#: Drives for a term until it is told to end: a term, and an event.
Drive = Callable[[int, asyncio.Event], Awaitable[None]]
#: A function and what it is given → what it returns, later.
Call = Callable[..., Awaitable[Any]]
#: So many times a lease is renewed before it runs out.
_RENEWALS = 3
_NAME_BYTES = 8


@dataclass(eq=False, repr=False)
class Election:
    """One candidate. ``term`` is what it drives now, or None.

    ``clock``: one that nobody sets (``runtime.clock.SteadyClock``). ``drive`` is cancelled when the lead is
    lost, and returns soon after it was told to end. ``call`` asks the store, in a thread or at once.
    """

    store: CoordinatorStore
    _: KW_ONLY
    name: str
    lease_s: float
    clock: Clock
    dice: RandomBytes
    drive: Drive
    call: Call = asyncio.to_thread
    log: Log = SILENT
    metrics: Metrics = field(default_factory=partial(Metrics, "coordinator"))

    def __post_init__(self) -> None:
        self.term: int | None = None
        self._leads = self.metrics.gauge("driving", "Whether this node drives.")
        self._terms = self.metrics.counter("terms", "Terms that this node drove.")

    async def run(self, stop: asyncio.Event) -> None:
        """Be a candidate, and drive when it is our turn, until told to stop."""
        self._tell("following")
        while not stop.is_set():
            holder = f"{self.name}/{self.dice(_NAME_BYTES).hex()}"
            asked, term = self.clock.now(), None
            with contextlib.suppress(StoreError):
                term = await self.call(self.store.lead, holder, self.lease_s)
            if term is not None:
                await self._hold(holder, term, asked, stop)
                if not stop.is_set():
                    self._tell("following")
            await self._pause(stop)

    async def _pause(self, stop: asyncio.Event) -> None:
        """Wait until it is worth asking for the lead again."""
        await any_of(stop.wait(), self.clock.sleep_until(self.clock.now() + self._part_ms))

    @property
    def _part_ms(self) -> int:
        return max(1, int(1000 * self.lease_s) // _RENEWALS)

    async def _hold(self, holder: str, term: int, asked: int, stop: asyncio.Event) -> None:
        self.term = term
        self._leads.set(1)
        self._terms.add()
        self._tell("leading", term=term)
        ending, reason = asyncio.Event(), None
        driving = asyncio.ensure_future(self.drive(term, ending))
        keeping = asyncio.ensure_future(self._keep(holder, term, asked))
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({driving, keeping, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not driving.done() and not keeping.done():
                # Between two steps; the lease is renewed meanwhile.
                ending.set()
                await asyncio.wait({driving, keeping}, return_when=asyncio.FIRST_COMPLETED)
            if not driving.done():
                reason = keeping.result()
        finally:
            await end_all(keeping, stopping, driving)
            self.term = None
            self._leads.set(0)
            await self._resign(term)
        fault = None if driving.cancelled() else driving.exception()
        if fault is not None and not isinstance(fault, StoreError):
            # A fault of our own: whoever runs this process starts it again, and meanwhile another node leads.
            raise fault
        if fault is not None and reason is None:
            reason = "another-leads" if isinstance(fault, StaleDriverError) else "store-failed"
        if reason is not None or not stop.is_set():
            self._tell("lost-the-lead", term=term, reason=reason or "driver-ended")

    async def _keep(self, holder: str, term: int, asked: int) -> str:
        """Renew the lease as long as that goes well; then why it did not."""
        lease_ms = int(1000 * self.lease_s)
        until = asked + lease_ms
        while True:
            await self.clock.sleep_until(min(asked + self._part_ms, until))
            asked = self.clock.now()
            if asked >= until:
                return "lease-ran-out"
            answer = asyncio.ensure_future(self.call(self.store.lead, holder, self.lease_s))
            # However we end: a failure that comes after us has been heard.
            answer.add_done_callback(_heard)
            await any_of(asyncio.shield(answer), self.clock.sleep_until(until))
            if not answer.done():
                # Nobody waits for a database that does not answer; whatever it answers later, we drive no more.
                return "lease-ran-out"
            if answer.exception() is None:
                if answer.result() != term:
                    return "another-leads"
                until = asked + lease_ms
            elif not isinstance(answer.exception(), StoreError):
                answer.result()

    async def _resign(self, term: int) -> None:
        """Early, so that others need not wait; where that fails they do."""
        with contextlib.suppress(StoreError):
            await self.call(self.store.resign, term)

    def _tell(self, event: str, **fields: int | str) -> None:
        self.log.tell(event, **fields)


def _heard(answer: asyncio.Future[Any]) -> None:
    if not answer.cancelled():
        answer.exception()
