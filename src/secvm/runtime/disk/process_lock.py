"""One process at a time runs a party from a folder.

Two that run one device would each seal the packages of a round, and both would send theirs: a person would count twice,
and two drawings of one secret would leave the device. Two that run one coordinator or relay would each count, scrub and
hand on what the other still needs. So whoever runs a party holds a lock on a file beside its store. The lock dies with
its holder, however that ends. Commands that only look, pause or forget do not need it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from secvm.errors import BadInputError
from secvm.files import or_bad_input

FILE = "running.lock"
#: Somebody who only looks holds the lock for an instant.
_TRIES, _EVERY_S = 3, 0.05


@contextmanager
def only_one(path: Path, party: str) -> Iterator[None]:
    """Hold the lock in this file, or say that another process does."""
    with or_bad_input(f"{path.parent}: cannot be used as a {party}'s folder"):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        for tries_left in reversed(range(_TRIES)):
            if take(file):
                break
            if not tries_left:
                raise BadInputError(
                    f"{path.parent}: another process runs this {party} already",
                    next_step="End that one first, with Ctrl-C where it was started, or name another folder.",
                )
            time.sleep(_EVERY_S)
        yield
    finally:
        os.close(file)


def is_running(path: Path) -> bool:
    """Whether some process holds the lock in this file now."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not take(file)
    finally:
        os.close(file)


def is_carried(folder: Path) -> bool:
    """Whether some process runs the party in this folder: one of its own, or the one of several hosts that has its
    number among those that it carries. Such a host has its lock in the folder above, by the first number.
    """
    number = folder.name
    locks = [file for file in folder.parent.glob("*.lock") if file.stem.isdigit() and number.isdigit()]
    hosts = [file for file in locks if len(file.stem) == len(number) and file.stem <= number]
    return is_running(folder / FILE) or (bool(hosts) and is_running(max(hosts)))


def take(file: int) -> bool:
    """Whether the lock on this open file is ours now; it is until the file is closed."""
    if os.name != "posix":
        return True
    import fcntl  # noqa: PLC0415  (not on every system)

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
