"""RunningRounds: every label has a task that does what is due, hands the batch on, and tells the other relay.

A round is looked at again when somebody brought something for it, when its next instant has come, and after a short
pause while something could not be told. What fails is done again: every step and every message may be repeated.

A batch is announced by its count, sent piece by piece, and handed on when the next one says so (§30). Whatever was
interrupted is taken up where it stopped: the next one says which pieces it has.

What is destroyed at open_by cannot be had again. So a round is over when our clock has said so for a while by the
machine's steady one: a clock that is wrong for a moment destroys nothing.

``RoundMeter`` has figures for whoever runs the relay, at ``GET /metrics``: sums over all rounds, under labels that are
fixed, without a name of a client, a label or an experiment. How large batches are, and how rounds end, is public
anyway; how long steps take is what an operator holds against the terms that the relay signed.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import astuple, dataclass, field
from typing import Any, Generic, TypeVar

from secvm.crypto.signing import SigningKey
from secvm.protocol.relays.batches import FIELD, MEDIA_TYPE, piece_count, ticket_for
from secvm.relay.batches.round_custody import RoundCustody, RoundPlan
from secvm.relay.batches.rounds import BatchRound
from secvm.runtime.clock import Clock
from secvm.runtime.http.messages import HttpResponse
from secvm.runtime.logs import Log
from secvm.runtime.metrics import Metrics

_LONGEST_PAUSE_S = 30.0
#: A clock that was set or steered is noticed.
_LOOK_AGAIN_S = 30.0
#: For so long our clock must say that a round is over, milliseconds.
SURE_MS = 60_000
#: The other relay has it, has another one, or wants none any more: there is nothing left to tell.
_SETTLED = frozenset({200, 409, 410})
_ENVELOPE = {"content-type": "application/octet-stream"}

_DOORS = ("submit", "tokens", "commitment", "batch", "counts", "leaves", "terms")
_STATUSES = ("400", "401", "403", "404", "409", "410", "413", "415", "421", "422", "425", "429", "503")
#: What a round goes through here; a part and a piece are each counted.
STAGES = (
    *("closed", "opened", "part", "counted", "announced", "piece", "taken", "handed-on"),
    *("narrowed", "forgotten", "told", "revealed", "silent", "over"),
)
#: How long they take is told: opening a piece, drawing and sealing a part, sorting the batch.
_TIMED = ("opened", "part", "counted")
_SECONDS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000)
_CAPSULES = tuple(10**power for power in range(3, 9))

#: Puts content at a URL, with these header fields; the answer, also where it is that nobody answers.
Put = Callable[[str, bytes, Mapping[str, str]], Awaitable[HttpResponse]]
B = TypeVar("B", bound=BatchRound[Any])


class RoundMeter:
    """Counts what one role does."""

    def __init__(self, metrics: Metrics) -> None:
        self._refused = metrics.counter(
            "role_refused", "Requests that a role's door refused.", {"door": _DOORS, "status": _STATUSES}
        )
        self.submissions = metrics.counter(
            "submissions", "Submissions with a receipt, by whether they were new.", {"came": ("first", "again")}
        )
        self.tokens = metrics.counter(
            "tokens_given", "Answers to requests for a token, those that came again included."
        )
        self._steps = metrics.counter("round_steps", "Steps of rounds that were done here.", {"stage": STAGES})
        self._seconds = metrics.histogram(
            "round_step_seconds", "How long such a step took.", {"stage": _TIMED}, buckets=_SECONDS
        )
        self.batches = metrics.histogram(
            "batch_capsules", "Capsules of a batch that is ready to be handed on.", buckets=_CAPSULES
        )
        self.ended = metrics.counter(
            "rounds_over",
            "Rounds that are over, by whether this relay has opened its part.",
            {"part": ("opened", "unopened")},
        )

    def answered(self, door: str, status: int) -> None:
        """A door has answered."""
        if status >= 400:
            self._refused.add(door=door, status=str(status))

    def stepped(self, step: str, seconds: float | None = None) -> None:
        """A step of a round is done, and how long it took where somebody has looked."""
        # Without its number or paper: ``part-3`` is ``part``.
        stage = step if step in STAGES else step.partition("-")[0]
        self._steps.add(stage=stage)
        if seconds is not None and stage in _TIMED:
            self._seconds.observe(seconds, stage=stage)


@dataclass(kw_only=True, eq=False, repr=False)
class RunningRounds(Generic[B]):
    """The rounds of one relay, by label."""

    keeping: RoundCustody
    key: SigningKey
    make: Callable[[RoundPlan], B]
    #: Where our batch goes, and where the other relay is.
    next_url: Callable[[RoundPlan], str]
    other_url: Callable[[RoundPlan], str]
    put: Put
    clock: Clock
    steady: Clock
    log: Log
    meter: RoundMeter
    first_pause_s: float
    #: For tests of what a kill leaves: after this step nothing more is done.
    halt_after: str | None = None
    rounds: dict[bytes, B] = field(default_factory=dict, init=False)
    #: Since when, by the steady clock, a round is over.
    _over_since: dict[bytes, int] = field(default_factory=dict, init=False)
    _woken: dict[bytes, asyncio.Event] = field(default_factory=dict, init=False)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, init=False)
    _settled_papers: set[tuple[bytes, str]] = field(default_factory=set, init=False)

    def add(self, plan: RoundPlan) -> None:
        """Serve this round, from wherever it stands. Twice is once."""
        if plan.label in self.rounds:
            return
        self.rounds[plan.label] = self.make(plan)
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
        pause_s = self.first_pause_s
        while True:
            self._woken[batch_round.plan.label].clear()
            now = self._now(batch_round.plan)
            try:
                await self._advance(batch_round, now)
                if now >= batch_round.plan.instants.open_by:
                    return
                settled = await self._hand_on(batch_round, now) and await self._tell(batch_round, now)
            except Exception as error:  # noqa: BLE001  (whatever it was: nothing is half done, and it is tried again)
                self.log.tell(
                    "round", state="failed", round=batch_round.plan.round_number, error=type(error).__name__.lower()
                )
                settled = False
            if batch_round.is_waiting(self.clock.now()) is False and settled:
                pause_s = self.first_pause_s
                await self._until_something(batch_round, now)
            else:
                # The machine's time: it is the network or the disk that is waited for.
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _now(self, plan: RoundPlan) -> int:
        """Our clock's time; just before open_by, as long as it is not sure that the round is over."""
        now, steady = self.clock.now(), self.steady.now()
        if now < plan.instants.open_by:
            self._over_since.pop(plan.label, None)
            return now
        sure = steady - self._over_since.setdefault(plan.label, steady) >= SURE_MS
        return now if sure else plan.instants.open_by - 1

    async def _advance(self, batch_round: B, now: int) -> None:
        begun = self.steady.now()
        while (step := await asyncio.to_thread(batch_round.advance, now)) is not None:
            await self._done(batch_round, step, (self.steady.now() - begun) / 1000)
            begun = self.steady.now()

    async def _hand_on(self, batch_round: B, now: int) -> bool:
        """Whether there is nothing left to hand on now."""
        if not batch_round.is_waiting(now):
            return True
        if not await self._is_taken(batch_round):
            self.log.tell("batch", state="failed", round=batch_round.plan.round_number)
            return False
        await self._done(batch_round, "taken")
        await asyncio.to_thread(batch_round.handed_on)
        await self._done(batch_round, "handed-on")
        await self._advance(batch_round, now)
        return True

    async def _is_taken(self, batch_round: B) -> bool:
        """Whether the next one has the whole batch, durably."""
        plan, count = batch_round.plan, batch_round.count
        if count is None:
            return False
        place = f"{self.next_url(plan)}/batch/{plan.label.hex()}"
        announced = await self.put(f"{place}/count", count, _ENVELOPE)
        if announced.status == 202:
            await self._done(batch_round, "announced")
            have = read_have(announced.body)
            for index in range(piece_count(batch_round.capsules)):
                if index in have:
                    continue
                data = await asyncio.to_thread(batch_round.piece, index)
                ticket = base64.b64encode(ticket_for(plan.label, index, data).signed(self.key)).decode()
                answer = await self.put(f"{place}/{index}", data, {"content-type": MEDIA_TYPE, FIELD: ticket})
                if answer.status != 200:
                    return False
                await self._done(batch_round, "piece")
            announced = await self.put(f"{place}/count", count, _ENVELOPE)
        return announced.status == 200

    async def _tell(self, batch_round: B, now: int) -> bool:
        """Whether the other relay has been told all that it should know now."""
        settled, plan = True, batch_round.plan
        for name in batch_round.tells(now):
            paper = self.keeping.ledger.paper(plan.label, name)
            if paper is None or (plan.label, name) in self._settled_papers:
                continue
            answer = await self.put(f"{self.other_url(plan)}/counts/{plan.label.hex()}/{name}", paper, _ENVELOPE)
            if answer.status in _SETTLED:
                self._settled_papers.add((plan.label, name))
                await self._done(batch_round, f"told-{name.replace('_', '-')}")
            else:
                settled = False
        return settled

    async def _done(self, batch_round: B, step: str, seconds: float | None = None) -> None:
        self.meter.stepped(step, seconds)
        if step == "counted":
            self.meter.batches.observe(batch_round.capsules)
        elif step == "over":
            revealed = self.keeping.ledger.paper(batch_round.plan.label, batch_round.own_reveal)
            self.meter.ended.add(part="unopened" if revealed is None else "opened")
        self.log.tell("step", stage=step, round=batch_round.plan.round_number, ok=not batch_round.is_lost)
        if step == self.halt_after:
            await asyncio.Event().wait()

    async def _until_something(self, batch_round: B, since: int) -> None:
        """Until somebody wakes it, or an instant of the round has come that had not."""
        instants = [at for at in astuple(batch_round.plan.instants) if at > since]
        woken = asyncio.ensure_future(self._woken[batch_round.plan.label].wait())
        over_since = self._over_since.get(batch_round.plan.label)
        if over_since is None:
            due = asyncio.ensure_future(self.clock.sleep_until(min(instants, default=since + 1000)))
        else:
            due = asyncio.ensure_future(self.steady.sleep_until(over_since + SURE_MS))
        try:
            await asyncio.wait((woken, due), timeout=_LOOK_AGAIN_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (woken, due):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


def read_have(body: bytes) -> frozenset[int]:
    """The pieces that an answer to an announced batch names; whatever is no such list names none."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return frozenset()
    listed = content.get("have") if isinstance(content, dict) else None
    return frozenset(item for item in listed if type(item) is int) if isinstance(listed, list) else frozenset()


def have_json(numbers: list[int]) -> bytes:
    """The answer itself."""
    return json.dumps({"have": numbers}, separators=(",", ":")).encode()
