"""From a specification (``coordinator.experiments.specification``) to an experiment that can be published.

Whatever does not fit is told in one sentence. Two things are filled in here:

**The guarantee.** An experiment is private unless its specification says ``privacy = "none"``: two relays' cover is
planned for it (``coordinator.experiments.privacy_plan``), and budget, rounds and times follow.

**The salt.** Public beacons fix it where the specification names rounds of them, or a delay after which the next rounds
are taken (``beacon_choice``). Else it comes from dice that are handed in. Nobody else can check that the
coordinator did not choose it, so the experiment says so in words (``gateway_note``).
"""

from __future__ import annotations

import math

from secvm.coordinator.epochs import Grid
from secvm.coordinator.experiments.beacon_choice import NewestPulse, choose_beacons
from secvm.coordinator.experiments.learning_part import plain_experiment
from secvm.coordinator.experiments.privacy_plan import private_plan, relay_times, two_relays
from secvm.coordinator.experiments.specification import EarlyStopping, RelayPart, Specification
from secvm.crypto.sealing.kem import RandomBytes
from secvm.crypto.signing import PUBLIC_KEY_BYTES, VerifyKey
from secvm.errors import BadExperimentError, LocalProtocolError, ProtocolError
from secvm.learning.arithmetic import exact
from secvm.learning.losses import Loss
from secvm.privacy.planning.private_plan import PrivatePlan
from secvm.protocol.documents.experiment import (
    ExperimentDocument,
    FeaturesWanted,
    HashedBins,
    Relay,
    VocabularyBins,
    Windows,
)
from secvm.protocol.documents.manifest import MAX_MANIFEST_BYTES
from secvm.protocol.log.terms import LogTerms
from secvm.runtime.settings import Settings

