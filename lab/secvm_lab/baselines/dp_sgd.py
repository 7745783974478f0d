"""DP-SGD (Abadi et al. 2016): a trusted server, random batches, clipped gradients, Gaussian noise.

In every step each person is in the batch with chance q, by a coin of its own. The gradient of its logistic loss is cut
to length ``clip``, the batch's sum gets N(0, (σ clip)²) in each place and is divided by q N, the size that batches have
on average. Served is the mean of the weights of the second half of the steps.

Adjacency is zero-out, the batch is secret, and the number of people public. The server is trusted with everything.

**What the noise is worth.** The pair of one step is the mixture (1-q) N(0, σ²) + q N(1, σ²) against N(0, σ²), and the
other way round (Poisson subsampling, a person's part against nothing in its place, clipped to length 1; Zhu, Dong and
Wang 2022 prove that the pair dominates). Losses are written on a grid and added up by ``pld``. An interval of outcomes
whose losses lie between two grid points is split between them so that its mass under both laws stays, as atoms are
there: δ only grows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning.label_models import LabelModels
from secvm.learning.rows import BinnedRows
from secvm.privacy.accounting.pld import Looks, PrivacyLoss, smallest_epsilon
from secvm.privacy.planning.noise_settings import normal_below
from secvm_lab.baselines.baseline import (
    NOISE,
    SAMPLING,
    Fitted,
    Floats,
    Guarantee,
    UnitRows,
    as_weights,
    clipped,
    dice,
    two_labels,
)

#: Outcomes so many σ out get an infinite loss: Φ(-12) is 2e-33.
_FAR = 12.0
#: A grid's step, in standard deviations of one loss.
_STEP = 1 / 16
_MAX_SIGMA = 1e5


def delta_of(epsilon: float, *, sigma: float, q: float, steps: int) -> float:
    """δ(ε) after so many steps: an upper bound, both ways round."""
    taken, given = _losses(sigma, q)
    return max(Looks([(taken, steps)]).delta(epsilon), Looks([(given, steps)]).delta(epsilon))


def epsilon_of(delta: float, *, sigma: float, q: float, steps: int) -> float:
    """The smallest ε with δ(ε) ≤ delta, at most 1e-4 of it too large."""
    return smallest_epsilon(lambda epsilon: delta_of(epsilon, sigma=sigma, q=q, steps=steps), delta)


@lru_cache(maxsize=64)
def sigma_for(epsilon: float, delta: float, *, q: float, steps: int) -> float:
    """The noise, in units of the clip, that keeps (ε, δ); at most a thousandth too large."""
    if not (epsilon > 0 and 0 < delta < 1 and 0 < q <= 1 and steps >= 1):
        raise BadInputError("ε must be above 0, δ between 0 and 1, q above 0 and at most 1, and there must be a step")
    low, high = 0.0, 0.5
    while delta_of(epsilon, sigma=high, q=q, steps=steps) > delta:
        low, high = high, 2 * high
        if high > _MAX_SIGMA:
            raise BadInputError("no noise keeps this ε and δ")
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        keeps = delta_of(epsilon, sigma=middle, q=q, steps=steps) <= delta
        low, high = (low, middle) if keeps else (middle, high)
    return high


@lru_cache(maxsize=64)
def _losses(sigma: float, q: float) -> tuple[PrivacyLoss, PrivacyLoss]:
    """The losses of one step: of with against without, and of without against with."""
    # The ratio's own standard deviation under N(0, σ²), which for small losses is the loss's.
    step = _STEP * min(1.0, q * math.sqrt(math.expm1(min(1 / sigma**2, 50.0))))
    lowest, highest = -_FAR * sigma, 1 + _FAR * sigma
    first, last = (math.floor(_loss(x, sigma, q) / step) for x in (lowest, highest))
    grid = np.arange(first, last + 2, dtype=np.int64)
    # Outcomes at which the loss crosses a grid point; the outermost two are where we stop looking.
    inner = [_outcome(float(i) * step, sigma, q) for i in grid[1:-1]]
    edges = np.array([lowest, *inner, highest])
    without = _between(edges / sigma)
    with_it = (1 - q) * without + q * _between((edges - 1) / sigma)
    below, above = step * grid[:-1], step * grid[1:]
    # What is left over at both ends, under either law.
    left = 2 * normal_below(-_FAR) + normal_below(-_FAR - 1 / sigma)
    spread = -math.expm1(-step)
    upper = np.clip((with_it - without * np.exp(below)) / spread, 0.0, with_it)
    taken = PrivacyLoss(step=step, first=first, mass=_two(with_it - upper, upper), infinite=left)
    upper = np.clip((without - with_it * np.exp(-above)) / spread, 0.0, without)
    # Turned round: the interval's lower grid point is now minus its upper one.
    mass = _two((without - upper)[::-1], upper[::-1])
    return taken, PrivacyLoss(step=step, first=-int(grid[-1]), mass=mass, infinite=left)


def _loss(x: float, sigma: float, q: float) -> float:
    exponent = (2 * x - 1) / (2 * sigma**2)
    if exponent > 500:
        return math.log(q) + exponent
    return math.log((1 - q) + q * math.exp(exponent))


def _outcome(loss: float, sigma: float, q: float) -> float:
    """Where the loss is this; it lies above ln(1-q) by choice of the grid."""
    ratio = loss - math.log(q) if loss > 500 else math.log((math.expm1(loss) + q) / q)
    return sigma**2 * ratio + 0.5


def _between(edges: Floats) -> Floats:
    """The standard normal mass between neighbours, from whichever tail is nearer."""
    below = np.array([normal_below(float(x)) for x in edges])
    above = np.array([normal_below(-float(x)) for x in edges])
    middle = edges[1:] + edges[:-1]
    mass: Floats = np.maximum(0.0, np.where(middle > 0, above[:-1] - above[1:], below[1:] - below[:-1]))
    return mass


def _two(lower: Floats, upper: Floats) -> Floats:
    """Masses at intervals' lower and upper ends, as masses at grid points."""
    grid = np.zeros(len(lower) + 1, dtype=np.float64)
    grid[:-1] += lower
    grid[1:] += upper
    return grid


