"""About what cover would cost and be worth, in milliseconds: for somebody who is still choosing.

``shuffle_dp.plan`` looks at every person there may be, and takes seconds. Here all noise is taken for nearly normal:
looks with chances q at cells of variance V tell μ² = Σ q² / V, and μ(ε, δ) is the most that is allowed (``gaussian``).
NB(r, p) with large odds is a gamma law. It hides like a normal one of 1 - 2/r of its variance, and what L looks at it
tell is skewed by 4 / √(r L), which moves the tail that δ cuts off (Cornish and Fisher); few looks need more noise.

What follows is divided and capped by the same rules, and comes out some per cent beside the plan (a test says how
many). Nothing of it may be published: the plan is what counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

from secvm.errors import BadExperimentError
from secvm.learning.cover import COHORTS
from secvm.learning.cover_noise import MAX_ODDS, CoverNoise
from secvm.privacy.gaussian import mu_for, normal_below
from secvm.privacy.shuffle_dp import CUT_SHARE, FEW_CELL_SHARES, OVERFLOW_SHARE, PARTICIPATION, Asked

#: Odds are written in these parts of one.
_PARTS = 4096
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoughCover:
    """About what a plan would say."""

    budget: int
    cover_mean: float
    #: Of each count of a bin and a sign, if all participants add cover.
    variance_per_cell: float
    #: Of the best attacker who asks for the label.
    auc: float


def rough_cover(asked: Asked, *, shape: int = 30) -> RoughCover:
    """The cover of train cells with this shape, and of all the other cells."""
    told, labels = asked.told, asked.labels
    if labels is None:
        raise BadExperimentError("a cover for an experiment needs its labels")
    for_noise = asked.delta * (1 - OVERFLOW_SHARE - CUT_SHARE)
    mu = mu_for(asked.epsilon, for_noise)
    # One look a round at a participation cell; the rest of μ² is left for the others.
    variance = told.rounds / mu_for(asked.epsilon * PARTICIPATION, for_noise) ** 2
    participation = _few(asked, COHORTS * labels, variance)
    left = mu**2 - told.rounds / variance
    kinds = [participation]
    if labels > 1:
        kinds.append(_few(asked, labels**2, told.rounds / left))
    told_most, looks = _looks(asked)
    kinds.append(_sized(asked, asked.train_cells, Fraction(shape, asked.honest), told_most / left, looks))
    real_cap = math.ceil(told.mean_units)
    both = 1 + math.exp(asked.epsilon)
    while both * told.rounds * math.exp(told.log_cut(real_cap)) > asked.delta * CUT_SHARE:
        real_cap += 1
    return RoughCover(
        budget=1 + real_cap + sum(noise.cap for noise in kinds),
        cover_mean=float(sum(noise.mean_packages for noise in kinds)),
        variance_per_cell=float(kinds[-1].variance_per_cell(asked.participants)),
        auc=rough_auc(asked.epsilon, asked.delta),
    )


def rough_auc(epsilon: float, delta: float) -> float:
    """Of somebody who asks for the label: it moves a unit out of one cell into another, √2 μ apart, and Φ(d'/√2)."""
    return normal_below(mu_for(epsilon, delta))


def _looks(asked: Asked) -> tuple[float, float]:
    """Σ q² of the person who tells most, over all rounds and models, and in how few looks that may be told."""
    told = asked.told
    each = told.rounds * told.models
    if told.thinning.rho is None:
        every = each * told.cells
        return every * float(told.thinning.q or 1) ** 2, every
    # With ρ it is told as much by few cells that are always sent, and these hide worst.
    few = each * min(told.cells, float(told.thinning.rho) ** 2)
    return few, few


def _few(asked: Asked, cells: int, variance: float) -> CoverNoise:
    looks = asked.told.rounds
    return min((_sized(asked, cells, share, variance, looks) for share in FEW_CELL_SHARES), key=lambda noise: noise.cap)


def _sized(asked: Asked, cells: int, share: Fraction, variance: float, looks: float) -> CoverNoise:
    """Noise that hides like a normal one of this variance; the variance of NB(r) is r θ (1 + θ)."""
    r = float(share * asked.honest)
    tail = -_NORMAL.inv_cdf(min(0.1, asked.delta))
    wider = 1 + (tail**2 - 1) / 6 * 4 / math.sqrt(r * looks) / tail
    odds = (math.sqrt(1 + 4 * variance * wider**2 / (r * max(0.5, 1 - 2 / r))) - 1) / 2
    if odds > MAX_ODDS:
        raise BadExperimentError("no cover that a device could send keeps this ε and δ")
    return asked.capped(cells, share, Fraction(max(1, math.ceil(odds * _PARTS)), _PARTS))
