"""LazyScores on a device: verdicts of everybody under each model's weights; only those in doubt are scored.

As ``engine.lazy``, for any number of models side by side, each with references, coefficients and doubts of its own. A
reference is a model's weights of a round in which everybody was scored. New weights are a combination of the last four
and a remainder; a person's score is the same combination of known scores, give or take, class of bins by class, the
product of two norms. Who that leaves in doubt is scored. When that begins to cost more in a round than the rounds since
the last reference did on average, everybody is scored, and becomes the newest one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm_lab.engine.cuda.people import CLASSES, THREADS, DevicePeople, blocks_for, jobs_for

#: Roles of a person in a model, as bits: somebody may have both, or none.
TRAINS, TESTS = 1, 2
#: References of each model; the kernels are written for this many.
_KEPT = 4
#: Every so many-th bin takes part in finding coefficients.
_STRIDE = 64
#: Coefficients beyond this would cost more digits than floats have to spare.
_MAX_COEFFICIENT = 2.0**10
#: Shares of the references' squares that are added to each.
_RIDGES = (2.0**-48, 2.0**-40, 2.0**-32)
#: What floats lose of a score of up to 2^53, and of each unit's mantissa of up to 2^31, for each unit of coefficients.
_SCORE_LOST, _UNIT_LOST = 2.0**4, 2.0**31 * 2.0**-49


class LazyScores:
    """What is known of everybody's scores under some models. Secret: it does not print itself."""

    def __init__(self, people: DevicePeople, n_models: int, roles: Any, signs: Any) -> None:
        """``roles``: uint8, models x people; ``signs``: int8, of each person's label."""
        xp = people.device.xp
        n, lines = people.n_people, people.n_bins + 1
        self._people, self._n_models, self._roles, self._signs = people, n_models, roles, signs
        self._n = n_models * n
        #: Scores under the references, and room for those of people in doubt.
        self._scores = xp.zeros((_KEPT + 1) * self._n, np.int64)
        self._references = xp.zeros((_KEPT, n_models, lines), np.int32)
        #: Of each model: references so far, and where the next one goes.
        self._known, self._slots = np.zeros((2, n_models), np.int64)
        #: Passes and rounds since each model's newest reference; and of weights that no round uses, in the last round.
        self._passes, self._rounds, self._beside = np.zeros((3, n_models))
        self._lists = xp.empty(self._n, np.int32)
        #: Passes over everybody so far, of each model, parts counted as parts.
        self.passes = np.zeros(n_models)

    @staticmethod
    def bytes_for(n_people: int, n_bins: int) -> int:
        """Memory that a model takes here."""
        return n_people * (8 * (_KEPT + 1) + 4) + 4 * (n_bins + 1) * _KEPT

    def judge(self, weights: Any, lowers: list[int], below: Any) -> None:
        """Write whose signed score is below the model's limit, of those who train it.

        ``weights`` of a round: they may become a reference.
        """
        beside, self._beside = self._beside, np.zeros(self._n_models)
        lengths = self._guess(weights, lowers, TRAINS, self._signs, below)
        share = lengths / self._people.n_people
        # With fewer references than there can be hardly anybody's verdict is certain.
        everybody = (self._known < _KEPT) | (share + beside > self._passes / np.maximum(1, self._rounds))
        self._known += everybody
        self._passes = np.where(everybody, 1.0, self._passes + share)
        self._rounds = np.where(everybody, 1.0, self._rounds + 1)
        self.passes += np.where(everybody, 1.0, share)
        self._score(weights, lowers, TRAINS, self._signs, below, np.where(everybody, -1, lengths))
        models = np.flatnonzero(everybody)
        if len(models):
            self._references[self._slots[models], models] = weights[models]
            self._slots[models] = (self._slots[models] + 1) % _KEPT

    def judge_beside(self, weights: Any, below: Any) -> None:
        """Write whose score is negative, of those who test, under weights that no round uses."""
        lowers = [0] * self._n_models
        lengths = self._guess(weights, lowers, TESTS, None, below)
        share = lengths / self._people.n_people
        self._beside += share
        self._passes += share
        self.passes += share
        self._score(weights, lowers, TESTS, None, below, lengths)

    def _guess(self, weights: Any, lowers: list[int], role: int, signs: Any, below: Any) -> NDArray[np.int64]:
        """Verdicts from what is known; who is in doubt is put on the models' lists, and how many are comes back."""
        people, device, n_models, lines = self._people, self._people.device, self._n_models, self._people.n_bins + 1
        xp = device.xp
        found = xp.zeros((n_models, _KEPT, _KEPT + 1), np.float64)
        device.launch("products", n_models, THREADS, weights, self._references, n_models, lines, _STRIDE, found)
        coefficients = _solved(device.to_host(found))
        size = np.abs(coefficients).sum(axis=1) + 1
        floats = np.array(lowers, np.float64)
        limits = np.stack([floats, size * _SCORE_LOST + np.abs(floats) * 2.0**-50, size * _UNIT_LOST], axis=1)
        given, limits = _carried(xp, coefficients, limits)
        squares = xp.zeros((n_models, CLASSES), np.float64)
        grid = (min(64, blocks_for(lines)), n_models)
        device.launch(
            "remainders", grid, THREADS, weights, self._references, n_models, lines, given, people.classes, squares
        )
        lengths = xp.zeros(n_models, np.int64)
        device.launch(
            "guess", (blocks_for(people.n_people), n_models), THREADS, self._scores[: _KEPT * self._n], n_models,
            people.n_people, given, people.norms, squares, limits, people.units, signs, self._roles, role, below,
            self._lists, lengths,
        )  # fmt: skip
        counted: NDArray[np.int64] = device.to_host(lengths)
        return counted

    def _score(
        self, weights: Any, lowers: list[int], role: int, signs: Any, below: Any, lengths: NDArray[np.int64]
    ) -> None:
        """Score those on the lists, or where a length is -1 everybody, and write their verdicts."""
        people, xp, n = self._people, self._people.device.xp, self._people.n_people
        models = np.arange(self._n_models, dtype=np.int64)
        room = np.where(lengths < 0, self._slots, _KEPT)
        counted = np.where(lengths < 0, n, lengths)
        longest = int(counted.max())
        if not longest:
            return
        jobs = jobs_for(models, counted, np.where(lengths < 0, -1, models * n))
        jobs, out_at, limits, counted = _carried(xp, jobs, room * self._n + models * n, np.array(lowers), lengths)
        people.score(weights, jobs, self._lists, out_at, self._scores)
        people.device.launch(
            "settle", (blocks_for(longest), self._n_models), THREADS, self._scores, out_at, n,
            limits, signs, self._roles, role, self._lists, counted, below,
        )  # fmt: skip


