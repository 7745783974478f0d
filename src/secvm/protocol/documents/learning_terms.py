"""What is learnt, as fields of a published experiment: labels, loss, rule, thinning, budget, robustness.

Cover is not here: it stands in ``protocol.relayed_terms``.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, TypeVar

from secvm.errors import BadInputError, LocalProtocolError, MalformedMessageError
from secvm.learning.aggregate.descent import rule_by_name
from secvm.learning.declared import MAX_BINS, MAX_BUDGET, Declared
from secvm.learning.experiment import Experiment, Robust
from secvm.learning.label_models import MAX_MODELS
from secvm.learning.losses import Loss
from secvm.learning.thinning import Thinning
from secvm.protocol.canonical import Fields, as_ratio, ratio_text

D = TypeVar("D", bound=Declared)


def write_learning(experiment: Experiment, bins: int) -> dict[str, Any]:
    """The fields of what is learnt."""
    if experiment.budget is None or experiment.fixed_point_rows or experiment.weighted_updates:
        raise LocalProtocolError("an experiment over devices needs a budget, and rows that packages can carry")
    if experiment.n_bins != bins:
        raise LocalProtocolError("the experiment and its binning have different numbers of bins")
    loss = experiment.loss
    return {
        "budget": experiment.budget,
        "class_weights": [ratio_text(weight) for weight in experiment.class_weights],
        "features_per_participant": experiment.features_per_person,
        "labels": list(experiment.labels),
        "loss": {"name": loss.name, "parameter": None if loss.parameter is None else ratio_text(loss.parameter)},
        "multiclass": experiment.multiclass,
        "robust": None if experiment.robust is None else _write(experiment.robust),
        "rule": {"constants": experiment.rule.parameters(), "name": experiment.rule.name},
        "target": {"centre": ratio_text(experiment.target_centre), "spread": ratio_text(experiment.target_spread)},
        "thinning": _write(experiment.thinning),
    }


def read_learning(fields: Fields, bins: int) -> Experiment:
    """The learning core's experiment, still without cover; anything that it refuses is refused here."""
    loss, rule = fields.inner("loss"), fields.inner("rule")
    target = fields.inner("target")
    constants = rule.inner("constants").rest_as_text(longest=200)
    every_person = fields.is_null("features_per_participant")
    try:
        experiment = Experiment(
            n_bins=bins,
            labels=tuple(
                Fields({"name": item}, f"label {i} of the experiment").text("name", shortest=1, longest=200)
                for i, item in enumerate(fields.items("labels", shortest=1, longest=MAX_MODELS), 1)
            ),
            rule=rule_by_name(rule.text("name", longest=64), constants),
            loss=Loss(loss.text("name", longest=64), None if loss.is_null("parameter") else loss.ratio("parameter")),
            thinning=_read(fields.inner("thinning"), Thinning),
            class_weights=tuple(as_ratio(item) for item in fields.items("class_weights", longest=MAX_MODELS)),
            multiclass=fields.text("multiclass", longest=3),
            features_per_person=None if every_person else fields.integer("features_per_participant", 1, MAX_BINS),
            budget=fields.integer("budget", 2, MAX_BUDGET),
            target_centre=target.ratio("centre"),
            target_spread=target.ratio("spread"),
            robust=None if fields.is_null("robust") else _read(fields.inner("robust"), Robust),
        )
    except BadInputError as fault:
        raise MalformedMessageError(str(fault)) from None
    except (ValueError, TypeError):
        raise MalformedMessageError("a constant of the experiment is no number") from None
    for part in (fields, loss, rule, target):
        part.done()
    return experiment


def _write(part: Declared) -> dict[str, Any]:
    """A part of the experiment as documents have it: rationals in their one spelling, nothing as null."""
    values = {setting.name: getattr(part, setting.attribute) for setting in part.settings()}
    return {name: ratio_text(value) if isinstance(value, Fraction) else value for name, value in values.items()}


def _read(fields: Fields, kind: type[D]) -> D:
    """A part of the experiment, all its settings told."""
    told: dict[str, object] = {}
    for setting in kind.settings():
        name = setting.name
        if setting.optional and fields.is_null(name):
            told[name] = None
        else:
            told[name] = fields.integer(name, 0) if setting.is_whole else fields.ratio(name)
    fields.done()
    return kind.read(told)
