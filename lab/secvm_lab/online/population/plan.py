"""What a simulated population is asked for, and the experiment that is put to it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from secvm.coordinator.experiments.new_experiment import default_budget
from secvm.errors import BadInputError
from secvm.learning.aggregate.descent import DescentRule, Pegasos
from secvm.learning.experiment import Experiment, Robust
from secvm.learning.package import MAX_ROUNDS
from secvm.learning.thinning import Thinning
from secvm_lab.online.population.day import Rhythm
from secvm_lab.online.population.dice import MOST_DEVICES, device_seed
from secvm_lab.online.population.words import TitleWords

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
    rhythm: Rhythm = Rhythm()  # noqa: RUF009
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


def daytime(plan: Plan, *, days: int = 2, hours: tuple[int, int] = (8, 20)) -> Plan:
    """The same population, with rounds by day only, from its first hour on."""
    return replace(plan, days=days, hours=hours, begin=hours[0])
