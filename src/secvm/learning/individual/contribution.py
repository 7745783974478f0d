"""Everything one person sends in one round, package by package.

This is the device's side of a round, and the specification that the offline estimator is held to: its tallies equal the
tallies of these packages, whatever their order and however often one is sent again.

 1. One participation package.
 2. Train cohort: for every model the update (or none), split into units, thinned; all models together cut to the
    budget.
    Test cohort: the confusion cell of one prediction (a number as the label has none).
 3. Padding with nulls up to the budget, where the experiment has one. Cover is added by relays, and by no device.

An update becomes |x| unit packages of sign y sgn(x) in each bin. The units of an update are numbered through its bins
in ascending order, the bias last; the number is what the dice of thinning are thrown for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from secvm.errors import BadInputError, LocalProtocolError
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.individual.dice import DRAW_BITS, Dice, Purpose
from secvm.learning.individual.update import Update, fixed_epsilon, local_update, score, squared_norm
from secvm.learning.label_models import LabelModels
from secvm.learning.package import Cohort, NullPackage, Package, ParticipationPackage, TestPackage, TrainPackage
from secvm.learning.weights import Weights


def split(update: Update, model: int) -> list[TrainPackage]:
    """All unit packages of an update, in the order of their numbers."""
    packages: list[TrainPackage] = []
    for bin_index, value in update.values.items():
        package = TrainPackage(model=model, bin_index=bin_index, sign=1 if value > 0 else -1)
        packages.extend([package] * abs(value))
    return packages


def thin(
    packages: Sequence[TrainPackage], *, keep53: int, dice: Dice, round_number: int, model: int
) -> list[TrainPackage]:
    """Each package stays with probability keep53 / 2^53."""
    if keep53 == 1 << DRAW_BITS:
        return list(packages)
    words = dice.words(Purpose.THINNING, round_number, model, len(packages))
    return [p for p, word in zip(packages, words, strict=True) if word >> (64 - DRAW_BITS) < keep53]


def fit_budget(
    packages: Sequence[TrainPackage], *, budget: int | None, dice: Dice, round_number: int
) -> list[TrainPackage]:
    """At most ``budget`` packages: those with the smallest dice words stay, in their order.

    A person above the budget contributes less than its update: a bias of the model, and the reason to choose the
    features per person so that it does not happen.
    """
    if budget is None or len(packages) <= budget:
        return list(packages)
    words = dice.words(Purpose.BUDGET, round_number, 0, len(packages))
    chosen = sorted(range(len(packages)), key=lambda i: (words[i], i))[:budget]
    return [packages[i] for i in sorted(chosen)]


def pad(packages: Sequence[Package], budget: int) -> list[Package]:
    """Exactly ``budget`` packages, filled up with nulls."""
    if len(packages) > budget:
        raise BadInputError("there are more packages than the budget allows")
    return [*packages, *[NullPackage()] * (budget - len(packages))]


def evaluate_person(weights: Weights, models: LabelModels, vector: BinnedVector, true_class: int) -> TestPackage:
    """The confusion cell of one test person."""
    scores = np.array([[score(weights, model, vector) for model in range(models.n_models)]], dtype=np.int64)
    return TestPackage(true_class=true_class, predicted_class=int(models.predict(scores)[0]))


@dataclass(frozen=True, slots=True, repr=False)
class Individual:
    """One person as an experiment sees it. Secret: it does not print itself."""

    vector: BinnedVector
    #: Index of the label; 0 when the label is a number.
    label: int
    #: The number as the label, centred, scaled, in units of 2^-32 (``update.fixed_target``).
    target: int = 0
    cohort: Cohort = Cohort.TRAIN

    def __repr__(self) -> str:
        return "Individual(...)"


def contribute(
    person: Individual,
    *,
    experiment: Experiment,
    training: Weights,
    evaluation: Weights,
    dice: Dice,
    round_number: int,
) -> list[Package]:
    """The packages of one person in one round."""
    packages: list[Package] = [ParticipationPackage(cohort=person.cohort, class_index=person.label)]
    if person.cohort is Cohort.TRAIN:
        packages += train_packages(
            person, experiment=experiment, training=training, dice=dice, round_number=round_number
        )
    elif not experiment.loss.regression:
        packages.append(evaluate_person(evaluation, experiment.models, person.vector, person.label))
    return packages if experiment.budget is None else pad(packages, experiment.budget)


def train_packages(
    person: Individual, *, experiment: Experiment, training: Weights, dice: Dice, round_number: int
) -> list[TrainPackage]:
    """The unit packages of a train person: all models, thinned, within the budget."""
    if experiment.cover is not None and any(value != 1 for value in person.vector.values.values()):
        raise LocalProtocolError("with cover a person has one unit in a bin, or none")
    loss = experiment.loss
    keep53 = int(experiment.thinning.keep53([squared_norm(person.vector)])[0])
    sent: list[TrainPackage] = []
    for model in range(experiment.models.n_models):
        label_sign = None if loss.regression else int(experiment.models.signs[person.label, model])
        if label_sign == 0:
            continue
        if loss.regression:
            threshold, width = person.target, fixed_epsilon(loss, experiment.target_spread)
        else:
            coin = dice.words(Purpose.COIN, round_number, model, 1)[0] >> (64 - DRAW_BITS) if loss.tosses_coins else 0
            threshold, width = int(loss.thresholds(np.array([coin], dtype=np.int64))[0]), 0
        update = local_update(
            weights=training,
            model=model,
            vector=person.vector,
            label_sign=label_sign,
            threshold=threshold,
            width=width,
        )
        if update is not None:
            units = split(update, model)
            sent += thin(units, keep53=keep53, dice=dice, round_number=round_number, model=model)
    return fit_budget(sent, budget=experiment.train_budget, dice=dice, round_number=round_number)
