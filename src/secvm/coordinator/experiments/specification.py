"""The specification of an experiment: a small TOML file (or the same as JSON) in the operator's words.

docs/how-to/run-an-experiment.md explains every key. **Private is what nobody has to ask for**: without ``privacy`` the
experiment has the (ε, δ) of ``PrivacyTarget()`` over all its rounds, by two relays' cover. ``privacy = "none"`` is
the paper's own system, without a guarantee. ``new_experiment`` makes an experiment of it. Tables of parts that
declare their settings (descent, robust, privacy) are read by those declarations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import pydantic

from secvm.crypto.beacons.sources import MAX_ROUND
from secvm.learning.aggregate.descent import RULES, AskedDescent
from secvm.learning.arithmetic import exact
from secvm.learning.declared import MAX_BINS, MAX_HASHES, USUAL_TRAIN_SHARE, Setting
from secvm.learning.experiment import Robust
from secvm.learning.losses import Hinge
from secvm.privacy.planning.relay_plan import SECONDS_PER_MILLION
from secvm.privacy.target import PrivacyTarget
from secvm.protocol.documents.experiment import MAX_DAYS, MAX_WINDOW_S
from secvm.protocol.documents.terms import RelayRole
from secvm.runtime.settings import Settings

#: A number as TOML or JSON writes it, or exactly, as text such as "7/10".
Number = int | float | str
#: Seconds of one step of a round.
Step = Annotated[int, pydantic.Field(ge=1, le=MAX_WINDOW_S)]
#: ``privacy`` of an experiment without a guarantee.
PLAIN = "none"


class BeaconPart(Settings):
    """One round of a beacon."""

    chain: str
    round: Annotated[int, pydantic.Field(ge=1, le=MAX_ROUND)]


class FeaturesPart(Settings):
    """The features that a device uses."""

    source: str
    description: str = ""
    presence: bool = True
    #: How many days the source may look back; as far as it can, where it is not given.
    days: Annotated[int, pydantic.Field(ge=1, le=MAX_DAYS)] | None = None
    #: F: so many of a person's features at most take part, drawn once.
    per_participant: Annotated[int, pydantic.Field(ge=1)] | None = None


class BinningPart(Settings):
    """How features become bins: by a salted hash, or by a public vocabulary."""

    bins: Annotated[int, pydantic.Field(ge=1, le=MAX_BINS)]
    hashes: Annotated[int, pydantic.Field(ge=1, le=MAX_HASHES)] = 1
    #: A public list's digest (docs/protocol.md §2.9): its words are the bins.
    vocabulary: str | None = None
    #: In hexadecimal, and in test experiments only: a run that is to be repeated needs the same bins.
    salt: Annotated[str, pydantic.Field(pattern=r"^([0-9a-f]{2}){16}$")] | None = None
    #: Rounds of public beacons, still to come, that will fix the salt.
    beacons: tuple[BeaconPart, ...] = ()
    #: Or: the rounds of drand and NIST that come after so many seconds.
    beacon_delay_s: Annotated[int, pydantic.Field(ge=60, le=30 * 86_400)] | None = None


class WindowsPart(Settings):
    """When windows open, and how long the steps of a round take."""

    length_s: int
    grace_s: int
    hours: tuple[tuple[int, int], ...] = ((0, 24),)
    time_zone: str = "UTC"
    #: An instant in milliseconds; at once, without.
    first_opening: int | None = None
    #: Or: so many seconds after the experiment is made. Who is to join needs time for it.
    first_opening_s: Annotated[int, pydantic.Field(ge=0, le=30 * 86_400)] | None = None
    #: With a guarantee: seconds for the entry relay, the mixing relay, the reveals and the opening; planned, without.
    batch_s: Step | None = None
    mix_s: Step | None = None
    reveal_s: Step | None = None
    open_s: Step | None = None


class RelayPart(Settings):
    """A relay that devices may use, and the key that signs what it says, in hexadecimal."""

    url: str
    key: str
    #: With a guarantee: what it does, and who runs it.
    role: RelayRole | None = None
    operator: str | None = None
    #: Seconds for a million packages, as the relay's terms say: times are planned by it.
    seconds_per_million: Annotated[int, pydantic.Field(ge=1)] = SECONDS_PER_MILLION


def _schema(name: str, settings: Sequence[Setting], **more: Any) -> pydantic.WithJsonSchema:
    """A table as OpenAPI describes it, out of what its part declares."""
    properties = {setting.name: _described(setting) for setting in settings}
    table = {"title": name, "type": "object", "properties": {**more, **properties}, "additionalProperties": False}
    return pydantic.WithJsonSchema(table)


def _described(setting: Setting) -> dict[str, Any]:
    bounds = {"minimum": setting.at_least, "exclusiveMinimum": setting.above, "maximum": setting.at_most}
    numbers = {name: float(bound) for name, bound in bounds.items() if bound is not None}
    if setting.below is not None:
        numbers["exclusiveMaximum"] = float(setting.below)
    kinds: list[dict[str, Any]] = [{"type": "integer" if setting.is_whole else "number", **numbers}]
    if not setting.is_whole:
        kinds.append({"type": "string"})
    if setting.optional:
        kinds.append({"type": "null"})
    described = {"description": setting.sentence, "anyOf": kinds}
    return described if setting.default is None else {**described, "default": float(setting.default)}


def _table(given: object) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ValueError("should be a table")  # noqa: TRY004  (pydantic wants a ValueError)
    return given


def _read_descent(given: object) -> AskedDescent:
    return given if isinstance(given, AskedDescent) else AskedDescent.read(_table(given))


def _read_robust(given: object) -> Robust | None:
    return given if given is None or isinstance(given, Robust) else Robust.read(_table(given))


def _read_privacy(given: object) -> PrivacyTarget | None:
    """What stands there, and None for "none": who leaves it empty by mistake shall not have an experiment without."""
    if given == PLAIN:
        return None
    if given is None or isinstance(given, str):
        raise ValueError(f'should be a table, or "{PLAIN}"')
    return given if isinstance(given, PrivacyTarget) else PrivacyTarget.read(_table(given))


def _or(other: str, table: pydantic.WithJsonSchema) -> pydantic.WithJsonSchema:
    alone = {"type": "null"} if other == "null" else {"const": other}
    return pydantic.WithJsonSchema({"anyOf": [table.json_schema, alone]})


_OF_RULES = {setting.name: setting for rule in RULES.built_in.values() for setting in rule.settings()}
#: How it learns: ``rule``, ``thinning`` (ρ for rules of normalised rows, "q=Q" for others, or "none"), and the rule's
#: own constants. With a guarantee, what is not given is chosen by public numbers (``privacy.noise_settings``).
Descent = Annotated[
    AskedDescent,
    pydantic.PlainValidator(_read_descent),
    _schema(
        "Descent",
        [replace(setting, optional=True) for setting in _OF_RULES.values()],
        rule={"type": "string", "description": f"{', '.join(RULES.built_in)}, or one of an installed package."},
        thinning={"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "null"}]},
    ),
]
#: What is done against devices that lie (docs/threat-model.md, "Poisoning").
Robustness = Annotated[
    Robust | None, pydantic.PlainValidator(_read_robust), _or("null", _schema("Robust", Robust.settings()))
]
#: The guarantee over all rounds. Numbers as TOML or JSON writes them, or exactly, as text such as "1/2".
Guarantee = Annotated[
    PrivacyTarget | None,
    pydantic.PlainValidator(_read_privacy),
    _or(PLAIN, _schema("Privacy", PrivacyTarget.settings())),
]


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
    #: Who asks, how to reach them, and what for: people are shown it first. Only a test may leave it out.
    operator: str = ""
    contact: str = ""
    purpose: str = ""
    labels: tuple[str, ...]
    #: Devices that are expected in a round, those that test included; a guarantee is planned with it, and holds for
    #: any number of them.
    people: Annotated[int, pydantic.Field(ge=1)] | None = None
    #: Fewest train participants from whom a step is taken.
    floor: Annotated[int, pydantic.Field(ge=1)]
    features: FeaturesPart
    binning: BinningPart
    windows: WindowsPart
    descent: Descent = pydantic.Field(default_factory=lambda: AskedDescent.read({}))
    robust: Robustness = None
    loss: str = Hinge.name
    loss_parameter: Number | None = None
    multiclass: Literal["ovr", "ovo"] = "ovr"
    #: Label to weight; labels that are not here weigh 1.
    class_weights: dict[str, Number] = pydantic.Field(default_factory=dict)
    #: Of a number as the label.
    target_centre: Number = 0
    target_spread: Number = 1
    #: B; computed without. With a guarantee it follows from the features.
    budget: int | None = None
    train_share: Number = str(USUAL_TRAIN_SHARE)
    rounds: int | None = None
    relays: tuple[RelayPart, ...] = ()
    #: (ε, δ) by the cover of two relays; None, which is written "none": the paper's own system without a guarantee.
    privacy: Guarantee = pydantic.Field(default_factory=PrivacyTarget)
    gateway_note: str = ""
    #: Whether submissions need an anonymous token, which the entry relay gives: only with a guarantee.
    tokens: bool = False
    early_stopping: EarlyStopping | None = None
    test: bool = False

    @pydantic.model_validator(mode="after")
    def _floor_can_be_reached(self) -> Specification:
        share = exact(self.train_share)
        if self.people is None or not 0 < share <= 1:
            return self
        train = math.floor(self.people * share)
        if self.floor > train:
            raise ValueError(
                f"floor is {self.floor:,}, and of {self.people:,} people about {train:,} train: no step would ever be"
                " taken; lower floor, or expect more people"
            )
        return self
