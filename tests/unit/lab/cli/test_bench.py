import sys
from pathlib import Path

import pytest

from secvm.cli.main import run
from secvm_lab.cli import bench as benchmarks

SOURCE = '''"""Add two numbers.

More of it.
"""


def add_arguments(parser):
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--second", type=int, default=1)


def run(arguments):
    return {"sum": arguments.first + arguments.second}
'''


@pytest.fixture(autouse=True)
def _checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks/adding.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "benchmarks/_helper.py").write_text("", encoding="utf-8")
    monkeypatch.setattr(benchmarks, "find_or_refuse", lambda: tmp_path)
    # What `bench` adds to these is gone after the test.
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("benchmarks", "benchmarks.adding"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_bench_lists_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench"]) == 0
    assert capsys.readouterr().out == "adding  Add two numbers.\n"
    assert run(["bench", "--format", "json"]) == 0
    assert capsys.readouterr().out == '{"adding":"Add two numbers."}\n'


@pytest.mark.parametrize(
    "arguments", [["adding", "--second", "4", "--format", "json"], ["--format", "json", "adding", "--second=4"]]
)
def test_bench_hands_options_through(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert run(["bench", *arguments]) == 0
    assert capsys.readouterr() == ('{"sum":5}\n', "")


@pytest.mark.parametrize("arguments", [["--second", "x"], ["--third", "1"], ["--format", "xml"]])
def test_bench_complains_in_one_sentence(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert run(["bench", "adding", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("secvm: ")
    assert err.endswith("Try 'secvm bench adding --help'.\n")


def test_bench_refuses_a_helper(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "_helper"]) == 2
    assert "there is no benchmark '_helper'" in capsys.readouterr().err


def test_bench_shows_the_benchmarks_own_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        run(["bench", "adding", "--help"])
    assert "--second" in capsys.readouterr().out
