"""Some of a crowd's people, for figures that would take hours with everybody."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from secvm.learning.rows import BinnedRows
from secvm_lab.paper.offline.crowd import Crowd, MadeUpCrowd
from secvm_lab.paper.offline.settings import Settings

#: Of the dice that choose among people of a file.
_DICE = 39


def some_people(crowd: Crowd, most: int) -> NDArray[np.int64]:
    """The first of made-up people, who are as good as any; of a file, which may be in some order, a sample."""
    n_people = min(most, crowd.n_people)
    if n_people == crowd.n_people or isinstance(crowd, MadeUpCrowd):
        return np.arange(n_people)
    return np.sort(np.random.default_rng(_DICE).permutation(crowd.n_people)[:n_people])


def rows_of(settings: Settings, people: NDArray[np.int64], bins: int | None) -> BinnedRows:
    """Their rows, under the hash of the first split."""
    crowd = settings.crowd.first(int(people[-1]) + 1)
    rows = crowd.rows(bins, 1, settings.salt_of(0), threads=settings.threads)
    return rows if len(rows) == len(people) else rows.take(people)
