import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from secvm.errors import BadInputError
from secvm.participant.sources.private_copy import opened_copy
from tests.unit.participant.histories import Visited, insert, look, make

BROWSERS = pytest.mark.parametrize("browser", ["firefox", "chromium"])
TITLES = {"firefox": "SELECT title FROM moz_places", "chromium": "SELECT title FROM urls"}

# Holds a database as a browser may: locked against every other process, with a change that is not yet in the file.
HOLDER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA locking_mode = EXCLUSIVE")
db.execute("BEGIN EXCLUSIVE")
db.execute(sys.argv[2])
if sys.argv[3] == "commit":
    db.execute("COMMIT")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where copies are made, so that a test sees what is left of them."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def titles(file: Path, browser: str) -> list[str]:
    with opened_copy(file) as copy:
        return [title for (title,) in copy.execute(TITLES[browser])]


def hold(file: Path, statement: str, ending: str) -> "subprocess.Popen[str]":
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(file), statement, ending],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def let_go(holder: "subprocess.Popen[str]") -> None:
    holder.communicate("")
    assert holder.returncode == 0


@BROWSERS
def test_reading_changes_nothing_beside_the_original(browser: str, tmp_path: Path, temporary: Path) -> None:
    file = make(browser, tmp_path / "profile", [Visited("https://example.org/", "quokka")])
    file.chmod(0o444)
    file.parent.chmod(0o555)
    before = look(file.parent)
    assert titles(file, browser) == ["quokka"]
    assert look(file.parent) == before
    assert list(temporary.iterdir()) == []
    file.parent.chmod(0o755)


@BROWSERS
def test_reading_works_while_another_process_holds_it_locked(browser: str, tmp_path: Path, temporary: Path) -> None:
    file = make(browser, tmp_path / "profile", [Visited("https://example.org/", "quokka")])
    table = TITLES[browser].rpartition(" ")[2]
    holder = hold(file, f"UPDATE {table} SET title = 'numbat'", "commit")
    try:
        with pytest.raises(sqlite3.OperationalError, match="locked"), closing(sqlite3.connect(file, timeout=0)) as db:
            db.execute(TITLES[browser]).fetchall()
        before = look(file.parent)
        # In WAL mode the title is only in the log so far.
        assert titles(file, browser) == ["numbat"]
        assert look(file.parent) == before
        assert list(temporary.iterdir()) == []
    finally:
        let_go(holder)


def test_transaction_that_is_half_written_is_rolled_back_in_the_copy(tmp_path: Path, temporary: Path) -> None:
    pages = [Visited(f"https://example.org/{i}", "quokka " * 100) for i in range(500)]
    file = make("chromium", tmp_path / "profile", pages)
    # So little memory that pages of an open transaction are written to the file, with their old content in -journal.
    statement = "UPDATE urls SET title = replace(title, 'quokka', 'numbat')"
    with closing(sqlite3.connect(file, isolation_level=None)) as writer:
        writer.execute("PRAGMA cache_size = 5")
        writer.execute("BEGIN EXCLUSIVE")
        writer.execute(statement)
        assert b"numbat" in file.read_bytes()
        before = look(file.parent)
        assert set(titles(file, "chromium")) == {"quokka " * 100}
        assert look(file.parent) == before
        writer.execute("ROLLBACK")


@pytest.fixture
def between_readings(monkeypatch: pytest.MonkeyPatch) -> list[Visited]:
    """Pages in this list are visited one by one, each between the first and the second reading of a copy."""
    from secvm.participant.sources import private_copy

    to_come: list[Visited] = []
    really_same = private_copy._same

    def visit_then_compare(original: Path, copy: Path) -> bool:
        if to_come and original.name == "places.sqlite":
            with closing(sqlite3.connect(original)) as db:
                insert(db, "firefox", [to_come.pop(0)])
        return really_same(original, copy)

    monkeypatch.setattr(private_copy, "_same", visit_then_compare)
    return to_come


