"""What to tell of an SQLite file that a service could not open: whose fault it is decides how the service ends.

A file that another process uses, or that is none of ours, is for a person to put right (exit code 2). A disk that is
full or fails may be well again by the next start (exit code 1, and a service manager starts the service again).
"""

from __future__ import annotations

import sqlite3

from secvm.errors import BadInputError, StoreError


def opening_fault(error: Exception, store: str, kind: str) -> BadInputError | StoreError:
    """The error to raise for ``store`` (such as "the relay's store /x") that should be of a kind ("a store of …").

    ``error`` is SQLite's, or Python's where it stumbled over a damaged file.
    """
    if not isinstance(error, sqlite3.OperationalError):
        return BadInputError(f"{store} is no {kind}, or it is damaged")
    # The lower byte is the kind of fault; the rest says more about it. Without a code it is Python's own complaint.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_IOERR) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return BadInputError(f"{store} is in use by another process")
    if code == sqlite3.SQLITE_ERROR:
        # A statement that does not fit: the tables are others.
        return BadInputError(f"{store} is no {kind}, or it is damaged")
    name = getattr(error, "sqlite_errorname", "SQLITE_IOERR")
    return StoreError(
        f"{store} cannot be read or written now ({name})",
        next_step="Look whether its disk is full, fails or is read-only.",
    )
