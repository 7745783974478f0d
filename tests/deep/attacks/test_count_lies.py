"""Every lie about a count is found a few hundred times out of as many, and no honest round is accused.

``secvm dev trials`` runs a thousand of each.
"""

import pytest

from secvm_lab.rigs.lies.about_shards import COUNT_LIES
from secvm_lab.trials import HONEST_COUNT, run
from tests.seeds import seed_for

TRIALS = 200


@pytest.mark.takes(minutes=2)
@pytest.mark.parametrize("name", [*COUNT_LIES, HONEST_COUNT])
def test_trials_end_as_they_should(name: str) -> None:
    count = run([name], trials=TRIALS, seed=str(seed_for("lies about counts")))[name]
    assert (count.caught, count.deviating) == (0 if name == HONEST_COUNT else TRIALS, [])
