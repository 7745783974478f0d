"""What an experiment document says of learning, of its two relays and of their cover (docs/protocol.md §11, §26).

``learning`` has labels, loss, rule, thinning, budget and robustness. ``privacy`` is of kind ``relays``: what was asked
for (ε, δ), into how many parts a relay's cover is cut, how many packages it has, and the noise of each kind of cells.
``windows`` tells how long each step after a window may take. ``relays`` are two, the entry relay first.

That ε and δ follow from the rest is *not* checked here: whoever wants to know computes it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, Literal, TypeVar

from secvm.errors import BadInputError, LocalProtocolError, MalformedMessageError
from secvm.learning.aggregate.descent import rule_by_name
from secvm.learning.cover_law import COHORTS, MAX_PACKAGES, MAX_PARTS, MIN_PARTS, Noise, RelayCover
from secvm.learning.declared import MAX_BINS, MAX_BUDGET, Declared
from secvm.learning.experiment import Experiment, Robust
from secvm.learning.label_models import MAX_MODELS
from secvm.learning.losses import Loss
from secvm.learning.thinning import Thinning
from secvm.privacy.target import PrivacyTarget
from secvm.protocol.canonical import Fields, as_ratio, ratio_text
from secvm.protocol.records import Record, whole

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
    values: dict[str, object] = {}
    for setting in kind.settings():
        name = setting.name
        if setting.optional and fields.is_null(name):
            values[name] = None
        else:
            values[name] = fields.integer(name, 0) if setting.is_whole else fields.ratio(name)
    fields.done()
    return kind.read(values)


#: What a relay does in a round (docs/protocol.md §25).
RelayRole = Literal["entry", "mix"]
#: In the order in which a document names them.
ROLES: tuple[RelayRole, RelayRole] = ("entry", "mix")
#: A week: who waits longer for a step has another problem.
_MAX_STEP_S = 7 * 86_400
#: Seconds that a step may take.
Step = Annotated[int, whole(1, _MAX_STEP_S)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayTimes(Record):
    """How long each step of a round takes at most, one after the other, from the end of its grace on."""

    #: Until the entry relay hands on.
    batch_s: Step
    #: Until the mixing relay hands on.
    mix_s: Step
    #: Until both relays have opened a part.
    reveal_s: Step
    #: Until the opening is in the log.
    open_s: Step


def write_relay_cover(target: PrivacyTarget, cover: RelayCover) -> dict[str, Any]:
    """The field ``privacy`` of a document."""
    return {
        "delta": ratio_text(target.delta),
        "epsilon": ratio_text(target.epsilon),
        "kind": "relays",
        "packages": cover.packages,
        "participation": _write_noise(cover.participation),
        "parts": cover.parts,
        "test": None if cover.test is None else _write_noise(cover.test),
        "train": _write_noise(cover.train),
    }


def read_relay_cover(fields: Fields, experiment: Experiment, train_share: Fraction) -> tuple[PrivacyTarget, Experiment]:
    """What the field says, and the experiment with its cover."""
    fields.constant("kind", "relays")
    labels = len(experiment.labels)
    untested = fields.is_null("test")
    try:
        cover = RelayCover(
            train=_read_noise(fields.inner("train"), 2 * experiment.models.n_models * (experiment.n_bins + 1)),
            participation=_read_noise(fields.inner("participation"), COHORTS * labels),
            test=None if untested else _read_noise(fields.inner("test"), labels**2),
            parts=fields.integer("parts", MIN_PARTS, MAX_PARTS),
            packages=fields.integer("packages", 1, MAX_PACKAGES - 1),
            train_share=train_share,
        )
        covered = replace(experiment, cover=cover)
        target = PrivacyTarget(fields.ratio("epsilon"), fields.ratio("delta"))
    except BadInputError as fault:
        raise MalformedMessageError(str(fault)) from None
    fields.done()
    return target, covered


def _write_noise(noise: Noise) -> dict[str, Any]:
    return {"odds": ratio_text(noise.odds), "shape": ratio_text(noise.shape)}


def _read_noise(fields: Fields, cells: int) -> Noise:
    noise = Noise(cells=cells, shape=fields.ratio("shape"), odds=fields.ratio("odds"))
    fields.done()
    return noise
