"""How much λ matters: every λ of the paper's list for several numbers of bins, on the same few splits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from secvm_lab.paper.offline.models import Model, Trained
from secvm_lab.paper.offline.results import series
from secvm_lab.paper.offline.settings import LAMBDAS, Settings

#: Splits for each λ: nine models each.
SPLITS = 5


def n_splits(settings: Settings) -> int:
    """Splits of each λ."""
    return min(SPLITS, settings.n_splits)


def models(settings: Settings) -> list[Model]:
    """All that the figure needs; models of one split stand together, for their trajectories begin alike."""
    return [
        settings.model(split, bins, lambda_=value)
        for bins in settings.few_bins
        for split in range(n_splits(settings))
        for value in LAMBDAS
    ]


def result(settings: Settings, trained: Mapping[Model, Trained]) -> list[dict[str, Any]]:
    """For each number of bins and each λ."""
    splits, tested = n_splits(settings), settings.tested(n_splits(settings))
    return [
        {
            "bins": bins,
            "n_hashes": 1,
            "lambda": value,
            **series(
                [trained[settings.model(split, bins, lambda_=value)] for split in range(splits)],
                labels=settings.crowd.label_names,
                tested=tested,
            ),
        }
        for bins in settings.few_bins
        for value in LAMBDAS
    ]
