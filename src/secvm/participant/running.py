"""One process runs a device at a time.

Two of them would each seal the packages of a round, and both would send theirs: a person would count twice, and two
drawings of one secret would leave the device. So whoever runs a device holds a lock in its folder. The lock dies with
its holder, however that ends. Commands that look, pause or forget do not need it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from secvm.errors import BadInputError

FILE = "running.lock"
#: Somebody who only looks holds the lock for an instant.
_TRIES, _EVERY_S = 3, 0.1


@asynccontextmanager
async def only_one(folder: Path) -> AsyncIterator[None]:
    """Hold the lock of a device's folder, or say that another process does."""
    file = _open(folder)
    try:
        for tries_left in reversed(range(_TRIES)):
            if _take(file):
                break
            if not tries_left:
                raise BadInputError(
                    f"{folder}: another process runs this device already",
                    next_step="One is enough. See what it does: secvm participant inspect",
                )
            await asyncio.sleep(_EVERY_S)
        yield
    finally:
        os.close(file)


def _open(folder: Path) -> int:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(folder / FILE, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise BadInputError(f"{folder}: cannot be used as a device's folder: {error.strerror}") from None


def is_running(folder: Path) -> bool:
    """Whether some process runs the device in this folder now."""
    with _looking(folder / FILE) as file:
        return file is not None and not _take(file)


@contextmanager
def _looking(path: Path) -> Iterator[int | None]:
    try:
        file = os.open(path, os.O_RDWR)
    except OSError:
        yield None
        return
    try:
        yield file
    finally:
        os.close(file)


def _take(file: int) -> bool:
    if os.name != "posix":
        return True
    import fcntl  # noqa: PLC0415  (not on every system)

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
