"""What only a database of many nodes can do wrong: leases, claims, stopped nodes, servers that go away, passwords."""

import hashlib
import os
import re
import resource
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from secvm.coordinator.store import postgres as postgres_module
from secvm.coordinator.store.port import Deposit, Standing, StoredKey
from secvm.coordinator.store.postgres import PostgresStore
from secvm.coordinator.store.postgres_pool import Patience, Pool
from secvm.coordinator.store.queries import FOLDER, queries
from secvm.errors import BadInputError, LocalProtocolError, SecVMError, StaleDriverError, StoreError
from secvm_lab.rigs.postgres import PostgresCluster
from tests.contract.stores.kinds import block, experiment
from tests.contract.stores.test_nodes_on_a_store import FENCED
from tests.postgres_server import cluster, wait_until
from tests.rigs.opened_blocks import put_opened

#: Shorter than people would have it, longer than any step of a test takes.
SHORT = Patience(idle_s=0.3, lock_s=20)


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(url, patience=SHORT)) as made:
        yield made


@pytest.fixture
def other(url: str) -> Iterator[PostgresStore]:
    """Another node."""
    with closing(PostgresStore(url, patience=SHORT)) as made:
        yield made


def drives(store: PostgresStore, holder: str = "a", lease_s: float = 60) -> PostgresStore:
    term = store.lead(holder, lease_s)
    assert term is not None
    return store.driving(term)


