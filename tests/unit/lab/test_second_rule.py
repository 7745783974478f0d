"""A rule that somebody else wrote from the document alone comes to the same bits as ours."""

import random
from fractions import Fraction

import pytest

from secvm.learning import aggregate
from secvm.learning.experiment import Robust
from secvm_lab.rigs.histories.public_history import PublicHistory
from secvm_lab.rigs.histories.random_experiments import draw_experiment
from secvm_lab.trials import SecondImplementation, honest_run

SEEDS = range(40)


def same_bytes(second: PublicHistory) -> None:
    for _ in range(5):
        tally = second.draw_tally()
        state = second.step(second.state, tally)
        assert state.to_bytes() == aggregate.step(second.document.experiment, second.state, tally).to_bytes()
        ours = PublicHistory.weights(second, state)
        assert [one.to_bytes() for one in second.weights(state)] == [one.to_bytes() for one in ours]
        second.state = state


@pytest.mark.parametrize("seed", SEEDS)
def test_states_and_weights_are_the_same_bytes(seed: int) -> None:
    same_bytes(SecondImplementation.drawn(random.Random(seed)))


@pytest.mark.parametrize("robust", [Robust(clip=Fraction(1, 3)), Robust(trim=3), Robust(clip=Fraction(5, 7), trim=5)])
@pytest.mark.parametrize("seed", range(10))
def test_clipped_and_trimmed_rounds_are_the_same_bytes(seed: int, robust: Robust) -> None:
    dice = random.Random(f"robust {seed}")
    same_bytes(SecondImplementation.drawn(dice, experiment=draw_experiment(dice, robust=robust)))


def test_an_honest_run_has_many_looks() -> None:
    assert sum(honest_run(random.Random(f"looks {i}")) for i in range(5)) >= 15
