"""Other ways to learn beside ours (``secvm_lab.paper.offline_baselines``), on some of the people and splits.

A large crowd is cut to so many people that all ways take minutes (``sample``). Every way and split is kept by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning.arithmetic import exact
from secvm.learning.rows import BinnedRows
from secvm_lab.paper.offline.evaluations.sample import rows_of, some_people
from secvm_lab.paper.offline.models import RESULTS, digest
from secvm_lab.paper.offline.settings import RULE_BINS, Settings
from secvm_lab.paper.offline.stored import Stored
from secvm_lab.paper.offline_baselines import MOST_PEOPLE, SPLITS, Value, Way, baselines, ways


def bins_of(settings: Settings) -> int | None:
    """Few, for noise grows with their number; None: every word has its own."""
    if settings.asked_bins:
        return settings.asked_bins[0]
    return None if settings.crowd.n_words <= RULE_BINS else RULE_BINS


def check(settings: Settings, labels: NDArray[np.int64]) -> None:
    """Refuse splits that some way cannot learn from, before hours are spent on the others."""
    people = some_people(settings.crowd, MOST_PEOPLE)
    for split in _splits(settings):
        train, _ = settings.splits.masks(split)
        if len(np.unique(labels[people][train[people]])) != 2:
            raise BadInputError(
                f"in split {split} everybody who trains has the same label, and figure baselines needs both"
            )


def work(settings: Settings, stored: Stored) -> int:
    """What is still to be run, each way counted as so many rounds as Pegasos has."""
    asked = [(way, split) for way in _ways(settings) for split in _splits(settings)]
    missing = sum(stored.get(_key(settings, way, split)) is None for way, split in asked)
    return missing * settings.rounds


def result(
    settings: Settings, labels: NDArray[np.int64], stored: Stored, advance: Callable[[int], None] = lambda _: None
) -> dict[str, Any]:
    """Each way over the splits."""
    people = some_people(settings.crowd, MOST_PEOPLE)
    masks = [settings.splits.masks(split) for split in _splits(settings)]
    splits = [(np.flatnonzero(train[people]), np.flatnonzero(test[people])) for train, test in masks]

    def known(way: Way, split: int) -> Value | None:
        return stored.get(_key(settings, way, split))

    def keep(way: Way, split: int, value: Value) -> None:
        stored.put(_key(settings, way, split), value)
        advance(settings.rounds)

    # Where everything is known nobody looks at rows, and there is no need to make them.
    rows = rows_of(settings, people, bins_of(settings)) if work(settings, stored) else _nobody()
    entries = baselines(
        rows,
        labels[people],
        splits,
        _ways(settings),
        names=settings.crowd.label_names,
        seed=int.from_bytes(settings.seed[:4], "little"),
        known=known,
        keep=keep,
    )
    return {
        "bins": bins_of(settings),
        "people": len(people),
        "of_people": settings.crowd.n_people,
        "splits": len(splits),
        "of_splits": settings.n_splits,
        "entries": entries,
    }


def _ways(settings: Settings) -> list[Way]:
    return ways(lambda_=settings.lambda_, rounds=settings.rounds, threads=settings.threads)


def _splits(settings: Settings) -> range:
    return range(min(SPLITS, settings.n_splits))


def _nobody() -> BinnedRows:
    none = np.zeros(0, np.int32)
    return BinnedRows(np.zeros(1, np.int64), none, none, 1)


def _key(settings: Settings, way: Way, split: int) -> str:
    bins = bins_of(settings)
    return digest(
        {
            "results": RESULTS,
            "way": [way.name, way.settings],
            "lambda": str(exact(settings.lambda_)),
            "crowd": settings.crowd.identity(),
            "people": min(MOST_PEOPLE, settings.crowd.n_people),
            "bins": bins,
            "salt": None if bins is None else settings.salt_of(0).hex(),
            "dice": settings.seed.hex(),
            "split": settings.splits.digest(split),
        }
    )
