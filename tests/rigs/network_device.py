"""What one person does in a round, written to be read: forward, backward, and coins. ``crowds`` does the same quickly.

 1. Forward, in integers: A_u = Σ_j W_ju x_j; z_u = floor(2^16 A_u / R) + b_u with R = floor(2^16 ‖x‖);
    a_u = max(0, z_u); s_k = Σ_u V_uk a_u + 2^16 c_k, in units of 2^-32.
 2. Errors. Two labels: e = y where y s < 1, else 0. More labels: with r the first of the
    largest outputs besides that of the label l, e_l = 1 and e_r = -1 where s_l - s_r < 1, else 0. Exactly on the
    margin: nothing.
 3. Backward: δ_u = Σ_k e_k V_uk where z_u > 0, else 0; exactly on the kink: nothing. What a person would add to each
    parameter, its *entry*, is minus the gradient of the hinge:

        words  δ_u x_j / ‖x‖        hidden biases  δ_u        outputs  e_k a_u        output biases  e_k

 4. Coins: an entry c is sent as its sign with probability min(1, |c| / C), rounded down to 53 bits, else not at all:
    one package or none for each parameter. C times the package is c on average, unless |c| > C, which is *clipped*.

The coin of (u, j) is word j of the person's dice for this round and model u; of (k, u) word u for model h + k. The only
floats are quotients of numbers that are exact, and one square root: IEEE 754 rounds them alike everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.learning.individual.binning import BinnedVector
from secvm.learning.individual.dice import DRAW_BITS, Dice, Purpose
from secvm.learning.individual.update import fixed_norm
from secvm.learning.package import TrainPackage
from secvm_lab.beyond.network import BITS, ONE, Question


@dataclass(frozen=True, slots=True)
class Entry:
    """What a person would add to one parameter. Secret: it does not print itself."""

    parameter: int
    #: In real numbers.
    value: float
    #: C of its block.
    bound: float
    #: Where its coin lies among the dice of a round.
    model: int
    index: int

    def __repr__(self) -> str:
        return "Entry(...)"

    @property
    def chance53(self) -> int:
        """The probability of sending, of 2^53."""
        return int(min(1.0, abs(self.value) / self.bound) * 2.0**DRAW_BITS)

    @property
    def clipped(self) -> bool:
        return abs(self.value) > self.bound


@dataclass(frozen=True, slots=True)
class Passed:
    """A forward pass. Secret: it does not print itself."""

    #: z_u in units of 2^-16.
    hidden: list[int]
    #: s_k in units of 2^-32.
    scores: list[int]

    def __repr__(self) -> str:
        return "Passed(...)"


def forward(question: Question, weights: NDArray[np.int32], vector: BinnedVector) -> Passed:
    """(1)"""
    shape = question.shape
    words, hidden_biases, outputs, output_biases = (_wide(block) for block in shape.blocks(weights))
    norm = fixed_norm(sum(x * x for x in vector.values.values()))
    hidden = []
    for u in range(shape.hidden):
        total = sum(words[j][u] * x for j, x in vector.values.items())
        hidden.append((((total << BITS) // norm) if norm else 0) + hidden_biases[u])
    scores = [
        sum(outputs[u][k] * max(0, hidden[u]) for u in range(shape.hidden)) + (output_biases[k] << BITS)
        for k in range(shape.outputs)
    ]
    return Passed(hidden, scores)


def entries(question: Question, weights: NDArray[np.int32], vector: BinnedVector, label: int) -> Iterator[Entry]:
    """(2) and (3): all entries that are not zero."""
    shape, bounds = question.shape, question.bounds
    passed = forward(question, weights, vector)
    errors = _errors(passed.scores, label)
    outputs = _wide(shape.blocks(weights)[2])
    h, n_outputs = shape.hidden, shape.outputs
    norm = math.sqrt(sum(x * x for x in vector.values.values()))
    first, second, third, _ = shape.ends
    for u, z in enumerate(passed.hidden):
        slope = sum(errors[k] * outputs[u][k] for k in range(n_outputs)) if z > 0 else 0
        if slope:
            for j, x in vector.values.items():
                yield Entry(j * h + u, float(slope * x) / (norm * ONE), bounds.words, u, j)
            yield Entry(first + u, float(slope) / ONE, bounds.hidden_biases, u, shape.n_bins)
        for k, error in enumerate(errors):
            if error and z > 0:
                yield Entry(second + u * n_outputs + k, float(error * z) / ONE, bounds.outputs, h + k, u)
    for k, error in enumerate(errors):
        if error:
            yield Entry(third + k, float(error), bounds.output_biases, h + k, h)


def _errors(scores: list[int], label: int) -> list[int]:
    margin = 1 << 2 * BITS
    if len(scores) == 1:
        sign = 2 * label - 1
        return [sign if sign * scores[0] < margin else 0]
    rival = max((k for k in range(len(scores)) if k != label), key=lambda k: (scores[k], -k))
    errors = [0] * len(scores)
    if scores[label] - scores[rival] < margin:
        errors[label], errors[rival] = 1, -1
    return errors


def packages(
    question: Question, weights: NDArray[np.int32], vector: BinnedVector, label: int, *, dice: Dice, round_number: int
) -> Iterator[TrainPackage]:
    """(4): what is sent. A parameter is a bin of the one model."""
    shape = question.shape
    lengths = [shape.n_bins + 1] * shape.hidden + [shape.hidden + 1] * shape.outputs
    coins = [dice.words(Purpose.COIN, round_number, model, n) for model, n in enumerate(lengths)]
    for entry in entries(question, weights, vector, label):
        if coins[entry.model][entry.index] >> (64 - DRAW_BITS) < entry.chance53:
            yield TrainPackage(model=0, bin_index=entry.parameter, sign=1 if entry.value > 0 else -1)


def _wide(block: NDArray[Any]) -> Any:
    """Python's integers, which do not overflow."""
    return block.tolist()
