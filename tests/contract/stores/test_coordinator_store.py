"""Every promise of ``coordinator.store.port``, on every kind of store."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from secvm.coordinator.store.port import (
    CoordinatorStore,
    Deposit,
    Standing,
    StoredExperiment,
    StoredKey,
    StoredNote,
    StoredRound,
)
from secvm.errors import LocalProtocolError
from secvm.protocol.round_state import RoundState
from tests.contract.stores.kinds import Kind, announced, block, driven, experiment
from tests.rigs.opened_blocks import put_opened

KEY = StoredKey(epoch=7, key_id=7, private=b"p" * 32)
DEPOSIT = Deposit(epoch=7, relay="relay", count=b"signed count")


@pytest.fixture
def started(store: CoordinatorStore) -> CoordinatorStore:
    store.add_experiment(experiment(), {"state": b"start"})
    return store


def to_closing(store: CoordinatorStore, number: int = 1) -> None:
    store.announce(announced(number), {})
    store.set_state("e", number, RoundState.OPEN)
    store.set_state("e", number, RoundState.CLOSING)


# ── experiments ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_new_store_is_empty(store: CoordinatorStore) -> None:
    assert (store.experiments(), store.keys(), store.rounds("e"), store.deposits(1)) == ([], [], [], [])
    assert (store.sealed(1, 10), list(store.opened(1))) == ([], [])
    with pytest.raises(KeyError):
        store.blob("state")


def test_experiments_stand_in_the_order_they_were_added(store: CoordinatorStore) -> None:
    for name in ("z", "a", "m"):
        store.add_experiment(experiment(name), {f"state of {name}": name.encode()})
    assert [held.digest for held in store.experiments()] == ["z", "a", "m"]
    assert store.experiments()[1] == experiment("a")
    assert store.blob("state of m") == b"m"


def test_same_experiment_again_changes_nothing_not_even_its_standing(started: CoordinatorStore) -> None:
    started.set_standing("e", Standing.PAUSED)
    started.add_experiment(experiment(), {"other": b"blob"})
    assert [held.standing for held in started.experiments()] == [Standing.PAUSED]


@pytest.mark.parametrize(
    "other",
    [replace(experiment(), envelope=b"another"), replace(experiment(), settings=b'{"a":1}')],
    ids=["envelope", "settings"],
)
def test_other_bytes_under_an_experiments_digest_are_refused(
    started: CoordinatorStore, other: StoredExperiment
) -> None:
    with pytest.raises(LocalProtocolError):
        started.add_experiment(other, {"other": b"blob"})
    assert started.experiments() == [experiment()]
    with pytest.raises(KeyError):
        started.blob("other")


@pytest.mark.parametrize("standing", Standing)
def test_standing_is_kept(started: CoordinatorStore, standing: Standing) -> None:
    started.set_standing("e", standing)
    assert started.experiments() == [replace(experiment(), standing=standing)]


def test_standing_of_an_unknown_experiment_is_refused(store: CoordinatorStore) -> None:
    with pytest.raises(LocalProtocolError):
        store.set_standing("e", Standing.PAUSED)


@pytest.mark.parametrize("ended", [Standing.STOPPED, Standing.FINISHED])
def test_what_is_over_stays_so(started: CoordinatorStore, ended: Standing) -> None:
    for _ in range(2):
        started.set_standing("e", ended)
    for other in set(Standing) - {ended}:
        with pytest.raises(LocalProtocolError, match="stays so"):
            started.set_standing("e", other)
    assert started.experiments()[0].standing is ended


@pytest.mark.parametrize("standing", [Standing.PAUSED, Standing.STOPPED, Standing.FINISHED])
def test_no_round_is_announced_of_an_experiment_that_does_not_run(
    started: CoordinatorStore, standing: Standing
) -> None:
    started.announce(announced(1), {})
    started.set_standing("e", standing)
    started.announce(announced(1), {})
    with pytest.raises(LocalProtocolError, match=standing.value):
        started.announce(announced(2), {"w": b"w"})
    assert started.rounds("e") == [announced(1)]


def test_bytes_that_are_kept_under_a_name_stay(store: CoordinatorStore) -> None:
    store.keep_blobs({"a": b"first", "b": b"other"})
    store.keep_blobs({"a": b"second"})
    assert (store.blob("a"), store.blob("b")) == (b"first", b"other")


def test_nodes_agree_on_what_the_first_one_said(kind: Kind, store: CoordinatorStore, tmp_path: Path) -> None:
    assert store.agree("salt", b"first") == b"first"
    assert store.agree("salt", b"second") == b"first"
    assert store.agree("other", b"second") == b"second"
    again = driven(kind.reopen(store, tmp_path))
    assert again.agree("salt", b"third") == b"first"
    again.close()


# ── rounds ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_rounds_stand_ascending(started: CoordinatorStore) -> None:
    for number in (2, 10, 1):
        started.announce(announced(number), {f"weights {number}": b"w"})
    assert started.rounds("e") == [announced(1), announced(2), announced(10)]
    assert started.blob("weights 10") == b"w"


def test_same_manifest_again_changes_nothing(started: CoordinatorStore) -> None:
    started.announce(announced(1), {})
    started.set_state("e", 1, RoundState.OPEN)
    started.announce(announced(1), {})
    assert started.rounds("e") == [replace(announced(1), state=RoundState.OPEN)]


@pytest.mark.parametrize(
    "second", [announced(1, envelope=b"another manifest"), announced(1, epoch=2)], ids=["manifest", "epoch"]
)
def test_second_manifest_for_a_round_is_refused(started: CoordinatorStore, second: StoredRound) -> None:
    started.announce(announced(1), {})
    with pytest.raises(LocalProtocolError):
        started.announce(second, {"other": b"blob"})
    assert started.rounds("e") == [announced(1)]
    with pytest.raises(KeyError):
        started.blob("other")


def test_two_experiments_have_rounds_of_the_same_number(started: CoordinatorStore) -> None:
    started.add_experiment(experiment("f"), {})
    started.announce(announced(1), {})
    started.announce(announced(1, of="f", envelope=b"of f"), {})
    assert [started.rounds(name)[0].envelope for name in "ef"] == [b"manifest 1", b"of f"]


def test_round_of_an_unknown_experiment_is_refused(store: CoordinatorStore) -> None:
    with pytest.raises(LocalProtocolError):
        store.announce(announced(1), {})
    assert store.rounds("e") == []


def test_round_begins_announced_and_without_a_tally(started: CoordinatorStore) -> None:
    for wrong in (
        replace(announced(1), state=RoundState.OPEN),
        replace(announced(1), tally="t"),
        replace(announced(1), next_state="s"),
    ):
        with pytest.raises(LocalProtocolError):
            started.announce(wrong, {})
    assert started.rounds("e") == []


def test_round_goes_through_its_states(started: CoordinatorStore) -> None:
    to_closing(started)
    started.conclude("e", 1, tally="t", next_state="s", blobs={"t": b"tally", "s": b"state"})
    assert started.rounds("e") == [replace(announced(1), state=RoundState.TALLIED, tally="t", next_state="s")]
    assert (started.blob("t"), started.blob("s")) == (b"tally", b"state")
    started.set_state("e", 1, RoundState.PUBLISHED)
    assert started.rounds("e")[0].state is RoundState.PUBLISHED


def test_round_without_enough_people_is_abandoned(started: CoordinatorStore) -> None:
    to_closing(started)
    for _ in range(2):
        started.conclude("e", 1, tally=None, next_state="state", blobs={})
    assert started.rounds("e") == [replace(announced(1), state=RoundState.ABANDONED, next_state="state")]


def test_state_it_is_in_already_changes_nothing(started: CoordinatorStore) -> None:
    started.announce(announced(1), {})
    for _ in range(2):
        started.set_state("e", 1, RoundState.OPEN)
    assert started.rounds("e")[0].state is RoundState.OPEN


@pytest.mark.parametrize("state", [s for s in RoundState if s not in (RoundState.ANNOUNCED, RoundState.OPEN)])
def test_what_is_not_in_the_table_does_not_happen(started: CoordinatorStore, state: RoundState) -> None:
    started.announce(announced(1), {})
    with pytest.raises(LocalProtocolError):
        started.set_state("e", 1, state)
    assert started.rounds("e")[0].state is RoundState.ANNOUNCED


def test_round_is_not_concluded_by_its_state_alone(started: CoordinatorStore) -> None:
    to_closing(started)
    for state in (RoundState.TALLIED, RoundState.ABANDONED):
        with pytest.raises(LocalProtocolError):
            started.set_state("e", 1, state)


def test_round_that_does_not_exist_changes_nothing(started: CoordinatorStore) -> None:
    with pytest.raises(LocalProtocolError):
        started.set_state("e", 1, RoundState.OPEN)
    with pytest.raises(LocalProtocolError):
        started.conclude("e", 1, tally="t", next_state="s", blobs={})


def test_same_conclusion_again_changes_nothing_also_when_published(started: CoordinatorStore) -> None:
    to_closing(started)
    for _ in range(2):
        started.conclude("e", 1, tally="t", next_state="s", blobs={"t": b"tally"})
    started.set_state("e", 1, RoundState.PUBLISHED)
    started.conclude("e", 1, tally="t", next_state="s", blobs={"t": b"tally"})
    assert started.rounds("e")[0].state is RoundState.PUBLISHED


@pytest.mark.parametrize(("tally", "next_state"), [("other", "s"), ("t", "other"), (None, "s")])
def test_another_conclusion_is_refused(started: CoordinatorStore, tally: str | None, next_state: str) -> None:
    to_closing(started)
    started.conclude("e", 1, tally="t", next_state="s", blobs={})
    with pytest.raises(LocalProtocolError):
        started.conclude("e", 1, tally=tally, next_state=next_state, blobs={})
    assert (started.rounds("e")[0].tally, started.rounds("e")[0].next_state) == ("t", "s")


def test_open_round_is_not_concluded(started: CoordinatorStore) -> None:
    started.announce(announced(1), {})
    started.set_state("e", 1, RoundState.OPEN)
    with pytest.raises(LocalProtocolError):
        started.conclude("e", 1, tally="t", next_state="s", blobs={"t": b"tally"})
    with pytest.raises(KeyError):
        started.blob("t")


# ── epochs ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_epoch_has_one_key(store: CoordinatorStore) -> None:
    assert store.add_key(KEY) == KEY
    assert store.add_key(replace(KEY, private=b"q" * 32)) == KEY
    earlier = StoredKey(epoch=3, key_id=3, private=b"r" * 32)
    store.add_key(earlier)
    assert store.keys() == [earlier, KEY]


def test_key_id_is_one_byte(store: CoordinatorStore) -> None:
    for add in (store.add_key, store.add_fetch_key):
        with pytest.raises(LocalProtocolError):
            add(replace(KEY, key_id=256))
    assert (store.keys(), store.fetch_keys()) == ([], [])


def test_epoch_has_one_fetch_key_which_outlives_its_scrub_and_is_forgotten_alone(store: CoordinatorStore) -> None:
    first, second = StoredKey(7, 7, b"f" * 32), StoredKey(263, 7, b"g" * 32)
    store.add_key(KEY)
    store.add_fetch_key(second)
    assert store.add_fetch_key(first) == first
    assert store.add_fetch_key(replace(first, private=b"q" * 32)) == first
    store.close_epoch(KEY.epoch)
    store.scrub(KEY.epoch)
    assert (store.keys(), store.fetch_keys()) == ([], [first, second])
    for _ in range(2):
        store.forget_fetch_key(7)
    assert store.fetch_keys() == [second]


def test_groups_come_back_oldest_first_with_numbers_of_their_own(store: CoordinatorStore) -> None:
    assert store.append_sealed(7, [b"a", b"b"])
    assert store.append_sealed(8, [b"other"])
    assert store.append_sealed(7, [b"c"])
    groups = store.sealed(7, 10)
    assert [data for _, data in groups] == [b"a", b"b", b"c"]
    assert [number for number, _ in groups] == sorted({number for number, _ in groups})
    assert store.sealed(7, 2) == groups[:2]
    assert store.sealed(7, 0) == []


def test_opened_groups_are_replaced_by_their_block(store: CoordinatorStore) -> None:
    store.append_sealed(7, [b"a", b"b", b"c"])
    first, second, third = (number for number, _ in store.sealed(7, 10))
    for _ in range(2):
        store.replace_sealed(7, [first, second], block(1, 2))
    assert store.sealed(7, 10) == [(third, b"c")]
    assert list(store.opened(7)) == [block(1, 2)]
    store.replace_sealed(7, [third], b"")
    assert store.sealed(7, 10) == []
    assert list(store.opened(7)) == [block(1, 2)]


def test_group_that_was_replaced_never_lends_its_number_to_another(store: CoordinatorStore) -> None:
    store.append_sealed(7, [b"a"])
    ((first, _),) = store.sealed(7, 10)
    store.replace_sealed(7, [first], block(1))
    store.append_sealed(7, [b"b"])
    store.replace_sealed(7, [first], block(1))
    assert [data for _, data in store.sealed(7, 10)] == [b"b"]
    assert list(store.opened(7)) == [block(1)]


def test_groups_of_which_only_some_are_there_are_not_replaced(store: CoordinatorStore) -> None:
    store.append_sealed(7, [b"a", b"b"])
    groups = store.sealed(7, 10)
    store.replace_sealed(7, [groups[0][0]], block(1))
    for numbers in ([number for number, _ in groups], [groups[1][0], groups[1][0]]):
        with pytest.raises(LocalProtocolError):
            store.replace_sealed(7, numbers, block(1, 2))
    assert store.sealed(7, 10) == groups[1:]
    assert list(store.opened(7)) == [block(1)]


def test_group_of_another_epoch_is_not_replaced(store: CoordinatorStore) -> None:
    store.append_sealed(7, [b"a"])
    groups = store.sealed(7, 10)
    store.replace_sealed(8, [groups[0][0]], block(1))
    assert store.sealed(7, 10) == groups
    assert list(store.opened(8)) == []


def test_blocks_come_back_in_order_of_their_epoch(store: CoordinatorStore) -> None:
    assert put_opened(store, 7, block(1))
    assert put_opened(store, 8, block(9))
    assert put_opened(store, 7, block(2, 3))
    assert put_opened(store, 7, b"")
    assert list(store.opened(7)) == [block(1), block(2, 3)]


def test_half_a_record_is_refused(store: CoordinatorStore) -> None:
    store.append_sealed(7, [b"a"])
    ((number, _),) = store.sealed(7, 10)
    with pytest.raises(LocalProtocolError):
        store.replace_sealed(7, [number], b"x" * 65)
    assert store.sealed(7, 10) == [(number, b"a")]
    assert list(store.opened(7)) == []


def test_blocks_are_read_while_others_are_written(store: CoordinatorStore) -> None:
    put_opened(store, 7, block(1))
    put_opened(store, 7, block(2))
    blocks = store.opened(7)
    assert next(blocks) == block(1)
    assert store.append_sealed(8, [b"a"])
    store.scrub(6)
    assert list(blocks) == [block(2)]


def test_closed_epoch_takes_nothing(store: CoordinatorStore) -> None:
    store.append_sealed(7, [b"a"])
    for _ in range(2):
        store.close_epoch(7)
    assert not store.append_sealed(7, [b"b"])
    assert not store.deposit(DEPOSIT, [b"c"])
    assert [data for _, data in store.sealed(7, 10)] == [b"a"]
    assert (list(store.opened(7)), store.deposits(7)) == ([], [])
    assert store.append_sealed(8, [b"b"])


def test_epoch_may_be_closed_before_anything_came(store: CoordinatorStore) -> None:
    store.close_epoch(7)
    assert not store.append_sealed(7, [b"a"])


def test_what_is_sealed_in_a_closed_epoch_can_still_be_opened(store: CoordinatorStore) -> None:
    store.append_sealed(7, [b"a"])
    store.close_epoch(7)
    store.replace_sealed(7, [number for number, _ in store.sealed(7, 10)], block(1))
    assert list(store.opened(7)) == [block(1)]


def test_deposit_brings_count_and_capsules_once(store: CoordinatorStore) -> None:
    assert store.deposit(DEPOSIT, [b"a", b"b"])
    assert store.deposit(replace(DEPOSIT, count=b"another count"), [b"c"])
    assert store.deposits(7) == [DEPOSIT]
    assert [data for _, data in store.sealed(7, 10)] == [b"a", b"b"]
    store.close_epoch(7)
    assert store.deposit(DEPOSIT, [b"a", b"b"])
    store.scrub(7)
    assert store.deposit(DEPOSIT, [b"a", b"b"])
    assert store.sealed(7, 10) == []


def test_relays_deposit_side_by_side(store: CoordinatorStore) -> None:
    second = Deposit(epoch=7, relay="another relay", count=b"its count")
    assert store.deposit(DEPOSIT, [b"a"])
    assert store.deposit(second, [b"b"])
    assert store.deposits(7) == [second, DEPOSIT]


def test_scrubbed_epoch_keeps_only_counts_of_relays(store: CoordinatorStore) -> None:
    store.add_key(KEY)
    store.deposit(DEPOSIT, [b"a"])
    put_opened(store, 7, block(1))
    other = store.add_key(StoredKey(epoch=8, key_id=8, private=b"q" * 32))
    store.append_sealed(8, [b"stays"])
    for _ in range(2):
        store.scrub(7)
    assert (store.sealed(7, 10), list(store.opened(7)), store.keys()) == ([], [], [other])
    assert store.deposits(7) == [DEPOSIT]
    assert [data for _, data in store.sealed(8, 10)] == [b"stays"]


def test_scrubbed_epoch_stays_closed_and_gets_no_key(store: CoordinatorStore) -> None:
    store.scrub(7)
    assert not store.append_sealed(7, [b"a"])
    with pytest.raises(LocalProtocolError):
        store.add_key(KEY)
    assert store.keys() == []


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
    to_closing(store)
    store.set_standing("e", Standing.FINISHED)
    store.conclude("e", 1, tally="t", next_state="s", blobs={"t": b"tally"})
    store.add_key(KEY)
    store.deposit(DEPOSIT, [b"a", b"b"])
    put_opened(store, 7, block(1))
    store.close_epoch(6)
    store.scrub(5)
    before = (store.experiments(), store.rounds("e"), store.keys(), store.deposits(7), store.sealed(7, 9))
    store = driven(kind.reopen(store, tmp_path))
    assert (store.experiments(), store.rounds("e"), store.keys(), store.deposits(7), store.sealed(7, 9)) == before
    assert (list(store.opened(7)), store.blob("t")) == ([block(1)], b"tally")
    assert not store.append_sealed(6, [b"c"])
    assert not store.append_sealed(5, [b"c"])
    store.close()


def test_threads_append_side_by_side(store: CoordinatorStore) -> None:
    def append(name: int) -> None:
        for i in range(20):
            assert store.append_sealed(7, [bytes([name, i])])

    threads = [threading.Thread(target=append, args=(name,)) for name in range(4)]
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


# ── the log ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_log_goes_on_where_it_ends(kind: Kind, store: CoordinatorStore, tmp_path: Path) -> None:
    store.append_entries(0, [b"a\n", b"b\n"])
    store.append_entries(2, [])
    for at in (0, 1, 3):
        with pytest.raises(LocalProtocolError, match="2 entries"):
            store.append_entries(at, [b"x\n"])
    store.append_entries(2, [b"a\n"])
    again = driven(kind.reopen(store, tmp_path))
    assert again.entries() == [b"a\n", b"b\n", b"a\n"]
    assert [again.entries(since) for since in (2, 3, 9)] == [[b"a\n"], [], []]
    again.close()


def test_newest_note_of_a_name_takes_the_place_of_the_one_before(
    kind: Kind, store: CoordinatorStore, tmp_path: Path
) -> None:
    store.keep_note("b", size=1, root=b"r1", note=b"one")
    store.keep_note("b", size=1, root=b"r1", note=b"one, renewed")
    store.keep_note("b", size=3, root=b"r3", note=b"three")
    store.keep_note("a", size=2, root=b"r2", note=b"two")
    expected = [StoredNote("a", 2, b"r2", b"two"), StoredNote("b", 3, b"r3", b"three")]
    assert store.notes() == expected
    again = driven(kind.reopen(store, tmp_path))
    assert again.notes() == expected
    again.close()


@pytest.mark.parametrize(("size", "root"), [(2, b"r3"), (3, b"other"), (0, b"")])
def test_note_that_does_not_follow_is_refused(store: CoordinatorStore, size: int, root: bytes) -> None:
    store.keep_note("log", size=3, root=b"r3", note=b"three")
    with pytest.raises(LocalProtocolError):
        store.keep_note("log", size=size, root=root, note=b"another")
    store.keep_note("log", size=3, root=b"r3", note=b"three")
    assert store.notes() == [StoredNote("log", 3, b"r3", b"three")]


def test_beacons_records_are_kept_by_experiment_and_place(started: CoordinatorStore) -> None:
    started.add_experiment(experiment("f"), {})
    started.keep_beacon("e", 1, b"second")
    started.keep_beacon("e", 0, b"first")
    started.keep_beacon("e", 0, b"first")
    assert started.beacons("e") == {0: b"first", 1: b"second"}
    assert list(started.beacons("e")) == [0, 1]
    assert started.beacons("f") == {}


def test_another_record_of_a_beacon_is_refused(started: CoordinatorStore) -> None:
    started.keep_beacon("e", 0, b"first")
    with pytest.raises(LocalProtocolError):
        started.keep_beacon("e", 0, b"other")
    with pytest.raises(LocalProtocolError):
        started.keep_beacon("nobody's", 0, b"first")
    assert started.beacons("e") == {0: b"first"}
