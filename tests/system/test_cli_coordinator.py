"""``secvm coordinator`` on a real database: its tables, where its address stands, and what is said when it is away."""

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
        (["down", "--to", "-1", "--database", "postgresql:///x"], "invalid value for '--to'"),
        (["down", "--to", "99", "--database", "postgresql:///x"], "there is no migration 99 to go back to"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence_without_the_address(
    capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert run(["coordinator", "migrate", *arguments]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert "secret words" not in said


def test_a_refused_password_is_named_as_the_reason_and_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    right = cluster().url()
    wrong = right.replace(cluster()._password, "a-wrong-one")
    assert wrong != right
    assert run(["coordinator", "migrate", "status", "--database", wrong]) == 2
    said = capsys.readouterr().err
    assert said == "secvm: the database does not answer (it does not take this user with this password)\n"


def test_repro_init_wrote_a_node_for_what_is_no_address(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "node"
    assert run(["coordinator", "init", "--database", "secret words", str(folder)]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("secvm: the address of the database cannot be read\n")
    assert "secret words" not in said.out + said.err
    assert not folder.exists()


def test_repro_a_protected_address_could_not_be_migrated(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    # The sentence named an option that the command did not have.
    url = cluster().create_database()
    config, words = str(tmp_path / "node" / "coordinator.toml"), tmp_path / "words"
    words.touch(mode=0o600)
    words.write_text("six random words are enough here\n", encoding="utf-8")
    assert run(["coordinator", "init", "--database", url, str(tmp_path / "node")]) == 0
    assert run(["coordinator", "protect-keys", "--config", config, "--new-passphrase-file", str(words)]) == 0
    capsys.readouterr()
    assert run(["coordinator", "migrate", "status", "--config", config]) == 2
    assert "Give --passphrase-file" in capsys.readouterr().err
    assert told(capsys, "status", "--config", config, "--passphrase-file", str(words))["pending"] == []
    cluster().drop_database(url)


def test_repro_a_node_whose_database_was_away_at_its_start_was_never_started_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, repository: Path
) -> None:
    # It ended with 2, which the unit takes for settings that a person has to put right.
    url = "postgresql://secvm@127.0.0.1:1/secvm"
    assert run(["coordinator", "init", "--database", url, str(tmp_path / "node")]) == 0
    capsys.readouterr()
    assert run(["coordinator", "serve", "--config", str(tmp_path / "node" / "coordinator.toml")]) == 1
    assert capsys.readouterr().err.startswith("secvm: the database does not answer")
    unit = (repository / "deploy" / "secvm-node@.service").read_text(encoding="utf-8")
    assert "RestartPreventExitStatus=2\n" in unit
