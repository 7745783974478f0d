"""What a simulated population is asked for, the experiment that is put to it, and a day of it.

**A day**: how many are there at which hour, and how many of them belong to the minority. Hours are those of each
device's own time zone. Of the majority the share ``ACTIVITY[h]`` is there at hour h, in between by straight lines. A
member of the minority is there as often by day, and less often at night: by the factor that makes a share of
``day_share`` among those who are there by day one of ``night_share`` at night. Nothing else depends on the hour, least
of all what a device sends.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning.aggregate.descent import DescentRule, Pegasos
from secvm.learning.experiment import Experiment, Robust, default_budget
from secvm.learning.package import MAX_ROUNDS
from secvm.learning.thinning import Thinning
from secvm_lab.online.population.dice import MOST_DEVICES, device_seed
from secvm_lab.online.population.words import TitleWords

#: How many of the majority are there, by hour, beside the busiest hour. Made up: quiet from one to five, much at work,
#: most in the evening.
ACTIVITY = (
    *(0.30, 0.20, 0.14, 0.12, 0.12, 0.16, 0.28, 0.47, 0.67, 0.78, 0.83, 0.83),
    *(0.83, 0.83, 0.83, 0.83, 0.86, 0.89, 0.92, 0.97, 1.00, 0.94, 0.78, 0.50),
)  # fmt: skip
#: Hours at which the minority is there as seldom as it gets, and at which it is there as often as everybody else;
#: between them the factor goes by a straight line.
QUIET, BUSY = (0, 5), (7, 22)
#: Rounds that open in these hours of the population's main zone are night rounds: from, to.
NIGHT = (23, 6)

Hours = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Who is there at which hour."""

    #: Share of the majority that is there at the busiest hour.
    peak: float = 0.36
    #: The minority's share among those who are there, by day and at night.
    day_share: float = 0.2
    night_share: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.peak <= 1:
            raise BadInputError("the share of people online at the busiest hour must lie above 0 and at most at 1")
        if not 0 < self.night_share <= self.day_share <= 0.5:
            raise BadInputError(
                "the minority's share must lie above 0, at night be no more than by day, and at most .5"
            )

    @property
    def night_factor(self) -> float:
        """How often a member of the minority is there at night, where one of the majority is there once."""
        by_day, by_night = (share / (1 - share) for share in (self.day_share, self.night_share))
        return by_night / by_day

    def activity(self, hours: Hours) -> Hours:
        """Share of the majority that is there at these hours (0 to 24, fractions too)."""
        return np.interp(hours, np.arange(25), self.peak * np.array((*ACTIVITY, ACTIVITY[0])))

    def minority_factor(self, hours: Hours) -> Hours:
        """By how much less often the minority is there."""
        low = self.night_factor
        corners = (QUIET[0], QUIET[1], BUSY[0], BUSY[1], 24)
        return np.interp(hours, corners, (low, low, 1.0, 1.0, low))


def is_night(hour: float) -> bool:
    """Whether a round that opens at this hour of the main zone is a night round."""
    begins, ends = NIGHT
    return hour >= begins or hour < ends


