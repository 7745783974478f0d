"""From a plain specification to an experiment that can be published.

A specification is a small TOML file (or the same as JSON) in the operator's words; ``Specification`` lists what it may
hold, and docs/how-to/run-an-experiment.md explains it. Whatever does not fit is told in one sentence. Two things are
filled in here:

**The salt.** Public beacons fix it where the specification names rounds of them, or a delay after which the next rounds
are taken (``coordinator.chosen_beacons``). Else it comes from dice that are handed in. Nobody else can check that the
coordinator did not choose it, so the experiment says so in words (``gateway_note``).

**The budget** B, where none is given: so many packages that nearly every update fits (``privacy.budgets``). With cover
(``[privacy]``, ``coordinator.cover_question``) B is what its caps need.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Literal

import pydantic

from secvm.coordinator.chosen_beacons import BeaconPart, NewestPulse, choose_beacons
from secvm.coordinator.cover_question import PlannedCover, PrivacyPart, plan_cover
from secvm.coordinator.epochs import Grid
from secvm.crypto.kem import RandomBytes
from secvm.crypto.signing import PUBLIC_KEY_BYTES, VerifyKey
from secvm.errors import BadExperimentError, LocalProtocolError
from secvm.learning.aggregate.descent import DescentRule, Pegasos, Swift
from secvm.learning.aggregate.robust import Robust
from secvm.learning.arithmetic import exact
from secvm.learning.experiment import Experiment
from secvm.learning.losses import Loss
from secvm.privacy import budgets
from secvm.protocol.experiment_document import (
    ExperimentDocument,
    FeaturesWanted,
    HashedBins,
    Relay,
    RelayMode,
    VocabularyBins,
    Windows,
)
from secvm.protocol.learning_terms import MAX_BUDGET
from secvm.protocol.log import LogTerms
from secvm.protocol.manifest import MAX_MANIFEST_BYTES
from secvm.protocol.tokens import TokenTerms
from secvm.runtime.settings import Settings

SALT_BYTES = 16
#: Every manifest has the test counts of every pair of labels; a count of eight bytes leaves room for ten million.
MOST_LABELS = math.isqrt((MAX_MANIFEST_BYTES - 2**16) // 8)
#: Its first round is announced at once and holds a key until it is over: a later opening is a slip of the pen.
_FARTHEST_MS = 366 * 86_400_000
SALT_NOTE = "The salt was drawn by the coordinator's own dice; no public beacon vouches for it."

#: A number as TOML or JSON writes it, or exactly, as text such as "7/10".
Number = int | float | str


class FeaturesPart(Settings):
    """What a device looks at."""

    source: str
    description: str = ""
    presence: bool = True
    #: F: so many of a person's features at most take part, drawn once.
    per_participant: Annotated[int, pydantic.Field(ge=1)] | None = None


class BinningPart(Settings):
    """Bins by salted hash, or a vocabulary's."""

    bins: int
    hashes: int = 1
    #: A public list's digest (docs/protocol.md §2.9): its words are the bins.
    vocabulary: str | None = None
    #: In hexadecimal, and in test experiments only: a run that is to be repeated needs the same bins.
    salt: Annotated[str, pydantic.Field(pattern=r"^([0-9a-f]{2}){16}$")] | None = None
    #: Rounds of public beacons, still to come, that will fix the salt.
    beacons: tuple[BeaconPart, ...] = ()
    #: Or: the rounds of drand and NIST that come after so many seconds.
    beacon_delay_s: Annotated[int, pydantic.Field(ge=60, le=30 * 86_400)] | None = None


class DescentPart(Settings):
    """How it learns."""

    rule: Literal["swift", "pegasos"] = "swift"
    #: ρ for swift, "q=Q" for pegasos, or "none".
    thinning: Number | None = None
    #: Of pegasos.
    lambda_: Annotated[Number | None, pydantic.Field(alias="lambda")] = None
    averaging: int | None = None
    step_cap: Number | None = None
    #: Of swift.
    decay: Number | None = None
    step_size: Number | None = None
    #: Of the popularity, in shares of its mean: under cover a larger one loses less (``privacy.noise_settings``).
    floor: Number | None = None


class RobustPart(Settings):
    """What is done against devices that lie (docs/threat-model.md, "Poisoning")."""

    #: A bin's net count is cut to so many standard deviations of chance; 5 over the number of rounds is a good choice.
    clip: Number | None = None
    #: The median of so many rounds is taken, an odd number.
    trim: int = 1


