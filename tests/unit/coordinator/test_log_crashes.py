"""No crash makes a fork: at every point, and in any order, the log comes out as it was."""

import asyncio
import contextlib
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.coordinator.log.log_files import checkpoint_path, first_path, log_path
from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.port import Standing
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.log.checkpoints import Checkpoint, read_checkpoint
from secvm.testing.clock import ManualClock
from tests.effort import scaled
from tests.unit.coordinator.rounds import add, crowd, few, files
from tests.unit.coordinator.test_driver import CrashError, Fragile
from tests.unit.coordinator.witnesses import Answer, Logged, TinyWitness, away, logged
from tests.unit.protocol.helpers import START


def documents(coordinator: Logged) -> dict[str, bytes]:
    """What is public, without what follows from logs: after a crash a proof may lead to a newer checkpoint."""
    made = ("/proof/", "/first", "/checkpoint", "/secvm/")
    return {path: data for path, data in coordinator.shown().items() if not any(part in path for part in made)}


class History:
    """All checkpoints that were ever public, and the first one of each experiment."""

    def __init__(self) -> None:
        self.seen: list[Checkpoint] = []
        self.first: dict[str, bytes] = {}

    def look(self, coordinator: Logged) -> None:
        # Under a store that dies, whoever looks does not count as a call.
        store = getattr(coordinator.store, "inside", coordinator.store)
        digests = [stored.digest for stored in store.experiments()]
        for path in (log_path("checkpoint"), *map(checkpoint_path, digests)):
            found = coordinator.publisher.public(path)
            if found is not None:
                self.seen.append(read_checkpoint(found[0], log=coordinator.logbook.key).checkpoint)
        for digest in digests:
            first = coordinator.publisher.public(first_path(digest))
            if first is not None:
                assert self.first.setdefault(digest, first[0]) == first[0]

    def check(self, coordinator: Logged, witnesses: list[TinyWitness]) -> None:
        """All of them, and all that any witness ever cosigned, are one chain."""
        everything = [*self.seen, *(found for witness in witnesses for found in witness.cosigned)]
        assert everything
        for found in everything:
            assert coordinator.logbook.log.root(found.size) == found.root


def lay_out() -> tuple[MemoryStore, list[ExperimentDocument]]:
    store, made = MemoryStore(), [logged(rounds=2, title="one"), logged(rounds=1, title="other")]
    for of in made:
        add(store, of)
    return store, made


def who(one: Any) -> list[Any]:
    return few(one) if one.number == 1 and one.document.title == "other" else crowd(one)


def fragile_coordinator(
    fragile: Fragile, store: MemoryStore, clock: ManualClock, witnesses: list[TinyWitness], folder: Path | None,
    sent: set[tuple[str, int]],
) -> Logged:  # fmt: skip
    """One whose process dies at a call of the store, at a file, before a witness is asked, or before its answer."""
    dying: Any = fragile
    made = Logged(dying, clock, witnesses, folder, sent=sent)
    made.ingest.store = store
    write, post = made.publisher._write, made.cosigner._post

    async def writing(*given: Any, **named: Any) -> None:
        fragile.crash(lambda: None)
        await write(*given, **named)

    async def posting(*given: Any) -> Answer:
        fragile.crash(lambda: None)
        answer = await post(*given)
        fragile.crash(lambda: None)
        return answer

    made.publisher._write = writing  # type: ignore[method-assign]
    made.cosigner._post = posting  # type: ignore[assignment,method-assign]
    return made


@dataclass
class Remains:
    """All that is left when a process dies: the store, the public folder, and what others remember."""

    store: dict[str, Any]
    public: dict[str, bytes]
    newest: list[dict[str, Checkpoint]]
    now: int
    sent: set[tuple[str, int]]
    #: What others had seen by then; the next process does not know it.
    seen: set[Checkpoint]
    first: dict[str, bytes]
    cosigned: list[set[Checkpoint]]

    def restore(self, folder: Path) -> tuple[Logged, History, list[TinyWitness]]:
        """Another process, where this one was."""
        store, clock, history = MemoryStore(), ManualClock(self.now), History()
        vars(store).update(deepcopy(self.store))
        witnesses = [TinyWitness(i, clock) for i in range(3)]
        for witness, newest, cosigned in zip(witnesses, self.newest, self.cosigned, strict=True):
            witness.newest, witness.cosigned = dict(newest), list(cosigned)
        for path, data in self.public.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        history.seen, history.first = list(self.seen), dict(self.first)
        made = Logged(store, clock, witnesses, folder, sent=set(self.sent))
        made.driver.prepare()
        return made, history, witnesses


