"""Alarms: what whoever runs a coordinator should hear of without reading its log.

 1. How each round ended, by reason (``RoundEnd``): a counter, and for a round that brought no new model an event.
 2. That the log waits for a quorum, or that a relay does not answer, for more than ``PATIENCE_MS``: a gauge each, a
    line in /health, an event when it begins and one when it is over.

Events go to the webhook, where the settings have one. A party that nobody asks any more, because its experiment is
paused, is neither lost nor regained.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from secvm.coordinator.webhook import Webhook
from secvm.protocol.round_state import RoundEnd
from secvm.runtime.clock import Clock, SteadyClock, SystemClock
from secvm.runtime.logs import SILENT, Log
from secvm.runtime.metrics import Metrics
from secvm.runtime.service import any_of, end_all

#: Shorter troubles are none: a witness or a relay may be started again.
PATIENCE_MS = 60_000
_LOOK_MS = 5000
QUORUM, RELAY = "quorum", "relay"

#: What is watched, a kind and a name → the parties that are missing; nobody where all is well.
Missing = Mapping[tuple[str, str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something is lost, and for how long."""

    kind: str
    parties: tuple[str, ...]
    #: By the coordinator's clock, in milliseconds.
    since: int


@dataclass(eq=False, repr=False, kw_only=True)
class Alarms:
    """Of one coordinator, or of one node's term as the driver.

    ``began_at``: when this process took over, None where others were there before. ``missing`` looks; ``relays``: those
    that can be lost, a name → its URL. ``steady``: a clock that nobody sets.
    """

    clock: Clock = field(default_factory=SystemClock)
    steady: Clock = field(default_factory=SteadyClock)
    log: Log = SILENT
    metrics: Metrics = field(default_factory=partial(Metrics, "coordinator"))
    webhook: Webhook | None = None
    began_at: int | None = None
    relays: Mapping[str, str] = field(default_factory=dict)
    missing: Callable[[], Missing] = dict

    def __post_init__(self) -> None:
        reasons = {"reason": tuple(end.word for end in RoundEnd)}
        self._ended = self.metrics.counter("rounds", "Rounds, by how they ended.", reasons)
        self._lost = {
            QUORUM: self.metrics.gauge("quorum_lost", "1 while the log has waited for a quorum for a minute."),
            RELAY: self.metrics.gauge(
                "relay_lost", "1 while a relay has not answered for a minute.", {"relay": tuple(self.relays)}
            ),
        }
        #: Since when, by both clocks.
        self._since: dict[tuple[str, str], tuple[int, int]] = {}
        #: Replaced, never changed: /health may be asked in another thread.
        self._raised: dict[tuple[str, str], Alarm] = {}

    def began_after(self, instant: int) -> bool:
        """Whether this process was started after an instant, so that nobody was here before."""
        return self.began_at is not None and self.began_at > instant

    def ended(self, experiment: str, number: int, end: RoundEnd) -> None:
        """A round is over."""
        self._ended.add(1, reason=end.word)
        if end is not RoundEnd.COUNTED and self.webhook is not None:
            text = f"Round {number} of experiment {experiment[:12]} brought no new model: {end.value}."
            self.webhook.tell(
                "round-abandoned",
                at=self.clock.now(),
                text=text,
                experiment=experiment,
                round=number,
                reason=end.word,
            )

    def health(self) -> dict[str, object]:
        """For /health: nothing, or who is lost since when, and a relay's URL. A witness's name is its address."""
        lost = []
        for (kind, name), alarm in self._raised.items():
            place = {"url": self.relays[name]} if kind == RELAY and name in self.relays else {}
            lost.append({"what": kind, "parties": list(alarm.parties), "since": alarm.since} | place)
        return {"status": "degraded", "lost": lost} if lost else {}

    async def run(self, stop: asyncio.Event) -> None:
        """Look every few seconds, and post events, until told to stop."""
        posting = [] if self.webhook is None else [asyncio.ensure_future(self.webhook.run(stop))]
        try:
            while not stop.is_set():
                self.look()
                await any_of(stop.wait(), self.steady.sleep_until(self.steady.now() + _LOOK_MS))
        finally:
            # Whatever became of it: no round waits for a webhook.
            await end_all(*posting)

    def look(self) -> None:
        """Raise what has lasted, and end what is over."""
        missing, steady, now = self.missing(), self.steady.now(), self.clock.now()
        raised = {}
        for key, parties in missing.items():
            if not parties:
                continue
            begun, since = self._since.setdefault(key, (steady, now))
            if steady - begun >= PATIENCE_MS:
                raised[key] = Alarm(key[0], tuple(parties), since)
        self._since = {key: begun for key, begun in self._since.items() if missing.get(key)}
        before, self._raised = self._raised, raised
        for key in raised.keys() - before.keys():
            self._tell(key, "lost", raised[key].parties)
        for key in before.keys() - raised.keys():
            self._set(key, 0)
            if key in missing:
                self._tell(key, "regained", before[key].parties)

    def _tell(self, key: tuple[str, str], how: str, parties: Sequence[str]) -> None:
        self._set(key, int(how == "lost"))
        self.log.tell(f"{key[0]}-{how}", count=len(parties))
        if self.webhook is not None:
            self.webhook.tell(f"{key[0]}-{how}", at=self.clock.now(), text=_text(key[0], how, parties), parties=parties)

    def _set(self, key: tuple[str, str], lost: int) -> None:
        self._lost[key[0]].set(lost, **({"relay": key[1]} if key[0] == RELAY else {}))


def _text(kind: str, how: str, parties: Sequence[str]) -> str:
    names = ", ".join(parties)
    if kind == QUORUM:
        lost = f"The log waits for a quorum; these witnesses have not cosigned: {names}."
        return lost if how == "lost" else "The log has its quorum again."
    return f"The relay {names} {'does not answer' if how == 'lost' else 'answers again'}."
