"""What is learnt, out of a specification: an ``Experiment`` still without cover, and the budget of a plain one.

**The budget** B of a plain experiment, where none is given: so many packages that nearly every update fits
(``privacy.budgets``). With a guarantee B follows from the features (``coordinator.relayed_question``).
"""

from __future__ import annotations

from dataclasses import replace

from secvm.coordinator.specification import DescentPart, RobustPart, Specification
from secvm.errors import BadExperimentError
from secvm.learning.aggregate.descent import DescentRule, Pegasos, Swift
from secvm.learning.aggregate.robust import Robust
from secvm.learning.arithmetic import exact
from secvm.learning.experiment import Experiment
from secvm.learning.losses import Loss
from secvm.privacy import budgets
from secvm.protocol.learning_terms import MAX_BUDGET


def learning(told: Specification) -> Experiment:
    """The experiment without cover, and with the budget that was given, or with any."""
    unknown = told.class_weights.keys() - set(told.labels)
    if unknown:
        raise BadExperimentError("class_weights names a label that the experiment does not have")
    weights = tuple(exact(told.class_weights.get(label, 1)) for label in told.labels) if told.class_weights else ()
    return Experiment(
        n_bins=told.binning.bins,
        labels=told.labels,
        rule=_rule(told.descent),
        loss=Loss(told.loss, None if told.loss_parameter is None else exact(told.loss_parameter)),
        thinning=budgets.thinning_of(told.descent.thinning, rule=told.descent.rule),
        class_weights=weights,
        multiclass=told.multiclass,
        features_per_person=told.features.per_participant,
        budget=2 if told.budget is None else told.budget,
        target_centre=exact(told.target_centre),
        target_spread=exact(told.target_spread),
        robust=_robust(told.robust),
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


def _rule(told: DescentPart) -> DescentRule:
    if told.rule == "swift":
        if not told.lambda_ is told.averaging is told.step_cap is None:
            raise BadExperimentError("descent.lambda, averaging and step_cap belong to pegasos, not to swift")
        given = {name: getattr(told, name) for name in ("decay", "step_size", "floor")}
        return Swift(**{name: exact(value) for name, value in given.items() if value is not None})
    if not told.decay is told.step_size is told.floor is None:
        raise BadExperimentError("descent.decay, step_size and floor belong to swift, not to pegasos")
    given = {
        "lambda_": None if told.lambda_ is None else exact(told.lambda_),
        "averaging": told.averaging,
        "step_cap": None if told.step_cap is None else exact(told.step_cap),
    }
    return Pegasos(**{name: value for name, value in given.items() if value is not None})


def _robust(told: RobustPart | None) -> Robust | None:
    if told is None:
        return None
    return Robust(clip=None if told.clip is None else exact(told.clip), trim=told.trim)
