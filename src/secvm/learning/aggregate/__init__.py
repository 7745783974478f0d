"""The side of counts: from public tallies to a model. It never sees one person.

An ``Experiment`` is the question; these functions answer it. ``step`` is the one place where a round becomes a model,
and whoever holds the public tallies recomputes it bit for bit.

    >>> from secvm.learning.aggregate.descent import Pegasos
    >>> from secvm.learning.package import Cohort, ParticipationPackage, TrainPackage
    >>> question = Experiment(n_bins=2, labels=("tea", "coffee"), rule=Pegasos(lambda_=1))
    >>> here = ParticipationPackage(cohort=Cohort.TRAIN, class_index=1)
    >>> tally = empty_tally(question).count([here, TrainPackage(model=0, bin_index=1, sign=1)])
    >>> state = step(question, start(question), tally)
    >>> training_weights(question, state).values().tolist()
    [[0.0, 1.0, 0.0]]
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from secvm.learning.aggregate.descent.rule import DescentRule, State
from secvm.learning.aggregate.direction import check_participants, direction_of, side_weights
from secvm.learning.aggregate.robust import clipped, remembered_at_start, trimmed
from secvm.learning.aggregate.scoring import Score, Trained, score_cells
from secvm.learning.aggregate.tally import Tally, explains, means, uncovered
from secvm.learning.experiment import Experiment
from secvm.learning.weights import Weights

__all__ = [
    "empty_tally",
    "evaluation_weights",
    "explains",
    "known_means",
    "rule_of",
    "score",
    "start",
    "step",
    "trained",
    "training_weights",
    "uncovered",
]


def rule_of(experiment: Experiment) -> DescentRule:
    """The experiment's rule with the steps that go with its constants."""
    rule = experiment.rule
    assert isinstance(rule, DescentRule), f"{rule.name} has constants and no steps"
    return rule


def start(experiment: Experiment) -> State:
    """The state before round 1."""
    models, robust = experiment.models.n_models, experiment.robust
    first = rule_of(experiment).start(models, experiment.n_bins)
    if robust is None:
        return first
    return replace(first, vectors=first.vectors | remembered_at_start(robust, models, experiment.n_bins))


def step(experiment: Experiment, state: State, tally: Tally) -> State:
    """State t = rule(state t-1, tally): the one place where a round becomes a model."""
    rule, loss, cover, robust = rule_of(experiment), experiment.loss, experiment.cover, experiment.robust
    check_participants(tally)
    if cover is not None:
        tally = uncovered(cover, tally)
        check_participants(tally)
    weights = experiment.class_weights or (Fraction(1),) * len(experiment.labels)
    if robust is not None:
        sides = side_weights(tally, models=experiment.models, class_weights=weights, factors=loss.factors)
        tally = clipped(robust, tally, sides, Fraction(0) if cover is None else cover.train_variance)
    taken = direction_of(
        tally,
        models=experiment.models,
        class_weights=weights,
        factors=loss.factors,
        divisor=experiment.thinning.divisor * (2**32 if experiment.fixed_point_rows else 1),
        weighted_updates=experiment.weighted_updates,
    )
    if robust is None:
        return rule.step(state, taken)
    own = {name: vector for name, vector in state.vectors.items() if name not in robust.names}
    taken, remembered = trimmed(robust, taken, state.vectors)
    stepped = rule.step(replace(state, vectors=own), taken)
    return replace(stepped, vectors=stepped.vectors | remembered)


def training_weights(experiment: Experiment, state: State) -> Weights:
    """The weights that decide who violates in the next round."""
    return rule_of(experiment).training_weights(state)


def evaluation_weights(experiment: Experiment, state: State) -> Weights:
    """The weights that test packages and predictions use."""
    return rule_of(experiment).evaluation_weights(state)


def score(experiment: Experiment, tally: Tally) -> Score:
    """What a round's test cells say; cover is taken off, and is part of the intervals."""
    variance = 0.0 if experiment.cover is None else experiment.cover.test_variance
    return score_cells(uncovered(experiment.cover, tally).cells, variance=variance)


def trained(experiment: Experiment, tally: Tally) -> Trained:
    """How many trained in a round; cover is taken off, and is the interval."""
    if experiment.cover is None:
        return Trained.of(tally.participants)
    net = tally.participants - means(experiment.cover, tally).participants
    return Trained.of(net, variance=experiment.cover.participation_variance)


def empty_tally(experiment: Experiment) -> Tally:
    """A tally with nothing counted."""
    return Tally.empty(n_models=experiment.models.n_models, n_bins=experiment.n_bins, n_labels=len(experiment.labels))


def known_means(experiment: Experiment) -> Tally:
    """The mean of cover in each cell of a tally, in whole numbers; nothing without cover."""
    empty = empty_tally(experiment)
    return empty if experiment.cover is None else means(experiment.cover, empty)
