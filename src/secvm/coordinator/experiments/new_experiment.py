"""From an operator's specification to the document of an experiment.

Whatever does not fit is refused in one sentence. Three things are filled in here:

**The guarantee.** An experiment is private unless its specification says ``privacy = "none"``. For a private one the
cover of two relays is planned (``privacy.private_plan``) from public numbers alone; budget, rounds and times follow.
Planning takes some seconds.

**The budget** B of a plain experiment, where none is given: enough packages for nearly every update
(``learning.experiment.default_budget``).

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
from secvm.learning.experiment import Experiment, default_budget
from secvm.learning.losses import Loss
from secvm.privacy.planning.private_plan import AskedPrivately, PrivatePlan, plan_private
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
from secvm.protocol.log.policy import LogTerms
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
        chosen = tuple(Beacon(chain=beacon.chain, round_number=beacon.round) for beacon in named)
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


def learning(spec: Specification) -> Experiment:
    """The experiment without cover, and with the budget that was given, or with any."""
    unknown = spec.class_weights.keys() - set(spec.labels)
    if unknown:
        raise BadExperimentError("class_weights names a label that the experiment does not have")
    loss = Loss(spec.loss, None if spec.loss_parameter is None else exact(spec.loss_parameter))
    weights = tuple(exact(spec.class_weights.get(label, 1)) for label in spec.labels) if spec.class_weights else ()
    return Experiment(
        n_bins=spec.binning.bins,
        labels=spec.labels,
        rule=spec.descent.rule_for(numbers=loss.regression),
        loss=loss,
        thinning=spec.descent.thinning,
        class_weights=weights,
        multiclass=spec.multiclass,
        features_per_person=spec.features.per_participant,
        budget=2 if spec.budget is None else spec.budget,
        target_centre=exact(spec.target_centre),
        target_spread=exact(spec.target_spread),
        robust=spec.robust,
    )


def plain_experiment(spec: Specification) -> Experiment:
    """The experiment of a specification without a guarantee."""
    experiment = learning(spec)
    if spec.budget is not None:
        return experiment
    return replace(
        experiment, budget=default_budget(experiment, hashes=spec.binning.hashes, presence=spec.features.presence)
    )


_STEPS = ("batch_s", "mix_s", "reveal_s", "open_s")
#: What ends every refusal that comes from a guarantee.
_OR_PLAIN = 'or privacy = "none", without a guarantee'


def private_plan(spec: Specification) -> PrivatePlan | None:
    """The plan of a specification with a guarantee; None: it asks for none. It needs no coordinator.

    Raises
    ------
    BadExperimentError
        One sentence about what is missing, or what cannot be kept.
    """
    asked = spec.privacy
    if asked is None:
        return None
    entry, mix = two_relays(spec)
    if spec.people is None:
        raise BadExperimentError(
            f"a guarantee is planned for a number of devices: give people, those expected in a round; {_OR_PLAIN}"
        )
    if spec.features.per_participant is None:
        raise BadExperimentError(
            f"a guarantee needs a bound on a person's features: give features.per_participant, {_OR_PLAIN}"
        )
    if not spec.features.presence:
        raise BadExperimentError(
            f"a guarantee needs features that count by presence: set features.presence = true, {_OR_PLAIN}"
        )
    made = plan_private(
        AskedPrivately(
            experiment=replace(learning(spec), budget=None),
            target=asked,
            people=spec.people,
            hashes=spec.binning.hashes,
            train_share=exact(spec.train_share),
            rounds=spec.rounds,
            given=spec.descent.given,
            entry_pace=entry.seconds_per_million,
            mix_pace=mix.seconds_per_million,
        )
    )
    if spec.budget not in (None, made.plan.budget):
        raise BadExperimentError(
            f"a budget of {spec.budget} was given, and with a guarantee it is {made.plan.budget}: leave budget out"
        )
    given = {name: getattr(spec.windows, name) for name in _STEPS}
    times = replace(made.times, **{name: value for name, value in given.items() if value is not None})
    return replace(made, times=times)


def two_relays(spec: Specification) -> tuple[RelayPart, RelayPart]:
    """The entry relay and the mixing relay. Raises ``BadExperimentError`` where a guarantee cannot rest on them."""
    by_role = {relay.role: relay for relay in spec.relays}
    if len(spec.relays) != len(ROLES) or set(by_role) != set(ROLES):
        named = ", ".join(relay.role or "no role" for relay in spec.relays) or "none"
        raise BadExperimentError(
            f"a guarantee rests on two relays, and the specification has {named}: give [[relays]] with role ="
            f' "entry" and with role = "mix", of two operators, {_OR_PLAIN}'
        )
    entry, mix = by_role["entry"], by_role["mix"]
    operators = operators_of(spec)
    if operators.same:
        raise BadExperimentError(
            f"{operators.why_no_guarantee(one_relay=False)}: name relays of two operators, {_OR_PLAIN}"
        )
    for name in ("url", "key"):
        if getattr(entry, name) == getattr(mix, name):
            raise BadExperimentError(f"both relays have the {name} {getattr(mix, name)}: each has one of its own")
    return entry, mix


def operators_of(spec: Specification) -> Operators:
    """Who runs the two relays."""
    named = {relay.role: relay.operator for relay in spec.relays}

    def operator(role: RelayRole) -> str:
        operator_name = named.get(role)
        if operator_name is None or not operator_name.strip():
            raise BadExperimentError(f"{relay_of(role)} has no operator: give relays.operator, the name of who runs it")
        return operator_name

    return Operators(entry=operator("entry"), mix=operator("mix"), coordinators=(spec.operator,))


def relay_times(made: PrivatePlan) -> RelayTimes:
    """The times of a plan, as the document of an experiment states them."""
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


def make_document(
    spec: Specification,
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
    check_asker(spec)
    if len(spec.labels) > MOST_LABELS:
        raise BadExperimentError(f"an experiment over devices has at most {MOST_LABELS} labels")
    if spec.windows.first_opening is not None and spec.windows.first_opening > now + _FARTHEST_MS:
        raise BadExperimentError("windows.first_opening is more than a year ahead; it is in milliseconds since 1970")
    if spec.windows.first_opening is not None and spec.windows.first_opening_s is not None:
        raise BadExperimentError("windows.first_opening and windows.first_opening_s say the same: give one of them")
    if plan is None:
        plan = private_plan(spec)
    windows = Windows(
        length_s=spec.windows.length_s,
        grace_s=spec.windows.grace_s,
        first_opening=spec.windows.first_opening or now + 1000 * (spec.windows.first_opening_s or 0),
        hours=spec.windows.hours,
        time_zone=spec.windows.time_zone,
        relays=None if plan is None else relay_times(plan),
    )
    document = ExperimentDocument(
        title=spec.title,
        question=spec.question,
        operator=spec.operator,
        contact=spec.contact,
        purpose=spec.purpose,
        experiment=plain_experiment(spec) if plan is None else plan.experiment,
        features=FeaturesWanted(
            source=spec.features.source,
            description=spec.features.description,
            presence=spec.features.presence,
            days=spec.features.days,
        ),
        binning=_binning(spec, dice, now=now, newest=newest),
        windows=windows,
        floor=spec.floor,
        train_share=exact(spec.train_share),
        rounds=plain_rounds(spec) if plan is None else plan.rounds,
        coordinator_keys=(key,),
        relays=_relays(spec),
        privacy=None if plan is None else plan.asked.target.published,
        gateway_note=_note(spec),
        log=log,
        tokens=spec.tokens,
        test=spec.test,
    )
    if spec.tokens and plan is None:
        raise BadExperimentError('the entry relay of two gives and takes tokens: with privacy = "none" there are none')
    if log is None and isinstance(document.binning, HashedBins) and document.binning.beacons:
        raise BadExperimentError("beacons need a log, which shows that they had not spoken yet: [log] in the settings")
    if spec.early_stopping is not None and document.experiment.loss.regression:
        raise BadExperimentError("early stopping looks at test counts, and a number as the label has none")
    try:
        _ = document.data  # refuses what cannot be read again
    except LocalProtocolError as fault:
        raise BadExperimentError(str(fault)) from None
    grid.check(windows)
    return document, OwnSettings(early_stopping=spec.early_stopping)


def check_asker(spec: Specification) -> None:
    """Raise ``BadExperimentError`` where people would not be told who asks them, how to reach them, or what for."""
    missing = [name for name in ("operator", "contact", "purpose") if not getattr(spec, name).strip()]
    if missing and not spec.test:
        raise BadExperimentError(
            f"people are told who asks them, how to reach them and what for: give {' and '.join(missing)}; only an"
            " experiment with test = true may leave it out"
        )


def plain_rounds(spec: Specification) -> int:
    """Of an experiment without a guarantee: as given, or the rule's own."""
    if spec.rounds is not None:
        return spec.rounds
    return spec.descent.rule.usual_rounds(numbers=Loss(spec.loss).regression)


