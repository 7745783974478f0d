"""A descent rule and a loss of another package: all that somebody writes who adds one."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from secvm.learning.aggregate.descent import DescentRule, State
from secvm.learning.aggregate.descent.rule import first_weights
from secvm.learning.aggregate.direction import Direction
from secvm.learning.arithmetic import mantissas, power_of_two
from secvm.learning.declared import number
from secvm.learning.losses import ONE, LossShape
from secvm.learning.weights import Weights


@dataclass(frozen=True, slots=True)
class Signs(DescentRule):
    """Every weight moves by one fixed step, to the side that more people ask for."""

    name: ClassVar[str] = "signs"
    about: ClassVar[str] = "fixed steps"
    rate: Fraction = number("1/4", "How far every weight moves in a round.", above=0, at_most=1)

    def start(self, n_models: int, n_bins: int) -> State:
        return State(rule=self.name, step=0, vectors={"sum": np.zeros((n_models, n_bins + 1), dtype=np.int64)})

    def step(self, state: State, direction: Direction) -> State:
        moved = state.vectors["sum"] + np.sign(direction.numerators).astype(np.int64)
        return State(rule=self.name, step=state.step + 1, vectors={"sum": moved})

    def training_weights(self, state: State) -> Weights:
        if state.step == 0:
            return first_weights(state.vectors["sum"].shape, normalised=False)
        integers, exponent = mantissas(state.vectors["sum"])
        return Weights(mantissas=integers, unit=power_of_two(exponent) * self.rate)

    def evaluation_weights(self, state: State) -> Weights:
        return self.training_weights(state)


@dataclass(frozen=True, slots=True)
class Margin(LossShape):
    """The hinge with a margin of one's own."""

    name: ClassVar[str] = "margin"
    width: Fraction = number(2, "Scores below this send.", above=0, at_most=64)

    def thresholds(self, coins: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.full(len(coins), round(self.width * ONE), dtype=np.int64)
