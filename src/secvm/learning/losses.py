"""Losses, all of one shape: a person compares its score with a threshold, and sends its update or nothing.

Every loss here says where the thresholds lie; the comparison is one and the same (``individual/update.py``):

    classification   send +y x   when   y * score < θ
    regression       send +x     when   score < lower,      -x when score > upper

=================== ============================================= ======== =========================================
loss                threshold θ of a round                        factor   on the threshold itself
=================== ============================================= ======== =========================================
hinge               1                                             1        nothing is sent (the paper's δ(0) = 0)
perceptron          0                                             1        nothing
squared-hinge       1 - C p, p uniform in [0, 1), clipped at C    2 C      nothing
modified-huber      1 - 2 p                                       4        nothing
logistic            ln((1 - p) / p)                               1        nothing
epsilon-insensitive target -/+ ε                                  1        nothing
pinball             target                                        τ, 1 - τ nothing
=================== ============================================= ======== =========================================

The lower three classification losses have real-valued derivatives c. Sending the whole update with probability |c| / C
is unbiased when the coordinator multiplies by C (the factor), and with c monotone in the score that coin is the same as
a *random threshold*: so a logistic regression is a hinge whose threshold is drawn from the logistic distribution. The
real number that would identify a person is exactly what the coin hides. The coin is a 53-bit integer of the person's
dice, thresholds are integers in units of 2^-32, and the logistic quantile is a table with linear interpolation
(correctly rounded decimal logarithms; the probability of sending is within 2e-4 of the sigmoid), so that any language
gets the same verdict.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadExperimentError
from secvm.learning.arithmetic import exact
from secvm.learning.declared import Declared, Registry, number

#: Thresholds and targets are integers in units of 2^-THRESHOLD_BITS.
THRESHOLD_BITS = 32
ONE = 1 << THRESHOLD_BITS
#: Bits of a coin.
COIN_BITS = 53
_TABLE_BITS = 12


class LossShape(Declared):
    """Where the thresholds of a loss lie. A frozen dataclass with at most one declared setting: the parameter.

    A new loss is one such class, found by an entry point in the group ``secvm.losses``.
    """

    __slots__ = ()

    #: As documents, specifications and the command line say it.
    name: ClassVar[str]
    #: Whether the label is a number to be predicted.
    regression: ClassVar[bool] = False
    #: Whether a person's threshold is drawn anew in every round.
    tosses_coins: ClassVar[bool] = False
    #: Whether the parameter is in units of the target: its default is a share of the target's spread then.
    in_target_units: ClassVar[bool] = False

    @property
    def factors(self) -> tuple[Fraction, Fraction]:
        """What the coordinator multiplies positive and negative counts with."""
        return Fraction(1), Fraction(1)

    @property
    def half_width(self) -> Fraction:
        """Of a regression: how far a score may be from the target, in its units."""
        return Fraction(0)

    def thresholds(self, coins: NDArray[np.int64]) -> NDArray[np.int64]:
        """θ in units of 2^-32 for each coin (a 53-bit integer; ignored by losses that toss none)."""
        return np.full(len(coins), ONE, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Hinge(LossShape):
    """The support vector machine's."""

    name: ClassVar[str] = "hinge"