#: Label 1 is the minority, and the + side of the model.
LABELS = ("male", "female")
#: Most people in one zone, as the users of a German browser, and some elsewhere.
ZONES = (("Europe/Berlin", 0.93), ("Europe/London", 0.03), ("Europe/Istanbul", 0.03), ("America/New_York", 0.01))
#: The paper's values: λ, the minority's weight, averaging, bins, p, minutes of a round.
LAMBDA, WEIGHT, AVERAGING, BINS, TRAIN_SHARE, ROUND_MINUTES = (
    Fraction(1, 10),
    Fraction(4),
    2,
    10_000,
    Fraction(7, 10),
    11,
)
FLOOR = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """How the coordinator learns: what may differ between two runs over the same people."""

    rule: DescentRule = field(default_factory=lambda: Pegasos(lambda_=LAMBDA, averaging=AVERAGING))
    #: Class weight of the minority; the majority's is one.
    weight: Fraction = WEIGHT
    thinning: Thinning = Thinning()  # noqa: RUF009  (a frozen value)
    robust: Robust | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A population, its days, and the experiment's numbers."""

    #: People who are there on a day, more or less: so many at any time, whoever leaves and comes.
    people: int = 200_000
    words: TitleWords = TitleWords()  # noqa: RUF009  (frozen values: sharing them harms nobody)
    #: A file whose people are taken instead of made-up ones.
    data: Path | None = None
    labels: tuple[str, str] = LABELS
    rhythm: Rhythm = Rhythm()
    #: IANA name of each time zone, and the share of people in it; the first is the main one.
    zones: tuple[tuple[str, float], ...] = ZONES
    #: Share of people who leave on a day; as many come.
    churn: float = 0.05
    #: Share of those who begin a round and go away within it.
    stragglers: float = 0.03
    days: int = 3
    #: Rounds open from the first to the second hour of the main zone.
    hours: tuple[int, int] = (0, 24)
    #: Hour of the main zone at which the first round may open. From 22 on, nights lie about rounds 30, 160 and 290.
    begin: int = 22
    bins: int = BINS
    train_share: Fraction = TRAIN_SHARE
    learning: Learning = Learning()
    #: B; None: what holds nearly every update (``coordinator.experiments.new_experiment``).
    budget: int | None = None
    #: Fewest train participants of a round.
    floor: int = FLOOR
    seed: int = 1
    threads: int = 1

    def __post_init__(self) -> None:
        limits: dict[str, tuple[float, float, float]] = {
            "people": (self.people, 1, MOST_DEVICES // 4),
            "days": (self.days, 1, 60),
            "bins": (self.bins, 2, 2**20),
            "floor": (self.floor, 1, 2**31),
            "seed": (self.seed, 0, 2**32 - 1),
            "threads": (self.threads, 1, 256),
            "begin": (self.begin, 0, 23),
        }
        for name, (value, least, most) in limits.items():
            if not least <= value <= most:
                raise BadInputError(f"--{name} must lie between {least} and {most}")
        for name, share in (("churn", self.churn), ("stragglers", self.stragglers)):
            if not 0 <= share < 1:
                raise BadInputError(f"--{name} is a share: at least 0 and below 1")
        if not 0 < self.train_share < 1:
            raise BadInputError("the share p of people who train must lie between 0 and 1")
        first, last = self.hours
        if not 0 <= first < last <= 24:
            raise BadInputError("--hours must be two hours of a day, the smaller first, such as 8-20")
        if not self.zones or abs(sum(share for _, share in self.zones) - 1) > 1e-9 or min(s for _, s in self.zones) < 0:
            raise BadInputError("the shares of the time zones must be one together")
        if self.people * (1 + self.churn * (self.days + 1)) > MOST_DEVICES:
            raise BadInputError("that many people come and go: fewer of them, fewer days, or less churn")
        assert self.days * 24 * 60 // ROUND_MINUTES < MAX_ROUNDS

    @property
    def device_seed(self) -> bytes:
        """What the devices' own dice are seeded with."""
        return device_seed(self.seed)

    def experiment(self, features: int | None = None) -> Experiment:
        """The question; ``features``: the most that a person has."""
        learning = self.learning
        plain = Experiment(
            n_bins=self.bins,
            labels=self.labels,
            rule=learning.rule,
            thinning=learning.thinning,
            class_weights=(Fraction(1), learning.weight),
            features_per_person=features or self.words.per_person,
            robust=learning.robust,
        )
        budget = default_budget(plain, hashes=1, presence=True) if self.budget is None else self.budget
        return replace(plain, budget=budget)


def daytime(plan: Plan) -> Plan:
    """The same population over two days, with rounds by day only, from its first hour on."""
    return replace(plan, days=2, hours=(8, 20), begin=8)
