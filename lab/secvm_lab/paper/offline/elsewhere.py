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


class ClusterSweeper:
    """On the workers of a cluster. Rows of a file are kept here as well, until others are asked for."""

    def __init__(self, sweep: ClusterSweep) -> None:
        self._sweep = sweep
        self._last: tuple[Recipe, Any] | None = None

    def __call__(
        self,
        recipe: Recipe,
        labels: NDArray[np.int64],
        experiments: Sequence[Experiment],
        /,
        *,
        threads: int,
        **how: Any,
    ) -> Iterator[Swept]:
        people = recipe if isinstance(recipe.crowd, MadeUpCrowd) else self._read(recipe, threads)
        return self._sweep(people, labels, experiments, threads=threads, states=False, **how)

    def _read(self, recipe: Recipe, threads: int) -> Any:
        if self._last is None or self._last[0] != recipe:
            self._last = None  # before the next
            self._last = recipe, recipe.prepared(threads=threads)
        return self._last[1]
