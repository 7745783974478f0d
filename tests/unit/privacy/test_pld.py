"""Privacy losses on a grid are never below the truth, and close to it."""

import json
import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from secvm.errors import BadInputError
from secvm.privacy.accounting.cover_loss import cell_losses, log_masses, log_tail, smallest_cap, spread_of_loss
from secvm.privacy.accounting.pld import Looks, PrivacyLoss, discretise, smallest_epsilon

#: Brackets by Google's dp-accounting 0.6.0: δ from below and from above, of a grid 200 times finer than ours, rounded
#: to the optimistic and to the pessimistic side (``from_two_probability_mass_functions``, ``self_compose``).
BRACKETS = json.loads((Path(__file__).parent / "dp_accounting.json").read_text(encoding="utf-8"))


def losses_of(shape: float, odds: float, q: float) -> tuple[PrivacyLoss, PrivacyLoss]:
    p = odds / (1 + odds)
    return cell_losses(shape, p, q, spread_of_loss(shape, p, q) / 16)


@pytest.mark.parametrize("bracket", BRACKETS, ids=lambda b: f"r{b['shape']} q{b['q']} ε{b['epsilon']}")
def test_delta_lies_in_the_bracket_of_another_accountant(bracket: dict[str, Any]) -> None:
    taken, given_ = losses_of(bracket["shape"], bracket["odds"], bracket["q"])
    for name, loss in (("taken", taken), ("given", given_)):
        low, high = bracket[name]
        found = Looks([(loss, int(bracket["looks"]))]).delta(bracket["epsilon"])
        # The other's grid is finer, ours splits atoms: up to 3 % more where δ is 1e-9.
        assert low <= found <= 1.03 * high


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=2, max_size=3),
    st.integers(1, 4),
    st.sampled_from([0.03, 0.1, 0.5]),
    st.floats(0, 2),
)
def test_delta_is_never_below_brute_force(
    weights: list[tuple[int, int]], looks: int, step: float, epsilon: float
) -> None:
    """For any two small laws, also where one of them has a zero, and for any grid."""
    one = np.array([a for a, _ in weights]) / sum(a for a, _ in weights)
    other = np.array([b for _, b in weights]) / max(1, sum(b for _, b in weights))
    truth = 0.0
    for outcome in product(range(len(weights)), repeat=looks):
        truth += max(0.0, float(np.prod(one[list(outcome)]) - math.exp(epsilon) * np.prod(other[list(outcome)])))
    both = other > 0
    if not both.any():
        return
    loss = discretise(np.log(one[both] / other[both]), one[both], infinite=float(one[~both].sum()), step=step)
    assert Looks([(loss, looks)]).delta(epsilon) >= truth - 1e-12


def test_a_finer_grid_tells_less_too_much() -> None:
    p = 20 / 21
    spread = spread_of_loss(6.0, p, 1.0)
    found = [Looks([(cell_losses(6.0, p, 1.0, spread / fine)[0], 30)]).delta(0.25) for fine in (1, 4, 16, 64)]
    assert found == sorted(found, reverse=True)
    assert found[2] < 1.01 * found[3]


def test_deltas_far_below_rounding_are_found() -> None:
    """1e-20 and less, where a transform without tilting sees its own rounding, near 1e-13."""
    taken, _ = losses_of(15.0, 65.0, 1.0)
    looks = Looks([(taken, 3030)])
    found = [looks.delta(epsilon) for epsilon in (1.0, 1.5, 1.8)]
    assert 3e-7 < found[0] < 8e-7
    assert found[1] < 1e-11
    assert 1e-22 < found[2] < 1e-15


def test_what_has_an_infinite_loss_stays() -> None:
    _, given_ = losses_of(4.5, 65.0, 1.0)
    looks = Looks([(given_, 3030)])
    assert looks.unbounded == pytest.approx(3030 * 66**-4.5, rel=0.01)
    assert looks.delta(30.0) >= looks.unbounded
    assert math.isinf(smallest_epsilon(looks.delta, 1e-6))


