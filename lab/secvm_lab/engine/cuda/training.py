"""CudaTraining: ``OfflineTraining`` whose passes over people run on a GPU, whatever the rule, loss and thinning.

Scores, tallies and thinned tallies are the GPU's; all else is its own code, and so its bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.estimator.training import OfflineTraining
from secvm.learning._kernels.dispatch import Kernels, kernels
from secvm.learning._kernels.reference import Tally, Thinned, dice_counter
from secvm.learning.experiment import Experiment
from secvm.learning.rows import BinnedRows
from secvm_lab.engine.cuda.device import Device, Gpu
from secvm_lab.engine.cuda.people import THREADS, DevicePeople, jobs_for


class CudaKernels(Kernels):
    """The kernels of a device, for rows of this process. ``threads`` change nothing here."""

    def __init__(self, device: Device) -> None:
        self._device = device
        # Cover is drawn and counted as everywhere: it is no pass over people.
        self.cover_clusters = kernels().cover_clusters
        #: Rows as they are, for thinning; those of the last population.
        self._rows: tuple[BinnedRows, tuple[Any, ...]] | None = None

    def prepare(self, rows: BinnedRows) -> DevicePeople:
        return DevicePeople.of_rows(self._device, rows)

    def scores(
        self,
        people: DevicePeople,
        mantissas: NDArray[np.int32],
        *,
        threads: int = 1,
    ) -> NDArray[np.int64]:
        xp, n, n_models = self._device.xp, people.n_people, len(mantissas)
        out = xp.empty(n_models * n, np.int64)
        models = np.arange(n_models)
        jobs = jobs_for(models, np.full(n_models, n), np.full(n_models, -1))
        if len(jobs):
            weights, out_at = (xp.asarray(a) for a in (np.ascontiguousarray(mantissas), models * n))
            people.score(weights, xp.asarray(jobs), None, out_at, out)
        found: NDArray[np.int64] = self._device.to_host(out).reshape(n_models, n).T
        return found

    def tally(
        self,
        people: DevicePeople,
        coefficients: NDArray[np.integer[Any]],
        *,
        threads: int = 1,
    ) -> Tally:
        xp, shape = self._device.xp, (coefficients.shape[1], people.n_bins + 1)
        if coefficients.size and not (people.counts_fit and coefficients.min() >= -1 and coefficients.max() <= 1):
            sides = [xp.zeros(shape, np.uint64) for _ in range(2)]
            for model, column in enumerate(coefficients.T):
                amounts = xp.asarray(np.ascontiguousarray(column, np.int64))
                people.count_amounts(amounts, sides[0][model], sides[1][model])
            plus, minus = (self._device.to_host(side).astype(np.int64) for side in sides)
            return plus, minus
        counts = xp.zeros((2, *shape), np.int32)
        lists = [np.flatnonzero(column == sign) for sign in (1, -1) for column in coefficients.T]
        lengths = np.array([len(some) for some in lists], np.int64)
        jobs = jobs_for(np.arange(len(lists)), lengths, np.cumsum(lengths) - lengths)
        if len(jobs):
            people.count(xp.asarray(jobs), xp.asarray(2 * np.concatenate(lists).astype(np.int32)), counts)
        plus, minus = self._device.to_host(counts).astype(np.int64)
        return plus, minus

    def thinned_tally(
        self,
        rows: BinnedRows,
        signs: NDArray[np.int8],
        keys: NDArray[np.uint64],
        keep53: NDArray[np.int64],
        round_number: int,
        *,
        threads: int = 1,
    ) -> Thinned:
        xp, n, shape = self._device.xp, len(rows), (signs.shape[1], rows.n_bins + 1)
        plus, minus = (xp.zeros(shape, np.uint64) for _ in range(2))
        sent = xp.zeros(n, np.int64)
        dice = xp.asarray(np.ascontiguousarray(keys, np.uint64).ravel()), xp.asarray(keep53)
        for model in range(signs.shape[1]):
            column = xp.asarray(np.ascontiguousarray(signs[:, model], np.int8))
            given = (*self._carried(rows), n, rows.n_bins, column, *dice, dice_counter(round_number, model))
            self._device.launch("count_kept", 4096, THREADS, *given, plus[model], minus[model], sent)
        counts = (self._device.to_host(side).astype(np.int64) for side in (plus, minus))
        return (*counts, self._device.to_host(sent))

    def _carried(self, rows: BinnedRows) -> tuple[Any, ...]:
        """Where each person begins, bins, and units before each entry, on the device."""
        if self._rows is None or self._rows[0] is not rows:
            units = np.zeros(len(rows.values) + 1, np.int64)
            np.cumsum(rows.values, out=units[1:])
            self._device.room(12 * len(rows.bins))
            self._rows = rows, tuple(self._device.xp.asarray(a) for a in (rows.indptr, rows.bins, units))
        return self._rows[1]


class CudaTraining(OfflineTraining):
    """An experiment's rounds, with passes on a GPU."""

    def __init__(
        self, experiment: Experiment, *, seed: bytes = b"", threads: int = 1, device: Device | None = None
    ) -> None:
        """``device``: None is the machine's GPU."""
        super().__init__(experiment, seed=seed, threads=threads, kernel="reference")
        self._kernels = CudaKernels(device or Gpu())
