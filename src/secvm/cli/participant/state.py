"""Which device a command is about, and which of its experiments."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from secvm.cli.participant.vault import device_folder
from secvm.errors import BadInputError
from secvm.participant.storage.state import FILE, DeviceState

if TYPE_CHECKING:
    from secvm.participant.consent.policies import Consent
    from secvm.participant.trust.trust_policy import TrustPolicy

MaybeConfigOption = Annotated[
    Path | None, typer.Option("--config", help="The device's settings, if its folder is named there.")
]


def open_state(config: Path | None, folder: Path | None) -> DeviceState:
    """The state of the device that was named."""
    from secvm.participant.settings import ParticipantSettings
    from secvm.runtime.settings import read_settings

    if config is not None and folder is not None:
        raise BadInputError("--config and --folder exclude each other")
    found = device_folder(folder) if config is None else read_settings(config, ParticipantSettings).device.folder
    if not (found / FILE).exists():
        raise BadInputError(f"{found}: no device has its state here", next_step="Name it with --config or --folder.")
    return DeviceState(found)


def consent_of(config: Path | None) -> Consent:
    """What the device agrees to; by default, where no settings are named."""
    from secvm.participant.consent.policies import Consent
    from secvm.participant.settings import ParticipantSettings
    from secvm.runtime.settings import read_settings

    if config is None:
        return Consent()
    settings = read_settings(config, ParticipantSettings)
    return settings.agreed()


def policy_of(config: Path | None) -> TrustPolicy | None:
    """What the device demands of servers; None where no settings are named."""
    from secvm.participant.settings import ParticipantSettings
    from secvm.runtime.settings import read_settings

    return None if config is None else read_settings(config, ParticipantSettings).policy()


def known_digest(state: DeviceState, name: str) -> str:
    """The digest of an experiment of this device that begins so."""
    if not re.fullmatch(r"[0-9a-f]{4,64}", name):
        raise BadInputError("an experiment is named by its digest, hexadecimal digits, or by its first few of them")
    found = [record.digest for record in state.records() if record.digest.startswith(name)]
    if len(found) != 1:
        raise BadInputError(
            "this device knows more than one experiment that begins so"
            if found
            else "this device does not know that experiment"
        )
    return found[0]
