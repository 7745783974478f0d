"""Other ways to learn beside ours (``secvm_lab.paper.offline_baselines``), on some of the people and splits.

A large crowd is cut to so many people that all ways take minutes. Every way and split is kept by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning.rows import BinnedRows
from secvm_lab.paper.offline.models import Stored
from secvm_lab.paper.offline.settings import RULE_BINS, Sample, Settings
from secvm_lab.paper.offline_baselines import MOST_PEOPLE, SPLITS, Value, Way, baselines, ways


def bins_of(settings: Settings) -> int | None:
    """Few, for noise grows with their number; None: every word has its own."""
    if settings.asked_bins:
        return settings.asked_bins[0]
    return None if settings.crowd.n_words <= RULE_BINS else RULE_BINS


def _sample(settings: Settings) -> Sample:
    return Sample(settings, MOST_PEOPLE, SPLITS, bins_of(settings))


def check(settings: Settings, labels: NDArray[np.int64]) -> None:
    """Refuse splits that some way cannot learn from, before hours are spent on the others."""
    sample = _sample(settings)
    for split in sample.splits:
        train, _ = sample.split(split)
        if len(np.unique(labels[sample.people][train])) != 2:
            raise BadInputError(
                f"in split {split} everybody who trains has the same label, and figure baselines needs both"
            )


def work(settings: Settings, stored: Stored) -> int:
    """What is still to be run, each way counted as so many rounds as Pegasos has."""
    sample = _sample(settings)
    asked = [(way, split) for way in _ways(settings) for split in sample.splits]
    missing = sum(stored.get(_key(sample, way, split)) is None for way, split in asked)
    return missing * settings.rounds


def result(
    settings: Settings, labels: NDArray[np.int64], stored: Stored, advance: Callable[[int], None] = lambda _: None
) -> dict[str, Any]:
    """Each way over the splits."""
    sample = _sample(settings)

    def known(way: Way, split: int) -> Value | None:
        return stored.get(_key(sample, way, split))

    def keep(way: Way, split: int, value: Value) -> None:
        stored.put(_key(sample, way, split), value)
        advance(settings.rounds)

    # Where everything is known nobody looks at rows, and there is no need to make them.
    rows = sample.rows() if work(settings, stored) else _nobody()
    entries = baselines(
        rows,
        labels[sample.people],
        [sample.split(split) for split in sample.splits],
        _ways(settings),
        names=settings.crowd.label_names,
        seed=int.from_bytes(settings.seed[:4], "little"),
        known=known,
        keep=keep,
    )
    return {**sample.described(), "entries": entries}


def _ways(settings: Settings) -> list[Way]:
    return ways(lambda_=settings.lambda_, rounds=settings.rounds, threads=settings.threads)


def _nobody() -> BinnedRows:
    none = np.zeros(0, np.int32)
    return BinnedRows(np.zeros(1, np.int64), none, none, 1)


def _key(sample: Sample, way: Way, split: int) -> str:
    return sample.key(split, sample.settings.lambda_, way=[way.name, way.settings])
