"""Set, change and take away a device's passphrase. The device does not run meanwhile.

The order makes each moment safe. Setting: first the key under its passphrase, then what it locks. Taking away: first
what is locked becomes plain, then the key goes. In between both can be read, and the same command, given again, goes
on.
"""

from __future__ import annotations

from pathlib import Path

from secvm.crypto.locking import DEFAULT_COST, Cost
from secvm.crypto.sealing.kem import RandomBytes
from secvm.errors import BadInputError
from secvm.participant.storage.device_lock import FILE as LOCK
from secvm.participant.storage.device_lock import open_lock, set_passphrase
from secvm.participant.storage.state import FILE as STATE_FILE
from secvm.participant.storage.state import DeviceState
from secvm.participant.storage.vault import Vault
from secvm.runtime.disk.process_lock import FILE as LOCK_FILE
from secvm.runtime.disk.process_lock import only_one
from secvm.runtime.disk.secret_files import Passphrase, protect, remove_secret


def protect_device(
    folder: Path,
    credential: Path | None,
    *,
    old: Passphrase | None,
    new: Passphrase,
    dice: RandomBytes,
    cost: Cost = DEFAULT_COST,
) -> None:
    """Put the device in this folder, and its credential, under the passphrase ``new``."""
    _check(folder)
    with only_one(folder / LOCK_FILE, "device"):
        lock = set_passphrase(folder, old=old, new=new, dice=dice, cost=cost)
        if (folder / STATE_FILE).exists():
            # Both lock by themselves what they find plain.
            DeviceState(folder, lock=lock).close()
        Vault(folder, lock=lock).close()
        if credential is not None:
            protect([credential], old=old, new=new, dice=dice, cost=cost)


def unprotect_device(folder: Path, credential: Path | None, *, old: Passphrase, dice: RandomBytes) -> None:
    """Keep everything of the device in this folder without a passphrase."""
    _check(folder)
    with only_one(folder / LOCK_FILE, "device"):
        lock = open_lock(folder, old, dice)
        if credential is not None:
            protect([credential], old=old, new=None, dice=dice)
        if lock is None:
            return
        if (folder / STATE_FILE).exists():
            state = DeviceState(folder, lock=lock)
            state.unlock_for_good()
            state.close()
        with Vault(folder, lock=lock) as vault:
            vault.unlock_for_good()
        # Nothing is locked with it any more.
        remove_secret(folder / LOCK)


def _check(folder: Path) -> None:
    if not folder.is_dir():
        raise BadInputError(f"{folder}: there is no device here", next_step="Say where with --config or --folder.")
