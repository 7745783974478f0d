"""``secvm audit`` as it is typed: exit codes, JSON, evidence written and read again, collisions."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from secvm.cli.main import run
from secvm.protocol.canonical import digest_of
from secvm.protocol.evidence.plain import EVIDENCE_BEGINS, MAX_EVIDENCE_BYTES
from secvm_lab.rigs.histories.public_history import PublicHistory
from secvm_lab.rigs.histories.sealed_round import SealedRound
from tests.unit.auditor.histories import history, lay_out


def folder_of(made: PublicHistory, folder: Path) -> list[str]:
    """Its public folder, and the time at which it is audited."""
    lay_out(made.files, folder)
    return [str(folder), "--at", datetime.fromtimestamp(made.now / 1000, UTC).isoformat()]


def lie() -> PublicHistory:
    made = history(rounds=1)
    made.conclude(made.draw_tally())
    made.announce(evaluation_weights=digest_of(b"other weights"))
    return made


def test_honest_folder_ends_with_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = history(rounds=2, end=True)
    arguments = folder_of(made, tmp_path / "public")
    assert run(["audit", *arguments]) == 0
    assert capsys.readouterr().out.endswith("nothing found.\n")
    assert run(["audit", *arguments, "--format", "json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["audit"], content["experiment"]) == ("ok", made.document.digest)
    assert run(["audit", *arguments, "--skip-models", "--experiment", made.document.digest[:8]]) == 0


def test_copy_without_a_time_is_audited_as_of_now(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = history(rounds=1)
    folder, *_ = folder_of(made, tmp_path / "public")
    assert run(["audit", folder]) == 0
    assert "old, as in any copy" in capsys.readouterr().out


def test_fault_ends_with_one_and_its_evidence_convicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evidence = tmp_path / "found.json"
    arguments = folder_of(lie(), tmp_path / "public")
    assert run(["audit", *arguments, "--evidence-to", str(evidence)]) == 1
    said = capsys.readouterr()
    assert "does not follow" in said.out
    assert "may show who received it" in said.err
    assert run(["audit", "--evidence", str(evidence)]) == 0
    assert "What you must still check yourself" in capsys.readouterr().out
    assert run(["audit", "--evidence", str(evidence), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "wrong-step"
    # Evidence is never written over.
    assert run(["audit", *arguments, "--evidence-to", str(evidence)]) == 2


def test_fault_that_can_be_proved_is_told_where_no_file_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["audit", *folder_of(lie(), tmp_path / "public")]) == 1
    assert "--evidence-to" in capsys.readouterr().err


def test_file_that_shows_nothing_ends_with_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nothing = tmp_path / "nothing.json"
    nothing.write_text("{}")
    assert run(["audit", "--evidence", str(nothing)]) == 1
    assert "shows nothing" in capsys.readouterr().out
    assert run(["audit", "--evidence", str(nothing), "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["evidence"] == "shows nothing"


def test_repro_a_devices_evidence_of_a_missing_canary_is_examined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`participant evidence --export` says that anybody can check the file so."""
    left_out = frozenset({SealedRound().submissions[0].canary.inner_digest})
    evidence = SealedRound(mix_leaves_out=left_out).evidence(narrowed=True)
    assert evidence is not None
    file = tmp_path / "canary.json"
    file.write_bytes(evidence.to_bytes())
    assert run(["audit", "--evidence", str(file)]) == 0
    assert "(the mixing relay) left it out" in capsys.readouterr().out
    assert run(["audit", "--evidence", str(file), "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["kind"], told["parts"]) == ("missing-canary", {"statements": 3})


def test_repro_a_large_file_of_something_else_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    large, evidence = tmp_path / "large", tmp_path / "evidence"
    # Nothing but a name and a length: no disk, and no memory either if nobody reads it.
    with large.open("wb") as file:
        file.truncate(2**42)
    with evidence.open("wb") as file:
        file.write(EVIDENCE_BEGINS)
        file.truncate(2**42)
    assert run(["audit", "--evidence", str(large)]) == 1
    assert "shows nothing" in capsys.readouterr().out
    assert run(["audit", "--evidence", str(evidence)]) == 2
    assert f"more than {MAX_EVIDENCE_BYTES} bytes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "say what to audit"),
        (["nowhere"], "no folder"),
        (["http://127.0.0.1:9"], "cannot reach"),
        (["x", "--evidence", "y"], "say what to audit"),
        (["--evidence", "nowhere.json"], "cannot read"),
        (["gopher://x"], "address"),
        ([".", "--at", "yesterday"], "--at"),
        ([".", "--at", "2026-01-01T00:00:00"], "time zone"),
        (["collisions", "--vocabulary", "x"], "say whose bins"),
        (["collisions", "--vocabulary", "x", "--salt", "00", "--bins", "3"], "16 to 64 bytes"),
        (["collisions", "--vocabulary", "x", "--salt", "00" * 16], "needs --bins"),
        (["collisions", "--vocabulary", "x", "--experiment", "https://x/ab", "--bins", "3"], "go with --salt"),
        (["collisions", "--vocabulary", "x", "--experiment", "nonsense"], "a slash"),
    ],
)
def test_bad_input_ends_with_two_and_one_sentence(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v1").mkdir()
    assert run(["audit", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_help_is_of_the_audit_and_names_the_command_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Usage: secvm audit [OPTIONS]")
    assert "audit collisions --help" in text
    assert run(["audit", "collisions", "--help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: secvm audit collisions")


def test_collisions_of_an_experiment_are_counted_listed_and_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = history(rounds=0, beacons=1)
    folder, *_ = folder_of(made, tmp_path / "public")
    words = tmp_path / "words.txt"
    words.write_text("".join(f"w{i}\n" for i in range(40)))
    plot = tmp_path / "drawn.svg"
    arguments = ["audit", "collisions", "--vocabulary", str(words), "--experiment", f"{folder}/{made.document.digest}"]
    assert run([*arguments, "--list", "3", "--plot", str(plot), "--format", "json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["words"] == 40
    assert content["bins"] == made.document.experiment.n_bins
    assert len(content["alone"]) == min(3, content["words_alone"])
    assert "<svg" in plot.read_text()
    assert run(arguments) == 0
    assert "posterior of the most popular word" in capsys.readouterr().out
