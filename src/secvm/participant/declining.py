"""Why a device takes no part in a round that it could take part in: the hours of the day, and its person's limits."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from secvm.crypto.ristretto255 import ELEMENT_BYTES
from secvm.crypto.tokens import TOKEN_BYTES
from secvm.participant.sealing import CAPSULE_BYTES
from secvm.participant.traffic import Traffic
from secvm.participant.transport import OVERHEAD_BYTES
from secvm.protocol.experiment_document import ExperimentDocument, Windows
from secvm.protocol.manifest import RoundManifest


def why_not(document: ExperimentDocument, manifest: RoundManifest, traffic: Traffic, now: int) -> str | None:
    """In one sentence; None: it takes part."""
    if not opens_in_hours(document.windows, manifest.opens_at):
        return "the window opens outside the experiment's hours of the day"
    needed = document.budget * (CAPSULE_BYTES + OVERHEAD_BYTES)
    if document.tokens is not None:
        # Each is asked for by an element, given by another, and travels in a capsule.
        needed += document.budget * (2 * ELEMENT_BYTES + TOKEN_BYTES) + OVERHEAD_BYTES
    if not traffic.allows(needed, now):
        return "this round would go beyond the device's limit of traffic for a day"
    return None


def opens_in_hours(windows: Windows, opens_at: int) -> bool:
    """Whether a window may open at this instant, by the time zone database of this device."""
    if windows.hours == ((0, 24),):
        return True
    try:
        offset = datetime.fromtimestamp(opens_at / 1000, UTC).astimezone(ZoneInfo(windows.time_zone)).utcoffset()
    except (ZoneInfoNotFoundError, ValueError, OverflowError, OSError):
        return False
    return offset is not None and windows.open_at_hour(opens_at, offset_s=int(offset.total_seconds()))
