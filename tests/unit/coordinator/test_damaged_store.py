"""A damaged database is refused with a sentence and exit code 2, whichever bytes are wrong."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from secvm.cli.main import run
from secvm.coordinator.main import SETTINGS_FILE, STORE_FILE, initialise
from secvm.coordinator.store.port import StoredRound
from secvm.coordinator.store.sqlite import SQLiteStore
from secvm.errors import BadInputError
from secvm.protocol.round_state import RoundState
from tests.unit.coordinator.rounds import add, experiment

#: Where SQLite's header holds ``user_version``.
VERSION_AT = 60


def damage_version(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[VERSION_AT : VERSION_AT + 4] = (-100).to_bytes(4, "big", signed=True)
    path.write_bytes(data)


def damage_names(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_schema SET name = CAST(x'ff' AS TEXT), sql = 'none' WHERE name = 'rounds'")
        connection.commit()


@pytest.mark.parametrize("damage", [damage_version, damage_names])
def test_repro_a_damaged_header_or_schema_is_refused_in_one_sentence(
    damage: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    initialise(tmp_path)
    SQLiteStore(tmp_path / "state" / STORE_FILE).close()
    damage(tmp_path / "state" / STORE_FILE)
    assert run(["coordinator", "serve", "--config", str(tmp_path / SETTINGS_FILE)]) == 2
    said = capsys.readouterr().err
    assert "is no database, or a damaged one" in said
    assert "Restore it from a backup" in said
    assert "Traceback" not in said


def test_repro_a_state_that_no_round_can_have_is_told_as_damage(tmp_path: Path) -> None:
    path = tmp_path / STORE_FILE
    with closing(SQLiteStore(path)) as store:
        digest = add(store, experiment())
        store.announce(StoredRound(digest, 1, 7, RoundState.ANNOUNCED, b"manifest"), {})
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("UPDATE rounds SET state = 'nonsense'")
        connection.execute("UPDATE experiments SET standing = 'nonsense'")
        connection.commit()
    with closing(SQLiteStore(path)) as store:
        with pytest.raises(BadInputError, match="holds no RoundState"):
            store.rounds(digest)
        with pytest.raises(BadInputError, match="holds no Standing"):
            store.experiments()
