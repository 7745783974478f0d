"""The vault of a device with a passphrase: one file, locked as a whole, which is opened into memory.

``vault.locked`` holds the vault's database as SQLite would write it, under the device's key. Each change writes it
anew, whole and durable or not at all. One process has it open at a time; others wait a while. A vault that is still
plain beside it is what an interrupted change has left: it is locked, or removed where it was locked before, when the
vault is next opened.
"""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

from secvm.errors import BadInputError
from secvm.participant.storage.device_lock import DeviceLock
from secvm.runtime.disk.process_lock import take
from secvm.runtime.disk.secret_files import remove_secret, write_secret

FILE = "vault.locked"
_LOCK_FILE = "vault.lock"
_PLACE = "vault"
_PATIENCE_S, _EVERY_S = 10.0, 0.02
#: Of a vault; more is no vault of ours.
_MOST_BYTES = 2**32


class LockedVault:
    """The file, held by this process until ``close``."""

    def __init__(self, folder: Path, lock: DeviceLock) -> None:
        self._path, self._lock = folder / FILE, lock
        try:
            self._held = os.open(folder / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise BadInputError(f"{folder}: the vault cannot be opened ({error.strerror})") from None
        deadline = time.monotonic() + _PATIENCE_S  # noqa: TID251  (how long somebody waits, and nothing else)
        while not take(self._held):
            if time.monotonic() > deadline:  # noqa: TID251
                os.close(self._held)
                raise BadInputError(f"{self._path}: another program keeps the vault busy")
            time.sleep(_EVERY_S)

    def close(self) -> None:
        """Let others have it."""
        os.close(self._held)

    def exists(self) -> bool:
        """Whether there is one."""
        return self._path.exists()

    def load(self, db: sqlite3.Connection) -> None:
        """Put the vault into this database in memory, if there is one."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise BadInputError(f"{self._path}: the vault cannot be read ({error.strerror})") from None
        if len(data) > _MOST_BYTES:
            raise BadInputError(f"{self._path}: the vault is too large to be one")
        db.deserialize(self._lock.unlock(data, _PLACE))

    def save(self, db: sqlite3.Connection) -> None:
        """Write all of it, durably."""
        write_secret(self._path, self._lock.lock(db.serialize(), _PLACE))

    def remove(self) -> None:
        """There is none any more."""
        remove_secret(self._path)


def remove_plain(path: Path) -> None:
    """Overwrite and remove a plain vault with what SQLite keeps beside it."""
    for name in (f"{path.name}-wal", f"{path.name}-shm", path.name):
        remove_secret(path.with_name(name))
