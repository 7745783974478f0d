"""The witness's store: made once, strict about what it opens, and nothing is half done."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from secvm.errors import BadInputError, StoreError
from secvm.witness.decision import Growth
from secvm.witness.store import WitnessStore
from tests.unit.witness.worlds import another, checkpoint, question


@pytest.fixture
def path(tmp_path: Path) -> Path:
    WitnessStore.create(tmp_path / "store.db")
    return tmp_path / "store.db"


def test_a_store_is_never_made_by_the_way_nor_twice(tmp_path: Path, path: Path) -> None:
    with pytest.raises(BadInputError, match="no witness's store") as raised:
        WitnessStore(tmp_path / "other.db")
    assert "retire the key" in str(raised.value.next_step)
    assert not (tmp_path / "other.db").exists()
    before = path.read_bytes()
    with pytest.raises(BadInputError, match="exists already"):
        WitnessStore.create(path)
    assert path.read_bytes() == before


def test_it_is_its_owners_and_for_one_process(tmp_path: Path, path: Path) -> None:
    with contextlib.closing(WitnessStore(path)) as store:
        store.answer([question("a", 0, 7)], time_s=0)
        assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}
        with pytest.raises(BadInputError, match="in use by another process"):
            WitnessStore(path)


def test_repro_a_disk_that_cannot_be_written_at_the_start_is_not_another_process(path: Path) -> None:
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None, check_same_thread=False)
    with pytest.raises(StoreError, match=r"cannot be read or written now \(SQLITE_READONLY\)"):
        WitnessStore(path, database=database)


@pytest.mark.parametrize("content", [b"", b"no database" * 100])
def test_what_is_no_store_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.db").write_bytes(content)
    with pytest.raises(BadInputError, match="no store of a witness"):
        WitnessStore(tmp_path / "x.db")
    assert (tmp_path / "x.db").read_bytes() == content


def test_a_commit_that_fails_leaves_nothing_and_tells_nobody_yes(path: Path) -> None:
    with contextlib.closing(WitnessStore(path)) as store:
        store.answer([question("a", 0, 3)], time_s=0)
        store._db.execute("PRAGMA query_only = ON")
        with pytest.raises(StoreError):
            store.answer([question("a", 3, 7)], time_s=1)
        store._db.execute("PRAGMA query_only = OFF")
        assert store.seen() == [(checkpoint("a", 3), 0)]
        (made,) = store.answer([question("b", 3, 7)], time_s=2)
        assert isinstance(made, Growth)


def test_a_failure_between_two_questions_of_a_group_takes_both_back(path: Path) -> None:
    with contextlib.closing(WitnessStore(path)) as store:
        store._db.execute(
            "CREATE TEMP TRIGGER no BEFORE INSERT ON main.seen WHEN NEW.size = 7 BEGIN SELECT raise(FAIL, 'x'); END"
        )
        with pytest.raises(StoreError):
            store.answer([question("a", 0, 3, origin=another(1)), question("a", 0, 7)], time_s=0)
        assert store.seen() == []
