"""A small file system that is full to the last byte, and then is not. Where it cannot be mounted, it is said."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

import pytest

from secvm_lab.chaos.small_disk import DiskUnavailableError, SmallDisk, why_no_disk


def is_mounted(folder: Path) -> bool:
    return os.path.ismount(folder)


def test_a_full_disk_takes_nothing_and_a_freed_one_does(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    if why_no_disk(tmp_path) is not None:
        with pytest.raises(DiskUnavailableError), SmallDisk(folder, megabytes=2):
            pass
        return
    with SmallDisk(folder, megabytes=2) as disk:
        assert is_mounted(folder)
        database = sqlite3.connect(folder / "store.sqlite")
        database.execute("CREATE TABLE t (x)")
        database.commit()
        disk.fill()
        with pytest.raises(OSError, match="No space left") as told:
            (folder / "more").write_bytes(b"x")
        assert told.value.errno == errno.ENOSPC
        with pytest.raises(sqlite3.OperationalError, match="full"):
            database.executemany("INSERT INTO t VALUES (?)", [(bytes(2**20),)] * 4)
        database.rollback()
        disk.free()
        database.executemany("INSERT INTO t VALUES (?)", [(bytes(2**16),)] * 4)
        database.commit()
        database.close()
    assert not is_mounted(folder)


def test_a_failure_leaves_nothing_mounted(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    if why_no_disk(tmp_path) is not None:
        assert not folder.exists()
        return
    with pytest.raises(FileNotFoundError), SmallDisk(folder, megabytes=1):
        (folder / "nothing").unlink()
    assert not is_mounted(folder)


def test_who_still_has_a_file_open_does_not_keep_it_mounted(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    if why_no_disk(tmp_path) is not None:
        assert not folder.exists()
        return
    with SmallDisk(folder, megabytes=1):
        held = (folder / "held").open("wb")
    assert not is_mounted(folder)
    held.close()


def test_without_root_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "root" in str(why_no_disk(tmp_path))
