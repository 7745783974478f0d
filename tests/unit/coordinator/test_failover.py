"""A driver that stops at any point, and wakes up when another one has driven on, changes nothing any more."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from secvm.coordinator.log.log_files import checkpoint_path
from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.port import CoordinatorStore, Standing
from secvm.errors import LocalProtocolError, StaleDriverError
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.log.checkpoints import read_checkpoint
from secvm.testing.clock import ManualClock
from tests.effort import scaled
from tests.unit.coordinator.rounds import Coordinator, add, crowd, experiment, few
from tests.unit.coordinator.test_node_view import Follower
from tests.unit.coordinator.witnesses import TERMS, Logged, TinyWitness, logged
from tests.unit.protocol.helpers import START

LEASE_S = 10.0


#: What only a driver may do; the rest reads.
CHANGES = {
    "announce", "set_state", "conclude", "add_key", "close_epoch", "scrub", "append_entries", "keep_note",
    "keep_beacon", "keep_blobs", "set_standing",
}  # fmt: skip


class StoppedError(Exception):
    """Stands for a process that stands still: what it would have done next is done later, by itself, or never."""


class Stopping:
    """A store that stops its user before the k-th change, or before it begins to count. What that call would have been
    can be made later.
    """

    def __init__(self, inside: CoordinatorStore, at: int) -> None:
        self._inside, self._left = inside, at
        #: What it was about to do, and all that it did before.
        self.late: Callable[[], Any] | None = None
        self.name = ""
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inside, name)
        if name not in CHANGES | {"opened"}:
            return method

        def call(*given: Any, **named: Any) -> Any:
            self.calls += 1
            self._left -= 1
            if self._left == 0:
                self.late, self.name = (lambda: method(*given, **named)), name
                raise StoppedError
            return method(*given, **named)

        return call


def who(one: Any) -> list[Any]:
    return few(one) if one.number == 1 and one.document.title == "other" else crowd(one)


def lay_out(steady: ManualClock, documents: list[ExperimentDocument]) -> MemoryStore:
    store = MemoryStore(steady)
    for of in documents:
        add(store, of)
    return store


def lead(store: MemoryStore, name: str) -> CoordinatorStore:
    term = store.lead(name, LEASE_S)
    assert term is not None
    return store.driving(term)


def content(store: MemoryStore) -> Any:
    """All that a store holds, but for who leads."""
    with store._database.reading() as connection:
        return [line for line in connection.iterdump() if 'INTO "driver"' not in line], dict(store._nodes.results)


DOCUMENTS = [experiment(rounds=2, title="one"), experiment(rounds=2, title="other")]


def undisturbed() -> tuple[dict[str, bytes], int]:
    clock = ManualClock(START - 100_000)
    store = lay_out(ManualClock(0), DOCUMENTS)
    stopping: Any = Stopping(lead(store, "only"), 0)
    only = Coordinator(stopping, clock)
    only.ingest.store = store
    asyncio.run(only.go(who))
    calls = stopping.calls
    return only.shown(), calls


def test_stopped_at_any_call_it_is_taken_over_and_does_nothing_when_it_wakes_up() -> None:
    expected, calls = undisturbed()
    fenced = 0
    for at in range(1, calls + 1, scaled(3, 1)):
        clock, steady, sent = ManualClock(START - 100_000), ManualClock(0), set[tuple[str, int]]()
        store = lay_out(steady, DOCUMENTS)
        stopping: Any = Stopping(lead(store, "first"), at)
        first = Coordinator(stopping, clock, sent=sent)
        first.ingest.store = store
        with pytest.raises(StoppedError):
            asyncio.run(first.go(who))
        # The lease runs out while it stands still; another one takes over and ends the matter.
        assert store.lead("second", LEASE_S) is None
        steady.advance(int(1000 * LEASE_S))
        second = Coordinator(lead(store, "second"), clock, sent=sent)
        second.ingest.store = store
        asyncio.run(second.go(who))
        assert second.shown() == expected
        before = content(store)
        # It goes on where it was: with that very call, and with whatever it believes to be due.
        if stopping.name in CHANGES:
            fenced += 1
            with pytest.raises(StaleDriverError):
                stopping.late()
        with pytest.raises(StaleDriverError):
            go_on(first)
        assert content(store) == before
        assert first.shown().items() <= (second.shown() | changing(first)).items()
    assert fenced > scaled(6, 20)


def go_on(first: Coordinator) -> None:
    asyncio.run(first.driver.step())
    # One that finds nothing due has nothing to do: then it is asked for something.
    first.driver.store.close_epoch(10**6)


def changing(coordinator: Coordinator) -> dict[str, bytes]:
    """What a coordinator shows that is another thing later."""
    return {path: one.data for path, one in coordinator.publisher._shown.items() if not one.lasting}


def test_a_stale_driver_makes_no_fork_and_halts_nobody() -> None:
    clock, steady, of = ManualClock(START - 100_000), ManualClock(0), logged(rounds=3)
    store = lay_out(steady, [of])
    witnesses = [TinyWitness(number, clock) for number in range(3)]
    sent = set[tuple[str, int]]()
    first = Logged(lead(store, "first"), clock, witnesses, sent=sent)
    first.ingest.store = store
    asyncio.run(first.go(until=lambda: bool(sent)))
    steady.advance(int(1000 * LEASE_S))
    second = Logged(lead(store, "second"), clock, witnesses, sent=sent)
    second.ingest.store = store
    asyncio.run(second.go(until=lambda: len(sent) == 2))
    cosigned = [set(map(repr, witness.cosigned)) for witness in witnesses]
    before = content(store)
    # It asks witnesses about the log as it knows it; they have seen more, which would halt a log.
    first.logbook.lines = {}
    with pytest.raises(StaleDriverError):
        asyncio.run(first.cosigner.ask_all())
    assert first.logbook.halted
    assert content(store) == before
    assert [set(map(repr, witness.cosigned)) for witness in witnesses] == cosigned
    assert store.experiments()[0].standing is Standing.RUNNING
    follower = Follower(store.another_node(), clock, TERMS)
    follower.following.read()
    found = follower.publisher.public(checkpoint_path(of.digest))
    assert found is not None
    assert read_checkpoint(found[0], log=first.logbook.key).checkpoint.size == 3


# ── the operator at another node ─────────────────────────────────────────────────────────────────────────────────────


class Interfering:
    """A store in which the operator speaks, at another node, just before the driver's first call of a name."""

    def __init__(self, inside: CoordinatorStore, name: str, speak: Callable[[], None]) -> None:
        self._inside, self._name, self._speak = inside, name, speak
        self.spoken = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inside, name)
        if name == self._name and not self.spoken:
            self.spoken = True
            self._speak()
        return method


