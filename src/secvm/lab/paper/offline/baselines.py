"""Other ways to learn (``lab.paper.offline_baselines``) on the same people and splits, put away one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.lab.paper import offline_baselines
from secvm.lab.paper.offline.models import RESULTS, digest
from secvm.lab.paper.offline.settings import Settings
from secvm.lab.paper.offline.stored import Stored
from secvm.lab.paper.offline_baselines import Value, Way

#: What one way on one split counts as, beside rounds of models.
STEPS = 100


@dataclass(frozen=True, eq=False)
class Baselines:
    """The ways that are compared, for these settings."""

    settings: Settings
    stored: Stored

    @property
    def _ways(self) -> list[Way]:
        settings = self.settings
        return offline_baselines.ways(lambda_=settings.lambda_, rounds=settings.rounds, threads=settings.threads)

    @property
    def _n_people(self) -> int:
        return min(self.settings.crowd.n_people, offline_baselines.MOST_PEOPLE)

    @property
    def _n_splits(self) -> int:
        return min(self.settings.n_splits, offline_baselines.SPLITS)

    def work(self) -> int:
        """Steps still to be done."""
        each = [self.known(way, split) for way in self._ways for split in range(self._n_splits)]
        return STEPS * sum(value is None for value in each)

    def known(self, way: Way, split: int) -> Value | None:
        """What is put away."""
        return self.stored.get(self._key(way, split))

    def result(self, labels: NDArray[np.int64], advance: Callable[[int], None] = lambda _: None) -> dict[str, Any]:
        """All of them; a large crowd is cut to its first people, and few splits are taken."""
        settings, n = self.settings, self._n_people

        def keep(way: Way, split: int, value: Value) -> None:
            self.stored.put(self._key(way, split), value)
            advance(STEPS)

        masks = [settings.splits.masks(split) for split in range(self._n_splits)]
        splits = [(np.flatnonzero(train[:n]), np.flatnonzero(test[:n])) for train, test in masks]
        rows = settings.crowd.first(n).rows(settings.rule_bins, 1, settings.salt_of(0), threads=settings.threads)
        entries = offline_baselines.baselines(
            rows,
            labels[:n],
            splits,
            self._ways,
            names=settings.crowd.label_names,
            seed=self._seed,
            known=self.known,
            keep=keep,
        )
        return {
            "bins": settings.rule_bins,
            "people": n,
            "of_people": settings.crowd.n_people,
            "splits": self._n_splits,
            "of_splits": settings.n_splits,
            "entries": entries,
        }

    @property
    def _seed(self) -> int:
        return int.from_bytes(self.settings.seed[:4], "little")

    def _key(self, way: Way, split: int) -> str:
        settings = self.settings
        return digest(
            {
                "results": RESULTS,
                "way": [way.name, way.settings, way.epsilon],
                "crowd": settings.crowd.identity(),
                "people": self._n_people,
                "bins": settings.rule_bins,
                "salt": settings.salt_of(0).hex(),
                "dice": self._seed,
                "split": settings.splits.digest(split),
            }
        )
