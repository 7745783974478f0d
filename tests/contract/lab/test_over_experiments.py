"""Longer cases of ``tests/unit/lab/privacy/test_over_experiments.py``."""

import math
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from secvm_lab.privacy.over_experiments import composed_epsilon, summed
from tests.unit.lab.privacy.test_over_experiments import WORLDS, curve, delta, laws


@settings(max_examples=30, deadline=None)
@given(one=WORLDS, other=WORLDS, at=st.floats(0.001, 0.3))
def test_composition_lies_between_brute_force_and_the_sum(
    one: tuple[list[float], list[float]], other: tuple[list[float], list[float]], at: float
) -> None:
    found = composed_epsilon([curve(one), curve(other)], at)
    (p, q), (r, s) = laws(one), laws(other)
    together = [a * b for a, b in product(p, r)], [a * b for a, b in product(q, s)]
    if math.isfinite(found):
        assert delta(*together, found) <= at * (1 + 1e-6)
    alone = [composed_epsilon([curve(two)], at / 2) for two in (one, other)]
    assert found <= summed((epsilon, at / 2) for epsilon in alone)[0] * (1 + 1e-3) + 1e-6
