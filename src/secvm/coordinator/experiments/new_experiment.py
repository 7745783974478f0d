"""From an operator's specification to the document of an experiment.

Whatever does not fit is refused in one sentence. Three things are filled in here:

**The guarantee.** An experiment is private unless its specification says ``privacy = "none"``. For a private one the
cover of two relays is planned (``privacy.private_plan``) from public numbers alone; budget, rounds and times follow.
Planning takes some seconds.

**The budget** B of a plain experiment, where none is given: enough packages for nearly every update
(``privacy.budgets``).

**The salt.** Public beacons fix it where the specification names rounds of them, or a delay: then the first round of
drand after the delay and the pulse of NIST's second chain. drand has a round number for every instant; a NIST pulse's
number is counted on from the newest one, one a minute, which somebody has to fetch. All must lie in the future, and the
log's witnesses must have seen the experiment before the first of them. Without beacons the salt comes from dice, and
because nobody else can check that the coordinator did not choose it, the experiment says so (``gateway_note``).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from secvm.coordinator.epochs import Grid
from secvm.coordinator.experiments.specification import BeaconPart, EarlyStopping, RelayPart, Specification
from secvm.crypto.beacons.sources import DRAND_CHAINS, MAX_BEACONS, is_unsafe, round_time
from secvm.crypto.sealing.kem import RandomBytes
from secvm.crypto.signing import PUBLIC_KEY_BYTES, VerifyKey
from secvm.errors import BadBeaconError, BadExperimentError, LocalProtocolError, ProtocolError
from secvm.learning.arithmetic import exact
from secvm.learning.declared import MAX_BUDGET
from secvm.learning.experiment import Experiment
from secvm.learning.losses import Loss
from secvm.privacy.planning import budgets
from secvm.privacy.planning.private_plan import AskedPrivately, PrivatePlan, plan_private
from secvm.privacy.planning.relay_times import paces_of
from secvm.privacy.statements.operators import Operators, relay_of
from secvm.protocol.documents.experiment import (
    Beacon,
    ExperimentDocument,
    FeaturesWanted,
    HashedBins,
    Relay,
    VocabularyBins,
    Windows,
)
from secvm.protocol.documents.manifest import MAX_MANIFEST_BYTES
from secvm.protocol.documents.terms import ROLES, RelayRole, RelayTimes
from secvm.protocol.log.terms import LogTerms
from secvm.runtime.settings import Settings

#: Of NIST's chains.
NIST_CHAIN = 2
DRAND, NIST = "drand-quicknet", f"nist-2.0-chain-{NIST_CHAIN}"
_PULSE_MS = 60_000


class NewestPulse(NamedTuple):
    """The newest pulse of NIST's second chain."""

    number: int
    #: In milliseconds.
    at: int


def choose_beacons(
    named: tuple[BeaconPart, ...], delay_s: int | None, *, now: int, newest: NewestPulse | None, test: bool
) -> tuple[Beacon, ...]:
    """The rounds that will fix the salt.

    Raises
    ------
    BadExperimentError
        One sentence about what does not fit.
    """
    if named and delay_s is not None:
        raise BadExperimentError("give binning.beacons or binning.beacon_delay_s, not both")
    if delay_s is None:
        chosen = tuple(Beacon(chain=one.chain, round_number=one.round) for one in named)
    else:
        chosen = _after(now + 1000 * delay_s, newest)
    if len(chosen) > MAX_BEACONS or len(set(chosen)) != len(chosen):
        raise BadExperimentError(f"binning.beacons are at most {MAX_BEACONS} rounds, none of them twice")
    for beacon in chosen:
        if is_unsafe(beacon.chain) and not test:
            raise BadExperimentError("a beacon for development, whose outputs everybody knows, is for tests alone")
        try:
            at = round_time(beacon.chain, beacon.round_number)
        except BadBeaconError as fault:
            raise BadExperimentError(f"binning.beacons: {fault}") from None
        if at is not None and at <= now:
            raise BadExperimentError("a round of binning.beacons is known already: name one that is still to come")
    return chosen


