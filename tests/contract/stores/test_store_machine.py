"""Random operations, with reopenings: every kind of store says what the memory store says."""

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from secvm.coordinator.store import rules
from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.port import CoordinatorStore, Deposit, Standing, StoredKey
from secvm.errors import LocalProtocolError
from secvm.protocol.round_state import RoundState
from tests.contract.stores.kinds import KINDS, Kind, announced, block, driven, experiment

EPOCHS = st.integers(1, 3)
NUMBERS = st.integers(1, 3)
EXPERIMENTS = st.sampled_from(["e", "f"])
GROUPS = st.lists(st.binary(min_size=1, max_size=8), max_size=3)
BLOCKS = st.lists(st.integers(0, 255), max_size=3).map(lambda fill: block(*fill))


class StoreMachine(RuleBasedStateMachine):
    kind: ClassVar[Kind]

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.model: CoordinatorStore = MemoryStore()
        self.store = driven(self.kind.make(Path(self.folder.name)))

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()

    def both(self, act: Callable[[CoordinatorStore], Any]) -> None:
        assert outcome(act, self.store) == outcome(act, self.model)

    @rule()
    def reopen(self) -> None:
        self.store = driven(self.kind.reopen(self.store, Path(self.folder.name)))

    @rule(name=EXPERIMENTS)
    def add_experiment(self, name: str) -> None:
        self.both(lambda s: s.add_experiment(experiment(name), {name: name.encode()}))

    @rule(name=EXPERIMENTS, standing=st.sampled_from(Standing))
    def set_standing(self, name: str, standing: Standing) -> None:
        self.both(lambda s: s.set_standing(name, standing))

    @rule(name=EXPERIMENTS, number=NUMBERS, epoch=EPOCHS, envelope=st.sampled_from([b"m", b"n"]))
    def announce(self, name: str, number: int, epoch: int, envelope: bytes) -> None:
        given = announced(number, of=name, epoch=epoch, envelope=envelope)
        self.both(lambda s: s.announce(given, {f"{name}{number}": envelope}))

    @rule(name=EXPERIMENTS, number=NUMBERS, state=st.sampled_from(RoundState))
    def set_state(self, name: str, number: int, state: RoundState) -> None:
        self.both(lambda s: s.set_state(name, number, state))

    @rule(name=EXPERIMENTS, number=NUMBERS)
    def run_to_closing(self, name: str, number: int) -> None:
        for state in (RoundState.OPEN, RoundState.CLOSING):
            self.both(lambda s, state=state: s.set_state(name, number, state))  # type: ignore[misc]

    @rule(name=EXPERIMENTS, number=NUMBERS, tally=st.sampled_from([None, "t", "u"]))
    def conclude(self, name: str, number: int, tally: str | None) -> None:
        blobs = {} if tally is None else {tally: tally.encode()}
        self.both(lambda s: s.conclude(name, number, tally=tally, next_state="s", blobs=blobs))

    @rule(at=st.integers(0, 5), entries=st.lists(st.sampled_from([b"a\n", b"b\n"]), max_size=2))
    def append_entries(self, at: int, entries: list[bytes]) -> None:
        self.both(lambda s: s.append_entries(at, entries))

    @rule(name=EXPERIMENTS, size=NUMBERS, root=st.sampled_from([b"r", b"s"]), note=st.sampled_from([b"n", b"m"]))
    def keep_note(self, name: str, size: int, root: bytes, note: bytes) -> None:
        self.both(lambda s: s.keep_note(name, size=size, root=root, note=note))

    @rule(name=EXPERIMENTS, index=st.integers(0, 1), record=st.sampled_from([b"x", b"y"]))
    def keep_beacon(self, name: str, index: int, record: bytes) -> None:
        self.both(lambda s: s.keep_beacon(name, index, record))

    @rule(epoch=EPOCHS, private=st.binary(min_size=1, max_size=4))
    def add_key(self, epoch: int, private: bytes) -> None:
        self.both(lambda s: s.add_key(StoredKey(epoch, epoch, private)))

    @rule(epoch=EPOCHS, private=st.binary(min_size=1, max_size=4))
    def add_fetch_key(self, epoch: int, private: bytes) -> None:
        self.both(lambda s: s.add_fetch_key(StoredKey(epoch, epoch, private)))
        self.both(lambda s: s.fetch_keys())

    @rule(epoch=EPOCHS)
    def forget_fetch_key(self, epoch: int) -> None:
        self.both(lambda s: s.forget_fetch_key(epoch))
        self.both(lambda s: s.fetch_keys())

    @rule(epoch=EPOCHS, groups=GROUPS)
    def append_sealed(self, epoch: int, groups: list[bytes]) -> None:
        self.both(lambda s: s.append_sealed(epoch, groups))

    @rule(epoch=EPOCHS, limit=st.integers(0, 3), data=BLOCKS)
    def open_oldest(self, epoch: int, limit: int, data: bytes) -> None:
        numbers = [number for number, _ in self.model.sealed(epoch, limit)]
        self.both(lambda s: s.replace_sealed(epoch, numbers, data))

    @rule(epoch=EPOCHS, numbers=st.lists(st.integers(1, 12), max_size=3), data=BLOCKS)
    def open_any(self, epoch: int, numbers: list[int], data: bytes) -> None:
        self.both(lambda s: s.replace_sealed(epoch, numbers, data))

    @rule(epoch=EPOCHS, relay=st.sampled_from(["r", "q"]), count=st.binary(max_size=4), groups=GROUPS)
    def deposit(self, epoch: int, relay: str, count: bytes, groups: list[bytes]) -> None:
        self.both(lambda s: s.deposit(Deposit(epoch, relay, count), groups))

    @rule(name=EXPERIMENTS, value=st.sampled_from([b"x", b"y"]))
    def agree(self, name: str, value: bytes) -> None:
        self.both(lambda s: s.agree(name, value))

    @rule(name=EXPERIMENTS, number=NUMBERS, seed=st.sampled_from([b"s", b"t"]))
    def begin_batch(self, name: str, number: int, seed: bytes) -> None:
        self.both(lambda s: s.begin_batch(name, number, seed))

    @rule(name=EXPERIMENTS, number=NUMBERS, index=st.integers(0, 1), data=st.sampled_from([b"x", b"y"]))
    def put_piece(self, name: str, number: int, index: int, data: bytes) -> None:
        self.both(lambda s: s.put_piece(name, number, index, data))

    @rule(name=EXPERIMENTS, number=NUMBERS, attempt=st.integers(0, 1))
    def drop_pieces(self, name: str, number: int, attempt: int) -> None:
        self.both(lambda s: s.drop_pieces(name, number, attempt))

    @rule(name=EXPERIMENTS, number=NUMBERS, attempt=st.integers(0, 1))
    def finish_batch(self, name: str, number: int, attempt: int) -> None:
        self.both(lambda s: s.finish_batch(name, number, attempt))

    @rule(name=EXPERIMENTS, number=NUMBERS, data=st.sampled_from([b"x", b"y"]))
    def count_a_run(self, name: str, number: int, data: bytes) -> None:
        self.both(lambda s: s.claim_run(name, number, 2))
        self.both(lambda s: s.keep_run(name, number, 0, data))

    @rule(name=EXPERIMENTS, number=NUMBERS)
    def forget_batch(self, name: str, number: int) -> None:
        self.both(lambda s: s.forget_batch(name, number))

    @rule(epoch=EPOCHS)
    def close_epoch(self, epoch: int) -> None:
        self.both(lambda s: s.close_epoch(epoch))

    @rule(epoch=EPOCHS)
    def scrub(self, epoch: int) -> None:
        self.both(lambda s: s.scrub(epoch))

    @invariant()
    def all_is_equal(self) -> None:
        self.both(lambda s: (s.experiments(), s.keys(), s.notes(), s.entries(), s.entries(1)))
        self.both(lambda s: s.batches())
        for name in ("e", "f"):
            self.both(lambda s, name=name: (s.rounds(name), s.beacons(name)))  # type: ignore[misc]
            self.both(lambda s, name=name: [_batch(s, name, number) for number in (1, 2, 3)])  # type: ignore[misc]
        for epoch in (1, 2, 3):
            self.both(lambda s, epoch=epoch: (s.sealed(epoch, 99), s.left_sealed(epoch), s.deposits(epoch)))  # type: ignore[misc]
            self.both(lambda s, epoch=epoch: settled(s.opened(epoch)))  # type: ignore[misc]
        for digest in ("e", "e1", "f2", "t", "u"):
            self.both(lambda s, digest=digest: s.blob(digest))  # type: ignore[misc]


def _batch(store: CoordinatorStore, name: str, number: int) -> object:
    """All that is known of a batch."""
    place = (name, number)
    pieces = [store.piece(*place, index) for index in (0, 1)]
    return (
        store.batch(*place),
        store.count_seed(*place),
        pieces,
        store.counted_runs(*place),
        store.run_result(*place, 0),
    )


def settled(blocks: Iterable[bytes]) -> list[bytes]:
    """Blocks whose records have the places that every store may give them."""
    return [rules.by_shard(data)[0] for data in blocks]


def outcome(act: Callable[[CoordinatorStore], Any], store: CoordinatorStore) -> object:
    try:
        return act(store)
    except (LocalProtocolError, KeyError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.name != "memory"], ids=lambda kind: kind.name)
def test_store_does_what_the_memory_store_does(kind: Kind) -> None:
    machine = type("Machine", (StoreMachine,), {"kind": kind})
    run_state_machine_as_test(machine, settings=settings(max_examples=kind.examples, stateful_step_count=40))
