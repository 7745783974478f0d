"""``secvm audit`` as it is typed: exit codes, JSON, evidence written and read again, collisions."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from secvm.protocol.canonical import digest_of
from secvm.protocol.evidence.plain import EVIDENCE_BEGINS, MAX_EVIDENCE_BYTES
from secvm_lab.rigs.histories.public_history import PublicHistory
from secvm_lab.rigs.histories.sealed_round import SealedRound
from tests.program import Program
from tests.unit.auditor.histories import history, lay_out


@pytest.fixture
def secvm(secvm: Program) -> Program:
    secvm.before = ("audit",)
    return secvm


def folder_of(made: PublicHistory, folder: Path) -> tuple[Path, str, str]:
    """Its public folder, and the time at which it is audited."""
    lay_out(made.files, folder)
    return folder, "--at", datetime.fromtimestamp(made.now / 1000, UTC).isoformat()


def lie() -> PublicHistory:
    made = history(rounds=1)
    made.conclude(made.draw_tally())
    made.announce(evaluation_weights=digest_of(b"other weights"))
    return made


def test_honest_folder_ends_with_zero(tmp_path: Path, secvm: Program) -> None:
    made = history(rounds=2, end=True)
    arguments = folder_of(made, tmp_path / "public")
    assert secvm(*arguments) == 0
    assert secvm.out.endswith("nothing found.\n")
    content = secvm.json(*arguments)
    assert (content["audit"], content["experiment"]) == ("ok", made.document.digest)
    assert secvm(*arguments, f"--skip-models --experiment {made.document.digest[:8]}") == 0


def test_copy_without_a_time_is_audited_as_of_now(tmp_path: Path, secvm: Program) -> None:
    folder, *_ = folder_of(history(rounds=1), tmp_path / "public")
    assert secvm(folder) == 0
    assert "old, as in any copy" in secvm.out


def test_fault_ends_with_one_and_its_evidence_convicts(tmp_path: Path, secvm: Program) -> None:
    evidence = tmp_path / "found.json"
    arguments = folder_of(lie(), tmp_path / "public")
    assert secvm(*arguments) == 1
    assert "--evidence-to" in secvm.err
    assert secvm(*arguments, "--evidence-to", evidence) == 1
    assert "does not follow" in secvm.out
    assert "may show who received it" in secvm.err
    assert secvm("--evidence", evidence) == 0
    assert "What you must still check yourself" in secvm.out
    assert secvm.json("--evidence", evidence)["kind"] == "wrong-step"
    # Evidence is never written over.
    secvm.refused(*arguments, "--evidence-to", evidence)


def test_file_that_shows_nothing_ends_with_one(tmp_path: Path, secvm: Program) -> None:
    nothing = tmp_path / "nothing.json"
    nothing.write_text("{}")
    assert secvm("--evidence", nothing) == 1
    assert "shows nothing" in secvm.out
    assert secvm("--evidence", nothing, "--format json") == 1
    assert json.loads(secvm.out)["evidence"] == "shows nothing"


def test_repro_a_devices_evidence_of_a_missing_canary_is_examined(tmp_path: Path, secvm: Program) -> None:
    """`participant evidence --export` says that anybody can check the file so."""
    left_out = frozenset({SealedRound().submissions[0].canary.inner_digest})
    evidence = SealedRound(mix_leaves_out=left_out).evidence(narrowed=True)
    assert evidence is not None
    file = tmp_path / "canary.json"
    file.write_bytes(evidence.to_bytes())
    assert secvm("--evidence", file) == 0
    assert "(the mixing relay) left it out" in secvm.out
    told = secvm.json("--evidence", file)
    assert (told["kind"], told["parts"]) == ("missing-canary", {"statements": 3})


def test_repro_a_large_file_of_something_else_is_not_read(tmp_path: Path, secvm: Program) -> None:
    large, evidence = tmp_path / "large", tmp_path / "evidence"
    # Nothing but a name and a length: no disk, and no memory either if nobody reads it.
    for file, begins in ((large, b""), (evidence, EVIDENCE_BEGINS)):
        with file.open("wb") as opened:
            opened.write(begins)
            opened.truncate(2**42)
    assert secvm("--evidence", large) == 1
    assert "shows nothing" in secvm.out
    assert f"more than {MAX_EVIDENCE_BYTES} bytes" in secvm.refused("--evidence", evidence)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("", "say what to audit"),
        ("nowhere", "no folder"),
        ("http://127.0.0.1:9", "cannot reach"),
        ("x --evidence y", "say what to audit"),
        ("--evidence nowhere.json", "cannot read"),
        ("gopher://x", "address"),
        (". --at yesterday", "--at"),
        (". --at 2026-01-01T00:00:00", "time zone"),
        ("collisions --vocabulary x", "say whose bins"),
        ("collisions --vocabulary x --salt 00 --bins 3", "16 to 64 bytes"),
        ("collisions --vocabulary x --salt " + "00" * 16, "needs --bins"),
        ("collisions --vocabulary x --experiment https://x/ab --bins 3", "go with --salt"),
        ("collisions --vocabulary x --experiment nonsense", "a slash"),
    ],
)
def test_bad_input_ends_with_two_and_one_sentence(
    arguments: str, said: str, tmp_path: Path, secvm: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v1").mkdir()
    assert said in secvm.refused(arguments)


def test_help_is_of_the_audit_and_names_the_command_below_it(secvm: Program) -> None:
    assert secvm("--help") == 0
    assert secvm.out.startswith("Usage: secvm audit [OPTIONS]")
    assert "audit collisions --help" in secvm.out
    assert secvm("collisions --help") == 0
    assert secvm.out.startswith("Usage: secvm audit collisions")


def test_collisions_of_an_experiment_are_counted_listed_and_drawn(tmp_path: Path, secvm: Program) -> None:
    made = history(rounds=0, beacons=1)
    folder, *_ = folder_of(made, tmp_path / "public")
    words, plot = tmp_path / "words.txt", tmp_path / "drawn.svg"
    words.write_text("".join(f"w{i}\n" for i in range(40)))
    arguments = ("collisions --vocabulary", words, "--experiment", folder / made.document.digest)
    content = secvm.json(*arguments, "--list 3 --plot", plot)
    assert content["words"] == 40
    assert content["bins"] == made.document.experiment.n_bins
    assert len(content["alone"]) == min(3, content["words_alone"])
    assert "<svg" in plot.read_text()
    assert secvm(*arguments) == 0
    assert "posterior of the most popular word" in secvm.out
