"""What is learnt, out of a specification: an ``Experiment`` still without cover, and the budget of a plain one.

**The budget** B of a plain experiment, where none is given: so many packages that nearly every update fits
(``privacy.budgets``). With a guarantee B follows from the features (``coordinator.experiments.privacy_plan``).
"""

from __future__ import annotations

from dataclasses import replace

from secvm.coordinator.experiments.specification import Specification
from secvm.errors import BadExperimentError
from secvm.learning.arithmetic import exact
from secvm.learning.common_settings import MAX_BUDGET
from secvm.learning.experiment import Experiment
from secvm.learning.losses import Loss
from secvm.privacy.planning import budgets


def learning(told: Specification) -> Experiment:
    """The experiment without cover, and with the budget that was given, or with any."""
    unknown = told.class_weights.keys() - set(told.labels)
    if unknown:
        raise BadExperimentError("class_weights names a label that the experiment does not have")
    loss = Loss(told.loss, None if told.loss_parameter is None else exact(told.loss_parameter))
    weights = tuple(exact(told.class_weights.get(label, 1)) for label in told.labels) if told.class_weights else ()
    return Experiment(
        n_bins=told.binning.bins,
        labels=told.labels,
        rule=told.descent.rule_for(numbers=loss.regression),
        loss=loss,
        thinning=told.descent.thinning,
        class_weights=weights,
        multiclass=told.multiclass,
        features_per_person=told.features.per_participant,
        budget=2 if told.budget is None else told.budget,
        target_centre=exact(told.target_centre),
        target_spread=exact(told.target_spread),
        robust=told.robust,
    )


def plain_experiment(told: Specification) -> Experiment:
    """The experiment of a specification without a guarantee."""
    experiment = learning(told)
    if told.budget is not None:
        return experiment
    return replace(
        experiment, budget=default_budget(experiment, hashes=told.binning.hashes, presence=told.features.presence)
    )


def default_budget(experiment: Experiment, *, hashes: int, presence: bool) -> int:
    """B that holds nearly every update (``privacy.budgets``), and that can be published."""
    return budgets.default_budget(experiment, hashes=hashes, presence=presence, most=MAX_BUDGET)
