"""Which device a command is about, and which of its experiments."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from secvm.errors import BadInputError
from secvm.participant.storage.state import FILE, DeviceState

if TYPE_CHECKING:
    from secvm.participant.consent.policies import Consent
    from secvm.participant.settings import ParticipantSettings

MaybeConfigOption = Annotated[
    Path | None, typer.Option("--config", help="The device's settings, if its folder is named there.")
]
#: Where a person's device keeps everything, below the home.
DEFAULT_FOLDER = Path(".local/share/secvm")

FolderOption = Annotated[
    Path | None, typer.Option("--folder", help="The folder of this device.", show_default=f"~/{DEFAULT_FOLDER}")
]


def device_folder(folder: Path | None) -> Path:
    """The folder that was named, or the usual one."""
    return Path.home() / DEFAULT_FOLDER if folder is None else folder


def device_of(config: Path | None, folder: Path | None) -> tuple[ParticipantSettings | None, Path]:
    """The device's settings, None where none are named, and its folder, which cannot be named beside them."""
    from secvm.participant.settings import ParticipantSettings
    from secvm.runtime.settings import read_settings

    if config is None:
        return None, device_folder(folder)
    if folder is not None:
        raise BadInputError("--config and --folder exclude each other")
    settings = read_settings(config, ParticipantSettings)
    return settings, settings.device.folder


def open_state(config: Path | None, folder: Path | None) -> DeviceState:
    """The state of the device that was named."""
    _, place = device_of(config, folder)
    if not (place / FILE).exists():
        raise BadInputError(f"{place}: no device has its state here", next_step="Name it with --config or --folder.")
    return DeviceState(place)


def consent_of(settings: ParticipantSettings | None) -> Consent:
    """What the device agrees to; by default, where no settings are named."""
    from secvm.participant.consent.policies import Consent

    return Consent() if settings is None else settings.agreed()


def known_digest(state: DeviceState, name: str) -> str:
    """The digest of an experiment of this device that begins so."""
    if not re.fullmatch(r"[0-9a-f]{4,64}", name):
        raise BadInputError("an experiment is named by its digest, hexadecimal digits, or by its first few of them")
    digests = [record.digest for record in state.records() if record.digest.startswith(name)]
    if len(digests) != 1:
        raise BadInputError(
            "this device knows more than one experiment that begins so"
            if digests
            else "this device does not know that experiment"
        )
    return digests[0]
