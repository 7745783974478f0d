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
        "choice": [{"lambda": v, **one(m, "A")} for v, m in zip(LAMBDAS, models_of_a(settings), strict=True)],
        "curves": [{"averaging": model.averaging, **one(model, "B")} for model in models_of_b(settings, value)],
        "accuracy": one(settings.model("B", None, lambda_=value, averaging=AVERAGING), "B")["mean"],
        "test_people": tested["B"],
    }


def _over_splits(
    settings: Settings, trained: Mapping[Model, Trained], splits: int, bins: int | None, **options: Any
) -> dict[str, Any]:
    """Models that differ by their splits alone, put together."""
    models = [trained[settings.model(split, bins, **options)] for split in range(splits)]
    return series(models, labels=settings.crowd.label_names, tested=settings.tested(splits))


def variants(settings: Settings) -> list[tuple[int | None, int]]:
    """(bins, hashes), each a point of Fig. 1b; unhashed words have one bin each."""
    hashes = settings.asked_hashes or (1,)
    return list(dict.fromkeys((b, 1 if b is None else h) for h in hashes for b in settings.bins))


def models_of_1b(settings: Settings) -> list[Model]:
    """All that Fig. 1b needs."""
    return [
        settings.model(split, bins, hashes=hashes)
        for bins, hashes in variants(settings)
        for split in range(settings.splits_with(bins))
    ]


def figure_1b(settings: Settings, trained: Mapping[Model, Trained]) -> list[dict[str, Any]]:
    """A point for each number of bins."""
    return [
        {
            "bins": bins,
            "n_hashes": hashes,
            "words_per_bin": 1.0 if bins is None else settings.crowd.n_words / bins,
            "lambda": settings.lambda_,
            "averaging": 2,
            **_over_splits(settings, trained, settings.splits_with(bins), bins, hashes=hashes),
        }
        for bins, hashes in variants(settings)
    ]


def _lambda_splits(settings: Settings) -> int:
    return min(LAMBDA_SPLITS, settings.n_splits)


def models_of_lambdas(settings: Settings) -> list[Model]:
    """All that the figure of λ needs; models of one split stand together, for their trajectories begin alike."""
    return [
        settings.model(split, bins, lambda_=value)
        for bins in settings.few_bins
        for split in range(_lambda_splits(settings))
        for value in LAMBDAS
    ]


def lambdas(settings: Settings, trained: Mapping[Model, Trained]) -> list[dict[str, Any]]:
    """For each number of bins and each λ."""
    splits = _lambda_splits(settings)
    return [
        {"bins": bins, "n_hashes": 1, "lambda": value} | _over_splits(settings, trained, splits, bins, lambda_=value)
        for bins in settings.few_bins
        for value in LAMBDAS
    ]


def _hashed_bins(settings: Settings) -> tuple[int, ...]:
    """Unhashed words have no hashes to compare."""
    return tuple(bins for bins in settings.few_bins if bins is not None)


def models_of_hashes(settings: Settings) -> list[Model]:
    """All that the figure of hashes needs."""
    return [
        settings.model(split, bins, hashes=count)
        for bins in _hashed_bins(settings)
        for count in settings.hashes
        for split in range(settings.few_splits)
    ]


def hashes(settings: Settings, trained: Mapping[Model, Trained]) -> list[dict[str, Any]]:
    """For each number of bins and of hashes; ``over_fewest_hashes`` is the mean difference on the same splits."""
    points = []
    for bins in _hashed_bins(settings):
        first = None
        for count in settings.hashes:
            point = _over_splits(settings, trained, settings.few_splits, bins, hashes=count)
            first = first or point
            over, error = difference(point["accuracies"], first["accuracies"], test_share=settings.splits.test_share)
            more = {"over_fewest_hashes": over, "over_fewest_hashes_error": error}
            points.append({"bins": bins, "n_hashes": count, **more, **point})
    return points


Needed = Callable[[Settings], list[Model]]
Result = Callable[[Settings, Mapping[Model, Trained]], Any]
#: By their names on the command line: the key in the results, the models that are needed first, and the result.
FIGURES: dict[str, tuple[str, Needed, Result]] = {
    "1a": ("figure_1a", models_of_a, figure_1a),
    "1b": ("figure_1b", models_of_1b, figure_1b),
    "lambda": ("lambda", models_of_lambdas, lambdas),
    "hashes": ("hashes", models_of_hashes, hashes),
}
