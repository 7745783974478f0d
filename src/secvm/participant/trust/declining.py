"""Why a device takes no part in a round that it could take part in: the hours of the day, and its person's limits.

Asked before every round, with nothing of the person at hand: only documents, counts of traffic, and the ledger.
"""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from secvm.crypto.sealing.kem import public_key_bytes
from secvm.crypto.tokens import TOKEN_BYTES
from secvm.errors import ConsentRefusedError
from secvm.participant.sending.sealing import capsule_bytes
from secvm.participant.sending.transport import OVERHEAD_BYTES
from secvm.participant.trust.surroundings import Now, Surroundings
from secvm.participant.trust.traffic import Traffic
from secvm.protocol.documents.experiment import ExperimentDocument, Windows
from secvm.protocol.documents.manifest import RoundManifest
from secvm.protocol.relays.batches.label import OUTER_BYTES


def agree(around: Surroundings, document: ExperimentDocument, manifest: RoundManifest, now: Now) -> None:
    """Return if this device may take part in the round, as far as can be said before it is entered in the ledger.

    Raises
    ------
    ConsentRefusedError
        Why not, in one sentence.
    """
    why = (
        # Asked again, because the settings may be others than when the person joined.
        around.policy.unknown_relay(document) or why_not(document, manifest, around.traffic, now())
    )
    if why is not None:
        raise ConsentRefusedError(why)
    around.consent.check(document, around.state.ledger.accepted(document.digest))


def why_not(document: ExperimentDocument, manifest: RoundManifest, traffic: Traffic, now: int) -> str | None:
    """In one sentence; None: it takes part."""
    if public_key_bytes(document.kem) is None:
        return (
            f"the experiment's gateway has keys of KEM {document.kem:#06x}, which the cryptography package of this"
            " machine lacks; a newer one has it"
        )
    if not opens_in_hours(document.windows, manifest.opens_at):
        return "the window opens outside the experiment's hours of the day"
    if not traffic.allows(bytes_of_a_round(document), now):
        return "this round would go beyond the device's limit of traffic for a day"
    return None


def bytes_of_a_round(document: ExperimentDocument) -> int:
    """What sending all packages of a round takes, cover and nulls included: estimated, and the same for everybody."""
    if document.experiment.cover is not None:
        # Asked for by an element, given by another, and in the request.
        token = 3 * TOKEN_BYTES + OVERHEAD_BYTES if document.tokens else 0
        return document.budget * OUTER_BYTES + OVERHEAD_BYTES + token
    return document.budget * (capsule_bytes(document.kem) + OVERHEAD_BYTES)


def opens_in_hours(windows: Windows, opens_at: int) -> bool:
    """Whether a window may open at this instant, by the time zone database of this device."""
    if windows.hours == ((0, 24),):
        return True
    try:
        offset = datetime.fromtimestamp(opens_at / 1000, UTC).astimezone(ZoneInfo(windows.time_zone)).utcoffset()
    except (ZoneInfoNotFoundError, ValueError, OverflowError, OSError):
        return False
    return offset is not None and windows.open_at_hour(opens_at, offset_s=int(offset.total_seconds()))
