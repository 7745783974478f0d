"""The sizes that two relays were chosen with: ε = 1 at δ = 1e-6, two rounds, 100 features in 1,000 bins."""

from fractions import Fraction

import pytest

from secvm.learning.thinning import Thinning
from secvm.privacy.planning.relay_plan import RelayQuestion, plan_relays
from secvm.privacy.target import PrivacyTarget

USUAL = RelayQuestion(
    target=PrivacyTarget(Fraction(1)),
    people=10_000,
    bins=1000,
    features=100,
    rounds=2,
    thinning=Thinning(rho=Fraction("5.9")),
)


def test_sizes_of_the_usual_experiment() -> None:
    """B 103 and about 395,000 packages of a relay; a cell's noise is about 61."""
    made = plan_relays(USUAL)
    assert made.budget == 103
    assert made.cover.packages == pytest.approx(395_000, rel=0.002)
    assert made.noise_per_cell == pytest.approx(61, rel=0.01)
    assert made.cover.parts == 9
    assert {noise.shape for noise in made.cover.kinds} == {15}