@pytest.mark.parametrize("standing", [Standing.PAUSED, Standing.STOPPED])
def test_no_round_is_announced_after_the_operator_was_answered_at_another_node(standing: Standing) -> None:
    clock, of = ManualClock(START - 100_000), experiment(rounds=2)
    store = lay_out(ManualClock(0), [of])
    # The book was read while it ran; the manifest is being made when the operator is answered.
    interfering: Any = Interfering(
        lead(store, "driver"), "announce", lambda: store.another_node().set_standing(of.digest, standing)
    )
    driver = Coordinator(interfering, clock)
    asyncio.run(driver.driver.step())
    assert interfering.spoken
    assert store.rounds(of.digest) == []
    assert store.experiments()[0].standing is standing
    asyncio.run(driver.driver.step())
    assert store.rounds(of.digest) == []
    if standing is Standing.PAUSED:
        store.set_standing(of.digest, Standing.RUNNING)
        asyncio.run(driver.driver.step())
        assert len(store.rounds(of.digest)) == 1
    else:
        with pytest.raises(LocalProtocolError, match="stays so"):
            store.set_standing(of.digest, Standing.RUNNING)


def test_a_stop_that_comes_as_the_last_round_ends_is_not_undone() -> None:
    clock, of = ManualClock(START - 100_000), experiment(rounds=1)
    store = lay_out(ManualClock(0), [of])
    interfering: Any = Interfering(
        lead(store, "driver"), "set_standing", lambda: store.another_node().set_standing(of.digest, Standing.STOPPED)
    )
    driver = Coordinator(interfering, clock)
    driver.ingest.store = store
    asyncio.run(driver.go())
    assert interfering.spoken
    assert store.experiments()[0].standing is Standing.STOPPED