@dataclass(frozen=True, slots=True)
class Perceptron(LossShape):
    """No margin: only those who are on the wrong side send."""

    name: ClassVar[str] = "perceptron"

    def thresholds(self, coins: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.zeros(len(coins), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Logistic(LossShape):
    """Logistic regression."""

    name: ClassVar[str] = "logistic"
    tosses_coins: ClassVar[bool] = True

    def thresholds(self, coins: NDArray[np.int64]) -> NDArray[np.int64]:
        return _logistic_quantiles(coins)


@dataclass(frozen=True, slots=True)
class SquaredHinge(LossShape):
    """The hinge squared, its derivative clipped."""

    name: ClassVar[str] = "squared-hinge"
    tosses_coins: ClassVar[bool] = True
    clip: Fraction = number(4, "Where the derivative of squared-hinge is clipped.", at_least=1, at_most=1024)

    @property
    def factors(self) -> tuple[Fraction, Fraction]:
        return 2 * self.clip, 2 * self.clip

    def thresholds(self, coins: NDArray[np.int64]) -> NDArray[np.int64]:
        return ONE - _scaled_coins(coins, self.clip)


@dataclass(frozen=True, slots=True)
class ModifiedHuber(LossShape):
    """The hinge squared near the margin, linear far from it."""

    name: ClassVar[str] = "modified-huber"
    tosses_coins: ClassVar[bool] = True

    @property
    def factors(self) -> tuple[Fraction, Fraction]:
        return Fraction(4), Fraction(4)

    def thresholds(self, coins: NDArray[np.int64]) -> NDArray[np.int64]:
        return ONE - _scaled_coins(coins, Fraction(2))


@dataclass(frozen=True, slots=True)
class EpsilonInsensitive(LossShape):
    """A regression whose people are content within ε of their number."""

    name: ClassVar[str] = "epsilon-insensitive"
    regression: ClassVar[bool] = True
    in_target_units: ClassVar[bool] = True
    half_width: Fraction = number(
        "0.1", "Half the width of the band in which nobody sends.", name="epsilon", at_least=0
    )


@dataclass(frozen=True, slots=True)
class Pinball(LossShape):
    """The regression of a quantile."""

    name: ClassVar[str] = "pinball"
    regression: ClassVar[bool] = True
    quantile: Fraction = number("1/2", "The quantile that pinball predicts.", above=0, below=1)

    @property
    def factors(self) -> tuple[Fraction, Fraction]:
        return self.quantile, 1 - self.quantile


#: Losses by name.
LOSSES: Registry[LossShape] = Registry(
    "secvm.losses", LossShape, Hinge, Perceptron, Logistic, SquaredHinge, ModifiedHuber, EpsilonInsensitive, Pinball,
    noun="loss",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss by name, with its parameter where it has one: what documents say of it."""

    name: str
    parameter: Fraction | None = None
    #: What the name stands for.
    shape: LossShape = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        kind = LOSSES.find(self.name)
        if len(kind.settings()) > 1:
            raise BadExperimentError(
                f"the loss {self.name} declares several settings, and documents have one parameter"
            )
        setting = next(iter(kind.settings()), None)
        if setting is None and self.parameter is not None:
            raise BadExperimentError(f"the loss {self.name} has no parameter")
        given = {} if setting is None or self.parameter is None else {setting.name: self.parameter}
        shape = kind.read(given)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "parameter", None if setting is None else getattr(shape, setting.attribute))

    @property
    def regression(self) -> bool:
        """Whether the label is a number to be predicted."""
        return self.shape.regression

    @property
    def tosses_coins(self) -> bool:
        """Whether a person's threshold is drawn anew in every round."""
        return self.shape.tosses_coins

    @property
    def factors(self) -> tuple[Fraction, Fraction]:
        """What the coordinator multiplies positive and negative counts with."""
        return self.shape.factors

    def thresholds(self, coins: NDArray[np.int64]) -> NDArray[np.int64]:
        """θ in units of 2^-32 for each coin."""
        return self.shape.thresholds(coins)

    def scaled_to(self, spread: Fraction) -> Loss:
        """With its default parameter, for a target of this spread."""
        setting = next(iter(self.shape.settings()), None)
        if setting is None or not self.shape.in_target_units:
            return Loss(self.name)
        return Loss(self.name, exact(setting.default or 0) * spread)


def _scaled_coins(coins: NDArray[np.int64], clip: Fraction) -> NDArray[np.int64]:
    """floor(clip * coin * 2^(32 - 53)), exactly; the coin's lowest 21 bits fall away first to stay within int64."""
    cut = coins >> (COIN_BITS - THRESHOLD_BITS)
    if clip.numerator >= 1 << 30:  # a clip with many decimals: Python's integers have no range to leave
        cut = cut.astype(object)
    return np.asarray(cut * clip.numerator // clip.denominator, dtype=np.int64)


@cache
def logistic_table() -> NDArray[np.int64]:
    """Knots of the logistic quantile ln((1-p)/p) at p = (k + 1/2) / 2^12, in units of 2^-32, rounded half to even."""
    context = decimal.Context(prec=40)
    size = 1 << _TABLE_BITS
    knots = []
    for k in range(size):
        odds = context.divide(decimal.Decimal(2 * (size - k) - 1), decimal.Decimal(2 * k + 1))
        scaled = context.multiply(context.ln(odds), decimal.Decimal(ONE))
        knots.append(int(scaled.to_integral_value(decimal.ROUND_HALF_EVEN)))
    return np.array(knots, dtype=np.int64)


def _logistic_quantiles(coins: NDArray[np.int64]) -> NDArray[np.int64]:
    """Linear between the knots; flat beyond the outermost two, where |θ| = ln(8191) = 9.01."""
    table = logistic_table()
    # Position of the coin among the knots, in units of 2^-20 of a knot: knot k sits at coin (k + 1/2) * 2^41.
    position = (coins >> (COIN_BITS - _TABLE_BITS - 20)) - (1 << 19)
    position = np.clip(position, 0, (len(table) - 1) << 20)
    knot = np.minimum(position >> 20, len(table) - 2)
    rest = position - (knot << 20)
    return np.asarray(table[knot] + (((table[knot + 1] - table[knot]) * rest) >> 20), dtype=np.int64)
