"""An honest past with two relays, and a device that will be lied to.

The past is drawn: some rounds, in which the device took part, or which were before its time. A liar has the
coordinator's key and the log's. Witnesses are honest: of a fork that is shown to one device a liar gets one line less
than a quorum (``one_too_few``).
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from secvm.crypto.beacons.sources import LocalUnsafeBeacon
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.documents.experiment import ExperimentDocument, HashedBins
from secvm.protocol.log.checkpoints import SignedCheckpoint
from secvm.protocol.log.entries import Entry
from secvm.protocol.log.policy import LogTerms
from secvm.protocol.version import LOG_ORIGIN
from secvm.testing.clock import ManualClock
from secvm.testing.transport import MemoryTransport
from secvm_lab.rigs.histories.audited_history import draw_net
from secvm_lab.rigs.histories.random_experiments import HonestWitness, Parties
from secvm_lab.rigs.histories.relayed_history import LEAD_MS, RelayedHistory, terms_of_relays
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR, ENTRY, MIX, START, relayed_document
from secvm_lab.rigs.histories.sealed_round import SealedRound
from secvm_lab.rigs.histories.witnessed_log import LOG, WITNESSES, KnownLog, known_log_terms
from secvm_lab.rigs.lies.heard.listeners import Devices, Listener
from secvm_lab.rigs.lies.liar import one_too_few

PARTIES = Parties(
    coordinator=COORDINATOR,
    log=LOG,
    relays=(ENTRY, MIX),
    witnesses=tuple(HonestWitness(f"w{i}.example", key) for i, key in enumerate(WITNESSES)),
)
#: Before the first window opens a device has time to hear of it.
BEFORE_FIRST_MS = 1_200_000
#: Long enough for everything that has a random moment.
A_WHILE_MS = 3_600_000


class LoggedHistory(RelayedHistory):
    """A coordinator whose log has witnesses, with people besides the device; it can be branched."""

    parties = PARTIES

    def __init__(self, document: ExperimentDocument, dice: random.Random, clock: ManualClock) -> None:
        self.dice, self.clock = dice, clock
        super().__init__(document)

    @property
    def now(self) -> int:
        """The device's time, and everybody's."""
        return self.clock.now()

    @now.setter
    def now(self, _start: int) -> None:
        """The clock has it."""

    @property
    def terms(self) -> LogTerms:
        """What the experiment says of its log."""
        assert self.document.log is not None
        return self.document.log

    def enter(self, entry: Entry) -> None:
        self.log.time_s = self.now // 1000
        super().enter(entry)

    def branch(self) -> LoggedHistory:
        """The same past; from here on they may differ."""
        other = copy.copy(self)
        other.files, other.rounds, other.openings = dict(self.files), list(self.rounds), list(self.openings)
        other.requests = dict(self.requests)
        other.log = KnownLog(self.log.entries)
        return other

    def show(self, signed: SignedCheckpoint) -> None:
        """Show a checkpoint, with its tiles."""
        self.files |= {f"/{LOG_ORIGIN}/{name}": data for name, data in self.log.files(signed).items()}
        self.files[self.checkpoint_path] = signed.data

    def cosign(self) -> None:
        """All witnesses cosign the log as it is, now."""
        self.log.time_s = self.now // 1000
        self.log.show(self.files, [self.document.digest])

    def fork(self) -> None:
        """The log as it is, for which the liar has one witness too few."""
        self.show(one_too_few(self, self.log.checkpoint()))

    @property
    def checkpoint_path(self) -> str:
        """Where a device looks."""
        return f"{self.place}/checkpoint"

    def log_files(self) -> dict[str, bytes]:
        """All that the cosigned log serves."""
        return {
            path: data
            for path, data in self.files.items()
            if path.startswith(f"/{LOG_ORIGIN}/") or path == self.checkpoint_path
        }

    def people(self, count: int) -> list[bytes]:
        """Requests of so many other people for the round that runs."""
        others = replace(self.running, bodies=None, clients=count)
        return [one.body for one in others.submissions]

    def play(self, crowd: int, **ending: Any) -> SealedRound:
        """The round that runs ends, with so many other people in it, and a net tally as noise and people make it."""
        net = ending.pop("net", None)
        if net is None:
            net = self.draw_net(crowd + len(self.requests))
        return self.conclude(crowd=self.people(crowd), net=net, **ending)

    def draw_net(self, clients: int) -> Tally:
        """At random."""
        return draw_net(self.dice, self.document, clients)


class HeardScene:
    """An honest past, and a device."""

    def __init__(
        self,
        dice: random.Random,
        devices: Devices,
        folder: Path,
        *,
        at_least: int = 0,
        most: int = 2,
        newcomer: bool | None = None,
        **changes: Any,
    ) -> None:
        """``at_least`` and at ``most`` so many rounds; ``newcomer``: there in none; ``changes`` to the document."""
        self.dice = dice
        self.clock = ManualClock(START - A_WHILE_MS)
        self.history = LoggedHistory(_document(dice, **changes), dice, self.clock)
        self.net = MemoryTransport(self.clock.now)
        self.net.both_terms = terms_of_relays(self.history.document, quota=10)
        self.device: Listener = devices.listener(self.net, self.clock, self.history.document, folder)
        #: Before each round was announced, from the first on.
        self.pasts: list[LoggedHistory] = []
        newcomer = dice.random() < 0.3 if newcomer is None else newcomer
        #: What the person was told instead of joining.
        self.refused: str | None = None
        self.joined = False
        #: When the lie was told; None: it was not yet.
        self.lied_at: int | None = None
        show_beacons(self.history)
        self.clock.advance(A_WHILE_MS - BEFORE_FIRST_MS)
        if not newcomer:
            self.join()
        for _ in range(dice.randint(at_least, most)):
            self.pasts.append(self.history.branch())
            self.round_of(self.history)

    def join(self, history: LoggedHistory | None = None) -> None:
        """The person joins now."""
        self.serve(history or self.history)
        self.refused = self.device.join(self.dice.getrandbits(63))
        self.joined = self.refused is None

    def serve(self, history: LoggedHistory) -> None:
        """From now on this is what the device is served."""
        self.net.files = dict(history.files)
        self.net.entry = history.take

    def hear(self, history: LoggedHistory, *, until: int | None = None) -> None:
        """The lie is served from now on, up to some time after the newest round, unless ``until`` is said."""
        self.lied_at = self.clock.now()
        if not self.joined:
            self.join(history)
        self.serve(history)
        newest = history.running.manifest.instants.open_by if history.rounds else self.clock.now()
        self.live(newest + LEAD_MS if until is None else until)

    def hear_in_window(self, honest: LoggedHistory, liar: LoggedHistory) -> None:
        """The device believes the honest round, and is shown another log when it looks again in the window."""
        instants = honest.running.manifest.instants
        if not self.joined:
            self.join(honest)
        self.serve(honest)
        self.live(instants.opens_at)
        begun = self.clock.now()
        self.serve(liar)
        self.live(instants.mix_by)
        looks = [at for path, at in self.net.fetches if path == honest.checkpoint_path and at >= begun]
        self.lied_at = min(looks, default=instants.mix_by)

    @property
    def sent(self) -> int:
        """Requests that left the device after the lie was told."""
        return sum(self.lied_at is not None and request.at > self.lied_at for request in self.net.requests)

    @property
    def noticed(self) -> str | None:
        """What the person is told."""
        return self.refused or self.device.noticed()

    def round_of(
        self,
        history: LoggedHistory,
        *,
        crowd: int | None = None,
        asleep: bool | None = None,
        lies: Mapping[str, Any] = MappingProxyType({}),
        before: Callable[[], Mapping[str, Any]] = dict,
        after: Callable[[], None] = lambda: None,
        **ending: Any,
    ) -> SealedRound:
        """A round, in which the device takes part where it has joined and is not asleep.

        ``lies``: what a liar makes of it; ``before`` it ends it says more of that, and ``after`` it changes files.
        """
        manifest = history.announce(**lies)
        asleep = self.dice.random() < 0.2 if asleep is None else asleep
        self.serve(history)
        self.live(manifest.instants.mix_by, asleep=asleep)
        played = history.play(self.dice.choice((0, 2, 4, 5)) if crowd is None else crowd, **ending, **before())
        after()
        self.serve(history)
        self.live(manifest.instants.open_by - 10_000, asleep=asleep)
        return played

    def live(self, until: int, *, asleep: bool = False) -> None:
        """Time passes up to this instant; whoever has not joined does not see it."""
        if asleep or not self.joined:
            self.clock.advance(max(0, until - self.clock.now()))
        else:
            self.device.drive(until)


def show_beacons(history: LoggedHistory) -> None:
    """The genuine records of its beacons, where its salt comes from some."""
    binning, source = history.document.binning, LocalUnsafeBeacon()
    assert isinstance(binning, HashedBins)
    for i, beacon in enumerate(binning.beacons):
        history.files[f"{history.place}/beacon/{i}"] = source.fetch(beacon.chain, beacon.round_number)


def _document(dice: random.Random, **changes: Any) -> ExperimentDocument:
    told: dict[str, Any] = {"log": known_log_terms(freshness_s=dice.choice((86_400, 7 * 86_400)))}
    return relayed_document(**{**told, **changes})
