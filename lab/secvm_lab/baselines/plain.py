"""Our own rule among the baselines: without protection, by packages, under two relays' cover, by secure summation.

*Plain*: full batches over everybody's clipped rows, exact sums. Noise is measured against it.

*Packages*: unit packages without cover, whole or thinned, counted as devices would send them.

*Two relays' cover*: nobody is trusted with rows. Both relays' parts are drawn as relays would draw them
(``estimator.round_cover``); settings follow from public numbers (``privacy.noise_settings``) unless they are given.

*Secure summation* without noise (Bonawitz et al. 2017): the server learns each round's sum and nothing else. The
model is the plain one, bit for bit. The sum still tells: beside the accuracy stand two AUCs of the label game
(``label_leakage``: somebody knows a person's bins and asks for the label), of the first round and of all rounds
with independent backgrounds, which is how one plans. Of the sum N⁺ - N⁻ the law is

    d'² = bins · 4 / (V₊ + V₋),      of both tallies        d'² = bins · (1/V₊ + 1/V₋)

the same for equal sides. So the sum is planned as a game with (V₊ + V₋)/2 on either side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.estimator.fitting import Evaluator, training_for
from secvm.estimator.privacy import PrivacyPlan
from secvm.estimator.question import ask
from secvm.estimator.training import OfflineTraining, Population, TrainingRound
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import DescentRule, Swift
from secvm.learning.experiment import Experiment
from secvm.learning.losses import Loss
from secvm.learning.rows import BinnedRows
from secvm.learning.thinning import Thinning
from secvm.learning.weights import Weights
from secvm.privacy.target import PrivacyTarget
from secvm_lab.baselines.baseline import SAMPLING, Fitted, Guarantee, clipped, dice, two_labels
from secvm_lab.privacy.label_leak import LabelGame, label_leak


@dataclass(frozen=True)
class Plain:
    """Full batches without noise. ``contribution`` is F: at most so many bins of a person, the bias not counted."""

    rounds: int
    contribution: int
    rule: DescentRule = Swift()  # noqa: RUF009  (a frozen value: sharing it harms nobody)
    #: One per label; empty: all one.
    class_weights: tuple[Fraction, ...] = ()
    name: ClassVar[str] = "plain"

    def __post_init__(self) -> None:
        if min(self.rounds, self.contribution) < 1:
            raise BadInputError("a baseline needs a round, and a bin of each person, at least")

    def experiment(self, n_bins: int, n_labels: int) -> Experiment:
        """The question, with rows whole: unthinned."""
        return Experiment(
            n_bins=n_bins,
            labels=names_of(n_labels),
            rule=self.rule,
            class_weights=self.class_weights,
            fixed_point_rows=self.rule.normalised,
        )

    def fit(self, rows: BinnedRows, labels: NDArray[np.int64], *, seed: int) -> Fitted:
        experiment = self.experiment(rows.n_bins, number_of_labels(labels))
        taken = clipped(rows, self.contribution, seed=seed)
        weights, _ = run_rounds(OfflineTraining(experiment), taken, labels, self.rounds)
        return Fitted(self.name, weights, experiment.models)


def run_rounds(
    training: OfflineTraining, rows: BinnedRows, labels: NDArray[np.int64], rounds: int
) -> tuple[Weights, list[TrainingRound]]:
    """All rounds over everybody: the weights that predict, and what became of each round."""
    people = Population(rows=rows, labels=labels.astype(np.int64))
    reports = [training.advance(people) for _ in range(rounds)]
    return aggregate.evaluation_weights(training.experiment, training.state), reports


def names_of(n_labels: int) -> tuple[str, ...]:
    """Labels of an experiment are words."""
    return tuple(str(label) for label in range(n_labels))


def number_of_labels(labels: NDArray[np.int64]) -> int:
    """How many labels there are; two at least."""
    if labels.size == 0 or labels.min() < 0:
        raise BadInputError("a baseline needs people, each with a label")
    return max(2, int(labels.max()) + 1)


#: Of the people who train, on whom rounds are tried.
_TRIED_ON = 0.2


@dataclass(frozen=True)
class Packages:
    """A rule over whole rows with their counts, and how much of an update is sent."""

    name: str
    rule: DescentRule
    rounds: int
    thinning: Thinning = Thinning()  # noqa: RUF009  (a frozen value: sharing it harms nobody)
    threads: int = 1
    #: Whether ``rounds`` is only the most: the best number is then found on a fifth of the people, and all train again.
    chosen: bool = False

    def fit(self, rows: BinnedRows, labels: NDArray[np.int64], *, seed: int) -> Fitted:
        rounds = self._choose(rows, labels, seed) if self.chosen else self.rounds
        training, _ = self._training(rows, labels, seed)
        weights, _ = run_rounds(training, rows, labels, rounds)
        notes = {"packages": training.packages_sent / max(1, len(rows)), "rounds": float(rounds)}
        return Fitted(self.name, weights, training.experiment.models, notes=notes)

    def _choose(self, rows: BinnedRows, labels: NDArray[np.int64], seed: int) -> int:
        """The best round for people who do not train; the first of equals."""
        tried = dice(seed, SAMPLING).random(len(rows)) < _TRIED_ON
        inside, outside = np.flatnonzero(~tried), np.flatnonzero(tried)
        if min(len(inside), len(outside)) == 0:
            return self.rounds
        training, people = self._training(rows.take(inside), labels[inside], seed)
        evaluator = Evaluator(training.experiment, rows.take(outside), threads=self.threads)
        right = []
        for _ in range(self.rounds):
            training.advance(people)
            weights = aggregate.evaluation_weights(training.experiment, training.state)
            right.append(int((evaluator.labels(weights) == labels[outside]).sum()))
        return int(np.argmax(right)) + 1

    def _training(self, rows: BinnedRows, labels: NDArray[np.int64], seed: int) -> tuple[OfflineTraining, Population]:
        names = names_of(number_of_labels(labels))
        experiment = ask(rows, labels=names, rule=self.rule, loss=Loss("hinge"), thinning=self.thinning)
        people = Population(rows=rows, labels=labels.astype(np.int64))
        dice_seed = seed.to_bytes(8, "little")
        return training_for(experiment, people, rounds=self.rounds, seed=dice_seed, threads=self.threads), people


@dataclass(frozen=True)
class RelayedCover:
    """(ε, δ) by the cover of two relays, one of which is honest."""

    target: PrivacyTarget
    #: For as many people and bins.
    plan: PrivacyPlan
    contribution: int
    name: str = "relays' cover"
    threads: int = 1

    def fit(self, rows: BinnedRows, labels: NDArray[np.int64], *, seed: int) -> Fitted:
        plan = self.plan
        experiment = Experiment(
            n_bins=rows.n_bins,
            labels=names_of(number_of_labels(labels)),
            rule=plan.settings.rule,
            thinning=plan.settings.thinning,
            features_per_person=self.contribution,
            cover=plan.cover,
        )
        training = OfflineTraining(experiment, seed=seed.to_bytes(8, "little"), threads=self.threads)
        weights, _ = run_rounds(training, clipped(rows, self.contribution, seed=seed), labels, plan.settings.rounds)
        return Fitted(
            self.name,
            weights,
            experiment.models,
            Guarantee(plan.epsilon, float(self.target.delta), "one of two relays", "privacy losses, exact laws"),
            {"budget": float(plan.budget), "relay_packages": float(plan.cover.packages)},
        )


@dataclass(frozen=True)
class SecureSummation(Plain):
    """Exact sums, nothing else seen. ``zipf`` is the exponent of bins' popularity that the leak is planned with."""

    zipf: float = 0.0
    name: ClassVar[str] = "secure summation"

    def fit(self, rows: BinnedRows, labels: NDArray[np.int64], *, seed: int) -> Fitted:
        two_labels(labels)
        experiment = self.experiment(rows.n_bins, 2)
        taken = clipped(rows, self.contribution, seed=seed)
        weights, reports = run_rounds(OfflineTraining(experiment), taken, labels, self.rounds)
        features = max(1, round(float(np.diff(taken.indptr).mean())))
        notes = {
            "label_auc_one_round": self.leak(reports[:1], rows.n_bins, features),
            "label_auc": self.leak(reports, rows.n_bins, features),
        }
        return Fitted(self.name, weights, experiment.models, notes=notes)

    def leak(self, reports: Sequence[TrainingRound], bins: int, features: int) -> float:
        """AUC of the label from the sums of these rounds; rounds in which one side is silent count with one sender."""
        # Squares of d' add up over rounds, and each is 1/V: the harmonic mean stands for all.
        inverse = [2 / max(1, sum(report.violators[0])) for report in reports]
        side = max(1, round(len(inverse) / sum(inverse)))
        game = LabelGame(
            positive=side, negative=side, bins=bins, features=features, rounds=len(inverse), zipf=self.zipf
        )
        return label_leak(game).auc
