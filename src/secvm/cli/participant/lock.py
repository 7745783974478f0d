"""``secvm participant protect-keys``: a passphrase for what is about the person on this device."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from secvm.cli.output import Format, FormatOption, emit
from secvm.cli.participant.state import MaybeConfigOption
from secvm.cli.participant.vault import FolderOption, device_folder
from secvm.cli.passphrases import (
    NewPassphraseFd,
    NewPassphraseFile,
    PassphraseFd,
    PassphraseFile,
    Remove,
    new_passphrase_of,
    passphrase_of,
)
from secvm.errors import BadInputError


def protect_keys(
    config: MaybeConfigOption = None,
    folder: FolderOption = None,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
    new_passphrase_file: NewPassphraseFile = None,
    new_passphrase_fd: NewPassphraseFd = None,
    remove: Remove = False,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Set, change or remove the passphrase of your data.

    It is then needed whenever the device runs. That you take part, in what, and how much was sent stays readable.
    Killed at any moment nothing is lost, and running this again finishes it. Example:

    \b
        ./secvm participant protect-keys --config device.toml
    """
    from secvm.participant.settings import ParticipantSettings
    from secvm.participant.storage.passphrase import protect_device, unprotect_device
    from secvm.runtime.settings import read_settings

    if config is not None and folder is not None:
        raise BadInputError("--config and --folder exclude each other")
    credential: Path | None = None
    if config is None:
        place = device_folder(folder)
    else:
        settings = read_settings(config, ParticipantSettings)
        place = settings.device.folder
        credential = None if settings.relay is None else settings.relay.credential_file
    old = passphrase_of(passphrase_file, passphrase_fd)
    new = new_passphrase_of(new_passphrase_file, new_passphrase_fd, remove=remove)
    if new is None:
        unprotect_device(place, credential, old=old, dice=os.urandom)
    else:
        protect_device(place, credential, old=old, new=new, dice=os.urandom)
    text = "It is under the passphrase now." if new is not None else "It is under no passphrase any more."
    emit({"protected": new is not None, "folder": str(place)}, output_format, text=text)


def register(app: typer.Typer) -> None:
    """Add this command to ``secvm participant``."""
    app.command("protect-keys")(protect_keys)