def _relays(spec: Specification) -> tuple[Relay, ...]:
    """As the document names them: the entry relay and then the mixing relay, or those of a plain experiment."""
    if spec.privacy is not None:
        return tuple(
            Relay(url=relay.url, key=_relay_key(relay), role=relay.role, operator=relay.operator)
            for relay in two_relays(spec)
        )
    if any(relay.role is not None or relay.operator is not None for relay in spec.relays):
        raise BadExperimentError("relays of an experiment without a guarantee have neither role nor operator")
    return tuple(Relay(url=relay.url, key=_relay_key(relay)) for relay in spec.relays)


def _binning(
    specified: Specification, dice: RandomBytes, *, now: int, newest: NewestPulse | None
) -> HashedBins | VocabularyBins:
    spec = specified.binning
    if spec.beacons or spec.beacon_delay_s is not None:
        if spec.vocabulary is not None or spec.salt is not None:
            raise BadExperimentError("beacons fix the salt of hashed bins: binning.salt and vocabulary have no place")
        named = choose_beacons(spec.beacons, spec.beacon_delay_s, now=now, newest=newest, test=specified.test)
        return HashedBins(bins=spec.bins, hashes=spec.hashes, beacons=named)
    if spec.salt is not None and (spec.vocabulary is not None or not specified.test):
        raise BadExperimentError("binning.salt is for test experiments with hashed bins; others have theirs drawn")
    if spec.vocabulary is None:
        salt = dice(SALT_BYTES) if spec.salt is None else bytes.fromhex(spec.salt)
        return HashedBins(bins=spec.bins, hashes=spec.hashes, salt=salt)
    if spec.hashes != 1:
        raise BadExperimentError("a vocabulary is not hashed: binning.hashes must be 1")
    return VocabularyBins(bins=spec.bins, digest=spec.vocabulary)


def _relay_key(spec: RelayPart) -> VerifyKey:
    try:
        return VerifyKey(bytes.fromhex(spec.key))
    except (ValueError, ProtocolError):
        raise BadExperimentError(
            f"a relay's key must be {2 * PUBLIC_KEY_BYTES} hexadecimal digits that only its owner can sign for",
            next_step="Ask the relay's operator for what `secvm relay key` printed.",
        ) from None


def _note(spec: Specification) -> str:
    notes = [spec.gateway_note] if spec.gateway_note else []
    binning = spec.binning
    by_dice = binning.vocabulary is None and not binning.beacons and binning.beacon_delay_s is None
    return " ".join([*notes, SALT_NOTE] if by_dice else notes)
