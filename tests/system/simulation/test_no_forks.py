"""Killing witnesses and coordinator at random moments never makes a fork by accident.

Lists of operations are drawn: people and operators act, time passes, witnesses are asked, requests and answers are lost
or late, and processes die, at any call of a store, any file, any request, before or after any commit. After every
operation all that was ever cosigned or public must be one chain for each log, and at the end, with everybody up, the
logs catch up and an audit of what is public finds nothing.
"""

import asyncio
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.auditor.audit import audit_files
from secvm.auditor.files import FolderFiles
from secvm.coordinator.log.logbook import Logbook
from secvm.protocol.documents.experiment import Beacon, ExperimentDocument, HashedBins
from secvm.testing.clock import ManualClock
from secvm.witness.store import WitnessStore
from tests.effort import scaled
from tests.system.simulation.chain_watcher import Watcher
from tests.system.simulation.mortal_parties import Files, KilledError, MortalCoordinator, MortalWitness, Network
from tests.unit.coordinator.rounds import add, crowd, few, until
from tests.unit.coordinator.witnesses import KEYS, TERMS, logged
from tests.unit.protocol.helpers import START

Op = tuple[Any, ...]
MOST_EXPERIMENTS = 3
#: A witness, and how many there are.
WHICH = st.integers(0, len(KEYS) - 1)
FATES = ["", "lost", "late request", "late answer", "dies before", "dies after"]


# ── what happens ─────────────────────────────────────────────────────────────────────────────────────────────────────


