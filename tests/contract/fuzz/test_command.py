"""``secvm dev fuzz``: what it tells, and how it ends."""

import json
import platform
from pathlib import Path

import pytest

from secvm.cli.main import run
from secvm_lab.fuzz.campaign import Outcome, _Run, as_result, write_escapes
from secvm_lab.fuzz.registry import TARGETS


def test_a_small_run_tries_as_many_as_were_asked_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        assert run(["dev", "fuzz"]) == 2
        return
    escapes = tmp_path / "escapes"
    wanted = ["--inputs", "6000", "--target", "package", "--target", "capsules", "--processes", "1"]
    assert run(["dev", "fuzz", *wanted, "--escapes", str(escapes), "--format", "json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert list(told) == ["inputs", "targets", "escapes", "seconds", "peak_rss_mb"]
    assert list(told["targets"]) == ["package", "capsules"]
    assert told["inputs"] == sum(one["inputs"] for one in told["targets"].values()) >= 6000
    assert (told["escapes"], escapes.exists()) == (0, False)


def test_a_target_that_is_none_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["dev", "fuzz", "--target", "no-such"]) == 2
    said = capfd.readouterr().err
    assert "there is no target 'no-such'" in said
    assert "manifest" in said


def test_where_there_is_no_fuzzer_one_sentence_says_so(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    assert run(["dev", "fuzz"]) == 2
    said = capfd.readouterr().err.splitlines()
    assert said[0] == "secvm: the fuzzer, atheris, is there for Linux on x86-64 alone, and for developers"


def ended(folder: Path, code: int, files: dict[str, bytes]) -> Outcome:
    """What comes of a process that ended so, and left these files."""
    turn = _Run(folder, TARGETS["package"], 10, 0)
    for name, data in {"said": b"", **files}.items():
        (turn.folder / name).write_bytes(data)
    return turn.outcome(code, 0.1, 5.0)


@pytest.mark.parametrize(
    ("code", "files", "told"),
    [
        (77, {"escape": b"input", "escape.txt": b"what it did"}, "what it did"),
        (70, {"timeout-ab": b"input"}, "package: timeout"),
        (71, {"oom-ab": b"input"}, "package: oom"),
    ],
)
def test_an_escape_is_told_and_kept(tmp_path: Path, code: int, files: dict[str, bytes], told: str) -> None:
    outcome = ended(tmp_path, code, files)
    assert outcome.escape == (told, b"input")
    assert as_result({"package": outcome})["escapes"] == 1
    (path,) = write_escapes({"package": outcome}, tmp_path / "escapes")
    assert (path.read_bytes(), path.with_suffix(".txt").read_text(encoding="utf-8")) == (b"input", told)


@pytest.mark.parametrize(("code", "count"), [(0, 9), (-11, 10)])
def test_a_process_that_ends_early_or_badly_is_no_success(tmp_path: Path, code: int, count: int) -> None:
    outcome = ended(tmp_path, code, {"count": count.to_bytes(8, "little")})
    assert outcome.escape is not None
    assert write_escapes({"package": ended(tmp_path, 0, {"count": (10).to_bytes(8, "little")})}, tmp_path / "x") == []
