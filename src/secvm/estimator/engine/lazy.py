"""LazyScores: verdicts of everybody under new weights, scoring only those people whose verdict is in doubt.

The sums of everybody are kept under a few references, the weights of rounds in which everybody was scored. New weights
are mostly a combination of those (Pegasos adds nearly the same two directions in turn), and the remainder is small: a
person's new score is then known up to a proven bound (``_kernels.lane_bounds``), and mostly that decides.

 1. Coefficients, by least squares over a sample of bins. Any would do: they make the bound small or large, never wrong.
 2. The remainder's norm in each class of bins; verdicts, and who is in doubt.
 3. Those in doubt are scored. When that begins to cost more in a round than the rounds since the last reference did on
    average, everybody is scored instead, and becomes the newest reference.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from secvm.estimator.engine.people import Bits, LaidOutPeople

#: References kept: three span the last weights and both directions of the swing, one more its change.
_KEPT = 4
#: Every so many-th bin takes part in finding coefficients.
_SAMPLE = 64
#: Coefficients beyond this would cost more digits than floats have to spare.
_MAX_COEFFICIENT = 2.0**10
#: An int32 sum times a coefficient, as a float, and a few of those added up, are off by less than this for each unit
#: of the coefficients.
_ROUNDED = 2.0**31 * 2.0**-49
#: For each unit of a person: what the floats of one bin's remainder are off by, with the same reserve.
_REMAINDER = 2.0**31 * 2.0**-49


@dataclass(frozen=True, eq=False)
class Target:
    """Weights to be judged: int32 lines, and how to read their sums."""

    lines: NDArray[np.int32]
    #: Per lane, in units of the lines: the threshold, and how far a true score may be from the sum for each unit.
    lowers: NDArray[np.float64]
    misses: NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class _Reference:
    """Weights and everybody's sums under them. Secret: it does not print itself."""

    lines: NDArray[np.int32]
    sums: NDArray[np.int32]
    sample: NDArray[np.float64]


@dataclass
class _Costs:
    """Passes since the newest reference, and rounds."""

    passes: float = 1.0
    rounds: int = 1
    last_side: float = 0.0