def test_smallest_epsilon_is_kept_and_a_little_less_is_not() -> None:
    taken, _ = losses_of(15.0, 65.0, 1.0)
    looks = Looks([(taken, 3030)])
    found = smallest_epsilon(looks.delta, 1e-6)
    assert looks.delta(found) <= 1e-6 < looks.delta(0.999 * found)
    assert smallest_epsilon(looks.delta, 1e-6, at_least=2.0) == 2.0
    assert smallest_epsilon(looks.delta, 0.9) == 0.0


@given(st.floats(0.05, 50), st.floats(0.05, 0.995), st.integers(0, 3000))
def test_the_tail_is_never_below_the_truth(shape: float, p: float, above: int) -> None:
    truth = float(stats.nbinom.logsf(above, shape, 1 - p))
    found = log_tail(shape, p, above)
    if truth < -600:  # a float sum comes to its end there
        return
    assert found >= truth - 1e-8 * max(1.0, abs(truth))
    if above > 2 * shape * p / (1 - p) + 20 / (1 - p):
        assert found <= truth + 1


@given(st.floats(0.1, 50), st.floats(0.1, 0.99), st.floats(-60, -1))
def test_the_smallest_cap_keeps_its_chance_and_one_less_does_not(shape: float, p: float, log_chance: float) -> None:
    cap = smallest_cap(shape, p, log_chance)
    assert log_tail(shape, p, cap) <= log_chance
    assert cap == 1 or log_tail(shape, p, cap - 1) > log_chance


@given(st.floats(0.1, 60), st.floats(0.05, 0.99))
def test_masses_are_those_of_the_negative_binomial(shape: float, p: float) -> None:
    masses = log_masses(shape, p)
    k = np.arange(len(masses))
    assert np.allclose(masses, stats.nbinom.logpmf(k, shape, 1 - p), rtol=1e-9, atol=1e-9)
    assert np.exp(masses).sum() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("looks", [10**4, 10**5, 10**6, 10**7])
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 30.0])
def test_repro_more_looks_never_tell_less_however_many_there_are(looks: int, epsilon: float) -> None:
    """A window far above ε had lost all that lies between, so that a million looks seemed to tell nothing at all."""
    few, many = (
        [Looks([(loss, n)]).delta(epsilon) for loss in losses_of(100.0, 1.0, 1.0)] for n in (looks // 10, looks)
    )
    assert all(less <= more for less, more in zip(few, many, strict=True))
    if looks >= 10**6:
        assert min(many) == 1.0


@pytest.mark.parametrize("shape", [1e4, 1e7, 1e10, 1e13, 1e16, 1e19])
@pytest.mark.parametrize("above", [520, 700, 1500])
def test_repro_tail_of_a_huge_shape_is_no_rounding(shape: float, above: int) -> None:
    """NB with the mean 500 and a huge shape is nearly Poisson, and never has less of a tail."""
    truth = stats.poisson.logsf(above, 500)
    found = log_tail(shape, (500 / shape) / (1 + 500 / shape), above)
    # One term times a geometric series is more than the tail: by a third near the mean.
    assert truth - 1e-6 <= found <= truth + 0.5 + 2 * above**2 / shape


def test_repro_noise_that_is_as_good_as_none_is_no_guarantee_and_no_index_error() -> None:
    (some, _), (_, none) = losses_of(99, 3, 1.0), losses_of(99, 1e-30, 1.0)
    assert Looks([(some, 3), (none, 2)]).deltas([0.5, 4.0]) == [1, 1]


def test_repro_noise_that_hides_some_counts_alone_is_refused_before_it_fills_the_memory() -> None:
    with pytest.raises(BadInputError, match="hides some counts"):
        cell_losses(99.0, 1e-9, 1.0, 1e-9)
