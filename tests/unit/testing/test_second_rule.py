"""A rule that somebody else wrote from the document alone comes to the same bits as ours."""

import random

import pytest

from secvm.testing.honest_run import SecondImplementation, honest_run
from secvm.testing.public_history import PublicHistory

SEEDS = range(40)


@pytest.mark.parametrize("covered", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_states_and_weights_are_the_same_bytes(seed: int, covered: bool) -> None:
    second = SecondImplementation.drawn(random.Random(seed), covered=covered)
    for _ in range(5):
        tally = second.draw_tally()
        state = second.step(second.state, tally)
        assert state.to_bytes() == second.document.experiment.step(second.state, tally).to_bytes()
        ours = PublicHistory.weights(second, state)
        assert [one.to_bytes() for one in second.weights(state)] == [one.to_bytes() for one in ours]
        second.state = state


def test_an_honest_run_has_many_looks() -> None:
    assert sum(honest_run(random.Random(f"looks {i}")) for i in range(5)) >= 15
