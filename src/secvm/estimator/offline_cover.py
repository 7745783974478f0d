"""OfflineCover: the cover of many people in a round, as counts, by kernels instead of package by package.

Everybody who is here draws cover, whatever their data. First digits decide nearly everything
(``learning.cover_digits``); who is left open by them is asked for cells by the sampler itself. The counts are those of
``individual.cover`` (tested).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from secvm.learning._kernels.dispatch import Kernels
from secvm.learning.aggregate.tally import Tally
from secvm.learning.cover import COHORTS, Cover
from secvm.learning.cover_digits import digits_of
from secvm.learning.cover_noise import CoverNoise
from secvm.learning.experiment import Experiment
from secvm.learning.individual.cover import draw_cells
from secvm.learning.individual.dice import Purpose, UnsafeSeededDice, dice_keys


class OfflineCover:
    """The dice of all people's cover, and ``tally`` for the cover of a round."""

    def __init__(
        self, experiment: Experiment, cover: Cover, kernel: Kernels, seed: bytes, ids: NDArray[np.int64]
    ) -> None:
        self._experiment = experiment
        self._kernels = kernel
        self._seed = seed
        self._ids = ids
        self._kinds = [(Purpose.COVER, cover.train), (Purpose.COVER_PARTICIPATION, cover.participation)]
        if cover.test is not None:
            self._kinds.append((Purpose.COVER_TEST, cover.test))
        self._keys = {purpose: dice_keys(seed, ids, purpose) for purpose, _ in self._kinds}

    def tally(self, round_number: int, here: NDArray[np.bool_], *, threads: int) -> Tally:
        """Everything that cover adds to the counts of a round."""
        counts = {
            purpose: self._counts(noise, purpose, round_number, np.flatnonzero(here), threads)
            for purpose, noise in self._kinds
        }
        labels = len(self._experiment.labels)
        signs = counts[Purpose.COVER].reshape(self._experiment.models.n_models, self._experiment.n_bins + 1, 2)
        cohorts = counts[Purpose.COVER_PARTICIPATION].reshape(COHORTS, labels)
        tested = counts.get(Purpose.COVER_TEST, np.zeros(labels**2, dtype=np.int64))
        return Tally(
            plus=np.ascontiguousarray(signs[..., 0]),
            minus=np.ascontiguousarray(signs[..., 1]),
            participants=cohorts[0],
            cells=tested.reshape(labels, labels),
        )

    def _counts(
        self, noise: CoverNoise, purpose: Purpose, round_number: int, here: NDArray[np.int64], threads: int
    ) -> NDArray[np.int64]:
        keys = self._keys[purpose][here]
        counts, left_open = self._kernels.cover_counts(digits_of(noise), keys, round_number, threads=threads)
        for i in left_open.tolist():
            dice = UnsafeSeededDice(self._seed, int(self._ids[here[i]]))
            np.add.at(counts, draw_cells(noise, purpose, dice=dice, round_number=round_number), 1)
        return counts
