"""The margin test: weights, binned vector and label → an integer update, or none.

In integers throughout. A person's score is A = Σ M_j x_j over its bins and the bias; its *band* (lower, upper) is
derived from the loss, the label and the unit of the weights, and

    A < lower   sends +x,      A > upper   sends -x,      otherwise nothing.

With weight = M * unit, ``y * w·x < θ`` is ``A < ceil(θ / unit)`` for y = +1 and ``A > -ceil(θ / unit)`` for y = -1:
exactly on the threshold nothing is sent. Where the rule normalises rows, θ is multiplied by the person's norm, taken as
the integer R = floor(2^16 ‖x‖). In the first round the weights are zero and everybody violates, whatever the arithmetic
says of 0 < 0; a number as the label then has the sign of its (centred) value.

``bands`` does many people at once, ``local_update`` one; both are the same integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning.arithmetic import MAX_THRESHOLD, ceil_ratio, clip_threshold, exact, power_of_two
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.losses import ONE, THRESHOLD_BITS, Loss
from secvm.learning.weights import Weights

NORM_BITS = 16
#: Targets, centred and scaled, stay below this in absolute value.
MAX_TARGET = 2**20
_FURTHEST = Fraction(MAX_TARGET - 1)


@dataclass(frozen=True, slots=True)
class Update:
    """What a person adds for one model: sign times binned vector. Secret: it does not print itself."""

    #: Bin to signed value, the bias bin included, ascending.
    values: dict[int, int]

    def __repr__(self) -> str:
        return "Update(...)"


def fixed_norm(squared_norm: int) -> int:
    """floor(2^16 ‖x‖) from the integer Σ x²."""
    return isqrt(squared_norm << (2 * NORM_BITS))


def fixed_target(target: float, *, centre: Fraction, spread: Fraction, clamp: bool = False) -> int:
    """A number as the label, centred and scaled as the experiment says, in units of 2^-32, rounded half to even.

    One that is too far from the centre is refused, or with ``clamp`` taken for the furthest there is: where whether
    somebody takes part must not depend on the label, because who asks chooses centre and spread.
    """
    if not np.isfinite(target):
        raise BadInputError("a label is not a finite number")
    scaled = (exact(float(target)) - centre) / spread
    if clamp:
        scaled = max(-_FURTHEST, min(_FURTHEST, scaled))
    if abs(scaled) >= MAX_TARGET:
        raise BadInputError("a label is too far from the centre of the experiment's labels")
    return round(scaled * ONE)


def fixed_epsilon(loss: Loss, spread: Fraction) -> int:
    """Half the width of a regression's band in units of 2^-32: ε over the spread; zero for pinball."""
    return round(loss.shape.half_width / spread * ONE)


def band(*, threshold: int, width: int, norm: int | None, unit: Fraction) -> tuple[int, int]:
    """(lower, upper) in units of the score: below ``threshold - width``, above ``threshold + width``.

    Thresholds come in units of 2^-32; ``norm`` is the fixed norm where the rule normalises.
    """
    above, below = unit.denominator, unit.numerator << THRESHOLD_BITS
    if norm is not None:
        above, below = above * norm, below << NORM_BITS
    lower = ceil_ratio((threshold - width) * above, below)
    upper = ((threshold + width) * above) // below
    return clip_threshold(lower), clip_threshold(upper)


def bands(
    *, thresholds: NDArray[np.int64], width: int, norms: NDArray[np.int64] | None, unit: Fraction
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """``band`` for many people: in int64 where products have room, else person by person in Python's integers."""
    n = len(thresholds)
    if n and norms is None and bool((thresholds == thresholds[0]).all()):
        lower, upper = band(threshold=int(thresholds[0]), width=width, norm=None, unit=unit)
        return np.full(n, lower, dtype=np.int64), np.full(n, upper, dtype=np.int64)
    # Both ends are (threshold ∓ width) · norm · p / q, rounded up and down.
    bits = THRESHOLD_BITS if norms is None else THRESHOLD_BITS + NORM_BITS
    ratio = 1 / (unit * power_of_two(bits))
    p, q = ratio.numerator, ratio.denominator
    if n == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    largest = (int(np.abs(thresholds).max()) + width) * (1 if norms is None else int(norms.max())) * p
    if largest < MAX_THRESHOLD and q < MAX_THRESHOLD:
        scale = p if norms is None else norms * p
        return -(-(thresholds - width) * scale // q), (thresholds + width) * scale // q
    each: Sequence[int] | list[None] = [None] * n if norms is None else norms.tolist()
    both = [
        band(threshold=t, width=width, norm=norm, unit=unit) for t, norm in zip(thresholds.tolist(), each, strict=True)
    ]
    table = np.array(both, dtype=np.int64).reshape(n, 2)
    return table[:, 0], table[:, 1]


def verdicts(
    scores: NDArray[np.int64],
    signs: NDArray[np.int8] | None,
    lower: NDArray[np.int64],
    upper: NDArray[np.int64],
) -> NDArray[np.int8]:
    """+1, 0 or -1 for many people in one model.

    ``signs`` holds the label's sign in this model (0: takes no part); None means the label is a number.
    """
    if signs is None:
        return (scores < lower).astype(np.int8) - (scores > upper).astype(np.int8)
    return np.where(signs * scores < lower, signs, 0).astype(np.int8)


def score(weights: Weights, model: int, vector: BinnedVector) -> int:
    """Σ M_j x_j over a person's bins and the bias."""
    row = weights.mantissas[model]
    return sum(int(row[b]) * value for b, value in vector.with_bias().items())


def squared_norm(vector: BinnedVector) -> int:
    """Σ x² with the bias."""
    return sum(value * value for value in vector.with_bias().values())


def local_update(
    *, weights: Weights, model: int, vector: BinnedVector, label_sign: int | None, threshold: int, width: int = 0
) -> Update | None:
    """One person's update for one model, or None.

    Args:
        label_sign: +1 or -1; None when the label is a number and ``threshold`` is its fixed target.
        threshold: θ (classification) or target (regression) in units of 2^-32.
        width: half width of a regression's band in the same units.
    """
    total = score(weights, model, vector)
    norm = fixed_norm(squared_norm(vector)) if weights.normalised else None
    if weights.first:
        sign = label_sign if label_sign is not None else (threshold > 0) - (threshold < 0)
    else:
        lower, upper = band(threshold=threshold, width=width, norm=norm, unit=weights.unit)
        if label_sign is None:
            sign = (total < lower) - (total > upper)
        else:
            sign = label_sign if label_sign * total < lower else 0
    if sign == 0:
        return None
    return Update(values={b: sign * value for b, value in vector.with_bias().items()})
