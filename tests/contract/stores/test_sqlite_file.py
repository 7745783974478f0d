"""What only a file can do wrong: bytes that stay, disks that fill, processes that are killed, files that are none."""

import hashlib
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from secvm.coordinator.store import sqlite as schema
from secvm.coordinator.store.port import Deposit, StoredKey
from secvm.coordinator.store.sqlite import Database, SQLiteStore
from secvm.errors import BadInputError, StoreError
from secvm.protocol.round_state import RoundState
from tests.conftest import ROOT
from tests.contract.stores.kinds import announced, block, experiment
from tests.rigs.opened_blocks import put_opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "coordinator.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    made = SQLiteStore(path)
    yield made
    made.close()


def raw(path: Path) -> bytes:
    """Every byte of every file that SQLite keeps beside the database."""
    return b"".join(file.read_bytes() for file in sorted(path.parent.iterdir()))


def pragma(store: SQLiteStore, name: str) -> object:
    return store._database._connection.execute(f"PRAGMA {name}").fetchone()[0]


# ── settings ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_connection_is_durable_and_forgets(store: SQLiteStore) -> None:
    told = [pragma(store, name) for name in ("journal_mode", "synchronous", "secure_delete", "foreign_keys")]
    assert told == ["wal", 2, 1, 1]
    assert pragma(store, "user_version") == len(schema.MIGRATIONS)


def test_nobody_else_may_read_the_files(store: SQLiteStore, path: Path) -> None:
    store.add_key(StoredKey(1, 1, b"k" * 32))
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}


def test_tables_are_strict_and_no_column_is_a_time(store: SQLiteStore) -> None:
    connection = store._database._connection
    tables = connection.execute("SELECT name, strict FROM pragma_table_list WHERE schema = 'main'").fetchall()
    own = [name for name, _ in tables if not name.startswith("sqlite_")]
    assert sorted(own) == [
        "batches", "beacons", "blobs", "count_seeds", "deposits", "driver", "entries", "epochs", "experiments",
        "fetch_keys", "keys", "notes", "opened", "pieces", "rounds", "runs", "sealed", "shards",
    ]  # fmt: skip
    assert all(strict for name, strict in tables if name in own)
    columns = {row[1] for name in own for row in connection.execute(f"PRAGMA table_info({name})")}
    assert not {name for name in columns if name.endswith(("_at", "_ms", "time", "date"))}


# ── scrubbing ────────────────────────────────────────────────────────────────────────────────────────────────────────

#: Small ones lie inside pages, large ones on pages of their own.
SIZES = [40, 3000, 100_000]


def private_key(epoch: int) -> bytes:
    return hashlib.sha256(b"private key of epoch %d" % epoch).digest()