def _carried(xp: Any, *arrays: NDArray[Any]) -> list[Any]:
    """Small arrays of one kind on the device, carried over together."""
    together = xp.asarray(np.concatenate([array.ravel() for array in arrays]))
    ends = np.cumsum([array.size for array in arrays]).tolist()
    return [together[end - array.size : end] for end, array in zip(ends, arrays, strict=True)]


def _solved(products: NDArray[np.float64]) -> NDArray[np.float64]:
    """Coefficients of each model's references, by least squares. Any would do: they make the bound small or large."""
    gram, right = products[:, :, :_KEPT].copy(), products[:, :, _KEPT:]
    out = np.zeros(gram.shape[:2])
    trace, missing = np.trace(gram, axis1=1, axis2=2), np.ones(len(gram), np.bool_)
    # A trace of a ridge: two references may be the same weights, and those that are not there yet are zeros. Where it
    # was too little, more.
    for ridge in _RIDGES:
        if not missing.any():
            break
        wide = gram[missing] + (trace[missing] * ridge + 1.0)[:, None, None] * np.eye(_KEPT)
        try:
            found = np.linalg.solve(wide, right[missing])[:, :, 0]
        except np.linalg.LinAlgError:
            continue
        usable = np.isfinite(found).all(axis=1) & (np.abs(found).sum(axis=1) <= _MAX_COEFFICIENT)
        models = np.flatnonzero(missing)[usable]
        out[models], missing[models] = found[usable], False
    return out
