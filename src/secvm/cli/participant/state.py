"""Which device a command is about, and which of its experiments.

One rule for all commands: ``--folder`` is the device's folder, without it the usual one, and the settings are the file
``participant.toml`` there; or ``--config`` names a file of settings, and the folder is the one that it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from secvm.cli.output import program
from secvm.errors import BadInputError
from secvm.participant.storage.state import FILE, DeviceState

if TYPE_CHECKING:
    from secvm.participant.consent.policies import Consent
    from secvm.participant.settings import ParticipantSettings

#: Where a person's device keeps everything, below the home.
DEFAULT_FOLDER = Path(".local/share/secvm")
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="The device's settings.", show_default="participant.toml in its folder"),
]
FolderOption = Annotated[
    Path | None, typer.Option("--folder", help="The folder of this device.", show_default=f"~/{DEFAULT_FOLDER}")
]


def device_folder(folder: Path | None) -> Path:
    """The folder that was named, or the usual one."""
    return Path.home() / DEFAULT_FOLDER if folder is None else folder


def device_of(config: Path | None, folder: Path | None) -> tuple[ParticipantSettings | None, Path]:
    """The device's settings, None where it has none yet, and its folder."""
    from secvm.participant.settings import SETTINGS_FILE, ParticipantSettings
    from secvm.runtime.settings import read_settings

    if config is not None and folder is not None:
        raise BadInputError("--config and --folder exclude each other")
    place = device_folder(folder)
    if config is None and not (place / SETTINGS_FILE).exists():
        return None, place
    settings = read_settings(config or place / SETTINGS_FILE, ParticipantSettings)
    return settings, settings.device.folder


def settings_of(config: Path | None, folder: Path | None) -> ParticipantSettings:
    """The settings of a device that is to reach others."""
    settings, place = device_of(config, folder)
    if settings is None:
        raise BadInputError(
            f"{place}: this device has no settings yet, so it knows no relay",
            next_step=f"Make them with: {program()} participant init INVITE; or say where they are with --config.",
        )
    return settings


def open_state(place: Path) -> DeviceState:
    """The state of the device in this folder."""
    if not (place / FILE).exists():
        raise BadInputError("you have joined nothing yet", next_step=f"Experiments would stand in {place}.")
    return DeviceState(place)


def consent_of(settings: ParticipantSettings | None) -> Consent:
    """What the device agrees to; by default, where it has no settings."""
    from secvm.participant.consent.policies import Consent

    return Consent() if settings is None else settings.agreed()


def digest_among(digests: Iterable[str], name: str) -> str:
    """The one that begins so, of the experiments that a device knows."""
    if not re.fullmatch(r"[0-9a-f]{4,64}", name):
        raise BadInputError("an experiment is named by its digest, hexadecimal digits, or by its first few of them")
    matching = [digest for digest in digests if digest.startswith(name)]
    if len(matching) != 1:
        raise BadInputError(
            "this device knows more than one experiment that begins so"
            if matching
            else f"this device knows no experiment that begins with {name}",
            next_step="An experiment that you were not invited to is named by its whole digest."
            if not matching and len(name) < 64
            else None,
        )
    return matching[0]


def known_digest(state: DeviceState, name: str) -> str:
    """The digest of an experiment of this device that begins so."""
    return digest_among((record.digest for record in state.records()), name)
