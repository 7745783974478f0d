"""Swift: normalised rows, popularity preconditioning, momentum, averaging. Few rounds, few packages.

Everything comes from public tallies. In round 1 the weights are zero and everybody violates, so that round's tally *is*
the popularity of the bins:

    p_j = (N_j⁺ + N_j⁻) / (ρ N), never below 0        P_j = (p_j + .1 p̄)^(-3/4)        s = Σ p_j / Σ p_j P_j
    v ← .9 v + (N⁺ - N⁻) / (ρ N), then held     w ← (1 - decay) w + (100 s / √t) P v     served: a ← ½ a + ½ w

*Held*: a step in the direction of the popularity moves everybody's score alike. While nearly everybody violates, that
direction only says which side is larger, and following it at full speed makes the model call everybody the same for
five to ten rounds (docs/adr/0008). So v loses as much of p as makes the mean person's score move by at most

    c = 1/200 + 3/20 · |n⁺ - n⁻| / (n⁺ + n⁻)        in one round, where the move is (100 s / √t) Σ p_j P_j v_j

and n± are the participants of the two sides, class weights included.

``decay`` is the regulariser for experiments with few bins.

The arithmetic is elementwise float64 with + - × ÷ √ only, each correctly rounded by IEEE 754, in the order written
here; x^(-3/4) is 1 / (√x √√x); sums run from left to right in ascending bin order. ``pow``, BLAS and pairwise sums
would differ between CPUs; these do not. Published weights are int32 mantissas.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from secvm.learning.aggregate.descent.rule import DescentRule, State, first_weights
from secvm.learning.aggregate.direction import Direction
from secvm.learning.arithmetic import mantissas, power_of_two, sum_in_order
from secvm.learning.declared import number
from secvm.learning.thinning import Thinning
from secvm.learning.weights import Weights

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Swift(DescentRule):
    """The quick rule. The constants were the same on every data set tried; a step of 300 is too much."""

    name: ClassVar[str] = "swift"
    about: ClassVar[str] = "few rounds"
    normalised: ClassVar[bool] = True
    converges_after: ClassVar[tuple[int, int]] = (30, 30)
    usual_thinning: ClassVar[Thinning] = Thinning(rho=Fraction(3))

    step_size: Fraction = number(100, "Length of the first step; step t is √t times shorter.", above=0, at_most="1e6")
    momentum: Fraction = number("0.9", "Share of the last direction that is kept.", at_least=0, below=1)
    floor: Fraction = number(
        "0.1", "Share of the mean popularity that every bin gets on top, so that rare bins do not explode.",
        above=0, at_most="1e6",
    )  # fmt: skip
    decay: Fraction = number(
        0, "Share of the weights forgotten each round: a regulariser where bins are few.", at_least=0, below=1
    )
    mean_move: Fraction = number("1/200", "How far the mean person's score may move in a round: this …", at_least=0)
    mean_move_imbalance: Fraction = number("3/20", "… and this times the imbalance of the two sides.", at_least=0)

    def start(self, n_models: int, n_bins: int) -> State:
        zero = np.zeros((n_models, n_bins + 1), dtype=np.float64)
        names = ("average", "popularity", "precondition", "velocity", "weights")
        return State(rule=self.name, step=0, vectors=dict.fromkeys(names, zero))

    def step(self, state: State, direction: Direction) -> State:
        t = state.step + 1
        old = state.vectors
        new = {name: np.empty_like(vector) for name, vector in old.items()}
        rate = float(self.step_size) / math.sqrt(t)
        for model in range(len(direction.numerators)):
            popularity, precondition = old["popularity"][model], old["precondition"][model]
            if t == 1 or not popularity.any():  # a one-vs-one pair may meet its first people later
                popularity = np.maximum(_over(direction.totals[model], direction.total_scales[model]), 0.0)
                precondition = self._precondition(popularity)
            mean = _over(direction.numerators[model], direction.scales[model])
            velocity = float(self.momentum) * old["velocity"][model] + mean
            cap = float(self.mean_move + self.mean_move_imbalance * direction.imbalances[model])
            velocity = _held(velocity, popularity, precondition, rate, cap)
            kept = (1.0 - float(self.decay)) * old["weights"][model]
            weights = kept + (rate * precondition) * velocity
            new["popularity"][model] = popularity
            new["precondition"][model] = precondition
            new["velocity"][model] = velocity
            new["weights"][model] = weights
            new["average"][model] = weights if t == 1 else 0.5 * old["average"][model] + 0.5 * weights
        return State(rule=self.name, step=t, vectors=new)

    def _precondition(self, popularity: Floats) -> Floats:
        """The factor s P_j from the popularity of round 1; s is folded in once."""
        total = sum_in_order(popularity)
        if total == 0.0:
            return np.zeros_like(popularity)
        raised = popularity + float(self.floor) * (total / len(popularity))
        root = np.sqrt(raised)
        power = 1.0 / (root * np.sqrt(root))
        return power * (total / sum_in_order(popularity * power))

    def training_weights(self, state: State) -> Weights:
        return self._published(state, "weights")

    def evaluation_weights(self, state: State) -> Weights:
        return self._published(state, "average")

    def _published(self, state: State, name: str) -> Weights:
        if state.step == 0:
            return first_weights(state.vectors[name].shape, normalised=True)
        integers, e = mantissas(state.vectors[name])
        return Weights(mantissas=integers, unit=power_of_two(e), normalised=True)


def _held(velocity: Floats, popularity: Floats, precondition: Floats, rate: float, cap: float) -> Floats:
    """The velocity without so much of the popularity that the mean person's score would move by more than ``cap``."""
    weighed = popularity * precondition
    move = rate * sum_in_order(weighed * velocity)
    if -cap <= move <= cap:
        return velocity
    excess = move - cap if move > 0.0 else move + cap
    return velocity - (excess / (rate * sum_in_order(weighed * popularity))) * popularity


def _over(counts: NDArray[np.int64], scale: Fraction) -> Floats:
    """Counts times a rational: one conversion, one division (or zero when nobody took part)."""
    if scale == 0:
        return np.zeros(len(counts), dtype=np.float64)
    return counts.astype(np.float64) / float(1 / scale)
