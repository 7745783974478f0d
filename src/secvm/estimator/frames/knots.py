"""A column of numbers at its knots: the place of a number between a few of the column's quantiles, in quarters.

A number that lies a quarter of the way from the knot 30 to the knot 50 is ``age@30`` three times and ``age@50`` once.
So a linear model may bend at the knots, values are never negative, everybody has ``PARTS`` units in a column, and no
scale and no outlier matters. The outermost knots are the quantiles at ``END`` and 1 - ``END``; what lies beyond counts
as they do.

Where most are zero, zero is no feature: a knot at zero is left out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from secvm.estimator.question import weighted_quantiles

#: Units of a number.
PARTS = 4
#: The share of people beyond each of the outermost knots.
END = 0.01
#: Inner knots: one, or three where there are this many people, and this many for each column.
FEW, MANY = (0.5,), (0.25, 0.5, 0.75)
MANY_PEOPLE, PEOPLE_A_COLUMN = 1000, 40


def inner_knots(people: float, columns: int) -> tuple[float, ...]:
    """The quantiles at which the inner knots lie."""
    return MANY if people >= max(MANY_PEOPLE, PEOPLE_A_COLUMN * columns) else FEW


def learn_knots(
    column: NDArray[np.float64], weight: NDArray[np.float64], inner: tuple[float, ...]
) -> tuple[float, ...]:
    """The knots of a column, ascending and distinct: values that occur in it."""
    if not column.size:
        return ()
    return tuple(sorted(set(weighted_quantiles(column, weight, (END, *inner, 1 - END)))))


def parts_of(column: NDArray[np.float64], knots: tuple[float, ...]) -> NDArray[np.int64]:
    """The units of each number at each knot; a gap has none."""
    parts = np.zeros((len(column), len(knots)), dtype=np.int64)
    if len(knots) < 2:
        return parts
    here = np.flatnonzero(~np.isnan(column))
    ends = np.array(knots)
    values = np.clip(column[here], ends[0], ends[-1])
    left = np.clip(np.searchsorted(ends, values, side="right") - 1, 0, len(ends) - 2)
    # Halved before they are subtracted: the distance of two numbers may be none any more.
    way = (values / 2 - ends[left] / 2) / (ends[left + 1] / 2 - ends[left] / 2)
    on_the_right = np.rint(PARTS * way).astype(np.int64)
    parts[here, left] = PARTS - on_the_right
    parts[here, left + 1] = on_the_right
    return parts
