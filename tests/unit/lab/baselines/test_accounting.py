"""What baselines say about ε, held to closed forms, to published figures and to dice."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm.privacy.planning import noise_settings as gaussian
from secvm_lab.baselines import dp_sgd
from secvm_lab.baselines.local_dp import composed_delta, epsilon_of_each
from tests.deep.statistical.bounds import standard_errors
from tests.seeds import FALSE_ALARM, seed_for

#: Of a mean of plays.
ERRORS = standard_errors(FALSE_ALARM)


def renyi_epsilon(q: float, sigma: float, steps: int, delta: float) -> float:
    """ε of the subsampled Gaussian by Rényi divergences of whole orders (Mironov, Talwar and Zhang 2019)."""

    def divergence(order: int) -> float:
        terms = [
            math.log(math.comb(order, k))
            + (order - k) * math.log1p(-q)
            + k * math.log(q)
            + k * (k - 1) / (2 * sigma**2)
            for k in range(order + 1)
        ]
        top = max(terms)
        return (top + math.log(math.fsum(math.exp(term - top) for term in terms))) / (order - 1)

    return min(steps * divergence(order) + math.log(1 / delta) / (order - 1) for order in range(2, 128))


def played_delta(epsilon: float, *, sigma: float, q: float, steps: int, plays: int, seed: int) -> tuple[float, float]:
    """δ(ε) of "with against without" by dice, and its standard error: the mean of (1 - e^(ε-L))₊ under "with"."""
    rng = np.random.default_rng(seed)
    outcomes = rng.normal(0.0, sigma, (plays, steps)) + (rng.random((plays, steps)) < q)
    losses = np.log1p(q * np.expm1((2 * outcomes - 1) / (2 * sigma**2))).sum(axis=1)
    shares = np.maximum(0.0, -np.expm1(epsilon - losses))
    return float(shares.mean()), float(shares.std() / math.sqrt(plays))


@given(mu=st.floats(0.05, 3), epsilon=st.floats(0, 5))
def test_delta_of_a_gaussian_is_the_gain_of_the_best_test(mu: float, epsilon: float) -> None:
    # The best event is a half line; the largest gain over a fine grid of half lines is δ.
    best = epsilon / mu + mu / 2
    places = best + np.linspace(-1, 1, 201)
    gains = [gaussian.normal_below(mu - x) - math.exp(epsilon) * gaussian.normal_below(-x) for x in places]
    assert max(gains) == pytest.approx(gaussian.gaussian_delta(epsilon, mu), rel=1e-9, abs=1e-15)


@given(epsilon=st.floats(0.01, 8), log_delta=st.floats(-9, -2))
def test_mu_spends_all_of_epsilon_and_no_more(epsilon: float, log_delta: float) -> None:
    delta = 10**log_delta
    mu = gaussian.mu_for(epsilon, delta)
    assert gaussian.gaussian_delta(epsilon, mu) <= delta
    assert gaussian.gaussian_delta(epsilon, mu * (1 + 1e-6)) > delta


def test_a_gaussian_of_published_figures() -> None:
    # μ = 1 keeps δ(0) = 2 Φ(1/2) - 1, and δ(1) = Φ(-1/2) - e Φ(-3/2) (Dong, Roth and Su 2019, equation 6).
    assert gaussian.gaussian_delta(0.0, 1.0) == pytest.approx(0.38292492, rel=1e-7)
    assert gaussian.gaussian_delta(1.0, 1.0) == pytest.approx(0.12693674, rel=1e-6)


def test_no_limit_on_epsilon_needs_no_noise() -> None:
    assert gaussian.mu_for(math.inf, 1e-6) == math.inf
    assert gaussian.gaussian_delta(1.0, 0.0) == 0.0


@pytest.mark.parametrize("asked", [(-1.0, 1e-6), (1.0, 0.0), (1.0, 1.0)])
def test_nonsense_is_refused(asked: tuple[float, float]) -> None:
    with pytest.raises(BadInputError):
        gaussian.mu_for(*asked)
    with pytest.raises(BadInputError):
        dp_sgd.sigma_for(*asked, q=0.1, steps=1)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("sigma", [1.0, 5.0])
def test_without_sampling_the_bound_is_the_closed_form(sigma: float, epsilon: float) -> None:
    exact = gaussian.gaussian_delta(epsilon, math.sqrt(4) / sigma)
    found = dp_sgd.delta_of(epsilon, sigma=sigma, q=1.0, steps=4)
    assert exact <= found <= exact * 1.02 + 1e-12


def test_sampling_comes_out_below_the_published_renyi_bounds_which_are_found_again() -> None:
    # Abadi et al. 2016: q = .01, σ = 4, 10,000 steps, δ = 1e-5 give ε = 1.26.
    assert renyi_epsilon(0.01, 4.0, 10_000, 1e-5) == pytest.approx(1.26, abs=0.005)
    assert 0.9 < dp_sgd.epsilon_of(1e-5, sigma=4.0, q=0.01, steps=10_000) < 1.26
    # TensorFlow Privacy's example: 60 epochs of 60,000 people in batches of 256, σ = 1.12, give ε = 2.92.
    assert renyi_epsilon(256 / 60_000, 1.12, 14_062, 1e-5) == pytest.approx(2.92, abs=0.005)
    assert 2.2 < dp_sgd.epsilon_of(1e-5, sigma=1.12, q=256 / 60_000, steps=14_062) < 2.92


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.5, 1.0])
def test_sampling_agrees_with_dice(epsilon: float) -> None:
    # Fails by chance with probability at most 1e-6: Efron's bound.
    played, error = played_delta(epsilon, sigma=1.5, q=0.25, steps=12, plays=100_000, seed=seed_for("played delta"))
    assert played >= 1e-3
    assert abs(dp_sgd.delta_of(epsilon, sigma=1.5, q=0.25, steps=12) - played) <= ERRORS * error + 0.005 * played


def test_dice_notice_an_accountant_that_forgets_a_step() -> None:
    played, error = played_delta(0.2, sigma=1.5, q=0.25, steps=12, plays=100_000, seed=seed_for("played delta"))
    assert played - dp_sgd.delta_of(0.2, sigma=1.5, q=0.25, steps=11) > ERRORS * error + 0.005 * played


@settings(max_examples=10, deadline=None)
@given(epsilon=st.floats(0.3, 4), q=st.floats(0.02, 1), steps=st.integers(1, 200))
def test_noise_for_sampling_keeps_what_it_was_asked_for(epsilon: float, q: float, steps: int) -> None:
    sigma = dp_sgd.sigma_for(epsilon, 1e-6, q=q, steps=steps)
    assert dp_sgd.delta_of(epsilon, sigma=sigma, q=q, steps=steps) <= 1e-6
    assert dp_sgd.delta_of(epsilon, sigma=sigma * 0.99, q=q, steps=steps) > 1e-6


def test_one_local_report_has_the_delta_of_randomised_response() -> None:
    # P(truth) - e^ε P(lie) with P(truth) = e^ε₀ / (1 + e^ε₀).
    truth = math.e / (1 + math.e)
    assert composed_delta(0.4, 1.0, 1) == pytest.approx(truth - math.exp(0.4) * (1 - truth), rel=1e-12)
    assert composed_delta(1.0, 1.0, 1) == 0.0


@given(epsilon=st.floats(0.1, 4), times=st.integers(1, 60))
def test_parts_of_local_reports_are_never_smaller_than_even_ones(epsilon: float, times: int) -> None:
    each = epsilon_of_each(epsilon, 1e-6, times)
    assert each >= epsilon / times
    assert composed_delta(epsilon, each, times) <= 1e-6
    assert epsilon_of_each(epsilon, 0.0, times) == epsilon / times
