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
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadExperimentError
from secvm.learning.arithmetic import exact

#: Thresholds and targets are integers in units of 2^-THRESHOLD_BITS.
THRESHOLD_BITS = 32
ONE = 1 << THRESHOLD_BITS
#: Bits of a coin.
COIN_BITS = 53
_TABLE_BITS = 12


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss by name, with its parameter where it has one."""

    name: str
    #: squared-hinge: the clip C; epsilon-insensitive: ε in units of the target; pinball: the quantile τ.
    parameter: Fraction | None = None

    def __post_init__(self) -> None:
        if self.name not in PARAMETERS:
            msg = f"unknown loss '{self.name}'; known are {', '.join(PARAMETERS)}"
            raise BadExperimentError(msg)
        default = PARAMETERS[self.name]
        if self.parameter is None:
            object.__setattr__(self, "parameter", default)
        elif default is None:
            msg = f"the loss {self.name} has no parameter"
            raise BadExperimentError(msg)
        else:
            object.__setattr__(self, "parameter", exact(self.parameter))
        value = self.parameter
        if self.name == "squared-hinge" and not (value is not None and 1 <= value <= 1024):
            raise BadExperimentError("the clip of squared-hinge must lie between 1 and 1024")
        if self.name == "epsilon-insensitive" and not (value is not None and value >= 0):
            raise BadExperimentError("epsilon must not be negative")
        if self.name == "pinball" and not (value is not None and 0 < value < 1):
            raise BadExperimentError("the quantile of pinball must lie between 0 and 1")

    @property
    def regression(self) -> bool:
        """Whether the label is a number to be predicted."""
        return self.name in ("epsilon-insensitive", "pinball")

    @property
    def tosses_coins(self) -> bool:
        """Whether a person's threshold is drawn anew in every round."""
        return self.name in ("squared-hinge", "modified-huber", "logistic")

    @property
    def factors(self) -> tuple[Fraction, Fraction]:
        """What the coordinator multiplies positive and negative counts with."""
        match self.name, self.parameter:
            case "pinball", Fraction() as quantile:
                return quantile, 1 - quantile
            case "squared-hinge", Fraction() as clip:
                return 2 * clip, 2 * clip
            case "modified-huber", _:
                return Fraction(4), Fraction(4)
        return Fraction(1), Fraction(1)

    def thresholds(self, coins: NDArray[np.int64]) -> NDArray[np.int64]:
        """θ in units of 2^-32 for each coin (a 53-bit integer; ignored by losses that toss none)."""
        match self.name, self.parameter:
            case "perceptron", _:
                return np.zeros(len(coins), dtype=np.int64)
            case "squared-hinge", Fraction() as clip:
                return ONE - _scaled_coins(coins, clip)
            case "modified-huber", _:
                return ONE - _scaled_coins(coins, Fraction(2))
            case "logistic", _:
                return _logistic_quantiles(coins)
        return np.full(len(coins), ONE, dtype=np.int64)


#: The losses and the default of their parameter.
PARAMETERS: dict[str, Fraction | None] = {
    "hinge": None,
    "perceptron": None,
    "logistic": None,
    "squared-hinge": Fraction(4),
    "modified-huber": None,
    "epsilon-insensitive": Fraction(1, 10),
    "pinball": Fraction(1, 2),
}


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
