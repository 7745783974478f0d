"""A device's part in one experiment: what plain experiments and those with two relays have in common.

``Membership`` is the session with its turns (``turns``), and adds the packages of its rounds and its askings. It starts
nothing by itself: the host asks when it is to be woken, carries out what is due, and comes back with what became of it.

**When it asks for the next manifest** (``Polling``): at a phase that says nothing about the device. A device that asks
every ten minutes has a pseudonym: its time modulo ten minutes. So every asking has a fresh random time: after the last
known round is over for good, within the experiment's grace; and when there is nothing newer, after a random while
around a bound that doubles up to a quarter of the window. When nobody answers it asks again sooner, after a random
while that grows to the grace. A manifest must be there before the window opens, so whoever runs a coordinator leaves
several graces between a round's end and the next opening.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from secvm.errors import CheatingError, LocalProtocolError, OverLimitError, RemoteProtocolError
from secvm.learning.individual.contribution import contribute
from secvm.learning.individual.dice import Dice
from secvm.learning.package import Package
from secvm.learning.weights import Weights
from secvm.participant.consent.ledger import enter
from secvm.participant.sending.sealing import bytes_of_a_round
from secvm.participant.storage.state import ExperimentRecord, RoundHistory, Status
from secvm.participant.trust.surroundings import Now, Surroundings
from secvm.participant.turns import Distrust, Due, Turns
from secvm.protocol.documents.ending import Ending
from secvm.protocol.documents.experiment import ExperimentDocument, Windows
from secvm.protocol.documents.manifest import RoundManifest
from secvm.protocol.plain.session_events import Abstain, Distrusted, Paused, Reason, Resumed
from secvm.protocol.plain.session_memory import NEVER, Phase
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import RelayedEnding
from secvm.protocol.schedule import below

#: Where an experiment takes nothing late, moments spread over this.
_SHORTEST_MS = 1000


def spread_ms(windows: Windows) -> int:
    """Over so many milliseconds moments are spread that nobody shall know a device by."""
    return 1000 * windows.grace_s or _SHORTEST_MS


class Polling:
    """The times of one device's askings in one experiment."""

    def __init__(self, windows: Windows, words: Iterator[int]) -> None:
        self._spread = spread_ms(windows)
        self._longest = max(self._spread, 1000 * windows.length_s // 4)
        self._words = words
        self._missed = 0
        #: So many askings in a row that nobody answered.
        self.unanswered = 0

    def first(self, now: int) -> int:
        """After joining, after coming back, or when a round is over."""
        self._missed = self.unanswered = 0
        return now + below(self._spread, self._words)

    def again(self, now: int) -> int:
        """There was nothing newer: between half and one and a half of the bound, which doubles."""
        self.unanswered = 0
        bound = min(self._spread << min(self._missed, 30), self._longest)
        self._missed += 1
        return now + bound // 2 + below(bound, self._words)

    def failed(self, now: int) -> int:
        """Nobody answered: soon, for the next window opens whether the network is there or not; up to the spread."""
        bound = min(max(1, self._spread >> 4) << min(self.unanswered, 4), self._spread)
        self.unanswered += 1
        return now + below(bound, self._words)


@dataclass(frozen=True, slots=True)
class RoundNews:
    """What an asking brought."""

    #: Envelope of the newest manifest, as it was served; None: there is none.
    manifest: bytes | None = field(repr=False)
    #: By so much at least the server's clock is ahead; None: it did not say.
    ahead: int | None
    #: The experiment is over, and that is stored.
    ending: Ending | RelayedEnding | None = None
    #: With two relays: the round of this number has no opening, as often as it was looked for.
    unopened: int | None = None


@dataclass(frozen=True, slots=True)
class RoundCounts:
    """How far a device is in a round, or was."""

    round_number: int
    waiting: int
    acknowledged: int
    lost: int
    done: bool


def opens_in_hours(windows: Windows, opens_at: int) -> bool:
    """Whether a window may open at this instant, by the time zone database of this device."""
    if windows.hours == ((0, 24),):
        return True
    try:
        offset = datetime.fromtimestamp(opens_at / 1000, UTC).astimezone(ZoneInfo(windows.time_zone)).utcoffset()
    except (ZoneInfoNotFoundError, ValueError, OverflowError, OSError):
        return False
    return offset is not None and windows.open_at_hour(opens_at, offset_s=int(offset.total_seconds()))


class Membership(Turns[Due]):
    """A device's part in one experiment, for the host."""

    #: Which rounds it believes; ``ask`` brings what is new of them.
    _rounds: Any
    #: When a round's packages are to be computed.
    _prepare_at = NEVER

    def __init__(
        self,
        around: Surroundings,
        record: ExperimentRecord,
        document: ExperimentDocument,
        dice: Dice,
        distrust: Distrust,
        *,
        now: int,
    ) -> None:
        if record.person is None:
            raise LocalProtocolError("nobody has joined this experiment on this device")
        super().__init__(around, document)
        self._person, self._dice, self._distrust = record.person, dice, distrust
        #: Whether the experiment is over.
        self.ended = record.ending is not None
        self._polling = Polling(document.windows, around.words)
        self._busy = False
        model = around.state.model(document.digest)
        if model is not None:
            self._hold(model.weights)
        self._ask_after_round(now)

    # ── what is known ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def abstains(self) -> bool:
        """Whether the newest round that it knows goes on without it."""
        newest = self.round_number
        return self._idle and newest > 0 and newest not in self.rounds

    @property
    def distrust(self) -> str | None:
        """Why no round is joined for now."""
        return self._distrust.why

    @property
    def distrusts(self) -> bool:
        """Whether it takes no part because of what it has seen of the server."""
        return self.distrust is not None or self.session.phase is Phase.STOPPED

    @property
    def unanswered(self) -> int:
        """How many askings for a manifest in a row nobody answered."""
        return 0 if self.ended or self._stands_still else self._polling.unanswered

    @property
    def canaries(self) -> int:
        """How many canaries are still to be looked for; a plain experiment has none."""
        return 0

    def counts(self) -> Iterator[RoundCounts]:
        """What became of every round it joined, the running one included."""
        for number, row in self.rounds.items():
            if self._sending and number == self.round_number:
                yield self._running(row)
            else:
                yield RoundCounts(number, 0, row.acknowledged, row.lost, done=True)

    @abstractmethod
    def _running(self, row: RoundHistory) -> RoundCounts:
        """How far the running round is."""

    @property
    def _stands_still(self) -> bool:
        """Whether nothing at all is fetched or computed."""
        return self.left or self.session.paused or self.session.phase is Phase.STOPPED

    # ── what the host asks ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def wake_at(self) -> int:
        """When there is something to do next, if nothing happens before."""
        return min(self._tick_at, self._last_moment or NEVER, NEVER if self._busy else self._work_at)

    @property
    def _work_at(self) -> int:
        """When something is to be fetched or computed next."""
        if self._stands_still:
            return NEVER
        return min(NEVER if self.ended else self._prepare_at, self._ask_at)

    def next_due(self, now: int) -> Due | None:  # noqa: ARG002  (whether it is too late depends on the kind)
        """Take one of what is due."""
        return self.outbox.popleft() if self.outbox else None

    @abstractmethod
    async def send(self, due: Due, now: Now) -> None:
        """Send this, if it may still leave, and tell the session what became of it."""

    def takes_work(self, now: int) -> bool:
        """Whether ``work`` has something to fetch or compute; then it is not wanted again until that is done."""
        wanted = not self._busy and self._work_at <= now
        self._busy = self._busy or wanted
        return wanted

    async def work(self, now: Now) -> None:
        """Prepare the round's packages if they are wanted, or ask for what is due."""
        try:
            moment = now()
            if self._work_at > moment:
                return
            if self.ended or self._prepare_at > moment:
                await self._ask(now)
            elif await self._prepare(now):
                self._look_again(now())
        finally:
            self._busy = False

    def _look_again(self, now: int) -> None:
        """A round is joined, or was before a restart: the log is looked at again in its window."""
        manifest = self.manifest
        if self._looking is not None and manifest is not None:
            self._looking.joined(manifest.round_number, manifest.window, now)

    def set_status(self, status: Status, now: int) -> None:
        """What the person has decided."""
        self._distrust.reread()
        if self._looking is not None:
            self._looking.reread()
        paused = self.session.paused
        if status is Status.PAUSED and not paused:
            self.tell(Paused(), now)
        elif status is Status.JOINED and paused:
            self.tell(Resumed(), now)
            # A round that runs is left to its end; else there may be something new.
            if self._idle:
                self._poll_at = self._polling.first(now)
            else:
                self._ask_after_round(now)

    # ── preparing ────────────────────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    async def _prepare(self, now: Now) -> bool:
        """Compute and seal the packages of the round that the session is in; whether they are there now."""

    def _untimely(self, opens_at: int, now: int) -> str | None:
        """Why a round whose window opens then is not for this device, in one sentence; None: it is."""
        if not opens_in_hours(self.document.windows, opens_at):
            return "the window opens outside the experiment's hours of the day"
        if not self._around.traffic.allows(bytes_of_a_round(self.document), now):
            return "this round would go beyond the device's limit of traffic for a day"
        return None

    def _too_large(self, training: Weights, evaluation: Weights) -> str | None:
        """Why the person's limits refuse this model, in one sentence; None: they do not."""
        refuses = self._around.policy.caps.refuses
        return refuses(training) or refuses(evaluation)

    def _contribute(self, training: Weights, evaluation: Weights) -> list[Package]:
        """The person's packages. The round is in the ledger, on the disk, before anything of it exists."""
        around, document, round_number = self._around, self.document, self.round_number
        # From here on it counts: nothing of the round exists before.
        enter(around.state, document, round_number, around.consent)
        return contribute(
            self._person,
            experiment=document.experiment,
            training=training,
            evaluation=evaluation,
            dice=self._dice,
            round_number=round_number,
        )

    def _keep_model(self, manifest: RoundManifest | RelayedManifest) -> None:
        """The model of this round is the last one that the device believes, with its file."""
        self._hold(manifest.evaluation_weights)
        with self._around.state.writing(durable=False):
            self._around.state.put_model(self.document.digest, manifest)

    def _hold(self, weights: str) -> None:
        """Keep the file of this model for the experiment, in place of the one before."""
        self._around.shelf.hold(self, weights)

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _ask_at(self) -> int:
        """When something is to be asked next."""
        return min(NEVER if self.ended else self._poll_at, self._look_at)

    @property
    def _look_at(self) -> int:
        """When the log is looked at again."""
        return NEVER if self._looking is None else self._looking.at

    @property
    @abstractmethod
    def _next_manifest_at(self) -> int:
        """The earliest time at which a manifest after the newest known one can be there; 0: at any."""

    def _ask_after_round(self, now: int) -> None:
        """Ask at a time after now; of a round that is known, after its end."""
        self._poll_at = self._polling.first(max(now, self._next_manifest_at))

    async def _ask(self, now: Now) -> None:
        """Ask whatever is due."""
        if self._looking is None or self._look_at > now():
            await self.poll(now)
            return
        finding = await self._looking.look(now)
        if self.left:
            return
        if isinstance(finding, Distrusted):
            self._convict(finding.sentence, finding.evidence, now())
        elif finding is not None:
            self.note(finding)
        self._check_looks(now())

    async def poll(self, now: Now) -> None:
        """Ask for a newer manifest, and for what came of the rounds since."""
        try:
            news = await self._rounds.ask(now)
        except (RemoteProtocolError, OverLimitError) as fault:
            self._disbelieve(fault, now())
            self._poll_at = self._polling.again(now())
            return
        if self.left:
            return
        if news is None:
            self._poll_at = self._polling.failed(now())
        else:
            await self._hear(news, now)

    def _disbelieve(self, fault: RemoteProtocolError | OverLimitError, now: int) -> None:
        """What an asking brought cannot be believed. Nothing has changed: it is asked again, and no round is joined
        meanwhile.
        """
        if isinstance(fault, CheatingError):
            self._convict(str(fault), fault.evidence, now)
        else:
            ours = isinstance(fault, OverLimitError)
            self.note(Abstain(Reason.DECLINED if ours else Reason.BAD_MANIFEST, str(fault)))

    @abstractmethod
    async def _hear(self, news: RoundNews, now: Now) -> None:
        """Tell the session what an asking has brought, and say when the next is."""

    @abstractmethod
    def _convict(self, sentence: str, evidence: bytes | None, now: int) -> None:
        """The log is not what it was, or the server contradicts itself; with what shows it, where something does."""

    def _check_looks(self, now: int) -> None:
        """Take no part from now on, where too many rounds in a row were without an answered look."""
        why = None if self._looking is None else self._looking.too_many_unseen()
        if why is not None:
            self._stop_unseen(why, now)

    @abstractmethod
    def _stop_unseen(self, why: str, now: int) -> None:
        """Nobody answers looks at the log: no further round is joined until the person resumes."""

    def _end(self, ending: Ending | RelayedEnding) -> None:
        self.ended = True
        self._hold(ending.evaluation_weights)
