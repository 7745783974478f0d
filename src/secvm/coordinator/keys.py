"""A coordinator's secrets, for the commands that change them while it does not run, or before its next start.

The gateway's keys are not here: each epoch has its own, made and destroyed by the driver, and told to devices by a
manifest that the log holds. A key of an announced round cannot be another one: its manifest is fixed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from secvm.coordinator.main import ADMIN_FILE, KEY_FILE, LOG_KEY_FILE, log_key
from secvm.coordinator.settings import CoordinatorProgramSettings
from secvm.crypto.sealing.kem import RandomBytes, throw
from secvm.errors import BadInputError
from secvm.files import write_atomically
from secvm.protocol.log.policy import LogPolicy
from secvm.runtime.disk.secret_files import Passphrase
from secvm.runtime.settings import read_settings

_ADMIN_KEY_BYTES = 32


def secret_files(settings_path: Path) -> list[Path]:
    """What a passphrase can be put on: the keys that sign and log, the database's address."""
    settings = read_settings(settings_path, CoordinatorProgramSettings)
    state = settings.state.folder
    named = [state / KEY_FILE, state / LOG_KEY_FILE]
    if settings.database is not None and settings.database.file is not None:
        named.append(settings.database.file)
    existing = [path for path in named if path.exists()]
    if not existing:
        raise BadInputError(f"there are no keys in {state} yet", next_step="'secvm coordinator init' makes them.")
    return existing


def log_policy(settings_path: Path, passphrase: Passphrase | None = None) -> LogPolicy:
    """What others need to know of the coordinator's log: its key, its witnesses and how many of them are enough."""
    settings = read_settings(settings_path, CoordinatorProgramSettings).with_policy()
    state = settings.state.folder
    if not (state / LOG_KEY_FILE).exists():
        raise BadInputError(f"there is no log key in {state} yet", next_step="'secvm coordinator init' makes one.")
    terms = settings.terms(log_key(state, passphrase))
    if terms is None:
        raise BadInputError(
            "this coordinator has no log", next_step="[log] and [[witnesses]] in its settings make one."
        )
    return LogPolicy.of_terms(terms, {witness.note_key.key: witness.url for witness in settings.witnesses})


def new_admin_key(settings_path: Path, dice: RandomBytes) -> str:
    """Another admin key in the place of the old one, which ends with the next start. Only its SHA-256 is kept."""
    settings = read_settings(settings_path, CoordinatorProgramSettings)
    state = settings.state.folder
    if not state.is_dir():
        raise BadInputError(f"there is no coordinator in {state} yet", next_step="'secvm coordinator init' makes one.")
    key = throw(dice, _ADMIN_KEY_BYTES).hex()
    write_atomically(state / ADMIN_FILE, hashlib.sha256(key.encode()).hexdigest().encode() + b"\n")
    return key