class WindowsPart(Settings):
    """When rounds happen."""

    length_s: int
    grace_s: int
    hours: tuple[tuple[int, int], ...] = ((0, 24),)
    time_zone: str = "UTC"
    #: An instant in milliseconds; at once, without.
    first_opening: int | None = None


class RelayPart(Settings):
    """A relay that devices may use, and the key that signs its counts, in hexadecimal."""

    url: str
    key: str
    #: What it is, where that is told; cover needs "round".
    mode: RelayMode | None = None


class TokensPart(Settings):
    """Anonymous tokens: packages without one are not counted."""

    #: Where devices ask for them: the url of a relay that issues tokens.
    issuer: str


class EarlyStopping(Settings):
    """The coordinator ends the experiment when test counts no longer get better (``learning``'s ``Plateau``)."""

    #: Rounds in each of the means that are compared.
    patience: Annotated[int, pydantic.Field(ge=2)] = 10
    #: Never before so many tallied rounds.
    at_least: Annotated[int, pydantic.Field(ge=1)] = 20


class Specification(Settings):
    """An experiment in its operator's words."""

    title: str
    question: str = ""
    labels: tuple[str, ...]
    floor: Annotated[int, pydantic.Field(ge=1)]
    features: FeaturesPart
    binning: BinningPart
    windows: WindowsPart
    descent: DescentPart = DescentPart()
    robust: RobustPart | None = None
    loss: str = "hinge"
    loss_parameter: Number | None = None
    multiclass: Literal["ovr", "ovo"] = "ovr"
    #: Label to weight; labels that are not here weigh 1.
    class_weights: dict[str, Number] = pydantic.Field(default_factory=dict)
    #: Of a number as the label.
    target_centre: Number = 0
    target_spread: Number = 1
    #: B; computed without.
    budget: int | None = None
    train_share: Number = "7/10"
    rounds: int | None = None
    relays: tuple[RelayPart, ...] = ()
    #: Cover; without it the experiment is plain.
    privacy: PrivacyPart | None = None
    gateway_note: str = ""
    tokens: TokensPart | None = None
    early_stopping: EarlyStopping | None = None
    test: bool = False


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
    cover: PlannedCover | None = None,
    redeems: bool = False,
) -> tuple[ExperimentDocument, OwnSettings]:
    """The experiment that was specified, for this coordinator.

    ``log``: the terms of the coordinator's log, where it has one. ``newest``: NIST's newest pulse, where it is known.
    ``cover``: what ``planned_cover`` says of it, where somebody has asked already.
    ``redeems``: whether this coordinator can verify tokens.

    Raises
    ------
    BadInputError
        One sentence about what does not fit.
    """
    if len(told.labels) > MOST_LABELS:
        raise BadExperimentError(f"an experiment over devices has at most {MOST_LABELS} labels")
    if told.windows.first_opening is not None and told.windows.first_opening > now + _FARTHEST_MS:
        raise BadExperimentError("windows.first_opening is more than a year ahead; it is in milliseconds since 1970")
    windows = Windows(
        length_s=told.windows.length_s,
        grace_s=told.windows.grace_s,
        first_opening=now if told.windows.first_opening is None else told.windows.first_opening,
        hours=told.windows.hours,
        time_zone=told.windows.time_zone,
    )
    if cover is None and told.privacy is not None:
        cover = planned_cover(told)
    document = ExperimentDocument(
        title=told.title,
        question=told.question,
        experiment=_experiment(told, cover),
        features=FeaturesWanted(
            source=told.features.source, description=told.features.description, presence=told.features.presence
        ),
        binning=_binning(told, dice, now=now, newest=newest),
        windows=windows,
        floor=told.floor,
        train_share=exact(told.train_share),
        rounds=budgets.DEFAULT_ROUNDS[told.descent.rule] if told.rounds is None else told.rounds,
        coordinator_keys=(key,),
        relays=tuple(Relay(url=relay.url, key=_relay_key(relay), mode=relay.mode) for relay in told.relays),
        privacy=None if cover is None else cover.terms,
        gateway_note=_note(told),
        log=log,
        tokens=None if told.tokens is None else TokenTerms(issuer=told.tokens.issuer),
        test=told.test,
    )
    if told.tokens is not None and not redeems:
        raise BadExperimentError("tokens need the issuer's seed: [tokens] in the settings")
    if log is None and isinstance(document.binning, HashedBins) and document.binning.beacons:
        raise BadExperimentError("beacons need a log, which shows that they had not spoken yet: [log] in the settings")
    if told.early_stopping is not None and document.experiment.loss.regression:
        raise BadExperimentError("early stopping looks at test counts, and a number as the label has none")
    try:
        assert document.data
    except LocalProtocolError as fault:
        raise BadExperimentError(str(fault)) from None
    grid.check(windows)
    return document, OwnSettings(early_stopping=told.early_stopping)


