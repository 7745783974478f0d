"""What public tallies give away of a label: from d'² to an AUC and back, and the exact AUC where all bins are alike.

The law is d'² = q · bins · (1/V₊ + 1/V₋) for V₊ and V₋ people who send + and -; ``secvm_lab.privacy.label_leak``
derives it, and has corrections for popular bins, cover and people who come again.

**One cell, exactly.** A cell counts the packages of one sign in one bin. V people of that sign send; each has the bin
with probability p and sends a unit with probability q: θ = q p. Two worlds:

    somebody is in the person's place:   n ~ Binomial(V, θ)
    the person itself is there:          n ~ Binomial(V - 1, θ) + Bernoulli(q x),      x = 1 if it has the bin, else 0

Everybody knows V (participation packages; the bias bin), so the worlds differ by the *person*, not by one package more.
The likelihood ratio of the second world to the first is a straight line in n,

    r(n) = 1 + (n - Vθ) (q x - θ) / (Vθ (1 - θ)),

its mean is 1, and its variance (q x - θ)² / (Vθ (1 - θ)) is the cell's share of d'² in the law. That law is the normal
one. It is too large where Vθ is small, because nobody can be more certain than certain. What stays finite, adds up over
independent cells and rounds, and is d'² itself for a normal shift, is

    -8 ln E √r      (E √r is the Bhattacharyya coefficient; exp(-d'²/8) for two normals d' apart).

``cell_information`` gives that. 1 - E √r is computed as E (1 - √r)² / 2, which loses no digits when it is tiny.

**All cells.** Where everybody has F of the bins and all bins are alike, the mean over people has an exact form: by
Craig's formula

    1 - Φ(y) = (1/π) ∫ exp(-y² / (2 sin² a)) da      over a from 0 to π/2,

so that E exp(-s D) is all that is needed of a person's D = d'². What is plain outright is kept apart (``silence``).

**An experiment.** What its tallies give away is planned from its parameters, and measured by its counts: the law for
any number of labels. Who knows a person's bins asks whether the label is a or b. In a
model where a and b have different signs, the person stands on another side (or on none); each side on which it may
stand adds q · bins / V, with V the people who send on that side:

    d'² = q · bins · Σ 1/V      over models in which the signs differ, and the sides that a or b stand on

Two labels have one model and two sides: the law as it is printed. The pair that is easiest to tell apart counts.

- **Planned**: everybody who trains sends, and labels are equally frequent, unless their shares are told. In later
  rounds fewer send, and so each of them is easier to find; thinning's q is that of a person with F features, of whom
  there are as many as F says.
- **Measured**: every violator has a unit of the bias, sent with the same q as the others. So a side's bias count is
  about q V, and q · bins / V is q² · bins over that count. Counts are public: anybody can do this.

Refusals rest on the law itself. The corrected AUC stands beside it where it is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning import aggregate
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.thinning import ALWAYS
from secvm.privacy.accounting.reals import erf, total

Floats = NDArray[np.float64]
#: The AUC above which devices refuse by default.
WANTED_AUC = 0.55
#: Counts further than this many standard deviations from the mean (and these more) do not matter.
_WIDTH, _MORE = 9.0, 30
#: With a mean above this the variance of r is the information to a thousandth of itself.
_NORMAL_ABOVE = 2_000.0
#: A bin that more people than this have is had by everybody.
_ALL_BUT_ONE = 1 - 1e-9
_NORMAL = NormalDist()
#: Angles of Craig's integral, by Gauss and Legendre in the cube root of the angle: a small D decides at small angles.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_ANGLES = math.pi / 2 * ((1 + _NODES) / 2) ** 3
_SHARES = 3 * ((1 + _NODES) / 2) ** 2 * _WEIGHTS / 2


def auc_of(d_squared: float) -> float:
    """The chance to rank a random person of one label above one of the other: Φ(d' / √2)."""
    return 0.5 * (1.0 + erf(math.sqrt(max(0.0, d_squared)) / 2.0))


def d_squared_of(auc: float) -> float:
    """The inverse of ``auc_of``: .55 gives 0.0316, the limit of bins · rounds · (1/V₊ + 1/V₋)."""
    if not 0.5 <= auc < 1:
        raise BadInputError("an AUC to plan for must lie from 0.5 to below 1")
    return 2 * _NORMAL.inv_cdf(auc) ** 2


def law(*, q: float, bins: int, senders: Iterable[int]) -> float:
    """d'² of one round, uncorrected: q · bins · Σ 1/V over the signs that are looked at.

    Where nobody stands on a side there is nothing to hide behind; one is the least that makes a number.
    """
    return q * bins * math.fsum(1 / max(1, side) for side in senders)


def exact_auc(*, positive: int, negative: int, bins: int, features: int, rounds: int, q: float) -> float:
    """The mean AUC of whoever knows a person's bins, where V₊ and V₋ people send and all bins are alike."""
    share, sides = np.array([features / bins]), (positive, negative)

    def of_one_bin(*, has_it: bool) -> tuple[float, float]:
        """Information beyond what is plain outright, and silence, over both signs and all rounds."""
        cells = [cell_information(senders=side, theta=q * features / bins, q=q, has_it=has_it) for side in sides]
        silent = rounds * sum(float(silence(share, side, q, has_it=has_it)[0]) for side in sides)
        # Being plain outright is a share 4 S of the information -8 ln E √r; the rest is nearly normal.
        return max(0.0, rounds * sum(cells) - 4 * silent), silent

    (having, silent_having), (without, silent_without) = of_one_bin(has_it=True), of_one_bin(has_it=False)

    def laplace(strengths: Floats) -> Floats:
        held = features * (strengths * having + silent_having)
        result: Floats = np.exp(-held - (bins - features) * (strengths * without + silent_without))
        return result

    return mean_right(1 / 2, laplace)


def mean_right(factor: float, laplace: Callable[[Floats], Floats]) -> float:
    """E Φ(√(factor D)) over people, from ``laplace``: s → E exp(-s D). 1/2 gives the mean AUC."""
    return 1 - float(_SHARES @ laplace(factor / (2 * np.sin(_ANGLES) ** 2))) / 2


def silence(shares: Floats, senders: int, q: float, *, has_it: bool) -> Floats:
    """-ln of the probability that one sign's cell does not show in a round, outright, that the person is elsewhere.

    It does when the person would have sent and the count is zero, or would not and everybody did.
    """
    if has_it and q < 1:
        return np.zeros_like(shares)
    theta = np.clip(q * shares, 1e-300, _ALL_BUT_ONE)
    plain = senders * (np.log1p(-theta) if has_it else np.log(theta))
    silent = -np.log1p(-np.exp(np.minimum(plain, -1e-12)))
    return np.where(shares < _ALL_BUT_ONE, silent, 0.0)


def variance_of_ratio(*, senders: float, theta: float, q: float, has_it: bool) -> float:
    """The cell's share of d'² in the normal law."""
    if theta <= 0 or theta >= 1:
        return 0.0  # a bin nobody has, or everybody has, is the same in both worlds
    return (q * has_it - theta) ** 2 / (senders * theta * (1 - theta))


def cell_information(*, senders: int, theta: float, q: float, has_it: bool) -> float:
    """-8 ln of the Bhattacharyya coefficient of one cell's two worlds."""
    normal = variance_of_ratio(senders=senders, theta=theta, q=q, has_it=has_it)
    mean = senders * theta
    if normal == 0 or min(mean, senders - mean) > _NORMAL_ABOVE:
        return normal
    counts, chances = _binomial(senders, theta)
    slope = (q * has_it - theta) / (mean * (1 - theta))
    ratio = np.maximum(0.0, 1 + (counts - mean) * slope)
    missing = float(chances @ (1 - np.sqrt(ratio)) ** 2) / 2
    return -8 * math.log1p(-min(missing, 1 - 1e-300))


def _binomial(n: int, theta: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Counts around the mean and their probabilities, from the ratios of neighbours."""
    mean = n * theta
    reach = _WIDTH * math.sqrt(mean * (1 - theta)) + _MORE
    counts = np.arange(max(0, math.floor(mean - reach)), min(n, math.ceil(mean + reach)) + 1, dtype=float)
    steps = np.log((n - counts[:-1]) / (counts[:-1] + 1)) + math.log(theta) - math.log1p(-theta)
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    chances = np.exp(logs - logs.max())
    return counts, chances / chances.sum()


#: The corrected law takes time that grows with the bins; beyond so many the law alone is said.
_CORRECTED_BINS = 1_000_000
#: Labels whose pairs are looked at.
_COMPARED = 32


@dataclass(frozen=True, slots=True)
class PlannedLeak:
    """What all rounds together would give away, if each were as planned."""

    #: Train participants of a round that it was computed for.
    train_participants: float
    #: d'² of one round, and its AUC.
    d_squared_round: float
    auc_round: float
    #: Over all rounds, as if the others were new people every time.
    d_squared: float
    auc: float
    #: The AUC of all rounds with every correction; None where only the law is known.
    auc_corrected: float | None


@lru_cache(maxsize=256)
def planned_leak(
    experiment: Experiment,
    *,
    train_participants: float,
    rounds: int,
    hashes: int = 1,
    shares: tuple[float, ...] | None = None,
) -> PlannedLeak | None:
    """At so many train participants in a round, of all labels together; None: the label is a number, and has no law.

    ``shares``: of each label, where they are known; equal, unless told.
    """
    if experiment.loss.regression:
        return None
    labels = len(experiment.labels)
    people = [train_participants * share for share in shares or (1 / labels,) * labels]
    signs = experiment.models.signs
    senders = np.array([_in_order(np.array(people)[:, None] * (signs == side), axis=0) for side in (1, -1)])
    once = keep_share(experiment, hashes=hashes) * experiment.n_bins * _easiest(signs, senders)
    return PlannedLeak(
        train_participants=train_participants,
        d_squared_round=once,
        auc_round=auc_of(once),
        d_squared=rounds * once,
        auc=auc_of(rounds * once),
        auc_corrected=_corrected(experiment, people, rounds, hashes),
    )


def measured_leak(experiment: Experiment, tally: Tally, *, hashes: int = 1) -> float | None:
    """d'² of a round that was tallied; None: no law.

    With cover this is what the counts would say without it: cover's mean is taken off, and its noise stays.
    """
    if experiment.loss.regression:
        return None
    if experiment.cover is not None:
        tally = aggregate.uncovered(experiment.cover, tally)
    counts = np.stack([tally.plus[:, -1], tally.minus[:, -1]]).astype(np.float64)
    q = keep_share(experiment, hashes=hashes)
    # Where nobody stands there is nothing to hide behind; one is the least that makes a number.
    return q * q * experiment.n_bins * _easiest(experiment.models.signs, np.maximum(counts, 1.0))


def keep_share(experiment: Experiment, *, hashes: int = 1) -> float:
    """The share q of a person with as many features as the experiment takes; 1 where there is no bound on them."""
    features = experiment.features_per_person
    if features is None:
        return 1.0 if experiment.thinning.q is None else float(experiment.thinning.q)
    held = min(features * hashes, experiment.n_bins)
    return int(experiment.thinning.keep53([held + 1])[0]) / ALWAYS


def _easiest(signs: NDArray[np.int8], senders: NDArray[np.float64]) -> float:
    """The largest Σ 1/V of any two labels; ``senders`` is + and - per model."""
    each = 1 / np.maximum(senders, 1e-9)
    # What a label's side adds in every model.
    added = np.where(signs > 0, each[0], np.where(signs < 0, each[1], 0.0))
    # Of very many labels only those that stand out most are compared with each other.
    rows = np.argsort(-_in_order(added, axis=1), kind="stable")[:_COMPARED]
    return max(
        total(np.where(signs[first] != signs[second], added[first] + added[second], 0.0))
        for first, second in combinations(rows.tolist(), 2)
    )


def _in_order(table: Floats, *, axis: int) -> Floats:
    """Sums that do not depend on the machine: ``sum`` would add up in blocks."""
    sums: Floats = np.moveaxis(np.cumsum(table, axis=axis), axis, 0)[-1]
    return sums


def _corrected(experiment: Experiment, people: Sequence[float], rounds: int, hashes: int) -> float | None:
    features = experiment.features_per_person
    if len(people) != 2 or features is None or min(people) < 1 or experiment.n_bins > _CORRECTED_BINS:
        return None
    # F is the most that anybody has. Where it fills the bins, the correction would take everybody for somebody who has
    # them all, and say that nothing can be told.
    if 2 * features * hashes > experiment.n_bins:
        return None
    return exact_auc(
        positive=int(people[1]),
        negative=int(people[0]),
        bins=experiment.n_bins,
        features=features * hashes,
        rounds=rounds,
        q=keep_share(experiment, hashes=hashes),
    )
