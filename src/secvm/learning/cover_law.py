"""The law of two relays' cover: how many packages each relay adds to every cell of a round, and what is taken off.

A relay adds cover in S *parts* (docs/protocol.md §29). One part of each relay is opened after the round and taken off
exactly; what stays is S - 1 parts of each. So the law is written for S - 1 parts of **one** relay: they add to each
cell of a kind a negative binomial of shape r and odds θ, P(k) = C(k+r-1, k) (1-p)^r p^k with p = θ / (1 + θ), mean r θ,
variance r θ (1 + θ). Shapes add where the odds are the same: a part has the shape r / (S - 1), and both relays together
2 r.

Devices add nothing. A relay sends exactly D packages, nulls among them, whatever its dice say.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import ceil

from secvm.errors import BadExperimentError

#: Train and test: participation cells are numbered cohort by cohort.
COHORTS = 2
#: Relays whose cover a net tally holds.
RELAYS = 2
#: S: with fewer parts one opened part would be too large a share of what the guarantee rests on.
MIN_PARTS, MAX_PARTS = 4, 64
#: D of one relay in one round is below this.
MAX_PACKAGES = 1 << 32
#: Odds beyond this are no noise that anyone can pay; and the tables of sizes grow with the odds.
MAX_ODDS = 1 << 14
MAX_SHAPE = 1 << 16
#: Packages that one relay adds to one cell on average; the quantile is summed up from zero.
MAX_MEAN_PER_CELL = 1 << 20
#: One minus this is the quantile beyond which a count is not explained by cover.
_BEYOND = Fraction(1, 10**12)
#: Decimal digits with which a quantile is looked for, more of them where it is not decided yet.
_DIGITS = (60, 120, 480)


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """What any S - 1 parts of one relay add to each cell of one kind, in every round of an experiment. Public."""

    cells: int
    #: r of the negative binomial.
    shape: Fraction
    #: p / (1 - p).
    odds: Fraction

    def __post_init__(self) -> None:
        if self.cells < 1:
            raise BadExperimentError(f"noise for {self.cells} cells: there must be at least 1")
        if not 0 < self.shape <= MAX_SHAPE:
            raise BadExperimentError(f"a shape of {_short(self.shape)} lies outside of 0 … {MAX_SHAPE}")
        if not 0 < self.odds <= MAX_ODDS:
            raise BadExperimentError(f"odds of {_short(self.odds)} lie outside of 0 … {MAX_ODDS}")
        if self.mean > MAX_MEAN_PER_CELL:
            raise BadExperimentError(
                f"a relay would add {_short(self.mean)} packages to a cell on average, and {MAX_MEAN_PER_CELL} are the"
                " limit: plan with smaller odds"
            )

    @property
    def p(self) -> Fraction:
        """The negative binomial's p."""
        return Fraction(self.odds.numerator, self.odds.numerator + self.odds.denominator)

    @property
    def mean(self) -> Fraction:
        """Packages per cell on average, of S - 1 parts of one relay."""
        return self.shape * self.odds

    @property
    def variance(self) -> Fraction:
        """Of the number of packages per cell, of S - 1 parts of one relay."""
        return self.mean * (1 + self.odds)

    @property
    def known_mean(self) -> int:
        """What is taken off a cell of a net tally: the mean of both relays' S - 1 parts, half to even."""
        return round(RELAYS * self.mean)

    def part(self, parts: int) -> Fraction:
        """The shape that one of S parts adds to each cell."""
        return self.shape / (parts - 1)

    @property
    def quantile(self) -> int:
        """q: the least number with P(count of a cell ≤ q) ≥ 1 - 1e-12, for S - 1 parts of one relay."""
        return _quantile(self.shape, self.odds)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayCover:
    """What each of the two relays of an experiment adds in every round. Public."""

    train: Noise
    participation: Noise
    #: None where nobody is tested.
    test: Noise | None
    #: S.
    parts: int
    #: D, cover packages of one relay in a round, nulls included.
    packages: int
    #: The share of devices in the train cohort.
    train_share: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if not MIN_PARTS <= self.parts <= MAX_PARTS:
            raise BadExperimentError(f"{self.parts} parts of a relay's cover: there are {MIN_PARTS} to {MAX_PARTS}")
        if not 0 < self.packages < MAX_PACKAGES or self.packages % self.parts:
            raise BadExperimentError(
                f"{self.packages} cover packages of a relay are no positive multiple of its {self.parts} parts below"
                f" {MAX_PACKAGES}"
            )
        if not 0 < self.train_share <= 1:
            raise BadExperimentError("the share of devices that train must lie above 0 and at most at 1")
        if self.mean_of_part > self.part_packages:
            # A part that is too full is drawn again, so this one would be drawn more often than not, or for ever.
            raise BadExperimentError(
                f"a part holds {self.part_packages} packages, and its cells alone ask for {ceil(self.mean_of_part)} on"
                f" average: plan with more than {self.packages} packages of a relay"
            )

    @property
    def kinds(self) -> tuple[Noise, ...]:
        """Train, participation and, where there is one, test: the order in which cells are numbered and drawn."""
        return (self.train, self.participation, *(() if self.test is None else (self.test,)))

    @property
    def part_packages(self) -> int:
        """D / S: exactly so many packages are in each part."""
        return self.packages // self.parts

    @property
    def mean_of_part(self) -> Fraction:
        """Packages of one part that name a cell, on average; the others are nulls."""
        return sum((noise.cells * noise.part(self.parts) * noise.odds for noise in self.kinds), Fraction(0))

    @property
    def train_variance(self) -> Fraction:
        """The variance that cover gives to each train cell of a net tally: of 2 (S - 1) parts, whatever is counted."""
        return RELAYS * self.train.variance

    @property
    def participation_variance(self) -> float:
        """The variance that cover gives to each participation cell of a net tally."""
        return float(RELAYS * self.participation.variance)

    @property
    def test_variance(self) -> float:
        """The variance that cover gives to each test cell of a net tally: part of every interval."""
        return 0.0 if self.test is None else float(RELAYS * self.test.variance)

    def most_in_a_cell(self, devices: int) -> tuple[int, ...]:
        """Per kind the largest count of a net tally's cell that people and cover explain: M + 2 q.

        A round with a larger one is opened and not stepped (docs/protocol.md §31).
        """
        return tuple(devices + RELAYS * noise.quantile for noise in self.kinds)


