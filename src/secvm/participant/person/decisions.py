"""What a person decides about an experiment: to join, to say no, to pause, to go on, to be forgotten.

The command line and the person's page come here, and both may do so while the device runs in another process: nothing
here needs its lock, or takes up its sessions. A decision is one transaction of the state, and the process that runs
sees it before it next sends or fetches (``Device.look``).

Whoever decides must not open a ``Device`` to do so. It would take up the sessions of all other experiments as a restart
does, and write them back as they were a moment ago over what the process that runs has done since.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from secvm.errors import BadInputError, LocalProtocolError
from secvm.learning.individual.binning import VocabularyBinning
from secvm.participant.consent.ledger import check_room
from secvm.participant.consent.policies import Consent
from secvm.participant.dice import DiceFor
from secvm.participant.person.pinning import pin_person
from secvm.participant.sending.transport import Transport
from secvm.participant.storage.books import NOTHING, Accepted
from secvm.participant.storage.state import DeviceState, Status
from secvm.participant.storage.vault import Vault
from secvm.participant.trust.evidence import convicts
from secvm.participant.trust.trust_policy import TrustPolicy
from secvm.protocol.documents.experiment import ExperimentDocument, read_published


@dataclass(frozen=True, slots=True)
class Way:
    """How a device reaches others, what it demands of them, what it agrees to tell and whose dice it throws, as its
    settings say.
    """

    transport: Transport
    policy: TrustPolicy
    dice_for: DiceFor
    consent: Consent
    #: A device for made-up data: experiments that are not marked as a test are left alone.
    only_tests: bool = False


def join(
    state: DeviceState,
    digest: str,
    envelope: bytes,
    vault: Vault,
    way: Way,
    *,
    source: str | None = None,
    vocabulary: VocabularyBinning | None = None,
    salt: bytes | None = None,
    accepted: Accepted = NOTHING,
    answer: str | None = None,
) -> None:
    """Take part from now on: the person has agreed to the experiment of this digest.

    ``salt`` is the one that its beacons fixed, where it names some (``pinning.fetch_salt``). ``accepted`` is what the
    person agrees to here beyond the device's own consent. ``answer`` is their label, where they give it with their yes;
    of a join that is refused it is not kept.
    """
    document = read_published(envelope, digest=digest)
    check_way(document, way)
    check_data(document, way)
    way.policy.check(document)
    way.consent.check(document, accepted)
    known = state.record(digest)
    if known is not None and known.status is not Status.DECLINED:
        # Before anything is drawn.
        raise BadInputError("this device has joined that experiment before, and cannot be drawn anew")
    check_room(state, document, way.consent, accepted)
    before = vault.label(digest)
    if answer is not None:
        vault.set_label(digest, answer)
    try:
        person = pin_person(document, vault, way.dice_for(document), source=source, vocabulary=vocabulary, salt=salt)
        state.join(digest, envelope, person, salt=salt, accepted=accepted)
    except BaseException:
        # Who was refused has told nothing.
        if answer is not None and before is None:
            vault.forget_label(digest)
        elif answer is not None and before is not None:
            vault.set_label(digest, before.value)
        raise


def check_way(document: ExperimentDocument, way: Way) -> None:
    """Raise ``LocalProtocolError`` where the way out, or the clock, is not good enough for the experiment."""
    way.transport.check(document)
    if way.only_tests and not document.test:
        raise LocalProtocolError("this device is for tests: only experiments that are marked as a test can be joined")


def check_data(document: ExperimentDocument, way: Way) -> None:
    """Raise ``BadInputError`` where a test would be joined with somebody's own data: also the noise of relays that were
    started for tests may be known to everybody.
    """
    if document.test and not way.only_tests:
        raise BadInputError(
            "this experiment is marked as a test: it is not for people's own data",
            next_step="For made-up data keep a device of its own, with a table [testing] in its settings.",
        )


def pause(state: DeviceState, digest: str) -> None:
    """Send and fetch nothing more, until resumed."""
    state.set_status(digest, Status.PAUSED)


def resume(state: DeviceState, digest: str) -> bool:
    """Go on; whether it does: a device that holds evidence against the server sends nothing all the same."""
    state.set_status(digest, Status.JOINED)
    return not convicts(state, digest)


def forget(state: DeviceState, digest: str, open_vault: Callable[[], Vault]) -> None:
    """Leave for good: what the device knows of the person for this experiment goes, their label as well."""
    try:
        state.forget(digest)
    finally:
        # Also where the state says that its log could not be emptied yet. The vault may want a passphrase that nobody
        # has any more: by then the rest is gone.
        with open_vault() as vault:
            vault.forget_label(digest)