def fill(store: SQLiteStore, epoch: int) -> list[bytes]:
    """An epoch of everything; what must not be found after its scrub."""
    # Each piece has its own content all the way through, so that no page of it is like another's.
    sealed = [b"".join(b"<sealed %d %d %d>" % (epoch, size, i) for i in range(size // 16)) for size in SIZES]
    opened = [
        b"".join((b"<opened %5d %5d %5d>" % (epoch, n, i)).ljust(32) for i in range(2 * n)) for n in (1, 50, 3000)
    ]
    private = private_key(epoch)
    store.add_key(StoredKey(epoch, epoch % 256, private))
    store.append_sealed(epoch, sealed)
    store.deposit(Deposit(epoch, "relay", b"<count %3d>" % epoch), sealed[:1])
    for data in opened:
        put_opened(store, epoch, data)
    store.replace_sealed(epoch, [store.sealed(epoch, 1)[0][0]], opened[0])
    return [b"<sealed %d " % epoch, b"<opened %5d" % epoch, private[:16], private[16:]]


@pytest.mark.parametrize("others", [0, 3])
def test_scrubbed_bytes_are_nowhere_in_the_files(store: SQLiteStore, path: Path, others: int) -> None:
    for other in range(others):
        fill(store, 200 + other)
    secrets = fill(store, 7)
    for other in range(others):
        fill(store, 210 + other)
    assert all(secret in raw(path) for secret in secrets)
    store.close_epoch(7)
    store.scrub(7)
    assert not [secret for secret in secrets if secret in raw(path)]
    assert b"<count   7>" in raw(path)
    for other in range(others):
        assert private_key(200 + other) in raw(path)


def test_scrub_goes_on_after_it_was_killed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SQLiteStore(path)
    secrets = fill(store, 7)

    class KilledError(Exception):
        pass

    def killed(*_: object) -> bool:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(SQLiteStore, "_remove_some", killed)
        with pytest.raises(KilledError):
            store.scrub(7)
    assert (store.sealed(7, 9), list(store.opened(7)), store.keys()) == ([], [], [])
    assert any(secret in raw(path) for secret in secrets)
    store.close()
    SQLiteStore(path).close()
    assert not [secret for secret in secrets if secret in raw(path)]


def test_log_that_a_killed_scrub_left_is_emptied_at_the_next_start(path: Path, tmp_path: Path) -> None:
    store = SQLiteStore(path)
    secrets = fill(store, 7)
    with store._database.changing() as connection:
        for table in ("keys", "sealed", "opened"):
            connection.execute(f"DELETE FROM {table}")
    # As the files are when the process is gone before the log is emptied.
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in path.parent.glob("coordinator.db*"):
        (copy / file.name).write_bytes(file.read_bytes())
    store.close()
    assert any(secret in raw(copy / path.name) for secret in secrets)
    with closing(SQLiteStore(copy / path.name)):
        assert not [secret for secret in secrets if secret in raw(copy / path.name)]


def test_pieces_of_any_size_are_read_and_scrubbed(
    store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secvm.coordinator.store.sqlite._PIECE_BYTES", 5000)
    monkeypatch.setattr("secvm.coordinator.store.sqlite._PIECE_ROWS", 2)
    secrets = fill(store, 7)
    blocks = list(store.opened(7))
    assert [len(data) for data in blocks] == [64, 3200, 192_000, 64]
    put_opened(store, 8, block(1))
    put_opened(store, 7, block(2))
    assert list(store.opened(7)) == [*blocks, block(2)]
    store.scrub(7)
    assert not [secret for secret in secrets if secret in raw(path)]


def test_scrub_tells_when_a_reader_keeps_the_log(store: SQLiteStore, path: Path) -> None:
    secrets = fill(store, 7)
    store._database._connection.execute("PRAGMA busy_timeout = 1")
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM keys").fetchone()
        with pytest.raises(StoreError, match="another process reads"):
            store.scrub(7)
        assert store.keys() == []
    store.scrub(7)
    assert not [secret for secret in secrets if secret in raw(path)]


# ── a disk that is full ──────────────────────────────────────────────────────────────────────────────────────────────


def test_full_database_leaves_nothing_half_done(store: SQLiteStore) -> None:
    store.append_sealed(7, [b"first"])
    pages = pragma(store, "page_count")
    store._database._connection.execute(f"PRAGMA max_page_count = {pages}")
    before = store.sealed(7, 9)
    with pytest.raises(StoreError, match="SQLITE_FULL"):
        store.append_sealed(7, [b"small", b"x" * 100_000])
    with pytest.raises(StoreError):
        store.deposit(Deposit(7, "relay", b"count"), [b"small", b"x" * 100_000])
    with pytest.raises(StoreError):
        store.replace_sealed(7, [before[0][0]], b"x" * 64_000)
    assert (store.sealed(7, 9), list(store.opened(7)), store.deposits(7)) == (before, [], [])
    store._database._connection.execute("PRAGMA max_page_count = 100000")
    assert store.append_sealed(7, [b"second"])
    assert [data for _, data in store.sealed(7, 9)] == [b"first", b"second"]


FULL_DISK = """
import resource, sys
from pathlib import Path
from secvm.coordinator.store.sqlite import Database, SQLiteStore
from secvm.errors import StoreError

path = Path(sys.argv[1])
store = SQLiteStore(path)
assert store.append_sealed(7, [b"first"])
# No file may grow beyond this: writing fails as on a full disk. Python ignores the signal that goes with it.
limit = max(file.stat().st_size for file in path.parent.iterdir()) + 20_000
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
kept = 1
try:
    while True:
        assert store.append_sealed(7, [b"x" * 5_000])
        kept += 1
except StoreError:
    pass
try:
    store.append_sealed(7, [b"y" * 500_000])
    raise SystemExit("written beyond the limit")
except StoreError:
    pass
assert len(store.sealed(7, 99)) == kept, (len(store.sealed(7, 99)), kept)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert store.append_sealed(7, [b"last"])
print(kept)
"""


def test_writing_that_fails_leaves_nothing_half_done(path: Path) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    assert soft == resource.RLIM_INFINITY
    kept = int(run(FULL_DISK, path).stdout)
    with closing(SQLiteStore(path)) as store:
        groups = [data for _, data in store.sealed(7, 99)]
    assert (groups[0], groups[-1], len(groups)) == (b"first", b"last", kept + 1)
    assert set(groups[1:-1]) <= {b"x" * 5_000}


# ── processes that are killed ────────────────────────────────────────────────────────────────────────────────────────

APPENDING = """
import sys
from pathlib import Path
from secvm.coordinator.store.port import Deposit
from secvm.coordinator.store.sqlite import SQLiteStore

store = SQLiteStore(Path(sys.argv[1]))
i = 0
while True:
    assert store.append_sealed(7, [b"%d" % i, b"%d" % i * 2000])
    assert store.append_sealed(8, [b"%d" % i])
    store.replace_sealed(8, [store.sealed(8, 1)[0][0]], b"%064d" % i)
    assert store.deposit(Deposit(100 + i, "relay", b"%d" % i), [b"%d" % i])
    print(i, flush=True)
    i += 1
"""


def killed_after(program: str, path: Path, lines: int) -> list[str]:
    """Kill a program when it has said so many lines; what it still said between the last of them and its end. A line
    cut short is left out.
    """
    with subprocess.Popen(
        [sys.executable, "-P", "-c", program, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    ) as process:
        assert process.stdout is not None
        for _ in range(lines):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        return [line for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]


def run(program: str, path: Path) -> subprocess.CompletedProcess[str]:
    told = subprocess.run(
        [sys.executable, "-P", "-c", program, str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert told.returncode == 0, told.stderr
    return told


@pytest.mark.parametrize("acknowledged", [1, 2, 7, 40, 150])
def test_what_was_acknowledged_before_a_kill_is_there_after(path: Path, acknowledged: int) -> None:
    rest = killed_after(APPENDING, path, acknowledged)
    last = int(rest[-1]) if rest else acknowledged - 1
    with closing(SQLiteStore(path)) as store:
        groups = {data for _, data in store.sealed(7, 10**6)}
        blocks = set(store.opened(8))
        for i in range(last + 1):
            assert {b"%d" % i, b"%d" % i * 2000} <= groups
            assert b"%064d" % i in blocks
            assert store.deposits(100 + i) == [Deposit(100 + i, "relay", b"%d" % i)]
        # A group that was not acknowledged is there whole or not at all.
        assert (b"%d" % (last + 1) in groups) == (b"%d" % (last + 1) * 2000 in groups)
        assert store.append_sealed(7, [b"goes on"])


SCRUBBING = """
import sys
from pathlib import Path
from secvm.coordinator.store import sqlite
from secvm.coordinator.store.sqlite import SQLiteStore

sqlite._PIECE_ROWS = 1
remove = SQLiteStore._remove_some
def told(self, table, epoch):
    print("removes", flush=True)
    return remove(self, table, epoch)
SQLiteStore._remove_some = told
store = SQLiteStore(Path(sys.argv[1]))
print("begins", flush=True)
store.scrub(7)
"""


@pytest.mark.parametrize("lines", [1, 2, 3, 5, 7])
def test_scrub_that_is_killed_has_happened_or_not_and_is_finished_later(path: Path, lines: int) -> None:
    with closing(SQLiteStore(path)) as store:
        secrets = fill(store, 7)
        before = (store.keys(), store.sealed(7, 9), list(store.opened(7)))
    killed_after(SCRUBBING, path, lines)
    with closing(SQLiteStore(path)) as store:
        after = (store.keys(), store.sealed(7, 9), list(store.opened(7)))
        assert after in (before, ([], [], []))
        if after == before:
            assert lines == 1
            store.scrub(7)
        assert not [secret for secret in secrets if secret in raw(path)]
        assert not store.append_sealed(7, [b"late"])


# ── files that are none ──────────────────────────────────────────────────────────────────────────────────────────────


def refused(path: Path) -> str:
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(BadInputError) as caught:
        SQLiteStore(path)
    assert not path.is_file() or path.read_bytes() == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


def marked(mark: str, value: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        SQLiteStore(path).close()
        with closing(sqlite3.connect(path)) as other:
            other.execute(f"PRAGMA {mark} = {value}")

    return make


def browsers(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE moz_places (url TEXT)")
        other.commit()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda path: path.write_bytes(b"Dear diary, " * 1000), "no database"),
        (browsers, "not one of a SecVM coordinator"),
        (marked("application_id", 5), "not one of a SecVM coordinator"),
        (marked("application_id", 0x53656356), "version 1 of the protocol"),
        (marked("user_version", len(schema.MIGRATIONS) + 1), "newer version"),
    ],
)
def test_file_that_is_none_of_ours_or_of_a_later_version_is_refused(
    path: Path, make: Callable[[Path], object], sentence: str
) -> None:
    make(path)
    assert sentence in refused(path)


def test_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "cannot be opened" in refused(tmp_path / "nowhere" / "coordinator.db")
    assert "cannot be opened" in refused(tmp_path)


def test_older_database_is_brought_up_step_by_step(path: Path) -> None:
    store = SQLiteStore(path)
    put_opened(store, 7, block(1))
    store.close()
    later = (*schema.MIGRATIONS, ("CREATE TABLE two (a INTEGER) STRICT",), ("ALTER TABLE two ADD COLUMN b TEXT",))
    for _ in range(2):
        database = Database(path, later)
        with database.reading() as connection:
            assert connection.execute("PRAGMA user_version").fetchone()[0] == len(later)
            assert [row[1] for row in connection.execute("PRAGMA table_info(two)")] == ["a", "b"]
            assert connection.execute("SELECT packed FROM opened").fetchall() == [(block(1),)]
        database.close()
    assert "newer version" in refused(path)


def test_database_from_before_the_log_gets_its_tables_and_keeps_what_it_had(path: Path) -> None:
    database = Database(path, schema.MIGRATIONS[:1])
    with database.changing() as connection:
        connection.execute("INSERT INTO experiments VALUES (1, 'e', x'65', x'7b7d', 'running')")
    database.close()
    with closing(SQLiteStore(path)) as store:
        assert pragma(store, "user_version") == len(schema.MIGRATIONS)
        assert [held.digest for held in store.experiments()] == ["e"]
        assert (store.notes(), store.beacons("e")) == ([], {})
        store.keep_note("log", size=1, root=b"r", note=b"n")
        store.keep_beacon("e", 0, b"record")
    with closing(SQLiteStore(path)) as store:
        assert ([held.size for held in store.notes()], store.beacons("e")) == ([1], {0: b"record"})


def test_migration_that_fails_leaves_the_version_before(path: Path) -> None:
    SQLiteStore(path).close()
    with pytest.raises(StoreError):
        Database(path, (*schema.MIGRATIONS, ("CREATE TABLE two (a INTEGER) STRICT", "no SQL")))
    with closing(SQLiteStore(path)) as store:
        assert pragma(store, "user_version") == len(schema.MIGRATIONS)


def test_reading_after_closing_is_one_error(path: Path) -> None:
    store = SQLiteStore(path)
    store.close()
    with pytest.raises(StoreError):
        store.experiments()
    with pytest.raises(StoreError):
        store.append_sealed(7, [b"a"])


def test_store_keeps_the_rules_in_the_file_too(store: SQLiteStore) -> None:
    """Should code forget a rule, the tables do not."""
    store.add_experiment(experiment(), {})
    store.announce(announced(1), {})
    store.set_state("e", 1, RoundState.OPEN)
    for statement in (
        "UPDATE rounds SET state = 'over'",
        "INSERT INTO sealed (epoch, packed) VALUES (99, x'00')",
        "UPDATE epochs SET scrubbed = 1, closed = 0",
        "INSERT INTO sealed (epoch, packed) VALUES (1, 'text')",
    ):
        with pytest.raises(StoreError), store._database.changing() as connection:
            connection.execute(statement)
