"""Privacy-loss distributions on a grid: how much two worlds differ after many independent looks, never too little.

Of two laws P, Q the *privacy loss* at an outcome o is L = ln P(o)/Q(o), and

    δ(ε) = max over events S of P(S) - e^ε Q(S) = E_P [(1 - e^(ε-L))₊]

Looks that are independent, or each dominated by the same pair whatever was seen before, add their losses: the sum's law
is a convolution. Three steps move away from the truth, each towards a larger δ:

 1. **Grid.** An atom between two grid points is split between them so that its mass under P *and* under Q stays
    ("connect the dots"). (1 - e^ε Π e^-Lᵢ)₊ is convex in each e^-Lᵢ, and the split keeps the mean of e^-Lᵢ: by Jensen
    δ grows, also after composition.
 2. **Cut.** Mass beyond what is written down is given the loss +∞, and a sum with an infinite part counts whole.
 3. **Window.** Sums are computed by a circular Fourier transform. What falls off below comes back above: too much,
    never too little, as long as the window begins at ε or below, where δ(ε) needs nothing. One that begins above ε
    (so many looks that the whole sum lies far above it) would lose what lies between, and then δ is 1. What falls off
    above is bounded by Chernoff and added.

Before the transform each law is tilted, f(x) e^(λx) / M(λ), so that the tail which is asked for becomes the middle: the
transform's rounding (``_ROUNDING`` a look, added too) is then small against the *answer*, not only against 1. This is
floating-point arithmetic with a margin, not interval arithmetic: ``_MARGIN`` covers what logarithms and sums round. All
of it is done with ``reals``, so that everybody finds the same δ to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from secvm.errors import BadInputError
from secvm.privacy.accounting.reals import Floats, dot, exp, expm1, hartley, log, log1p, total

#: The search for ε goes up by this factor.
_GROWTH = 1.3
#: Nothing is protected long before.
MAX_EPSILON = 32.0
#: A look's share of the transform's rounding, in units of the largest coefficient, 1: 2^-52 times a generous 64.
_ROUNDING = 64 * 2.0**-52
#: Relative.
_MARGIN = 1e-9
_NEARLY_NOTHING = 1e-24
_NEGLIGIBLE = 1e-6
#: A window holds so many standard deviations of the tilted sum on either side.
_DEVIATIONS = 10
_MAX_WINDOW = 1 << 24
#: Losses from near nothing to far more would ask for more places than this.
_MOST_PLACES = 1 << 22


@dataclass(frozen=True)
class PrivacyLoss:
    """The law under P of the loss of one look: ``mass[i]`` at the loss (first + i) · step, and ``infinite`` at +∞."""

    step: float
    first: int
    mass: Floats
    infinite: float

    @cached_property
    def losses(self) -> Floats:
        return np.arange(self.first, self.first + len(self.mass), dtype=np.float64) * self.step

    def tilted(self, tilt: float) -> tuple[Floats, float]:
        """The finite part times e^(tilt · loss), made to sum to 1, and the logarithm of what it summed to."""
        exponents = tilt * self.losses
        top = float(exponents.max())
        weights = self.mass * exp(exponents - top)
        whole = total(weights)
        return weights / whole, top + log(whole)


def discretise(losses: Floats, mass: Floats, *, infinite: float, step: float) -> PrivacyLoss:
    """Atoms with finite losses onto a grid, by steps 1 and 2 above."""
    places = np.floor(losses / step)
    beyond = losses - places * step
    upper = mass * expm1(-beyond) / expm1(-step)
    first = int(places.min())
    if int(places.max()) - first > _MOST_PLACES:
        raise BadInputError("this noise hides some counts and not others: its guarantee cannot be calculated")
    index = (places - first).astype(np.int64)
    length = int(index.max()) + 2
    # Rounding may leave an atom a hair outside its two points: no negative mass.
    upper = np.clip(upper, 0.0, mass)
    grid: Floats = np.bincount(index, weights=mass - upper, minlength=length).astype(np.float64)
    grid += np.bincount(index + 1, weights=upper, minlength=length)
    # Long tails of nearly nothing cost time: the upper one becomes infinite, the lower one moves up to its end.
    low = int(np.searchsorted(np.cumsum(grid), _NEARLY_NOTHING))
    high = length - int(np.searchsorted(np.cumsum(grid[::-1]), _NEARLY_NOTHING))
    if low >= high:
        return PrivacyLoss(step=step, first=first, mass=grid[:0], infinite=1.0)
    kept = grid[low:high].copy()
    kept[0] += total(grid[:low])
    return PrivacyLoss(step=step, first=first + low, mass=kept, infinite=infinite + total(grid[high:]))


@dataclass(frozen=True, slots=True)
class Looks:
    """Many looks: each loss so many times, all on the same grid."""

    parts: Sequence[tuple[PrivacyLoss, int]]

    def delta(self, epsilon: float) -> float:
        """An upper bound on δ(ε)."""
        return self.deltas((epsilon,))[0]

    def deltas(self, epsilons: Sequence[float]) -> list[float]:
        """The same at several ε, from one transform: sharp at the smallest, and a millionth of its δ off at others."""
        if any(loss.infinite >= 1 for loss, _ in self.parts):
            return [1.0 for _ in epsilons]
        most = math.fsum(n * float(loss.losses[-1]) for loss, n in self.parts)
        asked = [epsilon for epsilon in epsilons if epsilon < most]
        finite = dict(zip(asked, self._finite(asked), strict=True)) if asked else {}
        return [min(1.0, (1 + _MARGIN) * (finite.get(epsilon, 0.0) + self.unbounded)) for epsilon in epsilons]

    @property
    def unbounded(self) -> float:
        """What δ(ε) never falls below, however large ε is: the chance of an infinite loss."""
        return -expm1(self._log_kept)

    @property
    def _log_kept(self) -> float:
        return math.fsum(n * log1p(-loss.infinite) for loss, n in self.parts)

    def _finite(self, epsilons: Sequence[float]) -> list[float]:
        smallest = min(epsilons)
        tilt = self._tilt(smallest)
        # Chernoff's bound on the whole answer: where it is nothing beside the rest, it is the answer.
        at_most = exp(min(0.0, self._cumulant(tilt) - tilt * smallest))
        if at_most < _NEGLIGIBLE * max(self.unbounded, _NEARLY_NOTHING):
            return [at_most for _ in epsilons]
        step = self.parts[0][0].step
        mean, variance, first = 0.0, 0.0, 0
        laws = []
        for loss, n in self.parts:
            law, _ = loss.tilted(tilt)
            centre = dot(law, loss.losses)
            mean += n * centre
            variance += n * dot(law, np.square(loss.losses - centre))
            first += n * loss.first
            laws.append((law, n))
        half = _DEVIATIONS * math.sqrt(variance) + 2 * step
        size = 256
        while True:
            while size < 2 * half / step:
                size *= 2
            lowest = math.floor(mean / step) - size // 2
            above = self._chernoff((lowest + size) * step, tilt)
            if above < _NEGLIGIBLE * at_most or size >= _MAX_WINDOW:
                break
            half *= 2
        # Place i of the circle is every index that leaves the rest i when the firsts are taken off.
        sums = np.roll(_convolved([(_wrapped(law, size), n) for law, n in laws]), -((lowest - first) % size))
        rounding = _ROUNDING * sum(n for _, n in self.parts)
        losses = step * (lowest + np.arange(size, dtype=np.float64))
        untilted = exp(np.minimum(self._cumulant(tilt) - tilt * losses, 700.0))

        def beyond(epsilon: float) -> float:
            if lowest * step > epsilon:
                return 1.0
            inside = losses > epsilon
            shares = -expm1(epsilon - losses[inside]) * (np.maximum(sums[inside], 0.0) + rounding)
            return dot(shares, untilted[inside]) + above

        return [beyond(epsilon) for epsilon in epsilons]

    def _cumulant(self, tilt: float) -> float:
        return math.fsum(n * loss.tilted(tilt)[1] for loss, n in self.parts)

    def _chernoff(self, loss: float, tilt: float) -> float:
        """P(sum > loss), the best of a few tilts."""
        return exp(min(0.0, *(self._cumulant(c * tilt) - c * tilt * loss for c in (1.0, 1.5, 2.0, 3.0))))

    def _tilt(self, epsilon: float) -> float:
        """About the tilt that makes ε the mean of the sum, and at least a little. Any is right, this one is sharp."""
        low, high = 0.0, 1.0
        while self._mean(high) < epsilon and high < 2.0**20:
            low, high = high, 2 * high
        for _ in range(12):
            middle = (low + high) / 2
            low, high = (middle, high) if self._mean(middle) < epsilon else (low, middle)
        return max(high, 0.5)

    def _mean(self, tilt: float) -> float:
        return math.fsum(n * dot(loss.tilted(tilt)[0], loss.losses) for loss, n in self.parts)


#: Real and imaginary parts.
Parts = tuple[Floats, Floats]


def _convolved(laws: Sequence[tuple[Floats, int]]) -> Floats:
    """Of laws around one circle, each so many times. Complex numbers are not numpy's, which fuse two roundings."""
    size = len(laws[0][0])
    real, imaginary = np.ones(size // 2 + 1), np.zeros(size // 2 + 1)
    for law, n in laws:
        there = hartley(law)
        back = np.roll(there[::-1], 1)
        halves = (there + back)[: size // 2 + 1] / 2, (back - there)[: size // 2 + 1] / 2
        real, imaginary = _product((real, imaginary), _power(halves, n))
    return hartley(np.concatenate([real - imaginary, (real + imaginary)[-2:0:-1]])) / size


def _power(base: Parts, n: int) -> Parts:
    """By squaring, for n above 0."""
    power: Parts | None = None
    while True:
        if n & 1:
            power = base if power is None else _product(power, base)
        n >>= 1
        if not n:
            assert power is not None
            return power
        base = _product(base, base)


def _product(a: Parts, b: Parts) -> Parts:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _wrapped(law: Floats, size: int) -> Floats:
    """A law laid around a circle."""
    if len(law) <= size:
        return law if len(law) == size else np.pad(law, (0, size - len(law)))
    return np.bincount(np.arange(len(law)) % size, weights=law, minlength=size).astype(np.float64)


def smallest_epsilon(delta_of: Callable[[float], float], delta: float, *, at_least: float = 0.0) -> float:
    """The smallest ε ≥ ``at_least`` with δ(ε) ≤ delta, at most 1e-4 of it too large; +∞ beyond ``MAX_EPSILON``.

    A δ that first falls and then grows (a chance times 1 + e^ε is in it) may be missed where it is low for less than a
    step of the search. The answer is then too large, never too small.
    """
    low, high = at_least, max(_GROWTH * at_least, 0.25)
    if delta_of(low) <= delta:
        return low
    while delta_of(high) > delta:
        low, high = high, _GROWTH * high
        if high > MAX_EPSILON:
            return math.inf
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if delta_of(middle) <= delta else (middle, high)
    return high