class World:
    """Everybody."""

    def __init__(
        self,
        folder: Path,
        *,
        witness: type[MortalWitness] = MortalWitness,
        restore: Callable[[Path], None] = lambda _store: None,
    ) -> None:
        """``restore`` is what somebody does to the coordinator's file before it starts again."""
        self.clock = ManualClock(START - 100_000)
        self.witnesses = [witness(i, folder / f"witness-{i}", self.clock) for i in range(len(KEYS))]
        self.network = Network(self.witnesses)
        self.files, self.public = Files(folder / "coordinator"), folder / "public"
        self.sent: set[tuple[str, int]] = set()
        self._restore = restore
        self.documents: dict[str, ExperimentDocument] = {}
        self._past: list[MortalCoordinator] = []
        self._next_at: int | None = None
        self.coordinator = self._begin()
        self.watcher = Watcher(self.public)

    def _begin(self) -> MortalCoordinator:
        made = MortalCoordinator(self.files, self.clock, self.network, self.public, self.sent)
        made.driver.prepare()
        return made

    def live(self) -> MortalCoordinator:
        """The coordinator, started again if it is dead."""
        if self.coordinator.process.dead:
            self._past.append(self.coordinator)
            self.coordinator.inside.close()
            self._restore(self.files.now / "store.db")
            self.coordinator = self._begin()
        return self.coordinator

    async def do(self, op: Op) -> None:
        name, *given = op
        try:
            await getattr(self, name)(*given)
        except KilledError:
            assert self.coordinator.process.dead
        self.watcher.look(self.coordinator, self.witnesses, self.documents)

    # ── operations ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def add(self, rounds: int, beacons: bool) -> None:
        """The operator has a new question."""
        coordinator, number = self.live(), len(self.documents)
        if number >= MOST_EXPERIMENTS:
            return
        changes: dict[str, Any] = {}
        if beacons:
            soon = self.clock.now() // 1000 + 20
            named = (Beacon("local-unsafe", soon), Beacon("local-unsafe-b", soon + 20))
            changes["binning"] = HashedBins(bins=10, beacons=named)
        of = logged(rounds=rounds, title=f"number {number}", **changes)
        self.documents[of.digest] = of
        add(coordinator.inside, of)
        coordinator.driver.wake()

    async def operate(self, action: str, number: int) -> None:
        """The operator pauses, resumes or stops."""
        coordinator = self.live()
        if number < len(self.documents):
            coordinator.operate(action, list(self.documents)[number])

    async def wait(self, ms: int) -> None:
        self.clock.advance(ms)

    async def wait_for_next(self) -> None:
        """Until the driver wants to be woken."""
        self.clock.advance(max(0, (self._next_at or 0) - self.clock.now()))

    async def send(self, many: bool) -> None:
        """Everybody who sees a round that is open."""
        self.live().everybody_sends(crowd if many else few)

    async def drive(self) -> None:
        """The driver does what is due, and so does who fetches beacons."""
        coordinator = self.live()
        self._next_at = await coordinator.driver.step()
        _, at = await coordinator.salting.step()
        self._next_at = min((one for one in (at, self._next_at) if one is not None), default=None)

    async def ask(self, at: int, fate: str) -> None:
        """A witness is asked, if something is due; it may die with its commit."""
        coordinator = self.live()
        if fate.startswith("dies"):
            self.witnesses[at].doom = fate.removeprefix("dies ")
        elif fate:
            self.network.fate[at] = fate
        await coordinator.ask(at)
        self.network.fate.pop(at, None)

    async def arrive(self, which: int) -> None:
        """Something that was on its way for long is there."""
        held = self.network.held
        if held:
            held.pop(which % len(held)).set()
            await self._quiet()

    async def _quiet(self) -> None:
        """Return when every conversation is over, or waits for the network."""
        tasks = [task for one in (*self._past, self.coordinator) for task in one.passes.values()]
        running = [task for task in tasks if not task.done()]
        await until(lambda: sum(not task.done() for task in running) <= len(self.network.held))
        for task in running:
            if task.done() and not isinstance(task.exception(), KilledError):
                task.result()

    async def lose_sight(self, at: int) -> None:
        """A witness cannot be reached."""
        self.network.away.add(at)

    async def see_again(self, at: int) -> None:
        self.network.away.discard(at)

    async def revive(self, at: int) -> None:
        """A witness is started again, killed before if it lives."""
        await self.witnesses[at].revive()

    async def kill(self, points: int) -> None:
        """The coordinator dies soon, or now."""
        if points:
            self.live().process.left = points
        else:
            self.coordinator.process.kill()

    async def go(self) -> None:
        """A while in which much happens: driver, all witnesses, driver, people, and on to the next instant."""
        for _ in range(2):
            await self.drive()
            for at in range(len(self.witnesses)):
                await self.ask(at, "")
        await self.drive()
        await self.send(many=True)
        await self.wait_for_next()

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def catch_up(self) -> None:
        """Everybody is up: all goes on until all is over, and nothing is wrong with it."""
        self.network.away.clear()
        while self.network.held:
            await self.do(("arrive", 0))
        for at, witness in enumerate(self.witnesses):
            witness.doom = None
            await self.do(("revive", at))
        self.live().process.left = 0
        for number in range(len(self.documents)):
            await self.do(("operate", "resume", number))
        for _ in range(60):
            await self.do(("go",))
            if self.coordinator.over():
                break
        assert self.coordinator.over(), "this goes on for ever"
        logbook = self.coordinator.logbook
        assert logbook.cosigned() == logbook.log.size
        assert not logbook.halted
        self.watcher.chains.check(all_of_them=True)
        if self.documents:
            report = audit_files(FolderFiles(self.public), now=self.clock.now(), snapshot=True)
            assert report.faults == []

    async def close(self) -> None:
        for held in self.network.held:
            held.set()
        for one in (*self._past, self.coordinator):
            await one.settle()
        self.coordinator.inside.close()
        for witness in self.witnesses:
            await witness.close()


