"""A coordinator without a network, people who answer its rounds, and a clock that goes from one instant to the next."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

from secvm.coordinator.clock_check import ClockCheck
from secvm.coordinator.driver import Driver
from secvm.coordinator.epochs import Grid
from secvm.coordinator.experiments.new_experiment import OwnSettings
from secvm.coordinator.experiments.specification import EarlyStopping
from secvm.coordinator.intake.running import CurrentRounds, OpenRound
from secvm.coordinator.log.log_files import EntryLog
from secvm.coordinator.publisher import Publisher
from secvm.coordinator.store.port import CoordinatorStore, Deposit, Standing, StoredExperiment
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.package import Cohort, NullPackage, Package, ParticipationPackage, Sign, TestPackage, TrainPackage
from secvm.protocol.codec import AddressedPackage, encode
from secvm.protocol.documents.experiment import ExperimentDocument, Windows, publish
from secvm.protocol.documents.manifest import RelayCount
from secvm.protocol.documents.recomputation import first_model
from secvm.protocol.relays.manifest import Instants
from secvm.testing.clock import ManualClock
from tests.rigs.opened_blocks import make_block, put_opened
from tests.unit.protocol.helpers import COORDINATOR, RELAY, START, document

GRID = Grid(period_s=600, lead_s=60)
LENGTH_S, GRACE_S = 480, 60
#: What people send in a round: an open round → packages.
Crowd = Callable[[OpenRound], list[Package]]


def dice(count: int) -> bytes:
    """Always the same throw: after a crash the same keys come again."""
    return hashlib.shake_256(b"dice").digest(count)


def experiment(**changes: Any) -> ExperimentDocument:
    told: dict[str, Any] = {
        "experiment": Experiment(n_bins=10, labels=("a", "b"), rule=Pegasos(lambda_=Fraction(1, 10)), budget=5),
        "windows": Windows(length_s=LENGTH_S, grace_s=GRACE_S, first_opening=START),
        "rounds": 3,
        "test": True,
    }
    return document(**{**told, **changes})


def add(store: CoordinatorStore, of: ExperimentDocument, early: EarlyStopping | None = None) -> str:
    settings = OwnSettings(early_stopping=early).model_dump_json().encode()
    stored = StoredExperiment(of.digest, publish(of, keys=(COORDINATOR,)), settings, Standing.RUNNING)
    store.add_experiment(stored, first_model(of).by_name)
    return of.digest


def crowd(one: OpenRound, people: int = 6) -> list[Package]:
    """Some who train, some who test, others each round."""
    labels = len(one.document.experiment.labels)
    packages: list[Package] = []
    for i in range(people):
        packages.append(ParticipationPackage(cohort=Cohort.TRAIN, class_index=i % labels))
        sign: Sign = 1 if i % labels else -1
        packages += [TrainPackage(model=0, bin_index=(i * k + one.number) % 11, sign=sign) for k in (1, 3)]
        packages += [NullPackage(), TestPackage(true_class=i % labels, predicted_class=(i * one.number) % labels)]
    return packages


async def until(holds: Callable[[], bool]) -> None:
    """Let others have their turn until something holds."""
    while not holds():  # noqa: ASYNC110  (what is waited for does not tell)
        await asyncio.sleep(0)


class Party(Protocol):
    """What runs until it is told to stop."""

    async def run(self, stop: asyncio.Event) -> None: ...


@asynccontextmanager
async def at_work(party: Party) -> AsyncIterator[None]:
    """It runs as long as the block does."""
    stop = asyncio.Event()
    running = asyncio.create_task(party.run(stop))
    yield
    stop.set()
    await running


def held_epochs(store: CoordinatorStore) -> list[int]:
    """Epochs whose key is not scrubbed."""
    keys = store.keys()
    return [key.epoch for key in keys]


def few(one: OpenRound) -> list[Package]:
    return crowd(one, people=2)


class Ingested:
    """Takes what is sent as if it were opened already."""

    def __init__(self, store: CoordinatorStore) -> None:
        self.store = store
        self.present = CurrentRounds()
        self.finished: list[int] = []
        #: Whether the relay deposits a count of what it held.
        self.counts = True

    def update(self, present: CurrentRounds) -> None:
        self.present = present

    async def finish(self, epoch: int) -> None:
        await asyncio.sleep(0)
        self.finished.append(epoch)

    def send(self, one: OpenRound, packages: list[Package]) -> bool:
        if self.counts and one.document.relays:
            count = RelayCount(one.times.opens_at, clients=10**4, capsules=10**6).signed(RELAY)
            # Any other relay of a test comes before this one.
            self.store.deposit(Deposit(one.epoch, "z", count), [])
        block = make_block(capsules(one, packages))
        # Each was sent twice: a re-send counts once.
        return put_opened(self.store, one.epoch, block + block)


class Coordinator:
    """Driver, publisher and ingest around a store that may have been somebody else's before."""

    def __init__(
        self,
        store: CoordinatorStore,
        clock: ManualClock,
        folder: Path | None = None,
        *,
        sent: set[tuple[str, int]] | None = None,
        grid: Grid = GRID,
        entries: Callable[[Publisher], EntryLog] | None = None,
        check: ClockCheck | None = None,
    ) -> None:
        self.store, self.clock = store, clock
        self.ingest = Ingested(store)
        self.publisher = Publisher(store, folder)
        self.driver = Driver(
            store=store,
            ingest=self.ingest,
            publisher=self.publisher,
            clock=clock,
            key=COORDINATOR,
            grid=grid,
            dice=dice,
            entries=EntryLog() if entries is None else entries(self.publisher),
            check=check,
        )
        #: Rounds that people have answered; they do not forget it when a coordinator dies.
        self.sent: set[tuple[str, int]] = set() if sent is None else sent

    async def step(self, who: Crowd = crowd) -> int | None:
        """One step of the driver, then everybody sends who has not yet."""
        at = await self.driver.step()
        self.everybody_sends(who)
        return at

    def everybody_sends(self, who: Crowd) -> None:
        """Those who see a round that is open, once."""
        for one in self.ingest.present.rounds:
            name = (one.document.digest, one.number)
            seen = self.publisher.public(f"/v1/experiment/{one.document.digest}/manifest/{one.number}") is not None
            if seen and one.times.opens_at <= self.clock.now() < one.times.accept_until and name not in self.sent:
                assert self.ingest.send(one, who(one))
                self.sent.add(name)

    async def go(self, who: Crowd = crowd, *, until: Callable[[], bool] | None = None, steps: int = 200) -> None:
        """From instant to instant, until all is over."""
        for _ in range(steps):
            at = await self.step(who)
            if self.over() if until is None else until():
                return
            assert at is not None
            self.clock.advance(at - self.clock.now())
        raise AssertionError("this goes on for ever")

    def over(self) -> bool:
        stored = self.store.experiments()
        return all(self.publisher.public(f"/v1/experiment/{one.digest}/ending") is not None for one in stored)

    def shown(self) -> dict[str, bytes]:
        """Everything public."""
        shown = {path: one.data for path, one in self.publisher._shown.items()}
        return {**shown, **{f"/v1/blob/{digest}": self.ingest.store.blob(digest) for digest in self.publisher._blobs}}


def files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def capsules(one: OpenRound, packages: list[Package]) -> list[tuple[bytes, bytes]]:
    """What stands for the capsules of packages, each with what is in it."""
    written = [encode(AddressedPackage(one.document.experiment_id, one.number, package)) for package in packages]
    return [(b"%d %b" % (i, data), data) for i, data in enumerate(written)]


def state_after(of: ExperimentDocument, tallies: list[Tally]) -> bytes:
    state = aggregate.start(of.experiment)
    for tally in tallies:
        state = aggregate.step(of.experiment, state, tally)
    return state.to_bytes()


def tally_of(one: OpenRound, who: Crowd = crowd) -> Tally:
    return aggregate.empty_tally(one.document.experiment).count(who(one))


def times(opens_at: int) -> Instants:
    """Of a round that is over at once."""
    return Instants(*range(opens_at, opens_at + 7))


def rounds_of(of: ExperimentDocument, numbers: list[int]) -> list[OpenRound]:
    return [OpenRound(of, number, 0, times(0)) for number in numbers]
