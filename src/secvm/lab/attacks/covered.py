"""Worlds with cover: an experiment with its plan, what devices add to the counts, and what the accountant promises.

A device's packages are its own code's (``individual.contribution.contribute``). Where a world has thousands of honest
devices, their cover is drawn for all at once: shapes of negative binomials with the same odds add, so M shares are
NB(M · share), exactly, but for the caps, which are exceeded with a chance that is part of δ.

For worlds alone: a guess sees counts, and the law of the noise, which is public.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from secvm.lab.attacks.attack import Goal, Measurement
from secvm.lab.attacks.knowledge import CoverLaw
from secvm.learning.cover_noise import CoverNoise
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.individual.contribution import Individual
from secvm.learning.package import Cohort, Package, ParticipationPackage, TrainPackage
from secvm.learning.weights import Weights
from secvm.participant.consent import NOTHING, Budget, Consent
from secvm.participant.ledger import Ledger, Spending
from secvm.privacy.accountant import Adjacency, Mechanism
from secvm.privacy.best_attacker import auc_at_most
from secvm.privacy.shuffle_dp import CoverPlan, epsilon_of, plan

Counts = NDArray[np.int64]
LABELS = ("no", "yes")
DELTA = 1e-6
#: Where the curve δ(ε) is looked at: dense where it bends, and as far as anything is still protected. Any set of points
#: gives a bound that is too large, never too small.
EPSILONS = tuple(float(e) for e in (*np.linspace(0, 1, 26), *np.linspace(1.1, 3, 20), *np.geomspace(3.2, 16, 14)))


@dataclass(frozen=True, slots=True)
class Setting:
    """How many people with how many features in how many bins, and for how many rounds an ε is meant."""

    people: int
    bins: int
    features: int
    rounds: int
    epsilon: float = 1.0
    #: The share of honest devices that the cover is made for.
    gamma: Fraction = Fraction(1)
    shape: int = 60

    @property
    def plan(self) -> CoverPlan:
        """The cover that keeps ε over all rounds."""
        return _plan(self)

    @property
    def honest(self) -> int:
        """Devices whose cover is counted on."""
        return self.plan.honest

    def experiment(self, *, covered: bool) -> Experiment:
        """The experiment: with cover, or plain."""
        plain = Experiment(n_bins=self.bins, labels=LABELS, features_per_person=self.features)
        if not covered:
            return plain
        cover = self.plan.cover
        return replace(plain, cover=cover, budget=cover.budget)

    def auc_bound(
        self, adjacency: Adjacency = Adjacency.LABEL_FLIP, *, rounds: int | None = None, honest: int | None = None
    ) -> float:
        """The largest AUC that the accountant allows, after so many rounds (all) with so many honest devices."""
        return _auc_bound(self, adjacency, rounds or self.rounds, self.honest if honest is None else honest)

    def success_bound(self, adjacency: Adjacency = Adjacency.LABEL_FLIP, *, rounds: int | None = None) -> float:
        """The largest share of right guesses that the accountant allows, where both worlds are as likely."""
        delta = _after(self, rounds or self.rounds).delta(0.0, honest=self.honest, adjacency=adjacency)
        return (1 + delta) / 2

    def epsilon_with(self, honest: int, *, adjacency: Adjacency = Adjacency.ZERO_OUT) -> float:
        """ε at δ if only so many devices are honest; +∞: no guarantee."""
        return epsilon_of(self.plan, delta=DELTA, participants=honest, gamma=1, adjacency=adjacency)

    def rounds_within(self, epsilon: float, most: int) -> int:
        """How many rounds, at most so many, a device takes part in whose ledger holds this ε."""
        consent = Consent(budget=Budget(epsilon=epsilon, delta=1.0))
        for rounds in range(1, most + 1):
            spent = epsilon_of(self.plan, delta=DELTA, participants=self.honest, gamma=1, rounds=rounds)
            if Ledger((spending_of("this", rounds, spent),)).fits(consent, "this") is not None:
                return rounds - 1
        return most


def spending_of(digest: str, rounds: int, epsilon: float) -> Spending:
    """What a device's ledger holds of an experiment with cover."""
    return Spending(
        digest=digest, title="", rounds=rounds, epsilon=epsilon, delta=DELTA, d_squared=None, accepted=NOTHING
    )


