"""The op-list simulation can fail: parties that are broken in one way each are found out within a few lists.

Each of them lacks something that the real ones have, and that the simulation is there for. What is found, and where in
the real source it stands, is told in docs/adr/0045.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from secvm.coordinator.counting import epoch_count as counting
from secvm.coordinator.driver import Driver
from secvm.coordinator.intake.opener import Opener
from secvm.coordinator.log.log_files import EntryLog
from secvm.coordinator.store import rules
from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.port import Ask, StoredRound
from secvm.participant import membership
from secvm.participant.consent.ledger import enter
from secvm.participant.plain.membership import PlainMembership
from secvm.participant.storage.state import DeviceState
from secvm.relay.store import RoundStore, accepted
from secvm.runtime.disk.group_commit import GroupCommit
from secvm.witness.store import WitnessStore
from secvm_lab.simulation import WEIGHTS, Simulation, SimulationError, draw
from secvm_lab.simulation.machines.lives import LIFE
from tests.effort import scaled
from tests.seeds import seed_for

#: So many lists at most, before something that is broken must have been found. One list in twenty and more finds it,
#: so that all of them fail by chance with probability at most 1e-6.
MOST = 300


def found(
    what: str,
    *,
    ways: tuple[str, ...] = ("direct", "round"),
    weights: Mapping[str, int] = WEIGHTS,
    lists: int = MOST,
) -> bool:
    """Whether one of so many lists finds this."""
    for number in range(lists):
        dice = random.Random(seed_for("broken", number))
        ops = draw(dice, most=16, weights=weights)
        try:
            Simulation(way=dice.choice(ways), rounds=dice.choice((1, 1, 2)), seed=dice.randrange(12)).play(ops)
        except SimulationError as fault:
            if what in str(fault):
                return True
    return False


def test_nothing_is_found_where_nothing_is_broken() -> None:
    assert not found("", lists=scaled(10, 40))


# ── counting ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Forgetful:
    """Kernels whose table of digests takes everything for new."""

    def __init__(self, real: Any) -> None:
        self.tally = real.tally
        self._real = real

    def Seen(self, key: bytes) -> Any:  # noqa: N802  (as the modules of kernels name it)
        table = self._real.Seen(key)

        class Table:
            def first(self, words: NDArray[np.uint64]) -> NDArray[np.bool_]:
                table.first(words)
                return np.ones(len(words), dtype=np.bool_)

            def take_sorted(self) -> NDArray[np.uint8]:
                taken: NDArray[np.uint8] = table.take_sorted()
                return taken

            def __len__(self) -> int:
                return len(table)

        return Table()


def test_a_count_that_knows_no_capsule_again_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = vars(counting)["kernels"]
    monkeypatch.setattr(counting, "kernels", lambda using=None: _Forgetful(real(using)))
    assert found("the tally is not the sum of what was received")


def test_an_opener_that_drops_what_it_has_opened_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = MemoryStore.replace_sealed

    def forget(self: MemoryStore, epoch: int, numbers: Any, block: bytes) -> None:
        real(self, epoch, numbers, block[64:])

    monkeypatch.setattr(MemoryStore, "replace_sealed", forget)
    assert found("acknowledged")


# ── commits and answers ──────────────────────────────────────────────────────────────────────────────────────────────


async def _hasty(self: GroupCommit[Any, Any], items: list[Any]) -> list[Any]:
    """Answers first, and commits a moment later, if there is one."""
    life = LIFE.get()

    def commit() -> None:
        if life is None or not life.dead:
            with contextlib.suppress(Exception):
                self._commit(items)

    asyncio.get_running_loop().call_later(1.0, commit)
    return [item.reply(None) if hasattr(item, "reply") else accepted() for item in items]


def test_who_answers_before_the_commit_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = GroupCommit._run

    async def run(self: GroupCommit[Any, Any], items: list[Any]) -> list[Any]:
        # Not the witnesses, whose answers are made of what they have decided.
        return await (_hasty if hasattr(items[0], "capsule") else real)(self, items)

    monkeypatch.setattr(GroupCommit, "_run", run)
    assert found("acknowledged", weights={"upload": 3, "crash": 4})


def test_a_store_that_forgets_a_commit_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def forgetting(real: Callable[..., bool]) -> Callable[..., bool]:
        def append(self: MemoryStore, *given: Any) -> bool:
            nonlocal calls
            calls += 1
            return True if calls % 20 == 0 else real(self, *given)

        return append

    for name in ("append_sealed", "deposit"):
        monkeypatch.setattr(MemoryStore, name, forgetting(getattr(MemoryStore, name)))
    assert found("acknowledged")


def test_a_relay_whose_commits_are_not_synced_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = RoundStore.__init__

    def unsynced(self: RoundStore, *given: Any, **named: Any) -> None:
        real(self, *given, **named)
        self._db.execute("PRAGMA synchronous = NORMAL")

    monkeypatch.setattr(RoundStore, "__init__", unsynced)
    with pytest.raises(SimulationError, match="the relay has acknowledged"):
        Simulation(way="round", seed=6).play([("upload", 3), ("crash", "relay", 0, 1), ("until", "over")])


def test_a_witness_whose_commits_are_not_synced_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = WitnessStore._changing

    @contextlib.contextmanager
    def changing(self: WitnessStore) -> Iterator[Any]:
        self._db.execute("PRAGMA synchronous = NORMAL")
        with real(self) as db:
            yield db

    monkeypatch.setattr(WitnessStore, "_changing", changing)
    assert found("has forgotten what it cosigned")


# ── driving ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_store_without_fences_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def unfenced(self: MemoryStore, *, by_anyone: bool = False) -> Iterator[Ask]:
        with self._changing() as ask:
            yield ask

    monkeypatch.setattr(MemoryStore, "driven", unfenced)
    assert found("was accepted under term", weights={"until": 2, "fail over": 4, "stall": 1})


def test_a_coordinator_that_announces_twice_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real, announce = Driver._announce, MemoryStore.announce

    def twice(self: Driver, book: Any, now: int) -> None:
        real(self, book, now)
        real(self, book, now + 1_000_000)

    def replace(self: MemoryStore, announced: StoredRound, blobs: Mapping[str, bytes]) -> None:
        with self._database.changing() as connection:
            where = "WHERE experiment = ? AND number = ?"
            connection.execute(f"DELETE FROM rounds {where}", (announced.experiment, announced.number))
        announce(self, announced, blobs)

    monkeypatch.setattr(Driver, "_announce", twice)
    monkeypatch.setattr(MemoryStore, "announce", replace)
    assert found("there is a second manifest")


def test_an_epoch_that_is_never_closed_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    # Packages that come while it is counted are acknowledged, and lost.
    monkeypatch.setattr(MemoryStore, "close_epoch", lambda _self, _epoch: None)
    monkeypatch.setattr(rules, "may_keep_shard", lambda *_given, **_named: None)
    assert found("")


def test_what_is_shown_without_its_quorum_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EntryLog, "seen", lambda _self, history: history.kinds)
    assert found("without its quorum")


# ── devices ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_ledger_that_is_written_after_sending_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def later(*given: Any) -> None:
        asyncio.get_running_loop().call_later(100, enter, *given)

    monkeypatch.setattr(membership, "enter", later)
    assert found("which its ledger on the disk has not")


def test_capsules_that_are_not_on_the_disk_when_they_are_sent_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = DeviceState.writing

    @contextlib.contextmanager
    def writing(self: DeviceState, *, durable: bool) -> Iterator[None]:
        # The ledger is, and what is believed; nothing else.
        durable = durable and not getattr(self, "sealing", False)
        with real(self, durable=durable):
            yield

    tell = PlainMembership.tell

    def telling(self: PlainMembership, event: Any, now: int) -> None:
        self._around.state.sealing = type(event).__name__ == "PackagesReady"  # type: ignore[attr-defined]
        try:
            tell(self, event, now)
        finally:
            self._around.state.sealing = False  # type: ignore[attr-defined]

    monkeypatch.setattr(DeviceState, "writing", writing)
    monkeypatch.setattr(PlainMembership, "tell", telling)
    assert found("sends more than", weights={"until": 3, "upload": 4, "crash": 6, "wait": 2})


def test_an_opener_that_gives_up_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def finish(_self: Opener, _epoch: int) -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(Opener, "finish", finish)
    assert found("this goes on for ever")