def planned_cover(told: Specification) -> PlannedCover | None:
    """The cover that a specification asks for. It takes its time, and needs no coordinator."""
    if told.privacy is None:
        return None
    return plan_cover(
        told.privacy,
        replace(_learning(told), budget=None),
        hashes=told.binning.hashes,
        rounds=told.rounds,
        train_share=exact(told.train_share),
        presence=told.features.presence,
        modes=[relay.mode for relay in told.relays],
        floor=told.floor,
    )


def _experiment(told: Specification, cover: PlannedCover | None) -> Experiment:
    experiment = _learning(told)
    if cover is not None:
        budget = cover.plan.budget if told.budget is None else told.budget
        return replace(experiment, budget=budget, cover=cover.plan.cover)
    if told.budget is not None:
        return experiment
    return replace(
        experiment, budget=default_budget(experiment, hashes=told.binning.hashes, presence=told.features.presence)
    )


def _learning(told: Specification) -> Experiment:
    """The experiment without cover, and with the budget that was given, or with any."""
    unknown = told.class_weights.keys() - set(told.labels)
    if unknown:
        raise BadExperimentError("class_weights names a label that the experiment does not have")
    weights = tuple(exact(told.class_weights.get(label, 1)) for label in told.labels) if told.class_weights else ()
    return Experiment(
        n_bins=told.binning.bins,
        labels=told.labels,
        rule=_rule(told.descent),
        loss=Loss(told.loss, None if told.loss_parameter is None else exact(told.loss_parameter)),
        thinning=budgets.thinning_of(told.descent.thinning, rule=told.descent.rule),
        class_weights=weights,
        multiclass=told.multiclass,
        features_per_person=told.features.per_participant,
        budget=2 if told.budget is None else told.budget,
        target_centre=exact(told.target_centre),
        target_spread=exact(told.target_spread),
        robust=_robust(told.robust),
    )


def default_budget(experiment: Experiment, *, hashes: int, presence: bool) -> int:
    """B that holds nearly every update (``privacy.budgets``), and that can be published."""
    return budgets.default_budget(experiment, hashes=hashes, presence=presence, most=MAX_BUDGET)


def _rule(told: DescentPart) -> DescentRule:
    if told.rule == "swift":
        if not told.lambda_ is told.averaging is told.step_cap is None:
            raise BadExperimentError("descent.lambda, averaging and step_cap belong to pegasos, not to swift")
        given = {name: getattr(told, name) for name in ("decay", "step_size", "floor")}
        return Swift(**{name: exact(value) for name, value in given.items() if value is not None})
    if not told.decay is told.step_size is told.floor is None:
        raise BadExperimentError("descent.decay, step_size and floor belong to swift, not to pegasos")
    given = {
        "lambda_": None if told.lambda_ is None else exact(told.lambda_),
        "averaging": told.averaging,
        "step_cap": None if told.step_cap is None else exact(told.step_cap),
    }
    return Pegasos(**{name: value for name, value in given.items() if value is not None})


def _robust(told: RobustPart | None) -> Robust | None:
    if told is None:
        return None
    return Robust(clip=None if told.clip is None else exact(told.clip), trim=told.trim)


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
        data = bytes.fromhex(told.key)
    except ValueError:
        data = b""
    if len(data) != PUBLIC_KEY_BYTES:
        raise BadExperimentError(f"a relay's key must be {2 * PUBLIC_KEY_BYTES} hexadecimal digits")
    return VerifyKey(data)


def _note(told: Specification) -> str:
    notes = [told.gateway_note] if told.gateway_note else []
    binning = told.binning
    by_dice = binning.vocabulary is None and not binning.beacons and binning.beacon_delay_s is None
    return " ".join([*notes, SALT_NOTE] if by_dice else notes)