def goal_within(undefended_at_least: float, *, bound: str = "accountant_auc", besides: str = "") -> Goal:
    """The attack works without cover; with it, nobody could tell that it does better than the accountant allows.

    The accountant's number stands in the detail under ``bound``. A measurement of just what is allowed would be called
    above it with a chance of 2.5 %.
    """

    def met(undefended: Measurement, defended: Measurement) -> bool:
        allowed = float(defended.detail[bound] or 0.0)
        also = float(undefended.detail[besides] or 0.0) if besides else 1.0
        return min(undefended.value, also) >= undefended_at_least and defended.ci95[0] <= allowed

    said = f"at least {undefended_at_least:g} without" + (f" ({besides} too)" if besides else "")
    return Goal(f"{said}; with cover at ε = 1 not above the accountant's bound (95 % interval)", met, bound)


def law_of(noise: CoverNoise, devices: int) -> CoverLaw:
    """What so many honest devices add to one cell."""
    return CoverLaw(float(devices * noise.share), float(noise.p))


def draw_cover_counts(dice: np.random.Generator, law: CoverLaw, size: int | tuple[int, ...]) -> Counts:
    """The cover in so many cells."""
    found: Counts = dice.negative_binomial(law.shape, 1 - law.p, size=size).astype(np.int64)
    return found


def person_with(bins: Iterable[int], label: int, n_bins: int) -> Individual:
    """Somebody with one unit in each of these bins."""
    return Individual(vector=BinnedVector({int(b): 1 for b in sorted(bins)}, n_bins), label=label)


def weights_of(values: NDArray[np.int64]) -> Weights:
    """Whole numbers as the weights of one model; the bias is the last."""
    return Weights(values.astype(np.int32)[None, :], Fraction(1))


def count_units(packages: Iterable[Package], n_bins: int) -> Counts:
    """Train packages, counted: ``[model, bin, sign]``, sign 0 for minus."""
    found = np.zeros((1, n_bins + 1, 2), dtype=np.int64)
    for package in packages:
        if isinstance(package, TrainPackage):
            found[package.model, package.bin_index, int(package.sign > 0)] += 1
    return found


def count_participants(packages: Iterable[Package]) -> Counts:
    """Participation packages of the train cohort by label."""
    found = np.zeros(len(LABELS), dtype=np.int64)
    for package in packages:
        if isinstance(package, ParticipationPackage) and package.cohort is Cohort.TRAIN:
            found[package.class_index] += 1
    return found


@lru_cache(maxsize=32)
def _plan(setting: Setting) -> CoverPlan:
    return plan(
        epsilon=setting.epsilon,
        delta=DELTA,
        rounds=setting.rounds,
        features=setting.features,
        bins=setting.bins,
        participants=setting.people,
        gamma=setting.gamma,
        shape=setting.shape,
        labels=len(LABELS),
    )


@lru_cache(maxsize=64)
def _auc_bound(setting: Setting, adjacency: Adjacency, rounds: int, honest: int) -> float:
    mechanism = _after(setting, rounds)
    return largest_auc(lambda epsilon: mechanism.delta(epsilon, honest=honest, adjacency=adjacency))


def largest_auc(delta: Callable[[float], float]) -> float:
    """The AUC that no attack exceeds if both directions keep (ε, δ(ε)) at every ε."""
    return auc_at_most((epsilon, delta(epsilon)) for epsilon in EPSILONS)


def _after(setting: Setting, rounds: int) -> Mechanism:
    mechanism = setting.plan.mechanism
    return replace(mechanism, contribution=replace(mechanism.contribution, rounds=rounds))