@dataclass(repr=False)
class LazyScores:
    """Known sums of everybody, and verdicts from them. Secret: it does not print itself."""

    people: LaidOutPeople
    #: False: everybody is scored every time.
    lazy: bool = True
    #: Passes over everybody so far, parts of them counted as parts.
    passes: float = 0.0
    _references: list[_Reference] = field(default_factory=list)
    _costs: _Costs = field(default_factory=_Costs)
    #: Where nothing is kept: the sums of the last time, to be written over.
    _room: NDArray[np.int32] | None = None

    def judge(self, target: Target, signs: NDArray[np.int8], wanted: Bits) -> tuple[Bits, Bits]:
        """Bits of people whose signed score is below the threshold, and bits that even their sums leave open.

        The weights of a round: they may become a reference.
        """
        everybody = self.people.everybody
        below, left_open = np.empty_like(wanted), np.empty_like(wanted)
        if self.lazy and len(self._references) == _KEPT and self._guess(target, signs, wanted, below, left_open):
            doubtful = np.flatnonzero(left_open)
            share = len(doubtful) / max(1, len(wanted))
            costs = self._costs
            if share + costs.last_side <= costs.passes / costs.rounds:
                costs.passes += share
                costs.rounds += 1
                self._score_some(target, signs, wanted, doubtful, below, left_open)
                return below, left_open
        sums = self._spare_sums()
        self.people.score(target.lines, sums)
        self.passes += 1
        self._costs = _Costs(last_side=self._costs.last_side)
        if self.lazy:
            self._references.insert(0, _Reference(target.lines.copy(), sums, self._sample(target.lines)))
        else:
            self._room = sums
        self._decide(target, (sums,) * _KEPT, signs, wanted, everybody, below, left_open)
        return below, left_open

    def judge_beside(self, target: Target, signs: NDArray[np.int8], wanted: Bits) -> tuple[Bits, Bits]:
        """As ``judge`` for weights that no round uses: only those in doubt are ever scored."""
        below, left_open = np.empty_like(wanted), np.empty_like(wanted)
        if self.lazy and self._references and self._guess(target, signs, wanted, below, left_open):
            doubtful = np.flatnonzero(left_open)
        else:
            below[:] = 0
            doubtful = np.flatnonzero(wanted)
        self._score_some(target, signs, wanted, doubtful, below, left_open)
        self._costs.last_side = len(doubtful) / max(1, len(wanted))
        self._costs.passes += self._costs.last_side
        return below, left_open

    def _score_some(
        self,
        target: Target,
        signs: NDArray[np.int8],
        wanted: Bits,
        chosen: NDArray[np.int64],
        below: Bits,
        left_open: Bits,
    ) -> None:
        """Score chosen people, and judge them by that."""
        if len(chosen):
            sums = self.people.score_some(target.lines, chosen)
            self.passes += len(chosen) / len(wanted)
            self._decide(target, (sums,) * _KEPT, signs, wanted, chosen, below, left_open)

    def _decide(
        self,
        target: Target,
        sums: tuple[NDArray[np.int32], ...],
        signs: NDArray[np.int8],
        wanted: Bits,
        chosen: NDArray[np.int64],
        below: Bits,
        left_open: Bits,
    ) -> None:
        """From sums of the target itself."""
        coefficients = np.zeros((_KEPT, self.people.width))
        coefficients[0] = 1
        constants = self._constants(target, coefficients, np.zeros(self.people.width))
        self.people.judge(sums, coefficients, None, constants, signs, wanted, chosen, below, left_open)

    def _guess(self, target: Target, signs: NDArray[np.int8], wanted: Bits, below: Bits, left_open: Bits) -> bool:
        """From sums of references; False where they do not span the target at all."""
        references = (self._references * _KEPT)[:_KEPT]
        coefficients = self._coefficients(target.lines)
        if coefficients is None:
            return False
        lines = tuple(r.lines for r in references)
        remainders = self.people.remainders(target.lines, lines, coefficients)
        constants = self._constants(target, coefficients, np.full(self.people.width, _REMAINDER))
        sums = tuple(r.sums for r in references)
        everybody = self.people.everybody
        self.people.judge(sums, coefficients, remainders, constants, signs, wanted, everybody, below, left_open)
        return True

    def _constants(
        self, target: Target, coefficients: NDArray[np.float64], remainder: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Thresholds, misses for each unit, and what floats lose, as lines."""
        size = np.abs(coefficients).sum(axis=0) + 1
        return np.stack(
            [
                target.lowers,
                target.misses + size * remainder,
                size * _ROUNDED + np.abs(target.lowers) * 2.0**-48,
            ]
        )

    def _coefficients(self, lines: NDArray[np.int32]) -> NDArray[np.float64] | None:
        """References x lanes, the missing references with 0."""
        known = np.stack([r.sample for r in self._references], axis=2)  # lanes x sample x references
        gram = known.transpose(0, 2, 1) @ known
        products = known.transpose(0, 2, 1) @ self._sample(lines)[:, :, None]
        # A trace of a ridge: two references may be the same weights.
        scale = np.trace(gram, axis1=1, axis2=2) * 2.0**-48 + 1.0
        gram += scale[:, None, None] * np.eye(known.shape[2])
        found = np.linalg.solve(gram, products)[:, :, 0].T
        if not np.isfinite(found).all() or np.abs(found).sum(axis=0).max() > _MAX_COEFFICIENT:
            return None
        out = np.zeros((_KEPT, self.people.width))
        out[: len(found)] = found
        return out

    def _sample(self, lines: NDArray[np.int32]) -> NDArray[np.float64]:
        return lines.reshape(-1, self.people.width)[::_SAMPLE].T.astype(np.float64)

    def _spare_sums(self) -> NDArray[np.int32]:
        """Room for everybody's sums; the oldest reference gives way."""
        if self._room is not None:
            return self._room
        if len(self._references) == _KEPT:
            return self._references.pop().sums
        return self.people.lines(len(self.people.labels), np.int32)
