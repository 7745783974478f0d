"""What one look at one cell tells: a cell with a person's unit against the same cell without, both under cover.

X is the honest cover, NB(r, p). Others' real packages only move both laws. A unit that is sent with
chance q makes the law (1-q) X + q (X+1), a mixture; against X the likelihood ratio at a count of k is

    1 - q + q · P(X = k-1) / P(X = k) = 1 - q + q · k / ((k + r - 1) p)

The two directions differ: taking a unit away and adding one are two losses. Nothing here is proved of which q is worst;
``accountant`` looks at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from secvm.errors import BadInputError
from secvm.privacy.accounting.pld import PrivacyLoss, discretise
from secvm.privacy.accounting.reals import Floats, dot, exp, log, log1p, log_gamma, total

#: Counts are written down until what is left has at most this chance; the rest gets an infinite loss.
_LOG_LEFT = log(1e-30)
#: Γ of more than this is compared by Stirling's series.
_STIRLING = 1e4
#: Rounding alone makes a loss that is always the same seem to vary by this share of it.
_NO_SPREAD = 1e-9
#: More counts than this are not written down: each takes many numbers, and a plan looks at many laws.
_MOST_COUNTS = 2**22


def log_tail(shape: float, p: float, above: int) -> float:
    """An upper bound on ln P(X > above) for X = NB(shape, p): the next term times a geometric series.

    From k = above + 1 on, the ratio of two terms, p (k + shape) / (k + 1), is at most its first value or p, whichever
    is larger. Where that is 1 or more the bound is 0, that is, nothing is promised.
    """
    k = above + 1
    ratio = max(p, p * (k + shape) / (k + 1))
    if ratio >= 1:
        return 0.0
    return min(0.0, log_mass(shape, p, k) - log1p(-ratio))


def log_mass(shape: float, p: float, k: int) -> float:
    """Ln P(X = k) for X = NB(shape, p), rounded up by more than its terms can be off."""
    parts = (_log_rising(shape, k), -log_gamma(k + 1), shape * log1p(-p), k * log(p))
    # Each is good to a few units of its last place.
    return math.fsum(parts) + 1e-9 + 16 * 2.0**-52 * math.fsum(map(abs, parts))


def _log_rising(shape: float, k: int) -> float:
    """The logarithm of Γ(shape + k) / Γ(shape).

    By Stirling's series for large shapes, where the difference of two ln Γ would be all rounding: for NB(1e16, p) of
    mean 500, fifty and more off. The series' next term is below 1 / (1260 shape⁵).
    """
    if shape < _STIRLING:
        return log_gamma(shape + k) - log_gamma(shape)
    end = shape + k
    main = (shape - 0.5) * log1p(k / shape) + k * log(end) - k
    return main + (1 / end - 1 / shape) / 12 - (1 / (end * end * end) - 1 / (shape * shape * shape)) / 360


def smallest_cap(shape: float, p: float, log_chance: float) -> int:
    """The smallest cap that NB(shape, p) exceeds with at most this chance, by ``log_tail``."""
    return least(lambda cap: log_tail(shape, p, cap) <= log_chance)


def least(holds: Callable[[int], bool], high: int = 1) -> int:
    """The least whole number above 0 for which it holds, where it holds for all after; sought from ``high`` on."""
    low = 0
    while not holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def log_masses(shape: float, p: float) -> Floats:
    """The logarithms of P(X = k) for k = 0 … K, where P(X > K) ≤ 1e-30."""
    last = smallest_cap(shape, p, _LOG_LEFT)
    if last > _MOST_COUNTS:
        # More noise than all people there are would make: a document that says so would fill a device's memory.
        raise BadInputError("this is more noise than any relay could add")
    k = np.arange(1, last + 1, dtype=np.float64)
    steps = log(p) + log(k + shape - 1) - log(k)
    return shape * log1p(-p) + np.concatenate([[0.0], np.cumsum(steps)])


def cell_losses(shape: float, p: float, q: float, step: float) -> tuple[PrivacyLoss, PrivacyLoss]:
    """The losses (of with against without, of without against with) of one cell whose unit is sent with chance q."""
    masses, ratio = _ratios(shape, p, q)
    without = exp(masses)
    with_unit = without * ratio
    there = ratio > 0
    losses = log(ratio[there])
    # X + 1 is beyond the last count that is written down where X is at it, or beyond.
    left = exp(log_tail(shape, p, len(masses) - 2))
    taken = discretise(losses, with_unit[there], infinite=left, step=step)
    # Without a unit a count of 0 may be seen that with one (q = 1) cannot.
    given = discretise(-losses, without[there], infinite=left + total(without[~there]), step=step)
    return taken, given


def spread_of_loss(shape: float, p: float, q: float) -> float:
    """The standard deviation of a cell's loss: what a grid must be fine against.

    A geometric law (a shape of 1) loses the same at every count but 0; there it is the loss itself.
    """
    masses, ratio = _ratios(shape, p, q)
    there = ratio > 0
    law, losses = exp(masses[there]), log(ratio[there])
    mean = dot(law, losses) / total(law)
    deviation = math.sqrt(dot(law, np.square(losses - mean)))
    return deviation if deviation > _NO_SPREAD * abs(mean) else abs(mean)


def _ratios(shape: float, p: float, q: float) -> tuple[Floats, Floats]:
    masses = log_masses(shape, p)
    k = np.arange(len(masses))
    # The 0-th count alone has k + shape - 1 possibly ≤ 0, and there the ratio's second part is 0.
    below = np.where(k > 0, (k + shape - 1) * p, 1.0)
    return masses, 1 - q + q * k / below