def relay_budget(*, violable: int, features: int, hashes: int = 1) -> int:
    """B of an experiment with relays' cover: participation, every unit before thinning, and the canary.

    ``violable``: models that one person can violate in a round. A feature has a unit for each hash; the bias is not
    hashed.
    """
    return 2 + violable * (hashes * features + 1)


def check_relay_budget(budget: int, *, violable: int, features: int) -> None:
    """Refuse a budget that is ``relay_budget`` for no number of hashes."""
    least = relay_budget(violable=violable, features=features)
    if budget < least or (budget - least) % (violable * features):
        raise BadExperimentError(
            f"a budget of {budget} is not that of relays' cover: it is {least} with one hash, and"
            f" {violable * features} more with each further one"
        )


def _short(number: Fraction) -> str:
    return str(number) if len(str(number)) <= 30 else f"about {float(number):.6g}"


@lru_cache(maxsize=64)
def _quantile(shape: Fraction, odds: Fraction) -> int:
    """Everybody must find the same number, so floating point will not do.

    Decimals of d digits: ``ln`` and ``exp`` are correctly rounded, and each of the few operations per term is wrong by
    at most one unit of the last place. Up to 2^22 terms the sum's error is then below 10^(10-d), far below the slack of
    10^(-d/2) within which nothing is decided. Only then more digits are taken. What is still open with the most digits
    differs from 1 - 1e-12 by less than 10^-240 and counts as equal, which for rational laws (whole shapes) it is.
    """
    for digits in _DIGITS[:-1]:
        quantile = _first_above(shape, odds, digits)
        if quantile is not None:
            return quantile
    quantile = _first_above(shape, odds, _DIGITS[-1], equal=True)
    assert quantile is not None, "with equality nothing stays open"
    return quantile


def _first_above(shape: Fraction, odds: Fraction, digits: int, *, equal: bool = False) -> int | None:
    """The quantile, or None where so many digits do not decide it."""
    with localcontext() as context:
        context.prec = digits
        r, theta = (Decimal(number.numerator) / Decimal(number.denominator) for number in (shape, odds))
        p = theta / (1 + theta)
        beyond = Decimal(_BEYOND.numerator) / Decimal(_BEYOND.denominator)
        slack = Decimal(10) ** -(digits // 2)
        mass = (-r * (1 + theta).ln()).exp()
        missing, k = 1 - mass - beyond, 0
        while missing > slack:
            mass = mass * (k + r) / (k + 1) * p
            missing -= mass
            k += 1
        return k if equal or missing < -slack else None
