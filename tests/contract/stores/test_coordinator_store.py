"""Every promise of ``coordinator.store.port``, on every kind of store."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from secvm.coordinator.store.port import CoordinatorStore, Deposit, Standing, StoredKey, StoredNote
from secvm.errors import LocalProtocolError
from secvm.protocol.round_state import RoundState
from tests.contract.stores.kinds import Kind, announced, block, driven, experiment
from tests.rigs.opened_blocks import put_opened

KEY = StoredKey(epoch=7, key_id=7, private=b"p" * 32)
DEPOSIT = Deposit(epoch=7, relay="relay", count=b"signed count")
Act = Callable[[CoordinatorStore], object]


@pytest.fixture
def started(store: CoordinatorStore) -> CoordinatorStore:
    store.add_experiment(experiment(), {"state": b"start"})
    return store


def content(store: CoordinatorStore) -> object:
    """All that a store shows of what these tests put into it."""
    return (
        store.experiments(), store.rounds("e"), store.rounds("f"), store.keys(), store.fetch_keys(), store.notes(),
        store.entries(), store.beacons("e"),
        [
            (store.sealed(epoch, 99), store.left_sealed(epoch), list(store.opened(epoch)), store.deposits(epoch))
            for epoch in (7, 8)
        ],
        [blob_or_nothing(store, name) for name in ("state", "t", "s", "other")],
    )  # fmt: skip


def blob_or_nothing(store: CoordinatorStore, name: str) -> bytes | None:
    try:
        return store.blob(name)
    except KeyError:
        return None


def test_new_store_is_empty(store: CoordinatorStore) -> None:
    assert content(store) == ([], [], [], [], [], [], [], {}, [([], False, [], [])] * 2, [None] * 4)


# ── what may happen twice, and what is refused ───────────────────────────────────────────────────────────────────────


def stand(standing: Standing) -> Act:
    return lambda store: store.set_standing("e", standing)


def announce(
    *, of: str = "e", number: int = 1, epoch: int = 1, envelope: bytes = b"manifest", **changes: object
) -> Act:
    given = replace(announced(number, of=of, epoch=epoch, envelope=envelope), **changes)  # type: ignore[arg-type]
    return lambda store: store.announce(given, {"other": b"blob"})


def turn(*states: RoundState, number: int = 1) -> Act:
    def act(store: CoordinatorStore) -> None:
        announce()(store)
        for state in states:
            store.set_state("e", number, state)

    return act


def conclude(tally: str | None = "t", next_state: str = "s", *, number: int = 1) -> Act:
    blobs = {} if tally is None else {"t": b"tally", "s": b"state"}
    return lambda store: store.conclude("e", number, tally=tally, next_state=next_state, blobs=blobs)


def concluded(store: CoordinatorStore) -> None:
    turn(RoundState.OPEN, RoundState.CLOSING)(store)
    conclude()(store)


def append(*groups: bytes, epoch: int = 7) -> Act:
    return lambda store: store.append_sealed(epoch, groups)


def one_of_two_opened(store: CoordinatorStore) -> None:
    append(b"a", b"b")(store)
    open_groups(0)(store)


def open_groups(*places: int, epoch: int = 7, data: bytes = block(1)) -> Act:
    """The groups that stand at these places among those of epoch 7, as if they were of this one."""

    def act(store: CoordinatorStore) -> None:
        numbers = [number for number, _ in store.sealed(7, 99)]
        store.replace_sealed(epoch, [numbers[place] for place in places], data)

    return act


def note(size: int, root: bytes, data: bytes = b"note") -> Act:
    return lambda store: store.keep_note("log", size=size, root=root, note=data)


def nothing(_store: CoordinatorStore) -> None:
    pass


def each(*acts: Act) -> Act:
    def act(store: CoordinatorStore) -> None:
        for one in acts:
            one(store)

    return act


def deposit(store: CoordinatorStore) -> None:
    store.deposit(DEPOSIT, [b"a"])


def close(store: CoordinatorStore) -> None:
    store.close_epoch(7)


def scrub(store: CoordinatorStore) -> None:
    store.scrub(7)


def add(**changes: bytes) -> Act:
    return lambda store: store.add_experiment(replace(experiment(), **changes), {"other": b"blob"})  # type: ignore[arg-type]


FINAL = (Standing.STOPPED, Standing.FINISHED)
#: What was done before, and what is refused then.
REFUSED: dict[str, tuple[Act, Act]] = {
    "experiment with another envelope": (nothing, add(envelope=b"another")),
    "experiment with other settings": (nothing, add(settings=b'{"a":1}')),
    "standing of no experiment": (nothing, lambda store: store.set_standing("f", Standing.PAUSED)),
    **{
        f"{ended.value} becomes {other.value}": (stand(ended), stand(other))
        for ended in FINAL
        for other in Standing
        if other is not ended
    },
    **{f"round while {other.value}": (stand(other), announce()) for other in Standing if other is not Standing.RUNNING},
    "round of no experiment": (nothing, announce(of="f")),
    "round with another manifest": (announce(), announce(envelope=b"another manifest")),
    "round in another epoch": (announce(), announce(epoch=2)),
    "round that begins open": (nothing, announce(state=RoundState.OPEN)),
    "round that begins with a tally": (nothing, announce(tally="t")),
    "round that begins with its end": (nothing, announce(next_state="s")),
    **{
        f"announced becomes {state.value}": (announce(), turn(state))
        for state in RoundState
        if state not in (RoundState.ANNOUNCED, RoundState.OPEN)
    },
    "tallied by its state alone": (turn(RoundState.OPEN, RoundState.CLOSING), turn(RoundState.TALLIED)),
    "abandoned by its state alone": (turn(RoundState.OPEN, RoundState.CLOSING), turn(RoundState.ABANDONED)),
    "state of no round": (announce(), turn(RoundState.OPEN, number=2)),
    "end of no round": (announce(), conclude(number=2)),
    "end of an open round": (turn(RoundState.OPEN), conclude()),
    "end with another tally": (concluded, conclude("other")),
    "end with another state": (concluded, conclude(next_state="other")),
    "end without its tally": (concluded, conclude(None)),
    "key with an id of two bytes": (nothing, lambda store: store.add_key(replace(KEY, key_id=256))),
    "fetch key with an id of two bytes": (nothing, lambda store: store.add_fetch_key(replace(KEY, key_id=256))),
    "key of a scrubbed epoch": (scrub, lambda store: store.add_key(KEY)),
    "groups of which one is opened": (one_of_two_opened, lambda store: store.replace_sealed(7, [1, 2], block(1, 2))),
    "group that is named twice": (one_of_two_opened, open_groups(0, 0)),
    "half a record": (append(b"a"), open_groups(0, data=b"x" * 65)),
    **{
        f"entries after {at} of 2": (
            lambda store: store.append_entries(0, [b"a\n", b"b\n"]),
            lambda store, at=at: store.append_entries(at, [b"x\n"]),  # type: ignore[misc]
        )
        for at in (0, 1, 3)
    },
    "smaller note": (note(3, b"r3"), note(2, b"r3")),
    "note with another root": (note(3, b"r3"), note(3, b"other")),
    "empty note": (note(3, b"r3"), note(0, b"")),
    "another record of a beacon": (
        lambda store: store.keep_beacon("e", 0, b"first"), lambda store: store.keep_beacon("e", 0, b"other"),
    ),
    "beacon of no experiment": (nothing, lambda store: store.keep_beacon("f", 0, b"first")),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_contradicts_what_is_there_is_refused_and_changes_nothing(started: CoordinatorStore, name: str) -> None:
    before, refused = REFUSED[name]
    before(started)
    there = content(started)
    with pytest.raises(LocalProtocolError):
        refused(started)
    assert content(started) == there


#: What was done before, and what changes nothing when it is asked for again.
TWICE: dict[str, tuple[Act, Act]] = {
    "experiment whose standing changed": (stand(Standing.PAUSED), add()),
    **{f"{standing.value}": (stand(standing), stand(standing)) for standing in Standing},
    "manifest of a round that is open": (turn(RoundState.OPEN), announce()),
    "manifest while paused": (each(announce(), stand(Standing.PAUSED)), announce()),
    "state that it is in": (turn(RoundState.OPEN), lambda store: store.set_state("e", 1, RoundState.OPEN)),
    "end": (concluded, conclude()),
    "end of a published round": (
        each(concluded, lambda store: store.set_state("e", 1, RoundState.PUBLISHED)), conclude(),
    ),
    "other bytes under a name": (nothing, lambda store: store.keep_blobs({"state": b"second"})),
    "another key of an epoch": (
        lambda store: store.add_key(KEY), lambda store: store.add_key(replace(KEY, private=b"q" * 32)),
    ),
    "group that is opened, though a later one came": (
        each(append(b"a"), open_groups(0), append(b"b")),
        lambda store: store.replace_sealed(7, [1], block(1)),
    ),
    "group of another epoch": (append(b"a"), open_groups(0, epoch=8)),
    "deposit of a relay": (
        deposit,
        lambda store: store.deposit(replace(DEPOSIT, count=b"another count"), [b"c"]),
    ),
    "what comes into a closed epoch": (
        each(append(b"a"), close),
        each(append(b"b"), deposit, close),
    ),
    "what comes into a scrubbed epoch": (
        each(deposit, scrub),
        each(append(b"b"), deposit, scrub),
    ),
    "no entries": (lambda store: store.append_entries(0, [b"a\n"]), lambda store: store.append_entries(1, [])),
    "note": (note(3, b"r3"), note(3, b"r3")),
    "record of a beacon": (
        lambda store: store.keep_beacon("e", 0, b"first"), lambda store: store.keep_beacon("e", 0, b"first"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TWICE)
def test_what_is_there_already_changes_nothing(started: CoordinatorStore, name: str) -> None:
    before, again = TWICE[name]
    before(started)
    there = content(started)
    again(started)
    assert content(started) == there


# ── experiments, rounds, blobs ───────────────────────────────────────────────────────────────────────────────────────


def test_experiments_stand_in_the_order_they_were_added(store: CoordinatorStore) -> None:
    for name in ("z", "a", "m"):
        store.add_experiment(experiment(name), {f"state of {name}": name.encode()})
    assert store.experiments() == [experiment("z"), experiment("a"), experiment("m")]
    assert store.blob("state of m") == b"m"


@pytest.mark.parametrize("standing", Standing)
def test_standing_is_kept(started: CoordinatorStore, standing: Standing) -> None:
    started.set_standing("e", standing)
    assert started.experiments() == [replace(experiment(), standing=standing)]


def test_nodes_agree_on_what_the_first_one_said(kind: Kind, store: CoordinatorStore, tmp_path: Path) -> None:
    assert store.agree("salt", b"first") == b"first"
    assert store.agree("salt", b"second") == b"first"
    assert store.agree("other", b"second") == b"second"
    again = driven(kind.reopen(store, tmp_path))
    assert again.agree("salt", b"third") == b"first"
    again.close()


def test_rounds_stand_ascending_and_apart_by_experiment(started: CoordinatorStore) -> None:
    started.add_experiment(experiment("f"), {})
    for number in (2, 10, 1):
        started.announce(announced(number), {f"weights {number}": b"w"})
    started.announce(announced(1, of="f", envelope=b"of f"), {})
    assert started.rounds("e") == [announced(1), announced(2), announced(10)]
    assert [held.envelope for held in started.rounds("f")] == [b"of f"]
    assert started.blob("weights 10") == b"w"


def test_round_goes_through_its_states(started: CoordinatorStore) -> None:
    concluded(started)
    (held,) = started.rounds("e")
    assert (held.state, held.tally, held.next_state) == (RoundState.TALLIED, "t", "s")
    assert (started.blob("t"), started.blob("s")) == (b"tally", b"state")
    started.set_state("e", 1, RoundState.PUBLISHED)
    assert started.rounds("e")[0].state is RoundState.PUBLISHED


def test_round_without_enough_people_is_abandoned(started: CoordinatorStore) -> None:
    turn(RoundState.OPEN, RoundState.CLOSING)(started)
    for _ in range(2):
        conclude(None, "state")(started)
    (held,) = started.rounds("e")
    assert (held.state, held.tally, held.next_state) == (RoundState.ABANDONED, None, "state")


# ── epochs ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_keys_stand_by_epoch_and_fetch_keys_outlive_a_scrub(store: CoordinatorStore) -> None:
    earlier = replace(KEY, epoch=3)
    assert [store.add_key(KEY), store.add_key(replace(KEY, private=b"q" * 32)), store.add_key(earlier)] == [
        KEY,
        KEY,
        earlier,
    ]
    assert store.keys() == [earlier, KEY]
    first, second = StoredKey(7, 7, b"f" * 32), StoredKey(263, 7, b"g" * 32)
    for key in (second, first, replace(first, private=b"q" * 32)):
        assert store.add_fetch_key(key).private == (first if key.epoch == 7 else second).private
    store.scrub(7)
    assert (store.keys(), store.fetch_keys()) == ([earlier], [first, second])
    for _ in range(2):
        store.forget_fetch_key(7)
    assert store.fetch_keys() == [second]


def test_groups_come_back_oldest_first_and_are_replaced_by_their_block(store: CoordinatorStore) -> None:
    assert store.append_sealed(7, [b"a", b"b"])
    assert store.append_sealed(8, [b"other"])
    assert store.append_sealed(7, [b"c"])
    groups = store.sealed(7, 10)
    assert [data for _, data in groups] == [b"a", b"b", b"c"]
    assert [number for number, _ in groups] == sorted({number for number, _ in groups})
    assert (store.sealed(7, 2), store.sealed(7, 0)) == (groups[:2], [])
    for _ in range(2):
        store.replace_sealed(7, [number for number, _ in groups[:2]], block(1, 2))
    assert (store.sealed(7, 10), store.left_sealed(7), list(store.opened(7))) == (groups[2:], True, [block(1, 2)])
    # Also in a closed epoch, and where nothing in it was a package.
    store.close_epoch(7)
    store.replace_sealed(7, [groups[2][0]], b"")
    assert (store.sealed(7, 10), store.left_sealed(7), list(store.opened(7))) == ([], False, [block(1, 2)])
    assert store.left_sealed(8)
    store.scrub(8)
    assert not store.left_sealed(8)


def test_blocks_come_back_in_order_while_others_are_written(store: CoordinatorStore) -> None:
    for epoch, data in ((7, block(1)), (8, block(9)), (7, block(2, 3)), (7, b"")):
        assert put_opened(store, epoch, data)
    blocks = store.opened(7)
    assert next(blocks) == block(1)
    assert store.append_sealed(8, [b"a"])
    store.scrub(6)
    assert list(blocks) == [block(2, 3)]


def test_closed_epoch_takes_nothing_and_others_do(store: CoordinatorStore) -> None:
    store.close_epoch(7)
    assert not store.append_sealed(7, [b"b"])
    assert not store.deposit(DEPOSIT, [b"c"])
    assert store.append_sealed(8, [b"b"])


def test_relays_deposit_side_by_side(store: CoordinatorStore) -> None:
    second = Deposit(epoch=7, relay="another relay", count=b"its count")
    for _ in range(2):
        assert store.deposit(DEPOSIT, [b"a"])
        assert store.deposit(second, [b"b"])
        store.close_epoch(7)
    assert store.deposits(7) == [second, DEPOSIT]
    assert [data for _, data in store.sealed(7, 10)] == [b"a", b"b"]


def test_scrubbed_epoch_keeps_only_counts_of_relays(store: CoordinatorStore) -> None:
    store.add_key(KEY)
    store.deposit(DEPOSIT, [b"a"])
    put_opened(store, 7, block(1))
    other = store.add_key(replace(KEY, epoch=8))
    store.append_sealed(8, [b"stays"])
    store.scrub(7)
    assert (store.sealed(7, 10), list(store.opened(7)), store.keys()) == ([], [], [other])
    assert store.deposits(7) == [DEPOSIT]
    assert store.deposit(DEPOSIT, [b"a"])
    assert not store.append_sealed(7, [b"a"])
    assert [data for _, data in store.sealed(8, 10)] == [b"stays"]


def test_reading_ends_when_the_epoch_is_scrubbed(store: CoordinatorStore) -> None:
    put_opened(store, 7, block(1))
    put_opened(store, 7, block(2))
    blocks = store.opened(7)
    next(blocks)
    store.scrub(7)
    # What was fetched before may still come; nothing is fetched any more.
    assert list(blocks) in ([], [block(2)])
    assert list(store.opened(7)) == []


# ── as a whole ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_everything_is_there_again_after_reopening(kind: Kind, tmp_path: Path) -> None:
    store = driven(kind.make(tmp_path))
    store.add_experiment(experiment(), {"state": b"start"})
    concluded(store)
    store.set_standing("e", Standing.FINISHED)
    store.add_key(KEY)
    store.deposit(DEPOSIT, [b"a", b"b"])
    put_opened(store, 7, block(1))
    store.close_epoch(6)
    store.scrub(5)
    store.append_entries(0, [b"a\n", b"b\n", b"a\n"])
    note(1, b"r1")(store)
    note(1, b"r1", b"renewed")(store)
    note(3, b"r3", b"three")(store)
    store.keep_note("a", size=2, root=b"r2", note=b"two")
    store.keep_beacon("e", 1, b"second")
    store.keep_beacon("e", 0, b"first")
    before = content(store)
    store = driven(kind.reopen(store, tmp_path))
    assert content(store) == before
    assert [store.entries(since) for since in (0, 2, 3, 9)] == [[b"a\n", b"b\n", b"a\n"], [b"a\n"], [], []]
    assert store.notes() == [StoredNote("a", 2, b"r2", b"two"), StoredNote("log", 3, b"r3", b"three")]
    assert list(store.beacons("e").items()) == [(0, b"first"), (1, b"second")]
    assert store.beacons("f") == {}
    assert not store.append_sealed(6, [b"c"])
    assert not store.append_sealed(5, [b"c"])
    store.close()


def test_threads_append_side_by_side(store: CoordinatorStore) -> None:
    def append_twenty(name: int) -> None:
        for i in range(20):
            assert store.append_sealed(7, [bytes([name, i])])

    threads = [threading.Thread(target=append_twenty, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    groups = [data for _, data in store.sealed(7, 1000)]
    assert sorted(groups) == [bytes([name, i]) for name in range(4) for i in range(20)]
    for name in range(4):
        assert [data[1] for data in groups if data[0] == name] == list(range(20))


def test_private_key_does_not_print_itself(store: CoordinatorStore) -> None:
    store.add_key(KEY)
    store.add_fetch_key(KEY)
    assert "ppp" not in repr(store.keys()) + repr(store.fetch_keys()) + repr(store)
