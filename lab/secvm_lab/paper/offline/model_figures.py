"""Figures that are made of models of the engine: each says which models it needs, and what came of them.

*Fig. 1a*: test accuracy by round without hashing, for several numbers of averaged weight vectors. The paper's protocol:
the crowd is cut into halves A and B, and each into nine tenths that train and a tenth that tests. λ is the one with the
best accuracy on A's test people in the last round, two vectors averaged (of equals the smallest); with it B is trained,
and B's test people make the figure.

*Fig. 1b*: accuracy for different numbers of bins, mean and standard deviation over random splits of the whole crowd. λ
is fixed and two weight vectors are averaged, as in the paper. Every number of bins sees the same splits.

*λ*: how much it matters; every λ of the paper's list for several numbers of bins, on the same few splits.

*Hashes* per feature: one, as in the figures, and several, which by the paper's appendix lower accuracy a little.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from secvm_lab.paper.offline.models import Model, Trained
from secvm_lab.paper.offline.results import difference, series
from secvm_lab.paper.offline.settings import AVERAGED, AVERAGING, LAMBDAS, Settings

#: Splits for each λ: nine models each.
LAMBDA_SPLITS = 5


#: A point of a figure: what it is of, and models that differ by their splits alone.
Points = list[tuple[dict[str, Any], list[Model]]]


def models_of_a(settings: Settings) -> list[Model]:
    """What Fig. 1a trains on A: every λ."""
    return [settings.model("A", None, lambda_=value) for value in LAMBDAS]


def chosen_lambda(settings: Settings, trained: Mapping[Model, Trained]) -> str:
    """The λ that A chooses."""
    return max(LAMBDAS, key=lambda value: float(trained[settings.model("A", None, lambda_=value)].accuracy[-1]))


def models_of_b(settings: Settings, lambda_: str) -> list[Model]:
    """What Fig. 1a trains on B with the chosen λ."""
    return [settings.model("B", None, lambda_=lambda_, averaging=length) for length in AVERAGED]


def figure_1a(settings: Settings, trained: Mapping[Model, Trained]) -> dict[str, Any]:
    """A curve for each number of averaged vectors, and how λ was chosen."""
    value = chosen_lambda(settings, trained)
    tested = {name: len(settings.splits.half(name).test) for name in ("A", "B")}

    def one(model: Model, half: str) -> dict[str, Any]:
        return series([trained[model]], labels=settings.crowd.label_names, tested=tested[half])

    return {
        "lambda": value,
        "choice": [{"lambda": model.lambda_, **one(model, "A")} for model in models_of_a(settings)],
        "curves": [{"averaging": model.averaging, **one(model, "B")} for model in models_of_b(settings, value)],
        "accuracy": one(settings.model("B", None, lambda_=value, averaging=AVERAGING), "B")["mean"],
        "test_people": tested["B"],
    }


def points_of_1b(settings: Settings) -> Points:
    """A point for each number of bins and of hashes; unhashed words have one bin each."""
    asked = settings.asked_hashes or (1,)
    variants = dict.fromkeys((bins, 1 if bins is None else count) for count in asked for bins in settings.bins)
    points = []
    for bins, count in variants:
        about = {
            "bins": bins,
            "n_hashes": count,
            "words_per_bin": 1.0 if bins is None else settings.crowd.n_words / bins,
            "lambda": settings.lambda_,
            "averaging": AVERAGING,
        }
        splits = range(settings.splits_with(bins))
        points.append((about, [settings.model(split, bins, hashes=count) for split in splits]))
    return points


def points_of_lambda(settings: Settings) -> Points:
    """A point for each number of bins and each λ."""
    splits = range(min(LAMBDA_SPLITS, settings.n_splits))
    return [
        (
            {"bins": bins, "n_hashes": 1, "lambda": value},
            [settings.model(split, bins, lambda_=value) for split in splits],
        )
        for bins in settings.few_bins
        for value in LAMBDAS
    ]


def points_of_hashes(settings: Settings) -> Points:
    """A point for each number of bins and of hashes; unhashed words have no hashes to compare."""
    return [
        (
            {"bins": bins, "n_hashes": count},
            [settings.model(split, bins, hashes=count) for split in range(settings.few_splits)],
        )
        for bins in settings.few_bins
        if bins is not None
        for count in settings.hashes
    ]


def over_splits(settings: Settings, trained: Mapping[Model, Trained], points: Points) -> list[dict[str, Any]]:
    """What the models of each point say together."""
    labels = settings.crowd.label_names
    return [
        {**about, **series([trained[m] for m in models], labels=labels, tested=settings.tested(len(models)))}
        for about, models in points
    ]


def hashes(settings: Settings, trained: Mapping[Model, Trained], points: Points) -> list[dict[str, Any]]:
    """``over_fewest_hashes`` is the mean difference on the same splits."""
    found: list[dict[str, Any]] = []
    for point in over_splits(settings, trained, points):
        first = next((one for one in found if one["bins"] == point["bins"]), point)
        over, error = difference(point["accuracies"], first["accuracies"], test_share=settings.splits.test_share)
        more = {"over_fewest_hashes": over, "over_fewest_hashes_error": error}
        about = {name: point.pop(name) for name in ("bins", "n_hashes")}
        found.append({**about, **more, **point})
    return found


#: Figures over random splits, by their names on the command line: the key in the results, and the points.
FIGURES: dict[str, tuple[str, Callable[[Settings], Points]]] = {
    "1b": ("figure_1b", points_of_1b),
    "lambda": ("lambda", points_of_lambda),
    "hashes": ("hashes", points_of_hashes),
}


def first_models(settings: Settings) -> list[Model]:
    """All models that are known to be needed before any is trained."""
    models = models_of_a(settings) if "1a" in settings.figures else []
    for name, (_, points) in FIGURES.items():
        if name in settings.figures:
            models += [model for _, some in points(settings) for model in some]
    return models


def results(settings: Settings, trained: Mapping[Model, Trained]) -> dict[str, Any]:
    """Every figure that was asked for, by its key."""
    found: dict[str, Any] = {"figure_1a": figure_1a(settings, trained)} if "1a" in settings.figures else {}
    for name, (key, points) in FIGURES.items():
        if name in settings.figures:
            made = hashes if name == "hashes" else over_splits
            found[key] = made(settings, trained, points(settings))
    return found