class Autopsy(Fragile):
    """Dies at no point, but tells at each of them what would be left.

    What comes after a death follows from what is left alone. So points between which nothing changed, such as two
    reading calls, are lived through once.
    """

    def __init__(self, store: MemoryStore, folder: Path) -> None:
        super().__init__(store, 0, after=False)
        self.clock, self.folder, self.history = ManualClock(START - 100_000), folder, History()
        self.witnesses = [TinyWitness(i, self.clock) for i in range(3)]
        self.coordinator = fragile_coordinator(self, store, self.clock, self.witnesses, folder, set())
        self.remains: list[Remains] = []

    def crash(self, act: Callable[[], Any]) -> Any:
        if hasattr(self, "remains"):
            left = self._left()
            if not self.remains or left != self.remains[-1]:
                self.remains.append(left)
        return super().crash(act)

    def _left(self) -> Remains:
        self.history.look(self.coordinator)
        kept = {name: value for name, value in vars(self.inside).items() if name != "_lock"}
        return Remains(
            deepcopy(kept),
            files(self.folder),
            [dict(witness.newest) for witness in self.witnesses],
            self.clock.now(),
            set(self.coordinator.sent),
            set(self.history.seen),
            dict(self.history.first),
            [set(witness.cosigned) for witness in self.witnesses],
        )


async def through(coordinator: Logged, history: History) -> None:
    def watch() -> bool:
        history.look(coordinator)
        return coordinator.over()

    await coordinator.go(who, until=watch)


def check_crashes(tmp_path: Path, stride: int) -> None:
    store, _ = lay_out()
    whole = Autopsy(store, tmp_path / "undisturbed")
    asyncio.run(through(whole.coordinator, whole.history))
    wanted = documents(whole.coordinator)
    assert whole.calls > 700
    assert len(whole.remains) > 100
    for k, remains in enumerate(whole.remains[::stride]):
        folder = tmp_path / str(k)
        coordinator, history, witnesses = remains.restore(folder)
        asyncio.run(through(coordinator, history))
        assert documents(coordinator) == wanted, k
        history.check(coordinator, witnesses)
        on_disk = files(folder)
        for path, data in coordinator.shown().items():
            place = path.strip("/") + ("/index" if path.count("/") == 3 and "/v1/experiment/" in path else "")
            assert on_disk[place] == data, (k, path)


OPS = st.one_of(
    st.tuples(st.sampled_from(["step", "go on", "restart"]), st.just(0)),
    st.tuples(st.sampled_from(["away", "silent", "back"]), st.integers(0, 2)),
    st.tuples(st.just("crash"), st.integers(1, 60)),
    st.tuples(st.just("stop"), st.integers(0, 1)),
)


@settings(max_examples=scaled(10, 30), deadline=None)
@given(st.lists(OPS, max_size=25))
def test_whatever_happens_all_checkpoints_of_a_log_are_one_chain(ops: list[tuple[str, int]]) -> None:
    asyncio.run(play(ops))


async def play(ops: list[tuple[str, int]]) -> None:
    store, made = lay_out()
    clock, history = ManualClock(START - 100_000), History()
    witnesses = [TinyWitness(i, clock) for i in range(3)]
    sent: set[tuple[str, int]] = set()
    coordinator = Logged(store, clock, witnesses, sent=sent)
    coordinator.driver.prepare()
    for name, number in ops:
        if name in ("step", "go on"):
            at = await coordinator.step(who)
            if name == "go on" and at is not None:
                clock.advance(at - clock.now())
        elif name == "stop":
            if store.experiments()[number].standing is Standing.RUNNING:
                store.set_standing(made[number].digest, Standing.STOPPED)
        elif name == "crash":
            fragile = Fragile(store, number, after=bool(number % 2))
            with contextlib.suppress(CrashError):
                dying = fragile_coordinator(fragile, store, clock, witnesses, None, sent)
                try:
                    await dying.step(who)
                finally:
                    history.look(dying)
        elif name == "back":
            witnesses[number].instead = None
        elif name != "restart":
            witnesses[number].instead = away if name == "away" else silent(witnesses[number])
        if name in ("restart", "crash"):
            coordinator = Logged(store, clock, witnesses, sent=sent)
            coordinator.driver.prepare()
        history.look(coordinator)
    for witness in witnesses:
        witness.instead = None
    await coordinator.go(who)
    history.look(coordinator)
    history.check(coordinator, witnesses)
    assert not coordinator.logbook.halted


def silent(witness: TinyWitness) -> Any:
    """Cosigns and remembers, but its answer is lost."""

    def answer(body: bytes) -> Answer:
        witness.honest(body)
        return away(body)

    return answer
