import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from secvm.cli import main as program
from secvm.cli.commands import Command
from secvm.cli.output import Format, FormatOption, emit
from secvm.errors import BadPeopleFileError


def failing_command(kind: str, *, output_format: FormatOption = Format.TXT) -> None:
    """Fail in one of several ways."""
    secret = "a person's word"
    match kind:
        case "input":
            raise BadPeopleFileError("the label is missing", line=3, next_step="Give every person a label.")
        case "interrupt":
            raise KeyboardInterrupt
        case "pipe":
            raise BrokenPipeError(32, "Broken pipe")
        case "bug":
            raise RuntimeError(f"a bug of {len(secret)} letters")
        case "exit":
            raise typer.Exit(7)
        case _:
            emit({"kind": kind}, output_format)


@pytest.fixture(autouse=True)
def _commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "failing_command", failing_command)
    monkeypatch.setitem(sys.modules, "failing_module", sys.modules[__name__])
    monkeypatch.setitem(
        program.COMMANDS, "fail", Command("failing_module:failing_command", "Fail in one of several ways.")
    )


def test_bad_input_is_one_sentence_and_the_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.run(["fail", "input"]) == 2
    assert capsys.readouterr() == ("", "secvm: line 3: the label is missing\nGive every person a label.\n")


def test_interrupt_ends_with_130_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.run(["fail", "interrupt"]) == 130
    assert capsys.readouterr() == ("", "secvm: interrupted\n")


def test_help_shows_options_in_groups_and_the_rest_last(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.run(["train", "--help"]) == 0
    help_text = capsys.readouterr().out
    headings = re.findall(r"^(\w[\w ]*):$", help_text, flags=re.MULTILINE)
    assert headings == [
        "Arguments",
        "Who tests",
        "Features",
        "Training",
        "Formal guarantee",
        "Files to write",
        "Options",
    ]
    _, _, below = help_text.partition("Who tests:")
    assert below.index("--test-fraction") < below.index("Features:") < below.index("--bins")
    assert below.index("Options:\n") < below.index("--help")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["--help"], ["dev"], ["--version"], ["bench"]])
def test_closed_pipe_ends_with_141_and_no_word(arguments: list[str], unbuffered: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "secvm.cli.main", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr as told:
        assert told.read() == b""
    assert process.wait() == 141


def test_exit_codes_of_commands_are_kept() -> None:
    assert program.run(["fail", "exit"]) == 7


def test_bug_is_raised_as_it_is() -> None:
    with pytest.raises(RuntimeError, match="a bug of 15 letters"):
        program.run(["fail", "bug"])


def test_result_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.run(["fail", "not", "--format", "json"]) == 0
    assert capsys.readouterr() == ('{"kind":"not"}\n', "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fial"], "did you mean fail?"),
        (["fail"], "missing"),
        (["fail", "not", "--format", "xml"], "xml"),
        (["fail", "not", "--frob"], "--frob"),
        (["fail", "not", "again"], "again"),
        (["--frob"], "--frob"),
        (["bench", "no-such-benchmark"], "no-such-benchmark"),
        (["train", "x", "--rounds", "0"], "--rounds must be a whole number from 1 to 1048575, or auto; not '0'\n"),
        (
            ["train", "x", "--rounds", "many"],
            "--rounds must be a whole number from 1 to 1048575, or auto; not 'many'\n",
        ),
    ],
)
def test_wrong_usage_is_one_sentence(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    assert program.run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("secvm: ")
    assert words in err
    assert len(err.splitlines()) <= 2


@pytest.mark.parametrize("arguments", [[], ["--help"], ["dev"], ["dev", "--help"]])
def test_help_goes_to_stdout(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert program.run(arguments) == 0
    out, err = capsys.readouterr()
    assert "Commands:" in out
    assert err == ""


@pytest.mark.parametrize("name", ["coordinator", "relay", "experiment", "participant"])
def test_every_command_of_a_party_has_an_example(name: str) -> None:
    group = program.load(name)
    for command in group.commands.values():
        assert "Example" in command.help, command.name
        assert f"./secvm {name} {command.name}" in command.help, command.name


def _groups(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every group of commands, by the words that lead to it."""
    names = command.list_commands(None) if hasattr(command, "list_commands") else []
    if names:
        yield path
    for name in names:
        yield from _groups(command.get_command(None, name), (*path, name))


def test_summaries_of_all_commands_fit_80_columns_uncut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    groups = list(_groups(program.app_command()))
    assert {(), ("participant",), ("coordinator",), ("dev",), ("reproduce",)} <= set(groups)
    for path in groups:
        assert program.run([*path, "--help"]) == 0
        listed = capsys.readouterr().out.partition("Commands:\n")[2].splitlines()
        # A name, and its whole summary in the same line.
        assert [line for line in listed if not re.fullmatch(r"  [a-z-]+ +\S.*[^.]\.", line) or len(line) > 80] == []
