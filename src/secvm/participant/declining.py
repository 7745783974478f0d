"""Why a device takes no part in a round that it could take part in: the hours of the day, and its person's limits.

Asked before every round, with nothing of the person at hand: only documents, counts of traffic, and the ledger.
"""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from secvm.crypto.ristretto255 import ELEMENT_BYTES
from secvm.crypto.tokens import TOKEN_BYTES
from secvm.errors import ConsentRefusedError
from secvm.participant.consent import Consent
from secvm.participant.ledger import entries, spend
from secvm.participant.sealing import CAPSULE_BYTES
from secvm.participant.surroundings import Now, Surroundings
from secvm.participant.traffic import Traffic
from secvm.participant.transport import OVERHEAD_BYTES, RelayTerms
from secvm.privacy.statement import SHUFFLER
from secvm.protocol.experiment_document import ExperimentDocument, Windows
from secvm.protocol.manifest import RoundManifest, read_relay_count
from secvm.protocol.stating import terms_of

#: Many devices of one process want the same numbers: one computes, the others find them.
_ONE_AT_A_TIME = threading.Lock()


async def agree(around: Surroundings, document: ExperimentDocument, manifest: RoundManifest, now: Now) -> None:
    """Return if this device may take part in the round, as far as can be said before it is entered in the ledger.

    Raises
    ------
    ConsentRefusedError
        Why not, in one sentence.
    """
    consent, ledger = around.consent, around.state.ledger
    why = why_not(document, manifest, around.traffic, now()) or too_few(document, manifest, consent)
    if why is None and not consent.unsafe and document.experiment.cover is not None:
        why = promises_too_little(document, manifest, consent, await around.transport.relay_terms(document.relays[0]))
    if why is not None:
        raise ConsentRefusedError(why)
    if consent.unsafe:
        return
    accepted, told = ledger.accepted(document.digest), entries(around.state, also=document.digest)

    def think() -> None:
        with _ONE_AT_A_TIME:
            consent.check(document, accepted)
            # Looked at again when the round is entered; by then the numbers are there.
            spend(told, consent)

    # A guarantee's numbers take seconds, in which capsules of other experiments may be due.
    await asyncio.to_thread(think) if document.experiment.cover is not None else think()


def promises_too_little(
    document: ExperimentDocument, manifest: RoundManifest, consent: Consent, terms: RelayTerms | None
) -> str | None:
    """Why not: the relay would hand on a round of fewer devices than the guarantee was reckoned with, or in parts.

    An experiment can plan with any number of participants. Who keeps it to that is the relay, which is believed anyway.
    And a manifest can have any window. Where the relay deposits in the middle of one, most of the others' cover is in
    another batch, or in none, while all packages of a device that began late (weights that were kept from it) are in
    the last one.
    """
    if terms is None:
        return "the relay does not say in which mode it works and how many devices a round needs"
    if terms.mode != SHUFFLER or terms.floor is None:
        return f"the relay works in mode {ascii(terms.mode)[:40]}, and a guarantee needs mode round"
    if terms.deposits is None:
        return "the relay works in mode 'round', and it does not say when it deposits"
    if not terms.deposits.together(manifest.window):
        return "the relay would hand on the packages of the round's window in parts, and a guarantee needs all at once"
    wanted = consent.assumption.counted(terms_of(document).planned_participants)
    if terms.floor >= wanted:
        return None
    return f"the relay hands on rounds of {terms.floor} devices or more, and the guarantee needs {wanted} in each"


def too_few(document: ExperimentDocument, manifest: RoundManifest, consent: Consent) -> str | None:
    """Why not: the relay has signed that fewer devices were there than a guarantee needs, as this one reckons."""
    last = manifest.last
    if consent.unsafe or document.experiment.cover is None or last is None or last.relay_count is None:
        return None
    clients = read_relay_count(last.relay_count, document).clients
    wanted = consent.assumption.counted(terms_of(document).planned_participants)
    if clients >= wanted:
        return None
    return f"the relay counted {clients} devices in the last round, and the guarantee needs {wanted} in each"


def why_not(document: ExperimentDocument, manifest: RoundManifest, traffic: Traffic, now: int) -> str | None:
    """In one sentence; None: it takes part."""
    if not opens_in_hours(document.windows, manifest.opens_at):
        return "the window opens outside the experiment's hours of the day"
    if not traffic.allows(bytes_of_a_round(document), now):
        return "this round would go beyond the device's limit of traffic for a day"
    return None


def bytes_of_a_round(document: ExperimentDocument) -> int:
    """What sending all packages of a round takes, cover and nulls included: estimated, and the same for everybody."""
    needed = document.budget * (CAPSULE_BYTES + OVERHEAD_BYTES)
    if document.tokens is not None:
        # Each is asked for by an element, given by another, and travels in a capsule.
        needed += document.budget * (2 * ELEMENT_BYTES + TOKEN_BYTES) + OVERHEAD_BYTES
    return needed


def opens_in_hours(windows: Windows, opens_at: int) -> bool:
    """Whether a window may open at this instant, by the time zone database of this device."""
    if windows.hours == ((0, 24),):
        return True
    try:
        offset = datetime.fromtimestamp(opens_at / 1000, UTC).astimezone(ZoneInfo(windows.time_zone)).utcoffset()
    except (ZoneInfoNotFoundError, ValueError, OverflowError, OSError):
        return False
    return offset is not None and windows.open_at_hour(opens_at, offset_s=int(offset.total_seconds()))
