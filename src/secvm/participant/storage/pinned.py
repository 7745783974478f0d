"""The pinned person in a device's state: label, target and vector in three columns, or all of it in one, locked.

Pinned when the person joined, and the same for all rounds. On a device with a passphrase (``device_lock``) the columns
of label and target are empty, and that of the vector holds all three under the device's key, bound to the experiment.
"""

from __future__ import annotations

import sqlite3
import struct
from contextlib import AbstractContextManager

from secvm.crypto.locking import is_kept
from secvm.participant.storage.device_lock import DeviceLock

_NUMBERS = struct.Struct("<qq")

#: Label, target, vector; as columns.
Columns = tuple[int | None, int | None, bytes]


def locked(columns: Columns, digest: str, lock: DeviceLock | None) -> Columns:
    """What is stored: locked, where there is a lock."""
    label, target, vector = columns
    if lock is None or label is None or target is None:
        return columns
    return None, None, lock.lock(_NUMBERS.pack(label, target) + vector, _place(digest))


def unlocked(columns: Columns, digest: str, lock: DeviceLock | None) -> Columns | None:
    """What was pinned; None where it is locked and there is no lock to open it."""
    if not _is_locked(columns[2]):
        return columns
    if lock is None:
        return None
    content = lock.unlock(columns[2], _place(digest))
    label, target = _NUMBERS.unpack_from(content)
    return label, target, content[_NUMBERS.size :]


def rewrite(
    db: sqlite3.Connection,
    transaction: AbstractContextManager[None],
    *,
    old: DeviceLock | None,
    new: DeviceLock | None,
) -> None:
    """Store everybody who is pinned as ``new`` wants it, in one transaction, where anything is to be changed."""
    query = "SELECT digest, label, target, vector FROM experiment WHERE vector IS NOT NULL"
    rows = [(digest, (label, target, vector)) for digest, label, target, vector in db.execute(query).fetchall()]
    wrong = [(digest, columns) for digest, columns in rows if _is_locked(columns[2]) != (new is not None)]
    if not wrong:
        return
    with transaction:
        for digest, columns in wrong:
            person = unlocked(columns, digest, old)
            assert person is not None
            written = locked(person, digest, new)
            db.execute("UPDATE experiment SET label = ?, target = ?, vector = ? WHERE digest = ?", (*written, digest))
    # The log may still hold the pages as they were.
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _is_locked(vector: object) -> bool:
    # In a damaged file a column may hold anything; whoever reads on says so.
    return isinstance(vector, bytes) and is_kept(vector)


def _place(digest: str) -> str:
    return f"pinned {digest}"
