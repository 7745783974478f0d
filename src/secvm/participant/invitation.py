"""Invited: from an invite to a device that knows the experiment and its relays, and has joined nothing yet.

The settings that are written name the relays of the experiment as the only ones that packages take. Whoever wrote the
invite chose them, and the person is told so. The experiment itself is kept beside the settings as it was fetched, so
that the page can show it without asking anybody.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from secvm.errors import BadInputError, RemoteProtocolError
from secvm.files import or_bad_input, write_atomically
from secvm.participant.sending.transport import Transport
from secvm.participant.settings import SETTINGS_FILE
from secvm.protocol.documents.experiment import ExperimentDocument, read_published
from secvm.protocol.invite import Invite
from secvm.runtime.settings import Tables, settings_text

#: Below the device's folder: experiments that its person was invited to, each under its digest.
_INVITED = "invited"
_HEAD = (
    "# A device's settings, written by secvm participant init. Whoever invited you chose these relays; docs/how-to/"
    "take-part.md\n# explains every setting.\n\n"
)
_FOR_TESTS = "# The data of this device are made up: it joins tests, and nothing else.\n"


async def fetch_experiment(digest: str, transport: Transport) -> tuple[ExperimentDocument, bytes]:
    """The experiment of this digest, and the envelope it was served in. Raises ``BadInputError``."""
    fetched = await transport.fetch(f"/v1/experiment/{digest}")
    if fetched is None:
        if transport.shut is not None:
            raise BadInputError(f"the experiment cannot be fetched: {transport.shut}")
        refusal = transport.refused_with
        if refusal in (401, 403):
            raise BadInputError(
                f"the relay wants a credential, and refuses this device (status {refusal})",
                next_step="Ask its operator for one; its file is init's --credential-file, or credential_file under"
                " [relay] in the settings.",
            )
        if await transport.fetch("/v1/experiments") is None:
            raise BadInputError(
                "the experiment cannot be fetched: nobody answers, or no coordinator behind a relay",
                next_step="Is the relay's URL right, and does this machine reach it?",
            )
        raise BadInputError(
            "the experiment cannot be fetched: the coordinator knows none of this digest",
            next_step="Is the digest right, and is this the relay that goes with it?",
        )
    try:
        return read_published(fetched.content, digest=digest), fetched.content
    except RemoteProtocolError as fault:
        raise BadInputError(f"what was fetched is not that experiment: {fault}") from None


def make_folder(folder: Path) -> None:
    """The folder of a device, for its person alone."""
    with or_bad_input(f"{folder} cannot be made"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def keep_invitation(folder: Path, digest: str, envelope: bytes) -> None:
    """Remember that the device's person was invited to this experiment."""
    place = folder / _INVITED
    make_folder(place)
    with or_bad_input(f"{place} cannot be written"):
        write_atomically(place / digest, envelope)


def invitations(folder: Path) -> dict[str, bytes]:
    """Envelopes of all experiments that the device's person was invited to, by digest."""
    place = folder / _INVITED
    with or_bad_input(f"{place} cannot be read"):
        return {file.name: file.read_bytes() for file in sorted(place.iterdir())} if place.is_dir() else {}


def write_settings(
    folder: Path,
    invite: Invite,
    document: ExperimentDocument,
    *,
    credential_file: Path | None = None,
    via: Literal["tor"] | None = None,
) -> Path:
    """The settings of a device for the experiment of an invite; they must not be there yet. Returns their file."""
    file = folder / SETTINGS_FILE
    urls = [invite.relay_url]
    if document.experiment.cover is None:
        # Without cover a package takes any of the experiment's relays, and so may a fetch.
        urls += [relay.url for relay in document.relays if relay.url != invite.relay_url]
    further: dict[str, Path | str] = {} if credential_file is None else {"credential_file": credential_file.absolute()}
    further |= {} if via is None else {"via": via}
    tables: Tables = {
        "device": {"folder": folder.absolute()},
        "relay": {"urls": urls, **further},
        **({"testing": {}} if document.test else {}),
        "trust.relays": [
            {"operator": relay.operator, "url": relay.url, "key": relay.key.data.hex()}
            for relay in document.relays
            if relay.operator is not None
        ],
    }
    text = settings_text(tables).replace("[testing]", f"{_FOR_TESTS}[testing]")
    make_folder(folder)
    with or_bad_input(f"{file} cannot be written"):
        write_atomically(file, (_HEAD + text).encode())
        file.chmod(0o600)
    return file
