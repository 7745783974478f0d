"""Several experiments together: never below what two worlds really show, never above the sum."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.privacy.accounting.pld import Looks
from secvm_lab.privacy.over_experiments import Curve, composed_epsilon, losses_of, summed

MASSES = st.lists(st.floats(0.05, 1), min_size=2, max_size=4)
#: Two laws on the same few outcomes.
WORLDS = st.tuples(MASSES, MASSES)


def laws(masses: tuple[list[float], list[float]]) -> tuple[list[float], list[float]]:
    size = min(len(one) for one in masses)
    first, second = (np.array(one[:size]) / sum(one[:size]) for one in masses)
    return list(first), list(second)


def delta(p: list[float], q: list[float], epsilon: float) -> float:
    """By brute force, in the worse direction."""
    both = math.exp(epsilon)
    there = math.fsum(max(0.0, a - both * b) for a, b in zip(p, q, strict=True))
    return max(there, math.fsum(max(0.0, b - both * a) for a, b in zip(p, q, strict=True)))


def curve(masses: tuple[list[float], list[float]]) -> Curve:
    p, q = laws(masses)
    return lambda epsilon: delta(p, q, epsilon)


@given(masses=WORLDS, epsilon=st.floats(-2, 4))
def test_two_laws_are_found_whose_curve_is_nowhere_below(
    masses: tuple[list[float], list[float]], epsilon: float
) -> None:
    p, q = laws(masses)
    there = math.fsum(max(0.0, a - math.exp(epsilon) * b) for a, b in zip(p, q, strict=True))
    assert Looks([(losses_of(curve(masses)), 1)]).delta(epsilon) >= there - 1e-12


def test_gaussian_like_experiments_compose_by_the_square_root() -> None:
    phi, mu = NormalDist().cdf, 0.25

    def gaussian(epsilon: float) -> float:
        return max(0.0, phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * phi(-mu / 2 - epsilon / mu))

    alone, four = (composed_epsilon([gaussian] * count, 1e-6) for count in (1, 4))
    # Four of μ are one of 2 μ: 2.3 rather than four times 1.06.
    assert alone == pytest.approx(1.06, abs=0.1)
    assert 2.1 < four < 2.9
    assert summed([(alone, 1e-6)] * 4) == pytest.approx((4 * alone, 4e-6))
