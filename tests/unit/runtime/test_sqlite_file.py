"""One way to open SQLite files: whose they are is looked at before anything is changed, and said in one sentence."""

import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from secvm.errors import BadInputError, StoreError
from secvm.runtime.disk.sqlite_file import (
    SqliteFormat,
    connect,
    connect_personal,
    emptied_log,
    refusal,
    service_format,
    statements,
    transaction,
)
from tests.conftest import ROOT

FORMAT = SqliteFormat(
    application_id=0x54455354,
    version=2,
    migrations=(("CREATE TABLE one (a)",), ("CREATE TABLE two (b)", "INSERT INTO two VALUES (7)")),
    foreign=refusal("{} is somebody else's"),
    newer=refusal("{} is newer", "Install that version."),
    older=refusal("{} is older"),
    fault=lambda error, path: StoreError(f"{path} failed with {type(error).__name__}"),
    earlier={5: refusal("{} is from before")},
    settings=("page_size = 512",),
)
SERVICE = service_format("the store", "store of a test", application_id=0, version=4, migrations=FORMAT.migrations)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "test.db"


def opened(path: Path, kind: SqliteFormat = FORMAT) -> sqlite3.Connection:
    db = connect(path, f"cannot open {path}")
    kind.prepare(db, path)
    return db


def change(path: Path, *wanted: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        for statement in wanted:
            db.execute(statement)
        db.commit()


def refused(path: Path, kind: SqliteFormat = FORMAT) -> str:
    before = path.read_bytes()
    with pytest.raises((BadInputError, StoreError)) as caught:
        opened(path, kind)
    assert path.read_bytes() == before
    # SQLite's own words are in no traceback.
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return str(caught.value).removeprefix(f"{path} ")


def test_new_file_is_its_owners_durable_and_has_all_tables(path: Path) -> None:
    with closing(opened(path)) as db:
        settings = {
            "journal_mode": "wal",
            "synchronous": 2,
            "secure_delete": 1,
            "temp_store": 2,
            "page_size": 512,
            "application_id": 0x54455354,
            "user_version": 2,
        }
        assert {name: db.execute(f"PRAGMA {name}").fetchone()[0] for name in settings} == settings
        assert db.execute("SELECT b FROM two").fetchall() == [(7,)]
        assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}


def test_older_file_is_brought_up_and_one_of_this_version_is_left(path: Path) -> None:
    opened(path, replace(FORMAT, version=1, migrations=FORMAT.migrations[:1])).close()
    change(path, "INSERT INTO one VALUES ('kept')")
    for _ in range(2):
        with closing(opened(path)) as db:
            assert db.execute("SELECT a, b FROM one, two").fetchall() == [("kept", 7)]


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ("PRAGMA application_id = 5", "is from before"),
        ("PRAGMA application_id = 6", "is somebody else's"),
        ("PRAGMA user_version = 3", "is newer"),
        ("PRAGMA user_version = 0", "is older"),
        ("PRAGMA user_version = -1", "is older"),
    ],
)
def test_marks_of_another_program_or_version_are_refused_and_the_file_is_left(
    path: Path, wanted: str, sentence: str
) -> None:
    opened(path).close()
    change(path, wanted)
    assert refused(path) == sentence


@pytest.mark.parametrize("kind", [FORMAT, SERVICE])
def test_database_of_somebody_without_marks_is_left_alone(path: Path, kind: SqliteFormat) -> None:
    change(path, "CREATE TABLE moz_places (url)")
    assert refused(path, kind) in (
        "is somebody else's",
        f"the store {path} is no store of a test of this version, or it is damaged",
    )


def test_file_that_is_no_database_is_a_fault(path: Path) -> None:
    path.write_bytes(b"Dear diary, " * 100)
    assert refused(path) == "failed with DatabaseError"
    assert "is no store of a test of this version, or it is damaged" in refused(path, SERVICE)


def test_format_without_migrations_takes_no_empty_file(path: Path) -> None:
    path.touch()
    assert refused(path, replace(FORMAT, migrations=())) == "is somebody else's"
    opened(path).close()
    opened(path, replace(FORMAT, migrations=())).close()


def test_file_of_a_service_is_for_one_process_also_when_nothing_was_made(path: Path) -> None:
    opened(path, SERVICE).close()
    with closing(opened(path, SERVICE)), pytest.raises(BadInputError, match="is in use by another process"):
        opened(path, SERVICE)


