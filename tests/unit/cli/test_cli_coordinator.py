"""``secvm coordinator migrate`` on a real database, and where its address may stand."""

import json
from pathlib import Path

import pytest

from secvm.cli.main import run
from tests.postgres_server import cluster


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, list[str]]:
    assert run(["coordinator", "migrate", *arguments, "--format", "json"]) == 0
    found: dict[str, list[str]] = json.loads(capsys.readouterr().out)
    return found


def test_tables_come_and_go(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = cluster().create_database(migrated=False)
    pending = told(capsys, "status", "--database", url)["pending"]
    assert pending
    done = told(capsys, "up", "--before", "--database", url)
    assert done["done"] == [name for name in pending if "_before_" in name]
    assert told(capsys, "up", "--after", "--database", url)["pending"] == []
    monkeypatch.setenv("SECVM_DATABASE", url)
    assert told(capsys, "up")["done"] == []
    # The settings of a node name it too.
    assert run(["coordinator", "init", str(tmp_path / "node")]) == 0
    monkeypatch.delenv("SECVM_DATABASE")
    capsys.readouterr()
    config = str(tmp_path / "node" / "coordinator.toml")
    assert told(capsys, "status", "--config", config)["there"] == pending
    assert told(capsys, "down", "--to", "1", "--config", config)["there"] == pending[:1]
    assert run(["coordinator", "migrate", "status", "--config", config]) == 0
    assert capsys.readouterr().out.startswith(f"there    {pending[0]}\npending  {pending[1]}")
    cluster().drop_database(url)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["status"], "give --database or --config"),
        (["down", "--database", "postgresql:///x"], "down needs --to"),
        (["up", "--to", "1", "--database", "postgresql:///x"], "down needs --to"),
        (["status", "--before", "--database", "postgresql:///x"], "go with up"),
        (["up", "--before", "--after", "--database", "postgresql:///x"], "two deploys' halves"),
        (["up", "--database", "secret words"], "the address of the database cannot be read"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence_without_the_address(
    capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert run(["coordinator", "migrate", *arguments]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert "secret words" not in said
