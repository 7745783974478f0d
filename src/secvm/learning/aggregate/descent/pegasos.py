"""Pegasos with full batches: the paper's rule.

With η = 1/(λ t) and w₁ = 0 the model is an integer vector and a scale: w_{t+1} = S_t / (λ t), where S_t adds up every
round's direction g/N. S is int64 in units of 2^-32, each summand rounded half to even once; nothing else is rounded
until the weights are published.

Evaluation averages the last k weight vectors (the paper: two). For that the state keeps the last k sums.

``step_cap`` is a remedy for the two-cycle, off by default. From a first round in which everybody violates, the rule
knows the mean vector x̄, and halves a step until the mean person's score moves by at most ``step_cap`` < 1. In a
two-cycle at 50 % accuracy all scores go from above 0 to below -1 and back, so they all move by more than 1 on
average each round: with the cap that cannot happen (for features that are never negative), and the orbit is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from secvm.errors import ArithmeticRangeError
from secvm.learning.aggregate.descent.rule import DescentRule, State, first_weights
from secvm.learning.aggregate.direction import Direction
from secvm.learning.arithmetic import (
    FIXED_BITS,
    MAX_STATE,
    divide_fixed,
    mantissas,
    power_of_two,
    shift_right_half_even,
    to_fixed,
)
from secvm.learning.declared import number, whole
from secvm.learning.weights import Weights

#: More bits for the sums divided by their step number, so that a word of one person in a million still counts.
AVERAGE_BITS = 8
MAX_AVERAGING = 64


@dataclass(frozen=True, slots=True)
class Pegasos(DescentRule):
    """The paper's rule; ``lambda_`` is λ, ``averaging`` the number of weight vectors averaged for evaluation."""

    name: ClassVar[str] = "pegasos"
    about: ClassVar[str] = "the paper's"

    # Where the label is a number, steps must be smaller and the mean longer: signs of residuals never vanish, and with
    # the other defaults the last rounds still swing by many times the label's range.
    lambda_: Fraction = number(
        "1e-4", "Regularisation: how much it holds weights down.",
        name="lambda", at_least="1e-12", at_most="1e6", for_numbers="0.01",
    )  # fmt: skip
    averaging: int = whole(
        2, "Weight vectors averaged for evaluation.", at_least=1, at_most=MAX_AVERAGING, for_numbers=8
    )
    step_cap: Fraction | None = number(
        None, "Remedy for the two-cycle: the most that the mean person's score may move in a round.",
        above=0, below=1, for_numbers="0.1",
    )  # fmt: skip

    def start(self, n_models: int, n_bins: int) -> State:
        zero = np.zeros((n_models, n_bins + 1), dtype=np.int64)
        names = [f"sum_{i}" for i in range(self.averaging)]
        if self.step_cap is not None:
            names.append("popularity")
        return State(rule=self.name, step=0, vectors=dict.fromkeys(names, zero))

    def step(self, state: State, direction: Direction) -> State:
        increment = np.stack(
            [to_fixed(row, scale) for row, scale in zip(direction.numerators, direction.scales, strict=True)]
        )
        vectors = dict(state.vectors)
        t = state.step + 1
        if self.step_cap is not None:
            if t == 1:
                vectors["popularity"] = np.stack(
                    [to_fixed(row, scale) for row, scale in zip(direction.totals, direction.total_scales, strict=True)]
                )
            increment = self._capped(increment, vectors["popularity"], t)
        # sum_0 is the newest; the oldest falls out.
        for i in range(self.averaging - 1, 0, -1):
            vectors[f"sum_{i}"] = vectors[f"sum_{i - 1}"]
        newest = state.vectors["sum_0"] + increment
        if max(int(newest.max()), -int(newest.min())) >= MAX_STATE:
            raise ArithmeticRangeError("the state would leave its range")
        vectors["sum_0"] = newest
        return State(rule=self.name, step=t, vectors=vectors)

    def _capped(self, increment: NDArray[np.int64], popularity: NDArray[np.int64], t: int) -> NDArray[np.int64]:
        """Each model's step halved until the mean person's score moves by no more than the cap."""
        assert self.step_cap is not None
        out = increment.copy()
        for model, row in enumerate(increment):
            moved = int(np.dot(np.abs(row).astype(object), popularity[model].astype(object)))
            limit = self.step_cap * self.lambda_ * t * power_of_two(2 * FIXED_BITS)
            halvings = 0
            while Fraction(moved, 1 << halvings) > limit:
                halvings += 1
            out[model] = shift_right_half_even(row, min(halvings, 62))
        return out

    def training_weights(self, state: State) -> Weights:
        if state.step == 0:
            return first_weights(state.vectors["sum_0"].shape, normalised=False)
        integers, e = mantissas(state.vectors["sum_0"])
        return Weights(mantissas=integers, unit=power_of_two(e - FIXED_BITS) / (self.lambda_ * state.step))

    def evaluation_weights(self, state: State) -> Weights:
        if state.step == 0:
            return first_weights(state.vectors["sum_0"].shape, normalised=False)
        used = min(self.averaging, state.step)
        total = np.zeros_like(state.vectors["sum_0"])
        for i in range(used):
            # Each part stays below 2^61, so checking after each addition is soon enough.
            total += divide_fixed(state.vectors[f"sum_{i}"], state.step - i, extra_bits=AVERAGE_BITS)
            if max(int(total.max()), -int(total.min())) >= MAX_STATE:
                raise ArithmeticRangeError("an average would leave the range of the state")
        integers, e = mantissas(total)
        return Weights(mantissas=integers, unit=power_of_two(e - FIXED_BITS - AVERAGE_BITS) / (self.lambda_ * used))
