"""Every lie that a coordinator can tell is caught before a package leaves, but one; and honest ones are believed.

``secvm dev trials`` runs a thousand of each; here is a sample.
"""

from collections import Counter

import pytest

from secvm.lab.trials import FOUND, UNSEEN, run
from secvm.testing.malicious import LIES, Lie
from tests.effort import scaled
from tests.seeds import seed_for

TRIALS = scaled(2, 50)
SEED = str(seed_for("lies"))
#: Lies that leave something which convinces others, always.
CONVICTING = {
    "wrong-lambda",
    "wrong-normaliser",
    "wrong-class-weight",
    "first-state-not-zero",
    "weights-not-of-the-state",
}


@pytest.mark.parametrize("lie", [lie for lie in LIES.values() if lie.detected], ids=lambda lie: lie.name)
def test_a_lie_is_caught_every_time(lie: Lie) -> None:
    (count,) = run([lie], trials=TRIALS, seed=SEED, honest=False)
    assert (count.caught, count.deviating) == (TRIALS, [])
    if lie.visible_from_outside:
        assert count.audit == Counter({FOUND: TRIALS})
    if lie.name in CONVICTING:
        assert count.by == Counter({"evidence: wrong-step": TRIALS})


def test_a_forged_tally_within_the_budget_is_not_detected() -> None:
    (count,) = run([LIES["forged-tally"]], trials=TRIALS, seed=SEED, honest=False)
    assert count.caught == 0
    assert count.audit == Counter({UNSEEN: TRIALS})


def test_nobody_refuses_an_honest_run() -> None:
    (count,) = run([], trials=TRIALS, seed=SEED)
    assert (count.trials, count.caught) == (TRIALS, 0)
