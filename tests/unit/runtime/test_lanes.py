"""Lanes are found where they are, and where they are not, one word says why."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from secvm.errors import SecVMError
from secvm.runtime import lanes
from secvm.runtime.lanes import LaneSearch, build_lanes, cpu_can, find_lanes
from tests.unit.crypto.openers import lanes_here

FLAGS = "flags\t\t: " + " ".join(sorted(lanes._FEATURES)) + " and more\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where lanes are built that nobody else finds, on a machine that can."""
    monkeypatch.setattr(lanes, "cpu_can", lambda: True)
    place = tmp_path / "lanes"
    place.mkdir(mode=0o700)
    return place


def put(folder: Path, library: bytes) -> Path:
    built = folder / lanes._name()
    built.mkdir(mode=0o700)
    (built / lanes._LIBRARY).write_bytes(library)
    return built


def test_a_cpu_can_when_all_its_cores_have_every_feature() -> None:
    assert cpu_can(FLAGS)
    assert cpu_can(FLAGS + "processor : 1\n" + FLAGS)
    assert not cpu_can(FLAGS + FLAGS.replace("avx512ifma", ""))
    assert not cpu_can(FLAGS.replace("sha_ni", ""))
    assert not cpu_can("")


def test_lanes_can_be_switched_off() -> None:
    assert find_lanes("off") == LaneSearch(None, "switched-off")


def test_without_the_cpu_nothing_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "cpu_can", lambda: False)
    monkeypatch.setattr(lanes, "Lanes", None)
    assert find_lanes(folder=tmp_path) == LaneSearch(None, "cpu")


def test_nothing_is_compiled_unless_somebody_asks(folder: Path) -> None:
    assert find_lanes(folder=folder) == LaneSearch(None, "not-built")
    assert list(folder.iterdir()) == []


def test_repro_a_folder_that_we_may_not_look_into_is_no_reason_to_fail(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> os.stat_result:
        raise PermissionError(errno.EACCES, "Permission denied")

    # As for somebody who has root's HOME and is not root.
    monkeypatch.setattr(os, "stat", refused)
    assert find_lanes(folder=folder) == LaneSearch(None, "not-built")


def test_what_is_no_library_does_not_load(folder: Path) -> None:
    put(folder, b"no library")
    assert find_lanes(folder=folder) == LaneSearch(None, "does-not-load")


@pytest.mark.parametrize("what", ["file", "folder", "above"])
def test_what_others_can_write_is_not_loaded(folder: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    built = put(folder, b"never looked at")
    monkeypatch.setattr(lanes, "Lanes", None)
    {"file": built / lanes._LIBRARY, "folder": built, "above": folder}[what].chmod(0o777)
    assert find_lanes(folder=folder) == LaneSearch(None, "unsafe-folder")


def test_nothing_is_compiled_into_a_folder_that_others_can_write_to(folder: Path) -> None:
    folder.chmod(0o770)
    with pytest.raises(SecVMError, match="no folder for machine code"):
        build_lanes(folder)
    assert list(folder.iterdir()) == []


def test_without_a_compiler_one_sentence_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(SecVMError, match="no C compiler"):
        build_lanes(folder)


def test_a_compiler_that_fails_leaves_nothing_behind(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.c"
    broken.write_bytes(b"this is no C\n")
    monkeypatch.setattr(lanes, "_source", lambda: broken)
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho it did not like it >&2\nexit 1\n")
    compiler.chmod(0o700)
    monkeypatch.setattr(shutil, "which", lambda _name: str(compiler))
    with pytest.raises(SecVMError, match="it did not like it"):
        build_lanes(folder)
    assert list(folder.iterdir()) == []


def test_repro_a_build_that_another_process_finished_first_is_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The slower of two builders took the quicker one's away for a moment, and a third process found no lanes.
    built = folder / lanes._name()

    def compile_while_another_finishes(_command: list[str], to: Path, _source: bytes) -> None:
        to.write_bytes(b"ours")
        put(folder, b"theirs")

    monkeypatch.setattr(lanes, "_compile", compile_while_another_finishes)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    assert build_lanes(folder) == built
    assert (built / lanes._LIBRARY).read_bytes() == b"theirs"
    assert list(folder.iterdir()) == [built]


def test_code_of_another_source_has_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = lanes._name()
    other = tmp_path / "other.c"
    other.write_bytes(lanes._source().read_bytes() + b"\n")
    monkeypatch.setattr(lanes, "_source", lambda: other)
    assert lanes._name() != ours


@pytest.mark.parametrize(
    ("right", "wrong", "found"),
    [
        # Whatever the tag says: a capsule that was changed on its way opens.
        ("return WRONG_TAG;", "", "opens-otherwise"),
        # Another base point: nobody opens what was sealed.
        ("base[POINT] = {9}", "base[POINT] = {8}", "seals-otherwise"),
    ],
)
def test_code_that_opens_or_seals_otherwise_is_found_out(
    right: str, wrong: str, found: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where this machine has no lanes, nothing can be compiled for it, and nothing is found.
    if lanes_here() is None:
        assert find_lanes(folder=folder).lanes is None
        return
    source = lanes._source().read_text(encoding="utf-8")
    careless = tmp_path / "careless.c"
    assert right in source
    careless.write_text(source.replace(right, wrong), encoding="utf-8")
    monkeypatch.setattr(lanes, "_source", lambda: careless)
    monkeypatch.setattr(lanes, "_OPTIONS", tuple("-O1" if one == "-O3" else one for one in lanes._OPTIONS))
    assert build_lanes(folder) == folder / lanes._name()
    assert find_lanes(folder=folder) == LaneSearch(None, found)
    (folder / lanes._name() / lanes._LIBRARY).chmod(0o600)
    assert build_lanes(folder).is_dir(), "a second time nothing is compiled"