def test_full_disk_is_no_fault_of_the_file(path: Path) -> None:
    with closing(connect(path, "no")) as db:
        db.execute("PRAGMA max_page_count = 1")
        with pytest.raises(StoreError, match=r"cannot be read or written now \(SQLITE_FULL\)") as caught:
            SERVICE.prepare(db, path)
    assert "disk is full" in (caught.value.next_step or "")


def test_migration_that_fails_leaves_the_version_before(path: Path) -> None:
    opened(path).close()
    with pytest.raises(StoreError, match="OperationalError"):
        opened(path, replace(FORMAT, version=3, migrations=(*FORMAT.migrations, ("CREATE TABLE x (a)", "no SQL"))))
    with closing(opened(path)) as db:
        assert db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'x'").fetchone() == (0,)


def test_transaction_is_whole_or_nothing_and_tells_the_first_error(path: Path) -> None:
    with closing(opened(path)) as db:
        with transaction(db):
            db.execute("INSERT INTO one VALUES (1)")
        with pytest.raises(sqlite3.OperationalError, match="no such table"), transaction(db):
            db.execute("INSERT INTO one SELECT a FROM (VALUES (2)), nowhere")
        with suppress(ZeroDivisionError), transaction(db):
            db.execute("INSERT INTO one VALUES (3)")
            _ = 1 / 0
        with suppress(ZeroDivisionError), transaction(db):
            # There is nothing to take back any more, and no other error is told for that.
            db.close()
            _ = 1 / 0
    with closing(opened(path)) as db:
        assert db.execute("SELECT a FROM one").fetchall() == [(1,)]


def test_log_is_emptied_unless_somebody_reads(path: Path) -> None:
    with closing(opened(path)) as db, closing(sqlite3.connect(path)) as reader:
        reader.execute("BEGIN").execute("SELECT * FROM one").fetchall()
        with transaction(db):
            db.execute("INSERT INTO one VALUES (1)")
        assert not emptied_log(db)
        reader.rollback()
        assert emptied_log(db)
        assert path.with_name("test.db-wal").stat().st_size == 0


def test_place_where_no_file_can_be_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"^not here$"):
        connect(tmp_path / "nowhere" / "x.db", "not here")
    (tmp_path / "file").touch()
    with pytest.raises(BadInputError, match=r"the diary cannot be opened \(File exists\)$"):
        connect_personal(tmp_path / "file" / "x.db", "diary")


def test_a_persons_file_is_closed_to_others_in_a_folder_that_is(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    connect_personal(folder / "x.db", "diary").close()
    (folder / "x.db").chmod(0o644)
    connect_personal(folder / "x.db", "diary").close()
    assert (folder.stat().st_mode & 0o777, (folder / "x.db").stat().st_mode & 0o777) == (0o700, 0o600)
    folder.chmod(0o755)
    with pytest.raises(BadInputError, match="so no diary is kept in it"):
        connect_personal(folder / "x.db", "diary")


def test_statements_are_told_apart_at_the_end_of_a_line() -> None:
    script = "CREATE TABLE a (b);\n-- one; two\nCREATE TABLE c (d);\n"
    assert statements(script, "SELECT 1") == ("CREATE TABLE a (b)", "-- one; two\nCREATE TABLE c (d)", "SELECT 1")


def test_one_module_of_the_product_opens_sqlite_files() -> None:
    source = ROOT / "src" / "secvm"
    found = [
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if "sqlite3.connect(" in path.read_text() and path.relative_to(source).parts[0] not in ("lab", "testing")
    ]
    assert found == ["runtime/disk/sqlite_file.py"]


def test_repro_a_second_connection_of_a_process_leaves_the_locks_of_the_first_alone(path: Path) -> None:
    """The person's page holds a device's state and opens it again for each click, and a command opens it beside."""
    program = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('SELECT * FROM two').fetchall(); db.close()"
    )
    with closing(opened(path)) as first:
        opened(path).close()
        # Whoever is alone with a file deletes its log when it closes, and what is written to that is gone.
        subprocess.run([sys.executable, "-c", program, str(path)], check=True)
        first.execute("INSERT INTO two VALUES (8)")
        with closing(opened(path)) as again:
            assert again.execute("SELECT b FROM two ORDER BY b").fetchall() == [(7,), (8,)]