def test_copy_is_made_again_when_the_original_changed_meanwhile(
    tmp_path: Path, between_readings: list[Visited], temporary: Path
) -> None:
    file = make("firefox", tmp_path / "profile", [Visited("https://example.org/", "first")])
    between_readings.extend(Visited(f"https://example.org/{i}", f"later{i}") for i in range(3))
    pauses: list[None] = []
    with opened_copy(file, pause=lambda: pauses.append(None)) as copy:
        found = [title for (title,) in copy.execute(TITLES["firefox"])]
    assert found == ["first", "later0", "later1", "later2"]
    assert len(pauses) == 3


def test_original_that_never_rests_is_one_sentence(
    tmp_path: Path, between_readings: list[Visited], temporary: Path
) -> None:
    file = make("firefox", tmp_path / "profile", [Visited("https://example.org/", "first")])
    between_readings.extend(Visited(f"https://example.org/{i}", "secret") for i in range(1000))
    with pytest.raises(BadInputError, match="writes without a pause"), opened_copy(file, pause=lambda: None):
        pass
    assert list(temporary.iterdir()) == []


@BROWSERS
def test_copy_is_never_torn_between_its_files(
    browser: str, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worst moment: the database is copied, and what is written next makes its log fit another database."""
    from secvm.participant.sources import private_copy

    table = TITLES[browser].rpartition(" ")[2]
    file = make(browser, tmp_path / "profile", [Visited(f"https://example.org/{i}", "old " * 99) for i in range(300)])
    with closing(sqlite3.connect(file, isolation_level=None)) as writer:
        writer.execute("PRAGMA cache_size = 5")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute(f"UPDATE {table} SET title = 'new'")
        if browser == "firefox":
            writer.execute("COMMIT")

        def go_on() -> None:
            if browser == "firefox":  # what the log held moves into the file, and the log starts anew
                writer.execute("PRAGMA wal_checkpoint(RESTART)")
                writer.execute(f"UPDATE {table} SET title = 'newer' WHERE id = 1")
            else:  # half of it was in the file already; now all is, and the old pages' log is gone
                writer.execute("COMMIT")

        to_do = [go_on]
        really_copy = private_copy._copy

        def copy_then_go_on(original: Path, copy: Path, *, needed: bool) -> None:
            really_copy(original, copy, needed=needed)
            if needed and to_do:
                to_do.pop()()

        monkeypatch.setattr(private_copy, "_copy", copy_then_go_on)
        pauses: list[None] = []
        with opened_copy(file, pause=lambda: pauses.append(None)) as copy:
            found = {title for (title,) in copy.execute(TITLES[browser])}
        assert found == ({"new", "newer"} if browser == "firefox" else {"new"})
        assert len(pauses) == 1


def test_copy_is_private_and_removed_also_on_errors(tmp_path: Path, temporary: Path) -> None:
    file = make("firefox", tmp_path / "profile", [Visited("https://example.org/", "quokka")])
    with opened_copy(file):
        (folder,) = temporary.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert folder.stat().st_uid == os.getuid()
    with pytest.raises(KeyboardInterrupt), opened_copy(file):
        raise KeyboardInterrupt
    assert list(temporary.iterdir()) == []


def test_copy_cannot_be_written(tmp_path: Path, temporary: Path) -> None:
    file = make("firefox", tmp_path / "profile", [Visited("https://example.org/", "quokka")])
    with pytest.raises(BadInputError, match="not laid out as expected"), opened_copy(file) as copy:
        copy.execute("DELETE FROM moz_places")


def damaged(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (Path.unlink, "no such file"),
        (lambda file: file.write_bytes(b"a letter to my aunt, and no database at all" * 30), "no database"),
        (damaged, "damaged"),
        (lambda file: (file.unlink(), file.mkdir()), "cannot be read"),
    ],
    ids=["missing", "no database", "damaged", "a folder"],
)
def test_bad_databases_are_one_sentence(
    harm: Callable[[Path], object], sentence: str, tmp_path: Path, temporary: Path
) -> None:
    file = make("chromium", tmp_path / "profile", [Visited(f"https://example.org/{i}", "secret") for i in range(200)])
    harm(file)
    with pytest.raises(BadInputError, match=sentence) as caught, opened_copy(file):
        pass
    assert str(caught.value).startswith(f"{file}: ")
    told = "".join(traceback.format_exception(caught.value))
    assert "secret" not in told
    assert "During handling" not in told
    assert list(temporary.iterdir()) == []
