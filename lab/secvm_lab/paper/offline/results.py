"""From trained models to numbers: never the last round alone.

``series`` puts models of several splits together. Over splits: mean and standard deviation. Over rounds: the whole
curve of the mean, its last and its best round, and whether it still rises. Two-cycles are counted.

**Intervals** of recall and precision are Wilson's 95 %, over the counts of all splits together, scaled down to the
number of different people who were tested: testing somebody fourteen times makes no fourteen people.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.learning.aggregate.scoring import score_cells
from secvm_lab.paper.offline.models import Trained

#: The curve still rises when its last tenth is above the tenth before it by more than this.
RISING = 0.001
#: One share of a curve that is compared with the one before it.
_TENTH = 10

Floats = NDArray[np.float64]


def series(models: Sequence[Trained], *, labels: tuple[str, str], tested: int) -> dict[str, Any]:
    """What models that differ in their split alone say together.

    Args:
        tested: different people tested by any of them.
    """
    accuracy = np.stack([model.accuracy for model in models])
    mean = accuracy.mean(axis=0)
    last = accuracy[:, -1]
    return {
        "splits": len(models),
        "rounds": len(mean),
        "mean": float(mean[-1]),
        "std": deviation(last),
        "accuracies": last.tolist(),
        "best": best(mean),
        "still_rises": still_rises(accuracy),
        "curve": {
            "mean": mean.tolist(),
            "std": accuracy.std(axis=0, ddof=1).tolist() if len(models) > 1 else None,
        },
        "two_cycle": two_cycle(models),
        **shares(np.sum([model.cells[-1] for model in models], axis=0), labels, tested),
    }


def deviation(values: Floats) -> float | None:
    """The standard deviation over splits; None of one alone."""
    return float(values.std(ddof=1)) if len(values) > 1 else None


def best(mean: Floats) -> dict[str, float]:
    """The best round of a mean curve, counted from 1; the first of equals."""
    at = int(mean.argmax())
    return {"round": at + 1, "mean": float(mean[at])}


def still_rises(curves: Floats) -> bool:
    """Whether more rounds would help: the last tenth of the mean curve against the tenth before.

    Both are of an even number of rounds, for accuracy may go up and down with every other round. Where there are
    several curves, the rise must exceed its standard error over them too: a swing is no rise.

    Args:
        curves: one, or splits x rounds.
    """
    each = np.atleast_2d(curves)
    n = 2 * max(1, each.shape[1] // (2 * _TENTH))
    if each.shape[1] < 2 * n:
        return False
    rises = each[:, -n:].mean(axis=1) - each[:, -2 * n : -n].mean(axis=1)
    error = rises.std(ddof=1) / np.sqrt(len(rises)) if len(rises) > 1 else 0.0
    return bool(rises.mean() > max(RISING, error))


def two_cycle(models: Sequence[Trained]) -> dict[str, Any]:
    """How many models were ever caught in a two-cycle, for how long, and whether any was at the end."""
    rounds = len(models[0].cells)
    spells = [spell for model in models for spell in model.spells]
    return {
        "models": sum(bool(model.spells) for model in models),
        "longest": max((last - first + 1 for first, last in spells), default=0),
        "latest_round": max((last for _, last in spells), default=None),
        "caught_at_the_end": sum(any(last == rounds for _, last in model.spells) for model in models),
    }


def shares(cells: NDArray[np.int64], labels: tuple[str, str], tested: int) -> dict[str, Any]:
    """Recall and precision of each label with their intervals, and its share among the tested."""
    total = int(cells.sum())
    scaled = np.rint(cells * min(1.0, tested / total)).astype(np.int64) if total else cells
    found, narrow = score_cells(cells), score_cells(scaled)

    def each(name: str) -> dict[str, Any]:
        pairs = zip(labels, getattr(found, name), getattr(narrow, name), strict=True)
        return {
            label: {"value": None if share.of == 0 else share.value, "interval": list(small.interval)}
            for label, share, small in pairs
        }

    return {
        "recall": each("recall"),
        "precision": each("precision"),
        "baseline": {label: share.value for label, share in zip(labels, found.baseline, strict=True)},
    }


def majority(data: dict[str, Any]) -> str:
    """How right one is without looking: accuracy means little without it."""
    label, most = max(data["labels"].items(), key=lambda one: one[1])
    return f"{100 * most / data['people']:.1f} % of them {label}"


def difference(one: Sequence[float], other: Sequence[float], *, test_share: float) -> tuple[float, float | None]:
    """Mean of one - other over the splits that both have, and its standard error; None of one split alone.

    Random splits overlap, so their spread over √n says too little: the correction of Nadeau and Bengio (2003) adds the
    ratio of test to train people.
    """
    both = min(len(one), len(other))
    differences = np.array(one[:both]) - np.array(other[:both])
    if len(differences) < 2:
        return float(differences.mean()), None
    factor = 1 / len(differences) + test_share / (1 - test_share)
    return float(differences.mean()), float(np.sqrt(factor * differences.var(ddof=1)))
