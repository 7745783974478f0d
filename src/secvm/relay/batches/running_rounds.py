"""RunningRounds: every label has a task that does what is due, hands the batch on, and tells the other relay.

A round is looked at again when somebody brought something for it, when its next instant has come, and after a short
pause while something could not be told. What fails is done again: every step and every message may be repeated.

What is destroyed at open_by cannot be had again. So a round is over when our clock has said so for a while by the
machine's steady one: a clock that is wrong for a moment destroys nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import astuple
from typing import Any, Generic, TypeVar

from secvm.crypto.signing import SigningKey
from secvm.relay.batches.handover import ENVELOPE_MEDIA_TYPE, Put, hand_on
from secvm.relay.batches.round_custody import RoundCustody, RoundPlan
from secvm.relay.batches.round_metrics import RoundMeter
from secvm.relay.batches.rounds import BatchRound
from secvm.runtime.clock import Clock
from secvm.runtime.logs import Log

_LONGEST_PAUSE_S = 30.0
#: A clock that was set or steered is noticed.
_LOOK_AGAIN_S = 30.0
#: For so long our clock must say that a round is over, milliseconds.
SURE_MS = 60_000
#: The other relay has it, has another one, or wants none any more: there is nothing left to tell.
_SETTLED = frozenset({200, 409, 410})

B = TypeVar("B", bound=BatchRound[Any])


class RunningRounds(Generic[B]):
    """The rounds of one relay, by label."""

    def __init__(
        self,
        keeping: RoundCustody,
        key: SigningKey,
        *,
        make: Callable[[RoundPlan], B],
        next_url: Callable[[RoundPlan], str],
        other_url: Callable[[RoundPlan], str],
        tells: Callable[[B, int], Iterable[str]],
        put: Put,
        clock: Clock,
        steady: Clock,
        log: Log,
        meter: RoundMeter,
        first_pause_s: float,
        halt_after: str | None = None,
    ) -> None:
        """``next_url``: where our batch goes. ``other_url``: the other relay; ``tells``: which papers it is told now.

        ``halt_after``: for tests of what a kill leaves: after this step nothing more is done.
        """
        self.rounds: dict[bytes, B] = {}
        self._keeping = keeping
        self._key = key
        self._make = make
        self._next_url = next_url
        self._other_url = other_url
        self._tells = tells
        self._put = put
        self._clock = clock
        self._steady = steady
        #: Since when, by the steady clock, a round is over.
        self._over_since: dict[bytes, int] = {}
        self._log = log
        self._meter = meter
        self._first_pause_s = first_pause_s
        self._halt_after = halt_after
        self._woken: dict[bytes, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._settled_papers: set[tuple[bytes, str]] = set()

    def add(self, plan: RoundPlan) -> None:
        """Serve this round, from wherever it stands. Twice is once."""
        if plan.label in self.rounds:
            return
        self.rounds[plan.label] = self._make(plan)
        self._woken[plan.label] = asyncio.Event()
        task = asyncio.get_running_loop().create_task(self._live(self.rounds[plan.label]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def wake(self, label: bytes) -> None:
        """There is something to do for this label."""
        if label in self._woken:
            self._woken[label].set()

    async def close(self) -> None:
        """Stop, and let go of all files; what was begun is durable or undone."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for batch_round in self.rounds.values():
            batch_round.close()

    async def _live(self, batch_round: B) -> None:
        pause_s = self._first_pause_s
        while True:
            self._woken[batch_round.plan.label].clear()
            now = self._now(batch_round.plan)
            try:
                await self._advance(batch_round, now)
                if now >= batch_round.plan.instants.open_by:
                    return
                settled = await self._hand_on(batch_round, now) and await self._tell(batch_round, now)
            except Exception as error:  # noqa: BLE001  (whatever it was: nothing is half done, and it is tried again)
                self._log.tell(
                    "round", state="failed", round=batch_round.plan.round_number, error=type(error).__name__.lower()
                )
                settled = False
            if batch_round.is_waiting(self._clock.now()) is False and settled:
                pause_s = self._first_pause_s
                await self._until_something(batch_round, now)
            else:
                # The machine's time: it is the network or the disk that is waited for.
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _now(self, plan: RoundPlan) -> int:
        """Our clock's time; just before open_by, as long as it is not sure that the round is over."""
        now, steady = self._clock.now(), self._steady.now()
        if now < plan.instants.open_by:
            self._over_since.pop(plan.label, None)
            return now
        sure = steady - self._over_since.setdefault(plan.label, steady) >= SURE_MS
        return now if sure else plan.instants.open_by - 1

    async def _advance(self, batch_round: B, now: int) -> None:
        begun = self._steady.now()
        while (step := await asyncio.to_thread(batch_round.advance, now)) is not None:
            await self._done(batch_round, step, (self._steady.now() - begun) / 1000)
            begun = self._steady.now()

    async def _hand_on(self, batch_round: B, now: int) -> bool:
        """Whether there is nothing left to hand on now."""
        if not batch_round.is_waiting(now):
            return True

        async def report(step: str) -> None:
            await self._done(batch_round, step)

        if not await hand_on(batch_round, self._next_url(batch_round.plan), self._key, self._put, report):
            self._log.tell("batch", state="failed", round=batch_round.plan.round_number)
            return False
        await asyncio.to_thread(batch_round.handed_on)
        await self._done(batch_round, "handed-on")
        await self._advance(batch_round, now)
        return True

    async def _tell(self, batch_round: B, now: int) -> bool:
        """Whether the other relay has been told all that it should know now."""
        settled = True
        for name in self._tells(batch_round, now):
            paper = self._keeping.ledger.paper(batch_round.plan.label, name)
            if paper is None or (batch_round.plan.label, name) in self._settled_papers:
                continue
            url = f"{self._other_url(batch_round.plan)}/counts/{batch_round.plan.label.hex()}/{name}"
            answer = await self._put(url, paper, {"content-type": ENVELOPE_MEDIA_TYPE})
            if answer.status in _SETTLED:
                self._settled_papers.add((batch_round.plan.label, name))
                await self._done(batch_round, f"told-{name.replace('_', '-')}")
            else:
                settled = False
        return settled

    async def _done(self, batch_round: B, step: str, seconds: float | None = None) -> None:
        self._meter.stepped(step, seconds)
        if step == "counted":
            self._meter.built(batch_round.capsules)
        elif step == "over":
            self._meter.ended(
                opened=self._keeping.ledger.paper(batch_round.plan.label, batch_round.own_reveal) is not None
            )
        self._log.tell("step", stage=step, round=batch_round.plan.round_number, ok=not batch_round.is_lost)
        if step == self._halt_after:
            await asyncio.Event().wait()

    async def _until_something(self, batch_round: B, since: int) -> None:
        """Until somebody wakes it, or an instant of the round has come that had not."""
        instants = [at for at in astuple(batch_round.plan.instants) if at > since]
        woken = asyncio.ensure_future(self._woken[batch_round.plan.label].wait())
        over_since = self._over_since.get(batch_round.plan.label)
        if over_since is None:
            due = asyncio.ensure_future(self._clock.sleep_until(min(instants, default=since + 1000)))
        else:
            due = asyncio.ensure_future(self._steady.sleep_until(over_since + SURE_MS))
        try:
            await asyncio.wait((woken, due), timeout=_LOOK_AGAIN_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (woken, due):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
