"""What a passphrase locks on a person's device, and what it does not.

Locked are the vault (features and labels), the label and vector that were pinned when the person joined, and the
relay's credential. Not locked are that this device takes part and in what, its counts, its ledger, sealed capsules that
wait, seeds of tokens until they are used, canaries that are looked for, and models, which are public.

``device.key`` in the device's folder holds 32 random bytes under the passphrase; everything else is locked with them.
So another passphrase changes one small file. Where ``device.key`` is, the device is locked: what is still plain there
belongs to a change that was interrupted, and is locked when it is next opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from secvm.crypto.locking import DEFAULT_COST, KEY_BYTES, Cost, KeptKey, lock
from secvm.crypto.sealing.kem import RandomBytes, throw
from secvm.errors import BadInputError
from secvm.runtime.disk.passphrases import Passphrase
from secvm.runtime.disk.secret_files import check_new_passphrase, make_secret, protect, read_secret, remove_secret

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
    opened = open_lock(folder, new, dice)
    assert opened is not None
    return opened


def drop(folder: Path) -> None:
    """Forget the lock, when nothing is locked with it any more."""
    remove_secret(folder / FILE)


def refuse_locked(folder: Path) -> None:
    """For whoever comes without a lock: there must be none."""
    if is_locked(folder):
        raise BadInputError(
            f"{folder}: this device is under a passphrase, and none was given",
            next_step="Give --passphrase-file or --passphrase-fd, or type it at a terminal.",
        )
