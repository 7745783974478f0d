"""Chaos: a deployment of real processes is disturbed while it works, and held to the same rounds undisturbed.

    with chaos_run(folder, plan) as run: …

The same people, dice and attendance give the same bytes, whatever is done to whoever counts them. A run plays all
rounds under a storm of faults (``secvm_lab.chaos.storm``), then holds two records to each other
(``chaos.accounting``), has an auditor look at everything from outside, and compares the last state with that of
the undisturbed run: one that was played by the same processes, and the same rounds offline.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from secvm.errors import BadInputError
from secvm.testing.federation_settings import COORDINATOR, ENTRY, MIX, RELAY, ROLES
from secvm_lab.chaos.accounting import RoundAccount, Verdict, settle
from secvm_lab.chaos.deployment import Deployment, Part
from secvm_lab.chaos.faults import DATABASE, DRIVER, NODE, Faults, Kind
from secvm_lab.chaos.network import Network, why_no_network
from secvm_lab.chaos.passage import Instead
from secvm_lab.chaos.small_disk import SmallDisk, why_no_disk
from secvm_lab.chaos.storm import Storm, draw
from secvm_lab.demo.crowd import made_up
from secvm_lab.demo.evaluation import Computing, attendance
from secvm_lab.demo.plan import Plan
from secvm_lab.published import Published, from_outside, origins_of, published

if TYPE_CHECKING:
    from secvm_lab.chaos.database import Database

#: Faults that can be asked for.
FAULTS = ("kill", "stop", "loss", "network", "disk", "restart")
#: Of so many kills of nodes, driver and database, one fault of each other kind comes too.
_KILLS_FOR_ONE = 40
#: Megabytes of small disks: PostgreSQL has some fifty on its first day, SQLite a few.
_DATABASE_MB, _FILE_MB = 320, 24
#: Whom kills are for, by weight.
_VICTIMS = {NODE: 4, DRIVER: 3, DATABASE: 3}
_RELAYS = {ENTRY: 3, MIX: 3}
_HOSTS = 2
_BINS = 60
#: With two relays: few bins and little noise, so that a round takes seconds.
_COVERED_BINS, _EPSILON = 8, 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosPlan:
    """What is asked for."""

    participants: int = 24
    rounds: int = 8
    nodes: int = 3
    store: str = "postgres"
    kills: int = 200
    faults: tuple[str, ...] = FAULTS
    seed: int = 0
    descent: str = "swift"
    experiment: str = "plain"

    def __post_init__(self) -> None:
        strange = [name for name in self.faults if name not in FAULTS]
        if strange or not self.faults:
            given = f"not '{strange[0]}'" if strange else "none is given"
            raise BadInputError(f"--faults are some of {', '.join(FAULTS)}, with commas between: {given}")

    def wanted(self, *, network: bool, disks: bool) -> dict[Kind, int]:
        """How many faults of each kind."""
        some = max(1, -(-self.kills // _KILLS_FOR_ONE))
        # Two unopened rounds of any ten end a device's participation, and one must be left to be counted.
        restarts = int(self.covered and self.rounds > 1)
        counts = {
            "kill": {Kind.KILL: self.kills},
            "stop": {Kind.STOP: some},
            "network": {Kind.CUT: some, Kind.SLOW: some} if network else {},
            "loss": {Kind.LOSS: some, Kind.DELAY: some},
            "restart": {Kind.RESTART: restarts},
            "disk": {Kind.DISK: max(2, some // 2)} if disks else {},
        }
        return {kind: count for name in self.faults for kind, count in counts[name].items()}

    @property
    def covered(self) -> bool:
        """Whether two relays add cover."""
        return self.experiment == "covered"

    @property
    def victims(self) -> dict[str, int]:
        """Whom kills are for, by weight."""
        nodes = _VICTIMS if self.store == "postgres" else {NODE: 1}
        return {**nodes, **(_RELAYS if self.covered else {})}

    @property
    def demo(self) -> Plan:
        """The people and the experiment."""
        return Plan(
            participants=self.participants,
            rounds=self.rounds,
            hosts=_HOSTS,
            seed=self.seed,
            bins=_COVERED_BINS if self.covered else _BINS,
            descent="swift" if self.covered else self.descent,
            epsilon=_EPSILON if self.covered else None,
        )


@dataclass(frozen=True, eq=False)
class Played:
    """What a run came to."""

    state: bytes = field(repr=False)
    #: The state of the same rounds offline.
    offline: bytes = field(repr=False)
    accounts: list[RoundAccount] = field(repr=False)
    #: What an auditor found, and forks that witnesses have kept.
    audit: list[str]
    forks: int
    #: Why devices have ended their participation: everybody here is honest.
    accused: list[str] = field(default_factory=list)
    #: Rounds that stayed unopened because a relay's machine was started again.
    unopened: list[int] = field(default_factory=list)
    #: (kind, whom) of the faults that came.
    done: Counter[tuple[Kind, str]] = field(default_factory=Counter)
    taken_over: int = 0
    disks_noticed: int = 0
    ended_by_themselves: Counter[str] = field(default_factory=Counter)
    last_words: list[str] = field(default_factory=list)
    answers: Counter[int] = field(default_factory=Counter)
    #: Packages that devices gave up before their window closed.
    given_up: int = 0
    #: Why there was no network, or no small disk; None where there was, or none was wanted.
    no_network: str | None = None
    no_disk: str | None = None
    slowed_by: str | None = None
    seconds: float = 0.0

    @property
    def verdict(self) -> Verdict:
        return settle(self.accounts)

    @property
    def right(self) -> bool:
        """Whether the bytes are those of the rounds offline, each package counted once, and nobody sees a fault."""
        verdict = self.verdict
        tallies = all(one.tally == one.expected for one in self.accounts)
        return (
            self.state == self.offline
            and tallies
            and not (verdict.lost or verdict.counted_twice or self.audit or self.forks or self.accused)
        )


def play(
    folder: Path,
    plan: ChaosPlan,
    *,
    disturbed: bool = True,
    say: Callable[[str], None] = lambda _: None,
    liar: Instead | None = None,
) -> Played:
    """All rounds of a plan, disturbed or not, in a folder of their own."""
    begun = time.monotonic()
    with _surroundings(folder, plan, disturbed=disturbed) as around:
        found = _play(folder, plan, around, disturbed=disturbed, say=say, liar=liar)
    return replace(found, seconds=time.monotonic() - begun)


@dataclass
class _Around:
    """What a deployment stands on."""

    network: Network | None = None
    database: Database | None = None
    disks: dict[str, SmallDisk] = field(default_factory=dict)
    no_network: str | None = None
    no_disk: str | None = None


@contextlib.contextmanager
def _surroundings(folder: Path, plan: ChaosPlan, *, disturbed: bool) -> Iterator[_Around]:
    around = _Around()
    with contextlib.ExitStack() as held:
        # PostgreSQL runs as somebody else, who cannot go through every folder of ours.
        open_place = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="secvm-chaos-db-")))
        open_place.chmod(0o711)
        if disturbed and "network" in plan.faults:
            around.no_network = "the nodes of --store sqlite are one process" if plan.store == "sqlite" else None
            around.no_network = around.no_network or why_no_network()
            if around.no_network is None:
                around.network = held.enter_context(Network())
        if disturbed and "disk" in plan.faults:
            around.no_disk = why_no_disk(folder)
            if around.no_disk is None:
                store = {DATABASE: _DATABASE_MB} if plan.store == "postgres" else {COORDINATOR: _FILE_MB}
                names = {ENTRY if plan.covered else RELAY: _FILE_MB, **store}
                for name, megabytes in names.items():
                    disk = SmallDisk(open_place / name, megabytes=megabytes)
                    around.disks[name] = held.enter_context(disk)
        if plan.store == "postgres":
            # Late: who keeps everything in a file needs no driver for a database.
            from secvm_lab.chaos.database import Database  # noqa: PLC0415

            parent = around.disks[DATABASE].folder if DATABASE in around.disks else open_place
            around.database = held.enter_context(Database(parent, on_hub=around.network is not None))
        yield around


def _play(
    folder: Path,
    plan: ChaosPlan,
    around: _Around,
    *,
    disturbed: bool,
    say: Callable[[str], None],
    liar: Instead | None,
) -> Played:
    demo = plan.demo
    crowd = made_up(plan.participants, seed=plan.seed, further=50)
    dice = random.Random(plan.seed)  # noqa: S311  (who dies is no secret)
    found: list[Published] = []
    acknowledged: list[int] = []
    given_up = 0
    with Deployment(
        folder,
        hosts=demo.carried(crowd, folder),
        seed=demo.dice_seed.decode(),
        nodes=plan.nodes,
        database=around.database,
        network=around.network,
        disks={name: disk.folder for name, disk in around.disks.items() if name != DATABASE},
        liar=liar,
        covered=demo.covered,
    ) as deployment:
        deployment.start_servers()
        deployment.begin(demo.specification(crowd))
        assert deployment.document is not None
        # With a guarantee, the coordinator plans cover, and B.
        experiment = deployment.document.experiment if demo.covered else demo.experiment(crowd)
        assert experiment.budget is not None
        storm = faults = None
        if disturbed:
            wanted = plan.wanted(network=around.network is not None, disks=bool(around.disks))
            faults = Faults(deployment, dice, disks=around.disks)
            drawn = draw(
                dice,
                rounds=plan.rounds,
                wanted=wanted,
                kinds=plan.victims,
                disks=sorted(around.disks),
                relays=ROLES if demo.covered else [RELAY],
            )
            storm = Storm(deployment, dice, drawn, faults, say=say)
            deployment.clock.meanwhile = storm.strike
        for number in range(1, plan.rounds + 1):
            spent = {} if storm is None else {"spent": storm.spent}
            played = deployment.begin_round(number, attending=plan.participants, budget=experiment.budget, **spent)
            for part in Part:
                if storm is not None:
                    storm.enter(number, part, closes_at=played.closes_at)
                deployment.play_part(part, played, number)
                if part is Part.WINDOW:
                    given_up += deployment.counts(number).lost
            found.append(published(deployment, number))
            acknowledged.append(deployment.acknowledged_in(played, number, experiment.budget))
            say(f"round {number} of {plan.rounds} is over")
        deployment.clock.meanwhile = None
        if storm is not None:
            storm.finish()
        if demo.covered:
            deployment.settle()
        audit, forks = from_outside(deployment)
        digest = deployment.digest
    here, accused = attendance(folder / "devices", digest, participants=plan.participants, rounds=plan.rounds)
    # Nothing is learnt from a round that a relay has forgotten, and nobody counts it.
    unopened = [number for number in deployment.forgotten if found[number - 1].tally is None]
    replay = Computing(demo, crowd, experiment).replay(experiment, origins_of(found))
    accounts = []
    for number, (row, seen, one) in enumerate(zip(here, acknowledged, found, strict=True), 1):
        lost = number in unopened
        expected = replay.advance(np.zeros_like(row) if lost else row).tally
        scheduled = int(row.sum()) * experiment.budget
        accounts.append(RoundAccount(scheduled, seen, one.tally, None if lost else expected))
    return Played(
        state=found[-1].state,
        offline=replay.state,
        accounts=accounts,
        audit=audit,
        forks=forks,
        accused=accused,
        unopened=unopened,
        done=Counter() if storm is None else storm.done,
        taken_over=0 if faults is None else faults.taken_over,
        disks_noticed=0 if faults is None else faults.noticed,
        ended_by_themselves=deployment.ended_by_themselves,
        last_words=deployment.last_words,
        answers=deployment.answers,
        given_up=given_up,
        no_network=around.no_network,
        no_disk=around.no_disk,
        slowed_by=None if around.network is None else around.network.slowed_by,
    )
