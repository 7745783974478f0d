"""The specification of an experiment: a small TOML file (or the same as JSON) in the operator's words.

docs/how-to/run-an-experiment.md explains every key. **Private is what nobody has to ask for**: without ``privacy`` the
experiment has (ε, δ) = (1, 1e-6) over all its rounds, by the cover of two relays. ``privacy = "none"`` is the paper's
own system, without a guarantee. ``coordinator.questions`` makes an experiment of it.
"""

from __future__ import annotations

from typing import Annotated, Literal

import pydantic

from secvm.coordinator.chosen_beacons import BeaconPart
from secvm.learning.cover_law import MAX_PARTS, MIN_PARTS
from secvm.privacy.relay_plan import MOST_PACKAGES, PARTS
from secvm.privacy.relay_times import SECONDS_PER_MILLION
from secvm.protocol.experiment_document import MAX_WINDOW_S
from secvm.protocol.relayed_terms import RelayRole
from secvm.runtime.settings import Settings

#: A number as TOML or JSON writes it, or exactly, as text such as "7/10".
Number = int | float | str
#: Seconds of one step of a round.
Step = Annotated[int, pydantic.Field(ge=1, le=MAX_WINDOW_S)]
#: ``privacy`` of an experiment without a guarantee.
PLAIN = "none"


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
    #: Of the popularity, in shares of its mean. With a guarantee thinning, step size and floor that are not given are
    #: chosen by public numbers (``privacy.noise_settings``).
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


class PrivacyPart(Settings):
    """The guarantee over all rounds. Numbers as TOML or JSON writes them, or exactly, as text such as "1/2"."""

    epsilon: Number = 1
    delta: Number = "1e-6"
    #: S: into so many parts each relay's cover is cut; one is opened after each round.
    parts: Annotated[int, pydantic.Field(ge=MIN_PARTS, le=MAX_PARTS)] = PARTS
    #: D of one relay in one round is refused above this.
    most_packages: Annotated[int, pydantic.Field(ge=1)] = MOST_PACKAGES


def _read_privacy(told: object) -> object:
    """What stands there, and None for "none": who leaves it empty by mistake shall not have an experiment without."""
    if told == PLAIN:
        return None
    if told is None or isinstance(told, str):
        raise ValueError(f'should be a table, or "{PLAIN}"')
    return told


Guarantee = Annotated[
    PrivacyPart | None, pydantic.BeforeValidator(_read_privacy, json_schema_input_type=PrivacyPart | Literal["none"])
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
    labels: tuple[str, ...]
    #: Devices that are expected in a round, those that test included; a guarantee is planned with it, and holds for
    #: any number of them.
    people: Annotated[int, pydantic.Field(ge=1)] | None = None
    #: Fewest train participants from whom a step is taken.
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
    #: B; computed without. With a guarantee it follows from the features.
    budget: int | None = None
    train_share: Number = "7/10"
    rounds: int | None = None
    relays: tuple[RelayPart, ...] = ()
    #: (ε, δ) by the cover of two relays; None, which is written "none": the paper's own system without a guarantee.
    privacy: Guarantee = PrivacyPart()
    gateway_note: str = ""
    #: Whether submissions need an anonymous token, which the entry relay gives: only with a guarantee.
    tokens: bool = False
    early_stopping: EarlyStopping | None = None
    test: bool = False
