"""Fig. 1b: accuracy for different numbers of bins, mean and standard deviation over random splits of the whole crowd.

λ is fixed and two weight vectors are averaged, as in the paper. Every number of bins sees the same splits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from secvm_lab.paper.offline.models import Model, Trained
from secvm_lab.paper.offline.results import series
from secvm_lab.paper.offline.settings import Settings


def models(settings: Settings) -> list[Model]:
    """All that the figure needs."""
    return [
        settings.model(split, bins, hashes=hashes)
        for bins, hashes in variants(settings)
        for split in range(settings.splits_with(bins))
    ]


def variants(settings: Settings) -> list[tuple[int | None, int]]:
    """(bins, hashes), each a point of the figure; unhashed words have one bin each."""
    hashes = settings.asked_hashes or (1,)
    return list(dict.fromkeys((b, 1 if b is None else h) for h in hashes for b in settings.bins))


def result(settings: Settings, trained: Mapping[Model, Trained]) -> list[dict[str, Any]]:
    """A point for each number of bins."""
    found = []
    for bins, hashes in variants(settings):
        splits = settings.splits_with(bins)
        each = [trained[settings.model(split, bins, hashes=hashes)] for split in range(splits)]
        found.append(
            {
                "bins": bins,
                "n_hashes": hashes,
                "words_per_bin": 1.0 if bins is None else settings.crowd.n_words / bins,
                "lambda": settings.lambda_,
                "averaging": 2,
                **series(each, labels=settings.crowd.label_names, tested=settings.tested(splits)),
            }
        )
    return found
