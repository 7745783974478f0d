"""Hashes per feature: one, as in the figures, and several, which by the paper's appendix lower accuracy a little."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from secvm_lab.paper.offline.models import Model, Trained
from secvm_lab.paper.offline.results import difference, series
from secvm_lab.paper.offline.settings import Settings


def bins_of(settings: Settings) -> tuple[int, ...]:
    """Unhashed words have no hashes to compare."""
    return tuple(bins for bins in settings.few_bins if bins is not None)


def models(settings: Settings) -> list[Model]:
    """All that the figure needs."""
    return [
        settings.model(split, bins, hashes=hashes)
        for bins in bins_of(settings)
        for hashes in settings.hashes
        for split in range(settings.few_splits)
    ]


def result(settings: Settings, trained: Mapping[Model, Trained]) -> list[dict[str, Any]]:
    """For each number of bins and of hashes; ``over_fewest_hashes`` is the mean difference on the same splits."""
    splits, tested, found = settings.few_splits, settings.tested(settings.few_splits), []
    for bins in bins_of(settings):
        first = None
        for hashes in settings.hashes:
            each = [trained[settings.model(split, bins, hashes=hashes)] for split in range(splits)]
            point = series(each, labels=settings.crowd.label_names, tested=tested)
            first = first or point
            over, error = difference(point["accuracies"], first["accuracies"], test_share=settings.splits.test_share)
            more = {"over_fewest_hashes": over, "over_fewest_hashes_error": error}
            found.append({"bins": bins, "n_hashes": hashes, **more, **point})
    return found