@dataclass(frozen=True)
class DPSGD:
    """DP-SGD on a logistic loss. An ε of infinity: no noise."""

    epsilon: float
    delta: float
    #: F: at most so many bins of a person, the bias not counted.
    contribution: int
    steps: int = 100
    #: q: the chance to be in a batch.
    sampling: float = 0.2
    clip: float = 1.0
    step_size: float = 1.0
    name: ClassVar[str] = "DP-SGD"

    @property
    def sigma(self) -> float:
        """σ in units of the clip."""
        if math.isinf(self.epsilon):
            return 0.0
        return sigma_for(self.epsilon, self.delta, q=self.sampling, steps=self.steps)

    def fit(self, rows: BinnedRows, labels: NDArray[np.int64], *, seed: int) -> Fitted:
        signs = two_labels(labels)
        people = UnitRows(clipped(rows, self.contribution, seed=seed), normalised=False)
        sigma, half = self.sigma, self.steps // 2
        weights = np.zeros(people.n_cells, dtype=np.float64)
        served = np.zeros_like(weights)
        for t in range(self.steps):
            batch = dice(seed, SAMPLING, t).random(len(people)) < self.sampling
            total = people.combined(self.coefficients(people, weights, signs) * batch)
            total += dice(seed, NOISE, t).normal(0.0, sigma * self.clip, total.shape)
            weights += self.step_size * total / (self.sampling * len(people))
            if t >= half:
                served += weights
        guarantee = None
        if not math.isinf(self.epsilon):
            guarantee = Guarantee(self.epsilon, self.delta, "the server, with all data", "privacy losses, upper bound")
        return Fitted(self.name, as_weights(served), LabelModels(n_labels=2), guarantee, {"sigma": sigma * self.clip})

    def coefficients(self, people: UnitRows, weights: Floats, signs: Floats) -> Floats:
        """What each person's row is multiplied by: minus the loss's derivative, cut so that c ‖x‖ ≤ clip."""
        margins = signs * people.scores(weights)
        # 1 / (1 + e^m), without overflow.
        slopes = 0.5 * (1 - np.tanh(margins / 2))
        cut = np.minimum(slopes, self.clip / np.sqrt(people.lengths))
        return np.asarray(signs * cut, dtype=np.float64)
