"""An experiment as the header of a model file tells it, and back: every field, so that nothing is lost on the way.

``fixed_point_rows`` follows from rule and thinning. "cover" and "robust" stand there only where there is one, so that
files without them have the bytes they always had, and old files are read.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from secvm.errors import BadInputError
from secvm.learning.aggregate.descent import rule_by_name
from secvm.learning.cover_law import Noise, RelayCover
from secvm.learning.experiment import Experiment, Robust
from secvm.learning.losses import Loss
from secvm.learning.thinning import Thinning

#: How the header writes rationals: as ``str`` of a Fraction. No exponents: 1e999999999 would keep a reader busy for
#: hours.
_RATIO = re.compile(r"-?[0-9]{1,2000}(/[0-9]{1,2000})?", re.ASCII)


def experiment_header(experiment: Experiment) -> dict[str, Any]:
    """What the file tells of the experiment, as JSON."""
    loss, cover, robust = experiment.loss, experiment.cover, experiment.robust
    header: dict[str, Any] = {
        "bins": experiment.n_bins,
        "budget": experiment.budget,
        "class_weights": [str(w) for w in experiment.class_weights],
        "features_per_person": experiment.features_per_person,
        "labels": list(experiment.labels),
        "loss": {"name": loss.name, "parameter": None if loss.parameter is None else str(loss.parameter)},
        "multiclass": experiment.multiclass,
        "rule": {"name": experiment.rule.name, **experiment.rule.parameters()},
        "target": [str(experiment.target_centre), str(experiment.target_spread)],
        "weighted_updates": experiment.weighted_updates,
        "thinning": experiment.thinning.content(),
    }
    if cover is not None:
        header["cover"] = _cover_header(cover)
    if robust is not None:
        header["robust"] = robust.content()
    return header


def read_experiment(header: dict[str, Any]) -> Experiment:
    """The experiment of a header; raises whatever a header that is none comes to."""
    rule_header = dict(header["rule"])
    rule = rule_by_name(rule_header.pop("name"), rule_header)
    thinning = Thinning.read(header["thinning"])
    parameter = header["loss"]["parameter"]
    return Experiment(
        n_bins=header["bins"],
        labels=tuple(header["labels"]),
        rule=rule,
        loss=Loss(header["loss"]["name"], None if parameter is None else ratio(parameter)),
        thinning=thinning,
        class_weights=tuple(ratio(w) for w in header["class_weights"]),
        multiclass=header["multiclass"],
        features_per_person=header["features_per_person"],
        budget=header["budget"],
        target_centre=ratio(header["target"][0]),
        target_spread=ratio(header["target"][1]),
        fixed_point_rows=rule.normalised and not thinning.active,
        weighted_updates=bool(header["weighted_updates"]),
        cover=_read_cover(header["cover"]) if "cover" in header else None,
        robust=Robust.read(header["robust"]) if "robust" in header else None,
    )


def ratio(text: str) -> Fraction:
    """A number as the header writes it."""
    if not _RATIO.fullmatch(text):
        raise BadInputError("a ratio is not written as one")
    return Fraction(text)


def _cover_header(cover: RelayCover) -> dict[str, Any]:
    return {
        "packages": cover.packages,
        "participation": _law_header(cover.participation),
        "parts": cover.parts,
        "test": None if cover.test is None else _law_header(cover.test),
        "train": _law_header(cover.train),
        "train_share": str(cover.train_share),
    }


def _law_header(noise: Noise) -> dict[str, Any]:
    return {"cells": noise.cells, "odds": str(noise.odds), "shape": str(noise.shape)}


def _read_law(header: dict[str, Any]) -> Noise:
    return Noise(cells=int(header["cells"]), shape=ratio(header["shape"]), odds=ratio(header["odds"]))


def _read_cover(header: dict[str, Any]) -> RelayCover:
    return RelayCover(
        train=_read_law(header["train"]),
        participation=_read_law(header["participation"]),
        test=None if header["test"] is None else _read_law(header["test"]),
        parts=int(header["parts"]),
        packages=int(header["packages"]),
        train_share=ratio(header["train_share"]),
    )
