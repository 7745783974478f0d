"""Read another program's SQLite database without touching it, also while that program runs and writes.

The database is never opened where it lies: SQLite would lock it, recover it, or make files beside it, and a browser
that holds it locked would make us wait for ever. Its files are read as plain bytes into a private folder (0700), and
the copy is opened there. The folder is gone when the block ends, however it ends, short of the process being killed.

What makes the copy whole: all its files (the database; ``-wal`` or ``-journal``, which hold what is not yet in it) are
read twice, and the copy counts only if both readings agree byte for byte. Then nothing changed from the end of the
first to the start of the second, so the copy is what the disk held at one instant. From any such instant SQLite can
recover, as it must after a crash. ``-shm`` is only an index of ``-wal``, and is made anew.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from secvm.errors import BadInputError
from secvm.runtime.disk.sqlite_file import connect

_COMPANIONS = ("", "-wal", "-journal")
#: A browser writes in bursts of milliseconds, seconds apart.
_ATTEMPTS = 40
_PAUSE_S = 0.05
_BLOCK_BYTES = 1 << 20


def wait_a_little() -> None:
    """Let a burst of writing pass."""
    time.sleep(_PAUSE_S)


@contextmanager
def opened_copy(database: Path, *, pause: Callable[[], None] = wait_a_little) -> Iterator[sqlite3.Connection]:
    """A connection to a private copy of the database.

    Raises
    ------
    BadInputError
        When there is no such file, it cannot be read, is damaged, or was never still long enough to be copied.
    """
    with tempfile.TemporaryDirectory(prefix="secvm-") as folder:  # made with 0700
        copy = Path(folder) / "copy.sqlite"
        with _told(database):
            _copy_still(database, copy, pause)
        with (
            _told(database),
            closing(connect(copy, f"{database}: the file cannot be opened", make=False)) as connection,
        ):
            # Whatever is no UTF-8 must not come back in an error message.
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            connection.execute("PRAGMA temp_store = MEMORY")
            if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise BadInputError(f"{database}: the database is damaged")
            connection.execute("PRAGMA query_only = ON")
            yield connection


def _copy_still(database: Path, copy: Path, pause: Callable[[], None]) -> None:
    for attempt in range(_ATTEMPTS):
        if attempt:
            pause()
        for suffix in _COMPANIONS:
            _copy(_beside(database, suffix), _beside(copy, suffix), needed=not suffix)
        if all(_same(_beside(database, suffix), _beside(copy, suffix)) for suffix in _COMPANIONS):
            return
    raise BadInputError(
        f"{database}: the program that owns it writes without a pause, so no whole copy could be made",
        next_step="Try again in a minute, or close the program first.",
    )


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _copy(original: Path, copy: Path, *, needed: bool) -> None:
    """Copy the bytes; a companion that is not there is not there in the copy either."""
    try:
        shutil.copyfile(original, copy)
    except FileNotFoundError:
        copy.unlink(missing_ok=True)
        if needed:
            raise


def _same(original: Path, copy: Path) -> bool:
    if not copy.exists():
        return not original.exists()
    try:
        with original.open("rb") as source, copy.open("rb") as target:
            while True:
                block = source.read(_BLOCK_BYTES)
                if block != target.read(_BLOCK_BYTES):
                    return False
                if not block:
                    return True
    except FileNotFoundError:
        return False


@contextmanager
def _told(database: Path) -> Iterator[None]:
    """Make one sentence of what goes wrong; SQLite's own words may quote what the person visited."""
    try:
        yield
    except FileNotFoundError:
        trouble = "no such file"
    except PermissionError:
        trouble = "may not be read by this user"
    except OSError as error:
        trouble = f"cannot be read ({os.strerror(error.errno) if error.errno else 'input/output error'})"
    except sqlite3.OperationalError:
        trouble = "the database is not laid out as expected"
    except (sqlite3.Error, UnicodeDecodeError, MemoryError):  # the latter two are SQLite's, too, of damaged files
        trouble = "the file is no database, or is damaged"
    else:
        return
    # From none: with a traceback, the other exception's words would come along.
    raise BadInputError(f"{database}: {trouble}") from None
