import json
import os
import stat
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
import typer

from secvm.cli.output import Format, emit, note, progress, table
from secvm.errors import BadInputError
from secvm.files import write_atomically
from secvm_lab.cli.time_left import as_typed


def test_emit_writes_one_json_object_with_keys_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"z": np.float64(0.5), "a": [np.int64(1)], "n": {"λ": None}}, Format.JSON)
    out, err = capsys.readouterr()
    assert out == '{"z":0.5,"a":[1],"n":{"λ":null}}\n'
    assert json.loads(out)
    assert err == ""


def test_emit_writes_lines_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"rounds": 3, "recall": 1 / 3, "per class": {"f": True, "m": None}, "bins": [1, 2]}, Format.TXT)
    assert capsys.readouterr().out == (
        "rounds     3\nrecall     0.333333\nper class\n  f  yes\n  m  none\nbins       1, 2\n"
    )


def test_emit_prefers_the_commands_own_text(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"rounds": 3}, Format.TXT, text="three rounds")
    assert capsys.readouterr().out == "three rounds\n"


def test_repro_text_of_others_changes_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "tea\x1b]0;pwned\x07\x1b[2J\x9b8m\u202e\r"
    emit({}, Format.TXT, text=f"1  {evil}\n2  milk")
    emit({"title": evil}, Format.TXT)
    note(f"what is asked: {evil}\nnext line")
    out, err = capsys.readouterr()
    shown = "tea?]0;pwned??[2J?8m??"
    assert out == f"1  {shown}\n2  milk\ntitle  {shown}\n"
    assert err == f"what is asked: {shown}\nnext line\n"


def test_repro_json_for_a_terminal_is_escaped_and_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    content = {"title": "tea\x1b[2J\x9b8m\u202e\U000e0041", "λ": "é"}
    emit(content, Format.JSON)
    out = capsys.readouterr().out
    assert json.loads(out) == content
    assert out == '{"title":"tea\\u001b[2J\\u009b8m\\u202e\\udb40\\udc41","λ":"é"}\n'


def test_progress_stays_off_stdout(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secvm.cli.output.PLAIN_PROGRESS_EVERY_S", 0.0)
    with progress("reading", total=3) as advance:
        advance(1)
        advance(2)
    assert capsys.readouterr() == ("", "reading: 1 of 3\nreading: 3 of 3\n")


def test_write_makes_the_file_and_nothing_else(tmp_path: Path) -> None:
    write_atomically(tmp_path / "model", b"one")
    write_atomically(tmp_path / "model", b"two")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("model", b"two")]


def test_write_keeps_the_mode_of_a_file_and_follows_a_link(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"old")
    file.chmod(0o640)
    link.symlink_to(file)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_new_file_has_the_mode_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "model", b"one")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == 0o640


def test_write_failure_is_one_sentence_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").write_bytes(b"old")

    def no_space(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(BadInputError, match="No space left on device"):
        write_atomically(tmp_path / "model", b"new")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("model", b"old")]


def test_write_interrupted_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "model", b"new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["missing/model", "."])
def test_write_refuses_places_that_are_no_files(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInputError, match="cannot write"):
        write_atomically(tmp_path / name, b"new")
    assert list(tmp_path.iterdir()) == []


def test_write_does_not_replace_a_device(tmp_path: Path) -> None:
    # Seen elsewhere: `--output /dev/null`, run by root, turned the device into a file.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_atomically(pipe, b"through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_command_is_told_as_it_was_typed_lists_and_all(capsys: pytest.CaptureFixture[str]) -> None:
    app = typer.Typer()

    @app.command()
    def made(
        context: typer.Context,
        bins: Annotated[list[str] | None, typer.Option()] = None,
        folder: Annotated[str, typer.Option()] = "",
        seed: Annotated[int, typer.Option()] = 1,
        choose: Annotated[bool, typer.Option("--choose/--no-choose")] = True,
    ) -> None:
        del bins, folder, seed, choose
        typer.echo(as_typed(context))

    app(["--bins", "none", "--bins", "1 000", "--no-choose", "--folder", "there"], standalone_mode=False)
    assert capsys.readouterr().out.endswith(" --bins none --bins '1 000' --no-choose\n")


def test_repro_numbers_stood_beside_their_headings_where_labels_are_short() -> None:
    rows = [("label", "recall"), ("f", "0.5687"), ("a long one", "-")]
    assert list(table(rows)) == ["label       recall", "f           0.5687", "a long one       -"]
