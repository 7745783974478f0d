"""Tallies to the next network: a first-order method on public counts, which anybody can take again to the same bytes.

The mean direction of parameter p is g_p = C_p (N_p⁺ - N_p⁻) / n, with n the participants. It is unbiased where nobody
is clipped. The step is Adam's (Kingma and Ba 2015), and what predicts is averaged as swift's weights are:

    m ← β m + (1-β) g      v ← γ v + (1-γ) g²      w ← w + η (m / (1-β^t)) / (√(v / (1-γ^t)) + ε)
    a ← ½ a + ½ w

Training weights are w, evaluation weights a; both are served as integers (``network.quantised``).

The arithmetic is elementwise float64 with + - × ÷ √ alone, in the order written here, as the rules of
``learning.aggregate.descent`` have it. A network that starts at zero stays there (all units alike), so the first
weights are drawn, from public words: SipHash under a key that everybody computes from the public seed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning._kernels.vectorised import siphash24_words
from secvm.learning.aggregate.tally import Tally
from secvm_lab.beyond.network import Question, quantised

Floats = NDArray[np.float64]
_START_TAG = b"secvm-lab-start\0"


@dataclass(frozen=True, slots=True)
class Step:
    """The constants of the method, the same on all data that were tried. Public."""

    size: float = 0.03
    momentum: float = 0.5
    memory: float = 0.99
    #: ε: below this a direction is not taken for one.
    floor: float = 1e-4
    #: The first weights are uniform within this much of zero, those of outputs within this over √h.
    first: float = 0.5


@dataclass(frozen=True, eq=False)
class State:
    """What the coordinator holds after ``step`` rounds. Public."""

    step: int
    weights: Floats
    average: Floats
    mean: Floats
    square: Floats

    @property
    def training_weights(self) -> NDArray[np.int32]:
        return quantised(self.weights)

    @property
    def evaluation_weights(self) -> NDArray[np.int32]:
        return quantised(self.average)

    def to_bytes(self) -> bytes:
        """The step and all numbers, little-endian."""
        vectors = (self.weights, self.average, self.mean, self.square)
        return self.step.to_bytes(8, "little") + b"".join(vector.astype("<f8").tobytes() for vector in vectors)


def start(question: Question, rule: Step, seed: bytes) -> State:
    """The first weights, by public dice; biases are zero."""
    shape = question.shape
    key = np.frombuffer(hashlib.blake2b(seed, digest_size=16, person=_START_TAG).digest(), "<u8").astype(np.uint64)
    n = shape.n_parameters
    words = siphash24_words(np.broadcast_to(key, (n, 2)), np.arange(n, dtype=np.uint64))
    # 53 bits, from -1 to 1.
    weights = (words >> np.uint64(11)).astype(np.float64) / 2.0**52 - 1.0
    from_words, hidden_biases, to_outputs, output_biases = shape.blocks(weights)
    from_words *= rule.first
    to_outputs *= rule.first / math.sqrt(shape.hidden)
    hidden_biases[:] = 0.0
    output_biases[:] = 0.0
    return State(0, weights, weights, np.zeros(n), np.zeros(n))


def direction(question: Question, tally: Tally) -> Floats:
    """The mean direction of a tally."""
    people = int(tally.participants.sum())
    if people <= 0:
        raise BadInputError("nobody took part in this round")
    net = (tally.plus[0] - tally.minus[0]).astype(np.float64)
    return np.asarray(net * question.bounds.per_parameter(question.shape) / float(people))


def step(rule: Step, state: State, mean_direction: Floats) -> State:
    """One step."""
    t = state.step + 1
    mean = rule.momentum * state.mean + (1.0 - rule.momentum) * mean_direction
    square = rule.memory * state.square + (1.0 - rule.memory) * (mean_direction * mean_direction)
    unbiased = mean / (1.0 - _power(rule.momentum, t))
    root = np.sqrt(square / (1.0 - _power(rule.memory, t)))
    weights = state.weights + rule.size * unbiased / (root + rule.floor)
    average = weights if t == 1 else 0.5 * state.average + 0.5 * weights
    return State(t, weights, average, mean, square)


def replay(question: Question, rule: Step, seed: bytes, tallies: Iterable[Tally]) -> State:
    """The network that these tallies make: what everybody can compute again."""
    state = start(question, rule, seed)
    for tally in tallies:
        state = step(rule, state, direction(question, tally))
    return state


def _power(base: float, times: int) -> float:
    """By multiplication: ``pow`` differs between machines."""
    product = 1.0
    for _ in range(times):
        product *= base
    return product
