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

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from secvm_lab.engine.people import Bits, LaidOutPeople, take_lanes

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
    #: Per lane, in units of the lines: how far a true score may be from the sum for each unit.
    misses: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Question:
    """Who of some people is below thresholds? Several may be asked of the same sums."""

    #: Per lane, in units of the target's lines.
    lowers: NDArray[np.float64]
    #: A bit for each person and lane that are meant.
    wanted: Bits


@dataclass(frozen=True, eq=False)
class Answer:
    """Bits of those whose signed score is surely below, and bits left open."""

    below: Bits
    left_open: Bits

    @classmethod
    def blank(cls, wanted: Bits) -> Answer:
        return cls(np.zeros_like(wanted), np.zeros_like(wanted))


def open_people(answers: Sequence[Answer]) -> NDArray[np.int64]:
    """Who is left open in any of them."""
    return np.flatnonzero(np.bitwise_or.reduce([answer.left_open for answer in answers]))


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
    #: Of weights that no round uses, in the last round.
    beside: float = 0.0


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

    def judge(self, target: Target, signs: NDArray[np.int8], questions: Sequence[Question]) -> list[Answer]:
        """Answers that leave open only what even sums of everybody leave open.

        The weights of a round: they may become a reference.
        """
        n = len(signs)
        beside, self._costs.beside = self._costs.beside, 0.0
        answers = self._guess(target, signs, questions) if self.lazy and len(self._references) == _KEPT else None
        if answers is not None:
            doubtful = open_people(answers)
            share = len(doubtful) / max(1, n)
            costs = self._costs
            if share + beside <= costs.passes / costs.rounds:
                costs.passes += share
                costs.rounds += 1
                self._score_some(target, signs, questions, doubtful, answers)
                return answers
        sums = self._spare_sums()
        self.people.score(target.lines, sums)
        self.passes += 1
        self._costs = _Costs()
        if self.lazy:
            self._references.insert(0, _Reference(target.lines.copy(), sums, self._sample(target.lines)))
        else:
            self._room = sums
        answers = [Answer.blank(question.wanted) for question in questions]
        self._decide(target, sums, signs, questions, self.people.everybody, answers)
        return answers

    def judge_beside(self, target: Target, signs: NDArray[np.int8], question: Question) -> Answer:
        """As ``judge`` for weights that no round uses: only those in doubt are ever scored."""
        answers = self._guess(target, signs, [question]) if self.lazy and self._references else None
        doubtful = np.flatnonzero(question.wanted) if answers is None else open_people(answers)
        answers = answers or [Answer.blank(question.wanted)]
        self._score_some(target, signs, [question], doubtful, answers)
        share = len(doubtful) / max(1, len(signs))
        self._costs.beside += share
        self._costs.passes += share
        return answers[0]

    def take_lanes(self, sources: Sequence[int], before: int) -> None:
        """Go on with lanes that were others; ``before`` is how many a line had."""
        self._room = None
        width = self.people.width
        self._references = [
            _Reference(lines, take_lanes(r.sums, sources, before, width), self._sample(lines))
            for r in self._references
            for lines in [take_lanes(r.lines, sources, before, width)]
        ]

    def _score_some(
        self,
        target: Target,
        signs: NDArray[np.int8],
        questions: Sequence[Question],
        chosen: NDArray[np.int64],
        answers: Sequence[Answer],
    ) -> None:
        """Score chosen people, and judge them by that."""
        if len(chosen):
            sums = self.people.score_some(target.lines, chosen)
            self.passes += len(chosen) / len(signs)
            self._decide(target, sums, signs, questions, chosen, answers)

    def _decide(
        self,
        target: Target,
        sums: NDArray[np.int32],
        signs: NDArray[np.int8],
        questions: Sequence[Question],
        chosen: NDArray[np.int64],
        answers: Sequence[Answer],
    ) -> None:
        """From sums of the target itself."""
        coefficients = np.zeros((_KEPT, self.people.width))
        coefficients[0] = 1
        nothing = np.zeros(self.people.width)
        for question, answer in zip(questions, answers, strict=True):
            constants = self._constants(target, question, coefficients, nothing)
            self.people.judge(
                target.lines,
                (sums,) * _KEPT,
                coefficients,
                None,
                constants,
                signs,
                question.wanted,
                chosen,
                answer.below,
                answer.left_open,
            )

    def _guess(self, target: Target, signs: NDArray[np.int8], questions: Sequence[Question]) -> list[Answer] | None:
        """From sums of references; None where they do not span the target at all."""
        references = (self._references * _KEPT)[:_KEPT]
        coefficients = self._coefficients(target.lines)
        if coefficients is None:
            return None
        lines = tuple(r.lines for r in references)
        remainders = self.people.remainders(target.lines, lines, coefficients)
        sums = tuple(r.sums for r in references)
        answers = []
        for question in questions:
            answers.append(Answer.blank(question.wanted))
            self.people.judge(
                target.lines,
                sums,
                coefficients,
                remainders,
                self._constants(target, question, coefficients, np.full(self.people.width, _REMAINDER)),
                signs,
                question.wanted,
                self.people.everybody,
                answers[-1].below,
                answers[-1].left_open,
            )
        return answers

    def _constants(
        self, target: Target, question: Question, coefficients: NDArray[np.float64], remainder: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Thresholds, misses for each unit, and what floats lose, as lines."""
        size = np.abs(coefficients).sum(axis=0) + 1
        return np.stack(
            [
                question.lowers,
                target.misses + size * remainder,
                size * _ROUNDED + np.abs(question.lowers) * 2.0**-48,
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
