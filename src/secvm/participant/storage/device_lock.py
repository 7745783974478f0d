"""What a passphrase locks on a person's device, and what it does not.

Locked are the vault (features and labels), the label and vector that were pinned when the person joined, and the
relay's credential. Not locked are that this device takes part and in what, its counts, its ledger, sealed capsules that
wait, seeds of tokens until they are used, canaries that are looked for, and models, which are public.

``device.key`` in the device's folder holds 32 random bytes under the passphrase; everything else is locked with them.
So another passphrase changes one small file. Where ``device.key`` is, the device is locked: what is still plain there
belongs to a change that was interrupted, and is locked when it is next opened.

**The pinned person** stands in the device's state: label, target and vector in three columns, or all of it in one,
locked. Pinned when the person joined, and the same for all rounds. On a device with a passphrase the columns
of label and target are empty, and that of the vector holds all three under the device's key, bound to the experiment.
"""

from __future__ import annotations

import sqlite3
import struct
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from secvm.crypto.locking import DEFAULT_COST, KEY_BYTES, Cost, KeptKey, is_kept, lock
from secvm.crypto.sealing.kem import RandomBytes, throw
from secvm.errors import BadInputError
from secvm.runtime.disk.secret_files import (
    Passphrase,
    check_new_passphrase,
    make_secret,
    protect,
    read_secret,
)

FILE = "device.key"


@dataclass(frozen=True, slots=True, repr=False)
class DeviceLock:
    """An opened lock. It does not print itself."""

    key: KeptKey
    dice: RandomBytes

    def __repr__(self) -> str:
        return "DeviceLock(...)"

    def lock(self, content: bytes, place: str) -> bytes:
        """The content, for this place of this device alone."""
        return self.key.lock(content, place.encode(), self.dice)

    def unlock(self, data: bytes, place: str) -> bytes:
        """What ``lock`` was given; ``BadInputError`` where it is another key's, or was changed."""
        return self.key.unlock(data, place.encode())


def is_locked(folder: Path) -> bool:
    """Whether this device's person has set a passphrase."""
    return (folder / FILE).exists()


def open_lock(folder: Path, passphrase: Passphrase | None, dice: RandomBytes) -> DeviceLock | None:
    """The lock of the device in this folder; None where there is none.

    Raises
    ------
    BadInputError
        When there is one, and no passphrase or a wrong one.
    """
    if not is_locked(folder):
        return None
    return DeviceLock(KeptKey(read_secret(folder / FILE, passphrase=passphrase)), dice)


def set_passphrase(
    folder: Path, *, old: Passphrase | None, new: Passphrase, dice: RandomBytes, cost: Cost = DEFAULT_COST
) -> DeviceLock:
    """The device's lock under this passphrase; made, if there is none. The caller locks what is still plain."""
    word = check_new_passphrase(new.get())
    if is_locked(folder):
        protect([folder / FILE], old=old, new=new, dice=dice, cost=cost)
    else:
        make_secret(folder / FILE, lock(throw(dice, KEY_BYTES), word, dice, cost))
    return DeviceLock(KeptKey(read_secret(folder / FILE, passphrase=new)), dice)


def refuse_locked(folder: Path) -> None:
    """For whoever comes without a lock: there must be none."""
    if is_locked(folder):
        raise BadInputError(
            f"{folder}: this device is under a passphrase, and none was given",
            next_step="Give --passphrase-file or --passphrase-fd, or type it at a terminal.",
        )


_NUMBERS = struct.Struct("<qq")

#: Label, target, vector; as columns.
Columns = tuple[int | None, int | None, bytes]


def lock_person(columns: Columns, digest: str, lock: DeviceLock | None) -> Columns:
    """What is stored: locked, where there is a lock."""
    label, target, vector = columns
    if lock is None or label is None or target is None:
        return columns
    return None, None, lock.lock(_NUMBERS.pack(label, target) + vector, _place(digest))


def unlock_person(columns: Columns, digest: str, lock: DeviceLock | None) -> Columns | None:
    """What was pinned; None where it is locked and there is no lock to open it."""
    if not _holds_all(columns[2]):
        return columns
    if lock is None:
        return None
    content = lock.unlock(columns[2], _place(digest))
    label, target = _NUMBERS.unpack_from(content)
    return label, target, content[_NUMBERS.size :]


def rewrite_people(
    db: sqlite3.Connection,
    transaction: AbstractContextManager[None],
    *,
    old: DeviceLock | None,
    new: DeviceLock | None,
) -> None:
    """Store everybody who is pinned as ``new`` wants it, in one transaction, where anything is to be changed."""
    query = "SELECT digest, label, target, vector FROM experiment WHERE vector IS NOT NULL"
    rows = [(digest, (label, target, vector)) for digest, label, target, vector in db.execute(query).fetchall()]
    wrong = [(digest, columns) for digest, columns in rows if _holds_all(columns[2]) != (new is not None)]
    if not wrong:
        return
    with transaction:
        for digest, columns in wrong:
            person = unlock_person(columns, digest, old)
            assert person is not None
            written = lock_person(person, digest, new)
            db.execute("UPDATE experiment SET label = ?, target = ?, vector = ? WHERE digest = ?", (*written, digest))
    # The log may still hold the pages as they were.
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _holds_all(vector: object) -> bool:
    # In a damaged file a column may hold anything; whoever reads on says so.
    return isinstance(vector, bytes) and is_kept(vector)


def _place(digest: str) -> str:
    return f"pinned {digest}"
