"""Batches of rounds with two relays, on every store: one seed, pieces once, counted in runs, forgotten as a whole."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from secvm.coordinator.store.port import BatchState, CoordinatorStore
from secvm.coordinator.store.postgres import PostgresStore
from secvm.coordinator.store.sqlite import SQLiteStore
from secvm.errors import LocalProtocolError, StoreError
from tests.contract.stores.kinds import Kind, driven, experiment

SEED, OTHER = b"s" * 32, b"t" * 32
WHERE = ("e", 1)
PIECES = [bytes([65 + i]) * 800 for i in range(3)]


@pytest.fixture
def store(store: CoordinatorStore) -> CoordinatorStore:
    store.add_experiment(experiment(), {})
    return store


@pytest.fixture
def database(url: str) -> Iterator[PostgresStore]:
    """That of PostgreSQL alone, as its driver has it, with a whole batch."""
    with closing(PostgresStore(url)) as made:
        term = made.lead("the test", 3600)
        assert term is not None
        store = made.driving(term)
        store.add_experiment(experiment(), {})
        fill(store)
        yield store


def fill(store: CoordinatorStore, *, whole: bool = True) -> None:
    """A batch of three pieces."""
    store.begin_batch(*WHERE, SEED)
    for index, data in enumerate(PIECES):
        assert store.put_piece(*WHERE, index, data)
    if whole:
        assert store.finish_batch(*WHERE, 0)


def test_round_has_one_seed_ever(store: CoordinatorStore) -> None:
    assert store.count_seed(*WHERE) is None
    assert store.begin_batch(*WHERE, SEED) == SEED
    assert store.begin_batch(*WHERE, OTHER) == SEED
    assert store.begin_batch("e", 2, OTHER) == OTHER
    assert (store.count_seed(*WHERE), store.count_seed("e", 2)) == (SEED, OTHER)
    assert store.batches() == [("e", 1), ("e", 2)]


def test_batch_of_an_unknown_experiment_does_not_begin(store: CoordinatorStore) -> None:
    with pytest.raises(LocalProtocolError):
        store.begin_batch("unknown", 1, SEED)
    store.forget_batch("unknown", 1)
    assert store.batches() == []


def test_nothing_is_put_into_a_batch_that_has_not_begun(store: CoordinatorStore) -> None:
    assert not store.put_piece(*WHERE, 0, PIECES[0])
    assert not store.finish_batch(*WHERE, 0)
    assert (store.batch(*WHERE), store.piece(*WHERE, 0), store.claim_run(*WHERE, 1)) == (None, None, None)


def test_pieces_come_in_any_order_and_each_once(store: CoordinatorStore) -> None:
    store.begin_batch(*WHERE, SEED)
    for index in (2, 0):
        assert store.put_piece(*WHERE, index, PIECES[index])
        assert store.put_piece(*WHERE, index, PIECES[index])
    assert store.batch(*WHERE) == BatchState(0, (0, 2), False)
    with pytest.raises(LocalProtocolError):
        store.put_piece(*WHERE, 2, PIECES[1])
    assert (store.piece(*WHERE, 2), store.piece(*WHERE, 1)) == (PIECES[2], None)


def test_pieces_that_are_not_the_batch_make_way_for_others(store: CoordinatorStore) -> None:
    fill(store, whole=False)
    store.drop_pieces(*WHERE, 0)
    assert store.batch(*WHERE) == BatchState(1, (), False)
    assert store.put_piece(*WHERE, 0, PIECES[1])
    # Whoever compared the first attempt, and was slow, changes nothing any more.
    store.drop_pieces(*WHERE, 0)
    assert not store.finish_batch(*WHERE, 0)
    assert store.batch(*WHERE) == BatchState(1, (0,), False)
    assert store.finish_batch(*WHERE, 1)


def test_whole_batch_stays_as_it_is(store: CoordinatorStore) -> None:
    fill(store)
    assert store.finish_batch(*WHERE, 0)
    store.drop_pieces(*WHERE, 0)
    assert store.put_piece(*WHERE, 0, PIECES[0])
    for index, data in ((0, PIECES[1]), (3, PIECES[0])):
        with pytest.raises(LocalProtocolError):
            store.put_piece(*WHERE, index, data)
    assert store.batch(*WHERE) == BatchState(0, (0, 1, 2), True)
    assert [store.piece(*WHERE, index) for index in range(3)] == PIECES


def test_runs_are_counted_once_the_batch_is_whole(store: CoordinatorStore) -> None:
    fill(store, whole=False)
    assert store.claim_run(*WHERE, 3) is None
    with pytest.raises(LocalProtocolError):
        store.keep_run(*WHERE, 0, b"early")
    store.finish_batch(*WHERE, 0)
    for run in range(3):
        # The same one until its result is there.
        assert [store.claim_run(*WHERE, 3) for _ in range(2)] == [run, run]
        store.keep_run(*WHERE, run, b"%d" % run)
        store.keep_run(*WHERE, run, b"later")
    assert store.claim_run(*WHERE, 3) is None
    assert store.counted_runs(*WHERE) == {0, 1, 2}
    assert [store.run_result(*WHERE, run) for run in range(4)] == [b"0", b"1", b"2", None]


def test_forgotten_batch_is_gone_for_good(store: CoordinatorStore) -> None:
    fill(store)
    store.keep_run(*WHERE, 0, b"result")
    store.begin_batch("e", 2, OTHER)
    # Also one that never began.
    store.forget_batch("e", 3)
    with pytest.raises(LocalProtocolError):
        store.begin_batch("e", 3, SEED)
    for _ in range(2):
        store.forget_batch(*WHERE)
        assert store.batches() == [("e", 2)]
        assert (store.count_seed(*WHERE), store.batch(*WHERE), store.piece(*WHERE, 0)) == (None, None, None)
        assert (store.counted_runs(*WHERE), store.run_result(*WHERE, 0)) == (set(), None)
        assert store.claim_run(*WHERE, 3) is None
        assert not store.put_piece(*WHERE, 0, PIECES[0])
        assert not store.finish_batch(*WHERE, 0)
        store.keep_run(*WHERE, 1, b"late")
        store.drop_pieces(*WHERE, 0)
        with pytest.raises(LocalProtocolError):
            store.begin_batch(*WHERE, OTHER)


def test_everything_of_a_batch_is_there_again_after_reopening(kind: Kind, tmp_path: Path) -> None:
    store = driven(kind.make(tmp_path))
    store.add_experiment(experiment(), {})
    fill(store)
    store.keep_run(*WHERE, 1, b"result")
    store = driven(kind.reopen(store, tmp_path))
    assert store.begin_batch(*WHERE, OTHER) == SEED
    assert store.batch(*WHERE) == BatchState(0, (0, 1, 2), True)
    assert (store.piece(*WHERE, 2), store.run_result(*WHERE, 1)) == (PIECES[2], b"result")
    store.forget_batch(*WHERE)
    store = kind.reopen(store, tmp_path)
    assert store.batches() == []
    store.close()


def test_threads_put_pieces_side_by_side(store: CoordinatorStore) -> None:
    store.begin_batch(*WHERE, SEED)
    with ThreadPoolExecutor(4) as pool:
        put = list(pool.map(lambda i: store.put_piece(*WHERE, i % 20, bytes([i % 20]) * 800), range(60)))
    assert put == [True] * 60
    assert store.batch(*WHERE) == BatchState(0, tuple(range(20)), False)


def test_forgetting_in_a_database_drops_the_batchs_tables_and_no_others(database: PostgresStore) -> None:
    database.begin_batch("e", 2, OTHER)
    question = "SELECT count(*) FROM pg_tables WHERE schemaname = 'secvm' AND tablename ~ '^batch_[0-9]+_'"
    assert database.pool.once(question) == [(6,)]
    database.forget_batch(*WHERE)
    assert database.pool.once(question) == [(3,)]


def test_forgotten_bytes_are_in_no_file(tmp_path: Path) -> None:
    with closing(SQLiteStore(tmp_path / "store")) as store:
        store.add_experiment(experiment(), {})
        fill(store)
        store.keep_run(*WHERE, 0, b"what it came to")
        secrets = [SEED, *(piece[:100] for piece in PIECES), b"what it came to"]
        assert all(secret in _raw(tmp_path) for secret in secrets)
        store.forget_batch(*WHERE)
        assert not [secret for secret in secrets if secret in _raw(tmp_path)]


def test_forgetting_that_was_killed_is_finished_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SQLiteStore(tmp_path / "store")
    store.add_experiment(experiment(), {})
    fill(store)

    def killed(query: str, **_place: int) -> None:
        raise StoreError("killed")

    monkeypatch.setattr(store, "_removed", killed)
    with pytest.raises(StoreError):
        store.forget_batch(*WHERE)
    assert store.piece(*WHERE, 0) is None
    store.close()
    with closing(SQLiteStore(tmp_path / "store")):
        assert not [piece for piece in PIECES if piece[:100] in _raw(tmp_path)]


def _raw(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir() if file.is_file())
