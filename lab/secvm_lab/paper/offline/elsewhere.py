"""The same models on many machines: a ``Sweeper`` over ``secvm_lab.cluster``.

Made-up people are made where they are needed, from their recipe. Those of a file are read here and sent: the file need
not be anywhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.learning.experiment import Experiment
from secvm_lab.cluster.sweep import ClusterSweep
from secvm_lab.engine import Swept
from secvm_lab.paper.offline.crowd import MadeUpCrowd, Recipe
from secvm_lab.paper.offline.training import LocalSweeper


class ClusterSweeper(LocalSweeper):
    """On the workers of a cluster. Rows of a file are kept here as well, until others are asked for."""

    def __init__(self, cluster: ClusterSweep) -> None:
        super().__init__()
        self._cluster = cluster

    def __call__(
        self,
        recipe: Recipe,
        labels: NDArray[np.int64],
        experiments: Sequence[Experiment],
        *,
        threads: int,
        **settings: Any,
    ) -> Iterator[Swept]:
        people = recipe if isinstance(recipe.crowd, MadeUpCrowd) else self.rows(recipe, threads)
        return self._cluster(people, labels, experiments, threads=threads, states=False, **settings)