def waiting(store: PostgresStore) -> int:
    """How many sessions of this database wait for a lock."""
    ((count,),) = store.pool.once(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return int(count)


# ── who drives ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("method", [name for name in FENCED if name not in ("add_experiment", "set_standing")])
def test_nobody_drives_without_a_term(store: PostgresStore, method: str) -> None:
    drives(store).add_experiment(experiment(), {})
    with pytest.raises(LocalProtocolError, match="term"):
        FENCED[method](store)


def test_operators_ask_any_node(store: PostgresStore) -> None:
    store.add_experiment(experiment(), {"state": b"start"})
    store.set_standing("e", Standing.PAUSED)
    assert [held.standing for held in store.experiments()] == [Standing.PAUSED]


def test_lease_runs_by_the_databases_clock(store: PostgresStore, other: PostgresStore) -> None:
    stale = drives(store, lease_s=0.2)
    assert other.lead("b", 60) is None
    wait_until(lambda: other.lead("b", 60))
    with pytest.raises(StaleDriverError):
        stale.close_epoch(7)
    assert store.lead("a", 60) is None


def test_lease_that_ran_out_goes_on_where_nobody_came(store: PostgresStore) -> None:
    driver = drives(store, lease_s=0.000_001)
    driver.close_epoch(7)
    assert store.lead("a", 60) == driver.term


def test_one_of_many_gets_the_lead(url: str) -> None:
    stores = [PostgresStore(url) for _ in range(6)]
    with ThreadPoolExecutor(6) as threads:
        terms = list(threads.map(lambda i: stores[i].lead(f"node {i}", 60), range(6)))
    for store in stores:
        store.close()
    assert sorted(terms, key=str) == [1, None, None, None, None, None]


def take_over_in_the_middle(store: PostgresStore, other: PostgresStore) -> tuple[list[int | None], bool]:
    """Another node takes over while a change is under way. Which term it got before that was committed, and whether the
    change was made.
    """
    driver = drives(store, lease_s=0.000_001)
    store.add_experiment(experiment(), {})
    with ThreadPoolExecutor(1) as threads:
        with driver.driven() as ask:
            ask("set_standing", digest="e", standing="stopped")
            taking = threads.submit(other.lead, "b", 60)
            wait_until(lambda: taking.done() or waiting(store))
            early = [taking.result()] if taking.done() else []
        assert taking.result() == 2
    return early, other.experiments()[0].standing is Standing.STOPPED


def test_taking_over_waits_for_a_change_under_way(store: PostgresStore, other: PostgresStore) -> None:
    assert take_over_in_the_middle(store, other) == ([], True)


def test_fence_that_is_not_held_lets_two_drive(
    store: PostgresStore, other: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above can fail: here the term is looked at, and not held."""
    careless = {**postgres_module._SQL, "fence": "SELECT 1 FROM driver WHERE term = %(term)s"}
    monkeypatch.setattr(postgres_module, "_SQL", careless)
    assert take_over_in_the_middle(store, other) == ([2], True)


def test_driver_that_stops_in_the_middle_is_ended_and_changes_nothing(
    store: PostgresStore, other: PostgresStore
) -> None:
    driver = drives(store, lease_s=0.000_001)
    store.add_experiment(experiment(), {})

    def stop_in_the_middle() -> None:
        with driver.driven() as ask:
            ask("set_standing", digest="e", standing="stopped")
            # It says nothing from here on. The other one gets the lead all the same, in this very thread.
            assert other.lead("b", 60) == 2

    with pytest.raises(StoreError):
        stop_in_the_middle()
    assert other.experiments()[0].standing is Standing.RUNNING
    with pytest.raises(StaleDriverError):
        driver.set_standing("e", Standing.STOPPED)


# ── claims ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_claim_that_ran_out_is_good_as_long_as_nobody_else_came(url: str) -> None:
    with closing(PostgresStore(url, claim_s=0.000_001)) as lazy:
        lazy.append_sealed(7, [b"a"])
        ((number, _),) = lazy.sealed(7, 9)
        lazy.replace_sealed(7, [number], block(1))
        assert list(lazy.opened(7)) == [block(1)]


def test_nodes_count_every_shard_once(url: str, store: PostgresStore) -> None:
    drives(store).close_epoch(7)
    nodes = [PostgresStore(url) for _ in range(4)]

    def count(node: PostgresStore) -> list[int]:
        counted = []
        while (shard := node.claim_shard(7)) is not None:
            node.keep_shard(7, shard, b"%d" % shard)
            counted.append(shard)
        return counted

    with ThreadPoolExecutor(4) as threads:
        counted = [shard for shards in threads.map(count, nodes) for shard in shards]
    for node in nodes:
        node.close()
    assert sorted(counted) == list(range(16))
    assert store.shards(7) == {shard: b"%d" % shard for shard in range(16)}


# ── much at once ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_more_than_a_statement_takes_is_one_transaction_all_the_same(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_module, "_STATEMENT_BYTES", 10)
    groups = [b"%07d" % i for i in range(5)]
    assert store.append_sealed(7, groups)
    assert store.deposit(Deposit(7, "r", b"count"), groups)
    assert store.deposit(Deposit(7, "r", b"count"), groups)
    assert [data for _, data in store.sealed(7, 99)] == groups * 2
    driver = drives(store)
    driver.close_epoch(7)
    assert not store.append_sealed(7, groups)
    assert not store.deposit(Deposit(7, "q", b"count"), groups)
    assert store.deposits(7) == [Deposit(7, "r", b"count")]
    driver.close_epoch(8)
    for _ in range(2):
        store.keep_shard(8, 3, b"twenty-five bytes in all.")
    assert store.shards(8) == {3: b"twenty-five bytes in all."}


@pytest.mark.parametrize("count", [0, 1, 16, 17, 100])
def test_groups_keep_their_order_however_many_they_are(store: PostgresStore, count: int) -> None:
    groups = [b"%d" % i for i in range(count)]
    assert store.append_sealed(7, groups)
    assert store.deposit(Deposit(7, "r", b"count"), groups)
    assert [data for _, data in store.sealed(7, 999)] == groups * 2


def test_blocks_come_in_pieces(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_module, "_PIECE_BYTES", 100)
    monkeypatch.setattr(postgres_module, "_PIECE_ROWS", 3)
    blocks = [block(i, 255 - i) for i in range(8)]
    for data in blocks:
        put_opened(store, 7, data)
    assert list(store.opened(7)) == blocks
    assert b"".join(store.opened(7, 0)) == b"".join(block(i) for i in range(8))
    assert b"".join(store.opened(7, 15)) == b"".join(block(255 - i) for i in range(8))
    assert list(store.opened(7, 3)) == []


def test_epoch_begins_once_when_all_come_at_once(url: str) -> None:
    with closing(PostgresStore(url, most_connections=8)) as store, ThreadPoolExecutor(8) as threads:
        assert all(threads.map(lambda i: store.append_sealed(7, [b"%d" % i]), range(8)))
        assert len(store.sealed(7, 99)) == 8


# ── scrubbing ────────────────────────────────────────────────────────────────────────────────────────────────────────


def tables(store: PostgresStore) -> set[str]:
    return {name for (name,) in store.pool.once("SELECT relname FROM pg_class WHERE relname ~ '^epoch_[0-9]+_[a-z]+$'")}


def test_scrub_drops_the_epochs_tables_and_no_others(store: PostgresStore) -> None:
    store.append_sealed(7, [b"a"])
    store.append_sealed(8, [b"a"])
    assert tables(store) >= {"epoch_7_sealed", "epoch_7_opened", "epoch_7_shards", "epoch_8_sealed"}
    drives(store).scrub(7)
    left = tables(store)
    assert "epoch_8_sealed" in left
    assert not {name for name in left if name.startswith("epoch_7_")}


def test_scrub_does_not_wait_for_a_node_that_stopped_while_it_read(store: PostgresStore, url: str) -> None:
    store.append_sealed(7, [b"a"])
    reader = Pool(url)

    def read_and_stop() -> None:
        with reader.changing() as connection:
            connection.execute(b"SELECT packed FROM epoch_7_sealed")
            drives(store).scrub(7)
            assert tables(store) == set()

    with pytest.raises(StoreError):
        read_and_stop()
    reader.close()


def test_scrub_that_was_killed_shows_nothing_and_is_finished_by_the_next_driver(
    store: PostgresStore, other: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = drives(store)
    driver.add_key(StoredKey(7, 7, b"p" * 32))
    put_opened(driver, 7, block(1))
    driver.append_sealed(7, [b"a"])
    with monkeypatch.context() as patch:
        patch.setattr(PostgresStore, "_drop", lambda *_: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception):
            driver.scrub(7)
    assert "epoch_7_sealed" in tables(store)
    assert (store.sealed(7, 9), store.left_sealed(7), list(store.opened(7)), store.keys()) == ([], False, [], [])
    assert not store.append_sealed(7, [b"b"])
    assert driver.term is not None
    store.resign(driver.term)
    drives(other, "b")
    assert tables(store) == set()


def raw(cluster: PostgresCluster, *, log: bool) -> bytes:
    """Every byte of every file of the server, with its write-ahead log or without."""
    files = [file for file in cluster.folder.glob("data/**/*") if file.is_file()]
    return b"".join(file.read_bytes() for file in files if log or "pg_wal" not in file.parts)


def test_scrubbed_bytes_are_in_no_table_and_leave_the_log_with_its_segments() -> None:
    """What docs/data-model.md promises, and what it asks of the server for the rest."""
    with (
        PostgresCluster(settings={"wal_recycle": "off", "min_wal_size": "32MB"}) as server,
        closing(PostgresStore(server.create_database())) as store,
    ):
        driver = drives(store)
        private = hashlib.sha256(b"private").digest()
        sealed = b"".join(hashlib.sha256(b"sealed %d" % i).digest() for i in range(5000))
        opened = b"".join(hashlib.sha256(b"opened %d" % i).digest() for i in range(40))
        driver.add_key(StoredKey(7, 7, private))
        driver.append_sealed(7, [sealed, b"small" + sealed[:100]])
        put_opened(driver, 7, opened)
        secrets = [private, sealed[:100], sealed[-100:], opened[:64]]
        store.pool.once("CHECKPOINT")
        assert all(secret in raw(server, log=False) for secret in secrets)
        driver.scrub(7)
        assert not [secret for secret in secrets if secret in raw(server, log=False)]
        assert all(secret in raw(server, log=True) for secret in secrets)
        for _ in range(2):
            store.pool.once("SELECT pg_switch_wal()")
            store.pool.once("CHECKPOINT")
        assert not [secret for secret in secrets if secret in raw(server, log=True)]


def test_only_leases_have_times(store: PostgresStore) -> None:
    store.append_sealed(7, [b"a"])
    times = store.pool.once(
        "SELECT DISTINCT column_name FROM information_schema.columns"
        " WHERE table_schema = 'secvm' AND data_type ~ 'time|date|interval'"
    )
    assert {name for (name,) in times} == {"until", "claimed_until"}


# ── servers that go away ─────────────────────────────────────────────────────────────────────────────────────────────


def test_changes_are_heard_of(store: PostgresStore, other: PostgresStore) -> None:
    assert other.wait_for_change(60)
    assert not other.wait_for_change(0)
    store.add_experiment(experiment(), {})
    assert other.wait_for_change(60)
    drives(store).close_epoch(7)
    assert other.wait_for_change(60)


def test_closed_store_says_so(url: str) -> None:
    store = PostgresStore(url)
    for _ in range(2):
        store.close()
    with pytest.raises(StoreError, match="closed"):
        store.append_sealed(7, [b"a"])


def test_connections_are_used_again_and_waited_for(url: str) -> None:
    with closing(PostgresStore(url, most_connections=1)) as store:
        threads = [threading.Thread(target=store.append_sealed, args=(7, [b"%d" % i])) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(store.sealed(7, 99)) == 8
        ((sessions,),) = store.pool.once("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
    assert sessions == 1


def test_repro_connections_are_used_again_where_thousands_of_files_are_open(url: str) -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(2048, limit[0]), limit[1]))
    # As if that many clients were connected: the database's connection gets a number that ``select`` does not take.
    there = os.open(os.devnull, os.O_RDONLY)
    others = [there]
    try:
        while others[-1] < 1024:
            others.append(os.dup(there))
        with closing(PostgresStore(url, most_connections=1)) as store:
            pids = {store.pool.once("SELECT pg_backend_pid()")[0][0] for _ in range(3)}
    finally:
        for one in others:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    assert len(pids) == 1


def test_node_names_itself_without_secrets_and_waits_for_the_disk(url: str) -> None:
    store = PostgresStore(url)
    store.pool.once("SELECT 1")
    name = url.rpartition("/")[2].partition("?")[0]
    store.pool.once(f"ALTER DATABASE {name} SET synchronous_commit = off")
    store.close()
    with closing(PostgresStore(url)) as again:
        ((said, durable),) = again.pool.once(
            "SELECT application_name, current_setting('synchronous_commit') FROM pg_stat_activity"
            " WHERE pid = pg_backend_pid()"
        )
    assert (said, durable) == ("secvm coordinator", "on")


@pytest.fixture(scope="module")
def mortal() -> Iterator[PostgresCluster]:
    """A server that tests may kill."""
    with PostgresCluster(loopback=True) as made:
        yield made


def test_store_goes_on_after_the_server_was_killed(mortal: PostgresCluster) -> None:
    with closing(PostgresStore(mortal.create_database())) as store:
        assert store.append_sealed(7, [b"a"])
        assert store.wait_for_change(0)
        mortal.kill()
        for action in (lambda: store.append_sealed(7, [b"b"]), store.experiments, lambda: store.wait_for_change(1)):
            with pytest.raises(StoreError) as caught:
                action()
            assert "\n" not in str(caught.value)
        mortal.start()
        assert [data for _, data in store.sealed(7, 9)] == [b"a"]
        assert store.append_sealed(7, [b"c"])
        assert store.wait_for_change(0)


def test_connections_that_broke_while_idle_are_not_used(mortal: PostgresCluster) -> None:
    with closing(PostgresStore(mortal.create_database())) as store:
        mortal.kill()
        mortal.start()
        # The first try: nobody is told of an error that a new connection mends.
        assert store.append_sealed(7, [b"a"])


PASSWORD = "h0rse-staple"


@pytest.mark.parametrize(
    "wrong",
    [
        f"postgresql://u:{PASSWORD}@127.0.0.1:1/d",
        f"postgresql://u:{PASSWORD}@[::1/d",
        f"user=u password={PASSWORD} nonsense",
        f"postgresql://u:{PASSWORD}@127.0.0.1:{{port}}/d",
        f"postgresql://u:{PASSWORD}@127.0.0.1:{{port}}/d?nonsense=1",
    ],
)
def test_no_error_tells_the_password(mortal: PostgresCluster, wrong: str) -> None:
    port = re.search(r":(\d+)/", mortal.url())
    assert port is not None
    with pytest.raises(SecVMError) as caught:
        PostgresStore(wrong.replace("{port}", port[1]))
    said = "".join(traceback.format_exception(caught.value, chain=True)) + repr(caught.value)
    # The line that calls is quoted in the traceback, without its values.
    assert PASSWORD not in said
    assert "\n" not in str(caught.value)


def test_nothing_prints_the_password(url: str) -> None:
    password = re.search(r":([0-9a-f]{32})@", url)
    assert password is not None
    with closing(PostgresStore(url)) as store:
        assert password[1] not in repr(store) + repr(store.driving(1)) + repr(store.pool) + repr(cluster())


def test_error_does_not_tell_what_was_written(store: PostgresStore) -> None:
    with pytest.raises(StoreError) as caught, store.pool.changing() as connection:
        connection.execute(b"INSERT INTO keys VALUES (true, 256, 'very private')")
    assert str(caught.value) == "the database could not be changed (CheckViolation)"
    assert "private" not in "".join(traceback.format_exception(caught.value)).replace("'very private'", "")


def test_server_that_forgets_is_refused() -> None:
    with PostgresCluster(settings={"fsync": "off"}) as careless:
        url = careless.create_database()
        with pytest.raises(BadInputError, match="fsync"):
            PostgresStore(url)


# ── the files of SQL ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_query_has_a_sentence_and_is_used(repository: Path) -> None:
    folder = repository / "src/secvm/coordinator/store"
    code = "".join(file.read_text(encoding="utf-8") for file in folder.glob("*.py"))
    files = [file.name.removesuffix(".sql") for file in FOLDER.iterdir() if file.name.endswith(".sql")]
    assert set(files) == {"batches", "driver", "epochs", "migrations", "shared", "sqlite"}
    for file in files:
        for name, body in queries(file).items():
            first = body.splitlines()[0]
            assert first.startswith("-- "), (file, name)
            assert f'"{name}"' in code, (file, name)
            assert body.endswith(";"), (file, name)


def test_without_psycopg_one_sentence_says_what_is_missing(repository: Path) -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from secvm.errors import BadInputError\n"
        "try:\n    import secvm.coordinator.store.postgres\n"
        "except BadInputError as error:\n    print(error, error.next_step)"
    )
    told = subprocess.run(
        [sys.executable, "-P", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(repository / "src")},
    )
    assert told.returncode == 0, told.stderr
    assert "needs the package psycopg" in told.stdout
    assert "'.[postgres]'" in told.stdout
