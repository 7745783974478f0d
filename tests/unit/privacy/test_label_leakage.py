"""The two worlds of one cell, held against sums over all counts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.privacy.leakage import cell_information, variance_of_ratio


def worlds(senders: int, theta: float, q: float, *, has_it: bool) -> tuple[list[float], list[float]]:
    """Probabilities of all counts: somebody in the person's place, and the person itself."""

    def binomial(n: int) -> list[float]:
        return [math.comb(n, k) * theta**k * (1 - theta) ** (n - k) for k in range(n + 1)] + [0.0] * (senders - n)

    rest, sends = binomial(senders - 1), q * has_it
    itself = [(1 - sends) * rest[n] + (sends * rest[n - 1] if n else 0.0) for n in range(senders + 1)]
    return binomial(senders), itself


CELLS = st.tuples(st.integers(1, 40), st.floats(0.01, 0.99), st.floats(0.02, 1.0), st.booleans())


@given(CELLS)
def test_the_information_is_that_of_all_counts_added_up(cell: tuple[int, float, float, bool]) -> None:
    senders, share, q, has_it = cell
    theta = q * share
    one, other = worlds(senders, theta, q, has_it=has_it)
    # Σ (√a - √b)² / 2 is one minus the coefficient, without taking like from like.
    missing = math.fsum((math.sqrt(a) - math.sqrt(b)) ** 2 for a, b in zip(one, other, strict=True)) / 2
    found = cell_information(senders=senders, theta=theta, q=q, has_it=has_it)
    assert found == pytest.approx(-8 * math.log1p(-missing), rel=1e-6, abs=1e-12)


@given(CELLS)
def test_the_laws_share_is_the_variance_of_the_likelihood_ratio(cell: tuple[int, float, float, bool]) -> None:
    senders, share, q, has_it = cell
    theta = q * share
    one, other = worlds(senders, theta, q, has_it=has_it)
    variance = math.fsum((b - a) ** 2 / a for a, b in zip(one, other, strict=True) if a)
    assert variance_of_ratio(senders=senders, theta=theta, q=q, has_it=has_it) == pytest.approx(variance, rel=1e-6)


@pytest.mark.parametrize("senders", [10_000, 1_000_000, 10**9])
@pytest.mark.parametrize("has_it", [False, True])
def test_many_senders_make_the_cell_normal(senders: int, *, has_it: bool) -> None:
    cell = {"senders": senders, "theta": 0.05, "q": 0.5, "has_it": has_it}
    assert cell_information(**cell) == pytest.approx(variance_of_ratio(**cell), rel=2e-3)  # type: ignore[arg-type]


@pytest.mark.parametrize("theta", [0.0, 1.0])
def test_a_bin_that_nobody_or_everybody_sends_tells_nothing(theta: float) -> None:
    assert cell_information(senders=10, theta=theta, q=1.0, has_it=theta == 1.0) == 0.0


def test_thinning_bounds_what_a_rare_bin_tells_though_the_law_does_not() -> None:
    rare = {"senders": 10, "theta": 1e-7, "q": 0.1, "has_it": True}
    # The unit is sent with q = .1, and then it is certain: the coefficient is √.9.
    assert cell_information(**rare) == pytest.approx(-4 * math.log(0.9), rel=1e-2)  # type: ignore[arg-type]
    assert variance_of_ratio(**rare) > 9_000  # type: ignore[arg-type]
