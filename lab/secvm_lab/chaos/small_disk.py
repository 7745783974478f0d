"""SmallDisk: a file system of some megabytes, which can be filled to the last byte and emptied again.

    with SmallDisk(folder / "small", megabytes=8) as disk:
        disk.fill()         # whoever writes there now is told that no space is left
        disk.free()

It is a ``tmpfs`` mounted on a folder of the caller's, and unmounted at the end, also when something failed; that takes
root. What lies there is gone with it. No sync reaches a disk, which a SIGKILL does not notice and a power cut would.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Self

_BALLAST = "ballast"
#: Whoever has a page that is half full finds no room for a block either.
_SMALLEST_BLOCK = 1


class DiskUnavailableError(Exception):
    """No small file system: why, in a sentence."""


def why_no_disk(folder: Path) -> str | None:
    """Why none can be mounted below this folder; None where one can."""
    trial = folder / "trial-mount"
    try:
        with SmallDisk(trial, megabytes=1):
            pass
    except DiskUnavailableError as error:
        return str(error)
    finally:
        with contextlib.suppress(OSError):
            trial.rmdir()
    return None


class SmallDisk:
    """A small file system. Use it in a ``with``; whoever has files open there must be gone by then."""

    def __init__(self, folder: Path, *, megabytes: int) -> None:
        self.folder = folder
        self._megabytes = megabytes
        self._mounted = False

    def __enter__(self) -> Self:
        if sys.platform != "linux" or os.geteuid() != 0:
            raise DiskUnavailableError("a small file system needs root on Linux")
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        done = run("mount", "-t", "tmpfs", "-o", f"size={self._megabytes}m,mode=0711", "secvm", str(self.folder))
        if done is not None:
            raise DiskUnavailableError(f"no small file system can be mounted: {done}")
        self._mounted = True
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Unmount it; what lies there is gone. Twice is once."""
        if self._mounted and run("umount", str(self.folder)) is not None:
            # Somebody still has a file open; the last one to close it ends it.
            run("umount", "--lazy", str(self.folder))
        self._mounted = False

    def fill(self) -> None:
        """Leave no byte."""
        block = 2**20
        with (self.folder / _BALLAST).open("ab", buffering=0) as ballast:
            # Most of it without writing it.
            with contextlib.suppress(OSError):
                room = os.fstatvfs(ballast.fileno())
                os.posix_fallocate(ballast.fileno(), 0, max(1, room.f_bavail * room.f_frsize))
            while block >= _SMALLEST_BLOCK:
                try:
                    if not ballast.write(bytes(block)):
                        block //= 2
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    block //= 2

    def free(self) -> None:
        """Give all of it back."""
        (self.folder / _BALLAST).unlink(missing_ok=True)


def run(*words: str) -> str | None:
    """Run a program of the system; what went wrong, or None."""
    program = shutil.which(words[0])
    if program is None:
        return f"there is no {words[0]}"
    done = subprocess.run([program, *words[1:]], capture_output=True, text=True, check=False)  # noqa: S603  (our own words)
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it did not say why"])[-1]