def _after(at: int, newest: NewestPulse | None) -> tuple[Beacon, ...]:
    if newest is None:
        raise BadExperimentError(
            "NIST's newest pulse could not be had for binning.beacon_delay_s; name rounds instead, as in"
            f' beacons = [{{ chain = "{DRAND}", round = … }}]'
        )
    chain = DRAND_CHAINS[DRAND]
    drand_round = 1 + max(0, -(-(at - 1000 * chain.genesis_s) // (1000 * chain.period_s)))
    pulse = newest.number + max(1, -(-(at - newest.at) // _PULSE_MS))
    return Beacon(chain=DRAND, round_number=drand_round), Beacon(chain=NIST, round_number=pulse)


def learning(told: Specification) -> Experiment:
    """The experiment without cover, and with the budget that was given, or with any."""
    unknown = told.class_weights.keys() - set(told.labels)
    if unknown:
        raise BadExperimentError("class_weights names a label that the experiment does not have")
    loss = Loss(told.loss, None if told.loss_parameter is None else exact(told.loss_parameter))
    weights = tuple(exact(told.class_weights.get(label, 1)) for label in told.labels) if told.class_weights else ()
    return Experiment(
        n_bins=told.binning.bins,
        labels=told.labels,
        rule=told.descent.rule_for(numbers=loss.regression),
        loss=loss,
        thinning=told.descent.thinning,
        class_weights=weights,
        multiclass=told.multiclass,
        features_per_person=told.features.per_participant,
        budget=2 if told.budget is None else told.budget,
        target_centre=exact(told.target_centre),
        target_spread=exact(told.target_spread),
        robust=told.robust,
    )


def plain_experiment(told: Specification) -> Experiment:
    """The experiment of a specification without a guarantee."""
    experiment = learning(told)
    if told.budget is not None:
        return experiment
    return replace(
        experiment, budget=default_budget(experiment, hashes=told.binning.hashes, presence=told.features.presence)
    )


def default_budget(experiment: Experiment, *, hashes: int, presence: bool) -> int:
    """B that holds nearly every update (``privacy.budgets``), and that can be published."""
    return budgets.default_budget(experiment, hashes=hashes, presence=presence, most=MAX_BUDGET)


_STEPS = ("batch_s", "mix_s", "reveal_s", "open_s")
#: What ends every refusal that comes from a guarantee.
_OR_PLAIN = 'or privacy = "none", without a guarantee'


def private_plan(told: Specification) -> PrivatePlan | None:
    """The plan of a specification with a guarantee; None: it asks for none. It needs no coordinator.

    Raises
    ------
    BadExperimentError
        One sentence about what is missing, or what cannot be kept.
    """
    asked = told.privacy
    if asked is None:
        return None
    entry, mix = two_relays(told)
    if told.people is None:
        raise BadExperimentError(
            f"a guarantee is planned for a number of devices: give people, those expected in a round; {_OR_PLAIN}"
        )
    if told.features.per_participant is None:
        raise BadExperimentError(
            f"a guarantee needs a bound on a person's features: give features.per_participant, {_OR_PLAIN}"
        )
    if not told.features.presence:
        raise BadExperimentError(
            f"a guarantee needs features that count by presence: set features.presence = true, {_OR_PLAIN}"
        )
    made = plan_private(
        AskedPrivately(
            experiment=replace(learning(told), budget=None),
            target=asked,
            people=told.people,
            hashes=told.binning.hashes,
            train_share=exact(told.train_share),
            rounds=told.rounds,
            given=told.descent.given,
            paces=paces_of(entry=entry.seconds_per_million, mix=mix.seconds_per_million),
        )
    )
    if told.budget not in (None, made.plan.budget):
        raise BadExperimentError(
            f"a budget of {told.budget} was given, and with a guarantee it is {made.plan.budget}: leave budget out"
        )
    given = {name: getattr(told.windows, name) for name in _STEPS}
    times = replace(made.times, **{name: value for name, value in given.items() if value is not None})
    return replace(made, times=times)


def two_relays(told: Specification) -> tuple[RelayPart, RelayPart]:
    """The entry relay and the mixing relay. Raises ``BadExperimentError`` where a guarantee cannot rest on them."""
    by_role = {relay.role: relay for relay in told.relays}
    if len(told.relays) != len(ROLES) or set(by_role) != set(ROLES):
        named = ", ".join(relay.role or "no role" for relay in told.relays) or "none"
        raise BadExperimentError(
            f"a guarantee rests on two relays, and the specification has {named}: give [[relays]] with role ="
            f' "entry" and with role = "mix", of two operators, {_OR_PLAIN}'
        )
    entry, mix = by_role["entry"], by_role["mix"]
    operators = operators_of(told)
    if operators.same:
        raise BadExperimentError(
            f"{operators.why_no_guarantee(one_relay=False)}: name relays of two operators, {_OR_PLAIN}"
        )
    for name in ("url", "key"):
        if getattr(entry, name) == getattr(mix, name):
            raise BadExperimentError(f"both relays have the {name} {getattr(mix, name)}: each has one of its own")
    return entry, mix


def operators_of(told: Specification) -> Operators:
    """Who runs the two relays."""
    named = {relay.role: relay.operator for relay in told.relays}

    def operator(role: RelayRole) -> str:
        found = named.get(role)
        if found is None or not found.strip():
            raise BadExperimentError(f"{relay_of(role)} has no operator: give relays.operator, the name of who runs it")
        return found

    return Operators(entry=operator("entry"), mix=operator("mix"))


def relay_times(made: PrivatePlan) -> RelayTimes:
    """As a document tells them."""
    return RelayTimes(**{name: getattr(made.times, name) for name in _STEPS})


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
