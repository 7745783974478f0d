"""``secvm coordinator`` on a real database: its tables, where its address stands, and what is said when it is away."""

from pathlib import Path
from typing import Any

import pytest

from secvm.runtime.disk.secret_files import make_secret
from tests.postgres_server import cluster
from tests.system.conftest import Program


def test_tables_come_and_go(secvm: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(*arguments: object) -> Any:
        return secvm.json("coordinator migrate", *arguments)

    url = cluster().create_database(migrated=False)
    pending = told("status --database", url)["pending"]
    assert pending
    done = told("up --before --database", url)
    assert done["done"] == [name for name in pending if "_before_" in name]
    assert told("up --after --database", url)["pending"] == []
    monkeypatch.setenv("SECVM_DATABASE", url)
    assert told("up")["done"] == []
    # The settings of a node name it too.
    assert secvm("coordinator init", tmp_path / "node") == 0
    monkeypatch.delenv("SECVM_DATABASE")
    config = tmp_path / "node" / "coordinator.toml"
    assert told("status", "--config", config)["there"] == pending
    assert told("down", "--to", "1", "--config", config)["there"] == pending[:1]
    assert secvm("coordinator migrate status --config", config) == 0
    assert secvm.out.startswith(f"there    {pending[0]}\npending  {pending[1]}")
    cluster().drop_database(url)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("status", "give --database or --config"),
        ("down --database postgresql:///x", "down needs --to"),
        ("up --to 1 --database postgresql:///x", "down needs --to"),
        ("status --before --database postgresql:///x", "go with up"),
        ("up --before --after --database postgresql:///x", "two deploys' halves"),
        ("up --database 'secret words'", "the address of the database cannot be read"),
        ("down --to -1 --database postgresql:///x", "--to must be at least 0"),
        ("down --to 99 --database postgresql:///x", "there is no migration 99 to go back to"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence_without_the_address(
    secvm: Program, arguments: str, sentence: str
) -> None:
    secvm.secrets = ("secret words",)
    assert sentence in secvm.refused("coordinator migrate", arguments)


def test_a_refused_password_is_named_as_the_reason_and_not_shown(secvm: Program) -> None:
    right = cluster().url()
    wrong = right.replace(cluster()._password, "a-wrong-one")
    assert wrong != right
    said = secvm.refused("coordinator migrate status --database", wrong)
    assert said == "secvm: the database does not answer (it does not take this user with this password)\n"


def test_repro_init_wrote_a_node_for_what_is_no_address(secvm: Program, tmp_path: Path) -> None:
    folder = tmp_path / "node"
    secvm.secrets = ("secret words",)
    said = secvm.refused("coordinator init --database 'secret words'", folder)
    assert said.startswith("secvm: the address of the database cannot be read\n")
    assert not folder.exists()


def test_repro_a_protected_address_could_not_be_migrated(secvm: Program, tmp_path: Path) -> None:
    # The sentence named an option that the command did not have.
    url = cluster().create_database()
    config, words = tmp_path / "node" / "coordinator.toml", tmp_path / "words"
    make_secret(words, b"six random words are enough here")
    assert secvm("coordinator init --database", url, tmp_path / "node") == 0
    assert secvm("coordinator protect-keys --config", config, "--new-passphrase-file", words) == 0
    status = ("coordinator migrate status --config", config)
    assert "Give --passphrase-file" in secvm.refused(*status)
    assert secvm.json(*status, "--passphrase-file", words)["pending"] == []
    cluster().drop_database(url)


def test_repro_a_node_whose_database_was_away_at_its_start_was_never_started_again(
    secvm: Program, tmp_path: Path, repository: Path
) -> None:
    # It ended with 2, which the unit takes for settings that a person has to put right.
    url = "postgresql://secvm@127.0.0.1:1/secvm"
    assert secvm("coordinator init --database", url, tmp_path / "node") == 0
    assert secvm("coordinator serve --config", tmp_path / "node" / "coordinator.toml") == 1
    assert secvm.err.startswith("secvm: the database does not answer")
    unit = (repository / "deploy" / "secvm-node@.service").read_text(encoding="utf-8")
    assert "RestartPreventExitStatus=2\n" in unit
