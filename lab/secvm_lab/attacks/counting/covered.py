"""Worlds of counts: an experiment with cover and its plan, a crowd in it, and one label that is not known.

*With cover*: the attacker is the coordinator together with one of the two relays: it takes the opened part and all of
the colluding relay's cover off the counts, and S - 1 parts of the honest relay stay, NB(shape, odds) in every cell.
Where a world needs thousands of plays they are drawn at once, by their law; ``relayed.isolation`` draws them as a relay
does.

All of it is for worlds alone: a guess sees counts, and the law of the noise, which is public.

*A crowd* is many people at once, as a table of bins, for worlds whose devices send plain packages. It counts what its
people send under given weights by the same integers as a device (``individual.update``): scores are sums of whole
weights, and a person with label y violates exactly if y · score < 1.

*All else known* (A10, A18): the attacker knows all but one label, and the noise is all that is left. Weights are zero,
so that everybody sends, whatever the label is: with all else known nothing else is better. The guess that they ask is
``likelihood.label_ratio``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.arithmetic import exact
from secvm.learning.cover_law import Noise
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.individual.contribution import Individual, contribute
from secvm.learning.package import Cohort, Package, ParticipationPackage, TrainPackage
from secvm.learning.thinning import Thinning
from secvm.learning.weights import Weights
from secvm.participant.consent.ledger import Ledger, Spending
from secvm.participant.consent.policies import Budget, Consent
from secvm.participant.dice import SystemDice
from secvm.participant.storage.books import NOTHING
from secvm.privacy.accounting.accountant import Adjacency, Mechanism
from secvm.privacy.accounting.guarantee import auc_at_most
from secvm.privacy.planning.relay_plan import RelayPlan, RelayQuestion, plan_relays
from secvm.privacy.target import PrivacyTarget
from secvm_lab.attacks.attack import Goal, Measurement
from secvm_lab.attacks.counting.likelihood import CoverLaw, Floats, KnownRest, label_ratio
from secvm_lab.attacks.views import CoordinatorView, RoundSeen

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

    @property
    def plan(self) -> RelayPlan:
        """The cover that keeps ε over all rounds."""
        return _plan(self)

    @property
    def laws(self) -> tuple[CoverLaw, CoverLaw]:
        """What the honest relay adds to a train cell, and to a participation cell."""
        return law_of(self.plan.cover.train), law_of(self.plan.cover.participation)

    def experiment(self, *, covered: bool) -> Experiment:
        """The experiment: with cover, or plain."""
        plain = Experiment(n_bins=self.bins, labels=LABELS, rule=Pegasos(), features_per_person=self.features)
        if not covered:
            return plain
        return replace(plain, cover=self.plan.cover, budget=self.plan.budget)

    def mechanism(self, rounds: int | None = None, share: float = 1.0) -> Mechanism:
        """The accountant's, after so many rounds (all), if the honest relay's cover has this share of its shape."""
        made = self.plan.mechanism
        told = replace(made.contribution, rounds=rounds or self.rounds)
        assert made.participation is not None
        train, here = (replace(cell, shape=share * cell.shape) for cell in (made.train, made.participation))
        return replace(made, contribution=told, train=train, participation=here)

    def auc_bound(self, adjacency: Adjacency = Adjacency.LABEL_FLIP, *, rounds: int | None = None) -> float:
        """The largest AUC that the accountant allows, after so many rounds (all)."""
        return _auc_bound(self, adjacency, rounds or self.rounds)

    def success_bound(self) -> float:
        """The largest share of right guesses that the accountant allows, where both worlds are as likely."""
        return (1 + self.mechanism().delta(0.0, adjacency=Adjacency.LABEL_FLIP)) / 2

    def epsilon_with(self, share: float) -> float:
        """ε at δ if the honest relay adds only this share of its cover; +∞: no guarantee."""
        return math.inf if share <= 0 else self.mechanism(share=share).epsilon(delta=DELTA)

    def rounds_within(self, epsilon: float, most: int) -> int:
        """How many rounds, at most so many, a device takes part in whose ledger holds this ε."""
        consent = Consent(budget=Budget(epsilon=epsilon, delta=1.0))
        for rounds in range(1, most + 1):
            spent = self.mechanism(rounds).epsilon(delta=DELTA)
            if Ledger((spending_of("this", rounds, spent),)).fits(consent, "this") is not None:
                return rounds - 1
        return most


def spending_of(digest: str, rounds: int, epsilon: float) -> Spending:
    """What a device's ledger holds of an experiment with cover that it is charged so much for."""
    return Spending(
        digest=digest,
        title="",
        rounds=rounds,
        epsilon=epsilon,
        charged=epsilon,
        delta=DELTA,
        d_squared=None,
        accepted=NOTHING,
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


def law_of(noise: Noise, share: float = 1.0) -> CoverLaw:
    """What S - 1 parts of one relay add to one cell, or a share of them."""
    return CoverLaw(share * float(noise.shape), float(noise.p))


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


def sent(
    experiment: Experiment, person: Individual, weights: Weights, dice: SystemDice, number: int = 1
) -> tuple[Counts, Counts]:
    """What somebody's device sends in a round, counted: units, and participation of the train cohort by label."""
    packages = contribute(
        person, experiment=experiment, training=weights, evaluation=weights, dice=dice, round_number=number
    )
    participants = np.zeros(len(LABELS), dtype=np.int64)
    for package in packages:
        if isinstance(package, ParticipationPackage) and package.cohort is Cohort.TRAIN:
            participants[package.class_index] += 1
    return count_units(packages, experiment.n_bins), participants


def zeros(setting: Setting) -> Weights:
    """Weights under which everybody sends, whatever the label is."""
    return weights_of(np.zeros(setting.bins + 1, dtype=np.int64))


def batches(total: int, most: int) -> Iterator[int]:
    """Sizes of at most so many that add up to the total."""
    for begin in range(0, total, most):
        yield min(most, total - begin)


@lru_cache(maxsize=32)
def _plan(setting: Setting) -> RelayPlan:
    question = RelayQuestion(
        target=PrivacyTarget(exact(setting.epsilon), exact(DELTA)),
        people=setting.people,
        bins=setting.bins,
        features=setting.features,
        rounds=setting.rounds,
        thinning=Thinning(),
        labels=len(LABELS),
        train_share=Fraction(1),
    )
    return plan_relays(question)


@lru_cache(maxsize=64)
def _auc_bound(setting: Setting, adjacency: Adjacency, rounds: int) -> float:
    mechanism = setting.mechanism(rounds)
    return largest_auc(lambda epsilon: mechanism.delta(epsilon, adjacency=adjacency))


def largest_auc(delta: Callable[[float], float]) -> float:
    """The AUC that no attack exceeds if both directions keep (ε, δ(ε)) at every ε."""
    return auc_at_most((epsilon, delta(epsilon)) for epsilon in EPSILONS)


@dataclass(frozen=True, slots=True, repr=False)
class Crowd:
    """People and their labels. Secret: it does not print itself."""

    #: ``[bin, person]``, 1 where the person has the bin.
    has: NDArray[np.int8]
    labels: NDArray[np.int8]

    @property
    def size(self) -> int:
        return len(self.labels)

    @property
    def shares(self) -> NDArray[np.float64]:
        """Which share of people has each bin."""
        found: NDArray[np.float64] = self.has.mean(axis=1)
        return found

    def bins_of(self, person: int) -> tuple[int, ...]:
        """The bins of one of them."""
        return tuple(int(b) for b in np.flatnonzero(self.has[:, person]))

    def overlaps(self, bins: tuple[int, ...]) -> Counts:
        """How many of these bins each person has."""
        found: Counts = self.has[list(bins)].sum(axis=0, dtype=np.int64)
        return found

    def scores(self, weights: NDArray[np.int64]) -> Counts:
        """The score of each person; the last weight is the bias's."""
        found: Counts = (weights[:-1] @ self.has.astype(np.int64)) + weights[-1]
        return found

    def counted(self, sending: NDArray[np.bool_]) -> Counts:
        """What those who send add to the cells: ``[model, bin, sign]``, sign 0 for minus."""
        found = np.zeros((1, len(self.has) + 1, 2), dtype=np.int64)
        for sign in (0, 1):
            those = np.flatnonzero(sending & (self.labels == sign))
            found[0, :-1, sign] = self.has[:, those].sum(axis=1, dtype=np.int64)
            found[0, -1, sign] = len(those)
        return found

    def violators(self, scores: Counts) -> NDArray[np.bool_]:
        """Who sends, given everybody's score."""
        found: NDArray[np.bool_] = (2 * self.labels.astype(np.int64) - 1) * scores < 1
        return found


def draw_crowd(dice: np.random.Generator, *, people: int, bins: int, features: int) -> Crowd:
    """People with so many different bins, popular ones more often (Zipf's law), and labels by a coin."""
    popularity = 1 / np.arange(1, bins + 1)
    has = np.zeros((people, bins), dtype=np.int8)
    for begin in range(0, people, 1000):
        part = has[begin : begin + 1000]
        # The first of exponential clocks: different bins, by weight.
        clocks = dice.exponential(size=part.shape) / popularity
        np.put_along_axis(part, np.argpartition(clocks, features - 1, axis=1)[:, :features], 1, axis=1)
    return Crowd(np.ascontiguousarray(has.T), dice.integers(2, size=people, dtype=np.int8))


_BATCH = 500


def sent_by(setting: Setting, bins: Iterable[int], label: int) -> Counts:
    """The units of a round under zero weights of somebody with these bins, as its device makes them."""
    person = person_with(bins, label, setting.bins)
    return sent(setting.experiment(covered=False), person, zeros(setting), SystemDice(bytes))[0]


def scores(
    setting: Setting,
    label: int,
    trials: int,
    dice: np.random.Generator,
    *,
    share: float = 1.0,
    rounds: int | None = None,
) -> Floats:
    """What the attacker makes of so many plays in which the target has this label: a column for every round seen.

    The rounds are those that the cover was made for, unless told. ``share``: of the honest relay's cover, so much is
    there; 0 is a plain sum.
    """
    train = here = None
    if share > 0:
        cover = setting.plan.cover
        train, here = law_of(cover.train, share), law_of(cover.participation, share)
    own, own_label = sent_by(setting, range(setting.features), label), np.eye(2, dtype=np.int64)[label]
    # Any numbers will do: the attacker knows them.
    others = dice.integers(setting.people, size=own.shape)
    others_by_label = (setting.people // 3, setting.people - setting.people // 3)
    seen = rounds or setting.rounds
    found = []
    for plays in batches(trials, _BATCH):
        of_rounds = []
        for _ in range(seen):
            counts = others + own + _noise(dice, train, (plays, *own.shape))
            participants = np.array(others_by_label) + own_label + _noise(dice, here, (plays, 2))
            view = CoordinatorView((RoundSeen(counts=counts, participants=participants),))
            knowing = KnownRest(tuple(range(setting.features)), (others,), others_by_label, train, here)
            of_rounds.append(label_ratio(view, knowing))
        found.append(np.stack(of_rounds, axis=1))
    return np.cumsum(np.concatenate(found), axis=1)


def _noise(dice: np.random.Generator, law: CoverLaw | None, size: tuple[int, ...]) -> Counts:
    return np.zeros(size, dtype=np.int64) if law is None else draw_cover_counts(dice, law, size)
