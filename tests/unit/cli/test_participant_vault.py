import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from secvm.cli.participant import app
from secvm.errors import BadInputError
from secvm.participant.invitation import keep_invitation, make_folder
from secvm.participant.sources.registry import how_to_import
from secvm.participant.storage.vault import Vault
from tests.there import there


def run(*arguments: str | Path, answer: str | None = None) -> str:
    told = CliRunner().invoke(app, [str(word) for word in arguments], input=answer)
    if told.exception is not None:
        raise told.exception
    return told.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "device"


def test_import_then_show_counts_and_shows_no_feature(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "words.csv").write_text("quokka\nnumbat\n")
    told = run("import", "csv", tmp_path / "words.csv", "--folder", folder)
    assert told == "2 features are in the vault under the name csv. Nothing was sent.\n"
    told = run("import", "csv", tmp_path / "words.csv", "--as", "diary", "--option", "split=yes", "--folder", folder)
    assert run("label", "sex", "--answer", "wombat", "--folder", folder) == "Your label is kept on this device.\n"
    shown = run("show-vault", "--folder", folder)
    assert "quokka" not in shown
    told = json.loads(run("show-vault", "--folder", folder, "--format", "json"))
    assert (told["features"], told["labels"], told["excluded"]) == ({"csv": 2, "diary": 2}, 1, [])
    assert told["read"]["diary"].endswith(", all of it, by csv")


def test_what_is_in_the_vault_is_shown_when_asked_for_and_excluded_for_good(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "words.csv").write_text("quokka\nnumbat\n")
    run("import", "csv", tmp_path / "words.csv", "--folder", folder)
    shown = json.loads(run("show-vault", "--words", "--source", "csv", "--folder", folder, "--format", "json"))
    assert shown["words"] == {"numbat": 1, "quokka": 1}
    run("import", "csv", tmp_path / "words.csv", "--exclude", "Quokka", "--folder", folder)
    run("import", "csv", tmp_path / "words.csv", "--as", "again", "--folder", folder)
    shown = json.loads(run("show-vault", "--words", "--folder", folder, "--format", "json"))
    assert (shown["words"], shown["excluded"]) == ({"numbat": 2}, ["quokka"])
    run("import", "csv", tmp_path / "words.csv", "--include", "quokka", "--folder", folder)
    shown = json.loads(run("show-vault", "--words", "--folder", folder, "--format", "json"))
    assert (shown["words"], shown["excluded"]) == ({"numbat": 2, "quokka": 1}, [])


def test_import_lists_the_sources(folder: Path) -> None:
    told = run("import", "--list")
    assert [line.split()[0] for line in told.splitlines()][:3] == ["history-titles", "history-hosts", "history"]
    assert not folder.exists()


def test_label_is_asked_for_without_being_shown(folder: Path) -> None:
    told = run("label", "sex", "--folder", folder, answer="wombat\n")
    assert told.endswith("Your label is kept on this device.\n")
    assert "wombat" not in told
    with Vault(folder) as vault:
        label = there(vault.label("sex"))
        assert label.value == "wombat"
    assert run("label", "sex", "--forget", "--folder", folder) == "Your label is forgotten.\n"
    with Vault(folder) as vault:
        assert vault.label("sex") is None


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["import"], "name a source to read from"),
        (["import", "netscape"], "there is no source 'netscape' to read from"),
        (["import", "csv", "x", "--days", "3"], "this source has no option 'days'"),
        (["import", "csv", "x", "--option", "split"], "--option takes NAME=VALUE, each name once"),
        (["import", "history", "x", "--days", "3", "--option", "days=4"], "--option takes NAME=VALUE, each name once"),
        (["import", "history", "x", "--exclude", "two words"], "what is excluded is one word, or the name of one host"),
        (["label", "sex", "--forget", "--answer", "x"], "--answer and --forget exclude each other"),
        (["label", "3515", "--answer", "coffee"], "this device knows no experiment that begins with 3515"),
        (["import", "words", "x.csv"], "there is no source 'words' to read from"),
    ],
)
def test_bad_usage_is_one_sentence(arguments: list[str], sentence: str, folder: Path) -> None:
    with pytest.raises(BadInputError, match=sentence):
        run(*arguments, "--folder", folder)


def test_what_a_source_gave_is_forgotten_after_a_yes(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "words.csv").write_text("quokka\nnumbat\n")
    run("import", "csv", tmp_path / "words.csv", "--folder", folder)
    with pytest.raises(BadInputError, match="nothing was forgotten"):
        run("forget", "--source", "csv", "--folder", folder, answer="n\n")
    with pytest.raises(BadInputError, match="the vault has nothing of the source 'history'"):
        run("forget", "--source", "history", "--yes", "--folder", folder)
    with pytest.raises(BadInputError, match="an experiment, or --source NAME"):
        run("forget", "3fa9", "--source", "csv", "--folder", folder)
    assert run("forget", "--source", "csv", "--yes", "--folder", folder) == "Forgotten: all that 'csv' gave.\n"
    assert json.loads(run("show-vault", "--folder", folder, "--format", "json"))["features"] == {}


def test_repro_a_label_given_before_joining_is_kept_for_the_experiment_whose_digest_begins_so(folder: Path) -> None:
    digests = ["35150" + "0" * 59, "35151" + "0" * 59]
    make_folder(folder)
    for digest in digests:
        keep_invitation(folder, digest, b"an envelope")
    assert run("label", "35150", "--answer", "coffee", "--folder", folder) == "Your label is kept on this device.\n"
    with Vault(folder) as vault:
        assert there(vault.label(digests[0])).value == "coffee"
        assert vault.answered() == [digests[0]]
    with pytest.raises(BadInputError, match="more than one experiment"):
        run("label", "3515", "--answer", "tea", "--folder", folder)


def test_what_an_experiment_wants_and_no_source_gives_is_imported_by_a_file_under_its_name(folder: Path) -> None:
    with pytest.raises(BadInputError) as refused:
        run("import", "words", "mine.csv", "--folder", folder)
    assert refused.value.next_step == (
        "What you have in a file of your own is kept under that name with: secvm participant import csv FILE --as words"
    )
    assert how_to_import("history-titles") == "secvm participant import history-titles"
    assert how_to_import("people") == "secvm participant import people FILE"