SALT_BYTES = 16
#: Every manifest has the test counts of every pair of labels; a count of eight bytes leaves room for ten million.
MOST_LABELS = math.isqrt((MAX_MANIFEST_BYTES - 2**16) // 8)
#: Its first round is announced at once and holds a key until it is over: a later opening is a slip of the pen.
_FARTHEST_MS = 366 * 86_400_000
SALT_NOTE = "The salt was drawn by the coordinator's own dice; no public beacon vouches for it."


class OwnSettings(Settings):
    """What only the coordinator needs to know of an experiment (``StoredExperiment.settings``)."""

    early_stopping: EarlyStopping | None = None


def ask(
    told: Specification,
    *,
    key: VerifyKey,
    grid: Grid,
    dice: RandomBytes,
    now: int,
    log: LogTerms | None = None,
    newest: NewestPulse | None = None,
    plan: PrivatePlan | None = None,
) -> tuple[ExperimentDocument, OwnSettings]:
    """The experiment that was specified, for this coordinator.

    ``log``: the terms of the coordinator's log, where it has one. ``newest``: NIST's newest pulse, where it is known.
    ``plan``: what ``private_plan`` says of it, where somebody has asked already.

    Raises
    ------
    BadInputError
        One sentence about what does not fit.
    """
    if len(told.labels) > MOST_LABELS:
        raise BadExperimentError(f"an experiment over devices has at most {MOST_LABELS} labels")
    if told.windows.first_opening is not None and told.windows.first_opening > now + _FARTHEST_MS:
        raise BadExperimentError("windows.first_opening is more than a year ahead; it is in milliseconds since 1970")
    if plan is None:
        plan = private_plan(told)
    windows = Windows(
        length_s=told.windows.length_s,
        grace_s=told.windows.grace_s,
        first_opening=now if told.windows.first_opening is None else told.windows.first_opening,
        hours=told.windows.hours,
        time_zone=told.windows.time_zone,
        relays=None if plan is None else relay_times(plan),
    )
    document = ExperimentDocument(
        title=told.title,
        question=told.question,
        experiment=plain_experiment(told) if plan is None else plan.experiment,
        features=FeaturesWanted(
            source=told.features.source, description=told.features.description, presence=told.features.presence
        ),
        binning=_binning(told, dice, now=now, newest=newest),
        windows=windows,
        floor=told.floor,
        train_share=exact(told.train_share),
        rounds=_rounds(told) if plan is None else plan.rounds,
        coordinator_keys=(key,),
        relays=_relays(told),
        privacy=None if plan is None else plan.asked.target.published,
        gateway_note=_note(told),
        log=log,
        tokens=told.tokens,
        test=told.test,
    )
    if told.tokens and plan is None:
        raise BadExperimentError('the entry relay of two gives and takes tokens: with privacy = "none" there are none')
    if log is None and isinstance(document.binning, HashedBins) and document.binning.beacons:
        raise BadExperimentError("beacons need a log, which shows that they had not spoken yet: [log] in the settings")
    if told.early_stopping is not None and document.experiment.loss.regression:
        raise BadExperimentError("early stopping looks at test counts, and a number as the label has none")
    try:
        _ = document.data  # refuses what cannot be read again
    except LocalProtocolError as fault:
        raise BadExperimentError(str(fault)) from None
    grid.check(windows)
    return document, OwnSettings(early_stopping=told.early_stopping)


def _rounds(told: Specification) -> int:
    """Of an experiment without a guarantee: as given, or the rule's own."""
    if told.rounds is not None:
        return told.rounds
    return told.descent.rule.usual_rounds(numbers=Loss(told.loss).regression)


def _relays(told: Specification) -> tuple[Relay, ...]:
    """As the document names them: the entry relay and then the mixing relay, or those of a plain experiment."""
    if told.privacy is not None:
        return tuple(
            Relay(url=relay.url, key=_relay_key(relay), role=relay.role, operator=relay.operator)
            for relay in two_relays(told)
        )
    if any(relay.role is not None or relay.operator is not None for relay in told.relays):
        raise BadExperimentError("relays of an experiment without a guarantee have neither role nor operator")
    return tuple(Relay(url=relay.url, key=_relay_key(relay)) for relay in told.relays)


def _binning(
    specified: Specification, dice: RandomBytes, *, now: int, newest: NewestPulse | None
) -> HashedBins | VocabularyBins:
    told = specified.binning
    if told.beacons or told.beacon_delay_s is not None:
        if told.vocabulary is not None or told.salt is not None:
            raise BadExperimentError("beacons fix the salt of hashed bins: binning.salt and vocabulary have no place")
        named = choose_beacons(told.beacons, told.beacon_delay_s, now=now, newest=newest, test=specified.test)
        return HashedBins(bins=told.bins, hashes=told.hashes, beacons=named)
    if told.salt is not None and (told.vocabulary is not None or not specified.test):
        raise BadExperimentError("binning.salt is for test experiments with hashed bins; others have theirs drawn")
    if told.vocabulary is None:
        salt = dice(SALT_BYTES) if told.salt is None else bytes.fromhex(told.salt)
        return HashedBins(bins=told.bins, hashes=told.hashes, salt=salt)
    if told.hashes != 1:
        raise BadExperimentError("a vocabulary is not hashed: binning.hashes must be 1")
    return VocabularyBins(bins=told.bins, digest=told.vocabulary)


def _relay_key(told: RelayPart) -> VerifyKey:
    try:
        return VerifyKey(bytes.fromhex(told.key))
    except (ValueError, ProtocolError):
        raise BadExperimentError(
            f"a relay's key must be {2 * PUBLIC_KEY_BYTES} hexadecimal digits that only its owner can sign for",
            next_step="Ask the relay's operator for what `secvm relay key` printed.",
        ) from None


def _note(told: Specification) -> str:
    notes = [told.gateway_note] if told.gateway_note else []
    binning = told.binning
    by_dice = binning.vocabulary is None and not binning.beacons and binning.beacon_delay_s is None
    return " ".join([*notes, SALT_NOTE] if by_dice else notes)