OPS: st.SearchStrategy[Op] = st.one_of(
    st.just(("go",)),
    st.just(("drive",)),
    st.just(("wait_for_next",)),
    *2 * [st.tuples(st.just("ask"), WHICH, st.sampled_from(FATES))],
    *2 * [st.tuples(st.just("kill"), st.integers(0, 150))],
    st.tuples(st.just("revive"), WHICH),
    st.tuples(st.just("arrive"), st.integers(0, 3)),
    st.tuples(st.just("wait"), st.sampled_from([1000, 30_000, 600_000, 1_000 * TERMS.freshness_s])),
    st.tuples(st.just("send"), st.booleans()),
    st.tuples(st.sampled_from(["lose_sight", "see_again"]), WHICH),
    st.tuples(st.just("operate"), st.sampled_from(["pause", "resume", "stop"]), st.integers(0, MOST_EXPERIMENTS - 1)),
    st.tuples(st.just("add"), st.integers(1, 3), st.booleans()),
)


async def play(folder: Path, ops: list[Op], **different: Any) -> World:
    world = World(folder, **different)
    try:
        await world.do(("add", 2, False))
        for op in ops:
            await world.do(op)
        await world.catch_up()
    finally:
        await world.close()
    return world


def played(ops: list[Op], **different: Any) -> World:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(play(Path(folder), ops, **different))


@settings(max_examples=scaled(15, 60))
@given(st.lists(OPS, min_size=10, max_size=40))
def test_whoever_is_killed_whenever_no_log_is_forked(ops: list[Op]) -> None:
    played(ops)


# ── that this can fail ───────────────────────────────────────────────────────────────────────────────────────────────


def test_undisturbed_all_is_believed() -> None:
    # Two manifests and an ending, by a device that asks and by one that reads the folder.
    assert played([]).watcher.believed == 6


class OldCopy:
    """Keeps the coordinator's file at its first restart, and puts it back at every further one."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def __call__(self, store: Path) -> None:
        if not self._kept:
            self._kept = {file.name: file.read_bytes() for file in store.parent.iterdir()}
            return
        for file in store.parent.iterdir():
            file.unlink()
        for name, data in self._kept.items():
            (store.parent / name).write_bytes(data)


#: Killed before there is a round, and again when one was seen; later, so that the same manifest does not come again.
PUT_BACK: list[Op] = [("kill", 0), ("go",), ("kill", 0), ("wait", 1_000_000)]


def test_a_coordinator_that_forgets_a_manifest_is_found_out() -> None:
    with pytest.raises(AssertionError, match="an entry is forgotten"):
        played(PUT_BACK, restore=OldCopy())


def test_a_coordinator_that_forgets_a_manifest_and_asks_nobody_is_found_out_by_a_witness(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ask_about_all(logbook: Logbook) -> bool:
        # It does not wait for what was there when it began either.
        grown = logbook.asked_size != logbook.log.size
        logbook.asked_size, logbook.lines = logbook.log.size, {} if grown else logbook.lines
        return grown

    monkeypatch.setattr(Watcher, "_grow", lambda *_given: None)
    monkeypatch.setattr(Logbook, "confirmed", lambda _self, _terms: True)
    monkeypatch.setattr(Logbook, "_ask_about_all", ask_about_all)
    with pytest.raises(AssertionError, match="a fork"):
        played(PUT_BACK, restore=OldCopy())


def test_a_coordinator_that_forgets_a_manifest_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watcher, "_grow", lambda *_given: None)
    with pytest.raises(AssertionError, match="this goes on for ever"):
        played(PUT_BACK, restore=OldCopy())


class HastyStore(WitnessStore):
    """Commits when it is asked the next time, and answers before."""

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._db.in_transaction:
                self._db.execute("COMMIT")
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db


class HastyWitness(MortalWitness):
    store_class = HastyStore


def test_a_witness_that_answers_before_it_commits_is_found_out() -> None:
    with pytest.raises(AssertionError, match="a witness has forgotten what it cosigned"):
        played([("drive",), ("ask", 1, ""), ("revive", 1)], witness=HastyWitness)


def test_what_is_shown_without_its_quorum_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Logbook, "visible", lambda _self, book: book)
    with pytest.raises(AssertionError, match="public without its quorum"):
        played([("drive",)])
