"""The trusted server: its noise is what it says, one person moves its sums by no more than it says.

Devices' cover: what is planned keeps what was asked, and rests on how many are honest.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm.estimator.training import OfflineTraining, Population
from secvm.learning.aggregate.descent import DescentRule, Pegasos, Swift
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.rows import BinnedRows
from secvm.privacy.planning.noise_settings import mu_for
from secvm.privacy.target import PrivacyTarget
from secvm_lab.baselines.baseline import clipped
from secvm_lab.baselines.central_gaussian import PARTICIPATION_SHARE, CentralGaussian, CentralNoise
from secvm_lab.baselines.device_cover import DeviceCover, DevicePlan, draw_devices, plan_devices
from secvm_lab.baselines.plain import Plain
from tests.seeds import seed_for
from tests.unit.lab.baselines.crowds import crowd, rows_of

RULES: list[DescentRule] = [Swift(), Pegasos(lambda_=Fraction(1, 100))]


def experiment(rule: DescentRule, *, n_bins: int, sigma: float, labels: int = 2) -> CentralNoise:
    question = Plain(1, 1, rule).experiment(n_bins, labels)
    return CentralNoise(question, sigma=sigma, participation_sigma=3.0, seed=1)


def too_wide(sums: np.ndarray, sigma: float, rate_in_deviations: float = 4.9) -> bool:
    """Whether draws have another variance than σ²; 4.9 deviations are a false alarm in a million."""
    n = sums.size
    return bool(abs(float((sums**2).sum()) / (n * sigma**2) - 1) > rate_in_deviations * math.sqrt(2 / n))


@pytest.mark.parametrize("rule", RULES, ids=["swift", "pegasos"])
def test_without_a_limit_the_trusted_server_is_the_plain_one_bit_for_bit(rule: DescentRule) -> None:
    rows, labels = crowd(200)
    plain = Plain(5, 6, rule).fit(rows, labels, seed=3)
    central = CentralGaussian(math.inf, 1e-6, 5, 6, rule).fit(rows, labels, seed=3)
    assert central.weights.to_bytes() == plain.weights.to_bytes()
    assert central.guarantee is None


@settings(max_examples=40, deadline=None)
@given(data=st.data(), rule=st.sampled_from(RULES), labels=st.sampled_from([2, 3]))
def test_one_person_moves_a_round_by_no_more_than_the_sensitivity(
    data: st.DataObject, rule: DescentRule, labels: int
) -> None:
    n_bins, contribution = 6, data.draw(st.integers(1, 4))
    lists = data.draw(st.lists(st.lists(st.integers(0, n_bins - 1), unique=True, max_size=6), min_size=3, max_size=8))
    rows = clipped(rows_of(lists, n_bins), contribution, seed=1)
    codes = np.array(data.draw(st.lists(st.integers(0, labels - 1), min_size=len(lists), max_size=len(lists))))
    question = Plain(1, contribution, rule).experiment(n_bins, labels)
    everybody = Population(rows=rows, labels=codes)
    training = OfflineTraining(question)
    for _ in range(data.draw(st.integers(0, 2))):
        training.advance(everybody)
    states = training.state
    tallies = []
    for present in (True, False):
        training.state = states
        here = np.ones(len(rows), dtype=np.bool_)
        here[0] = present
        training.advance(replace(everybody, train=here))
        assert training.tally is not None
        tallies.append(training.tally)
    unit = 2**32 if question.fixed_point_rows else 1
    moved = np.concatenate([tallies[0].plus - tallies[1].plus, tallies[0].minus - tallies[1].minus]) / unit
    difference = (tallies[0].plus - tallies[0].minus - tallies[1].plus + tallies[1].minus) / unit
    limit = CentralGaussian(1.0, 1e-6, 1, contribution, rule).sensitivity(question.models.n_models)
    assert np.sqrt((moved**2).sum()) <= limit * (1 + 1e-9)
    assert np.sqrt((difference**2).sum()) <= limit * (1 + 1e-9)
    assert np.abs(tallies[0].participants - tallies[1].participants).sum() == 1


def test_rounds_and_participation_together_spend_all_of_mu() -> None:
    server = CentralGaussian(1.0, 1e-6, 30, 100, Pegasos())
    rounds = 30 * (server.sensitivity() / server.sigma()) ** 2
    once = 1 / server.participation_sigma**2
    assert rounds + once == pytest.approx(mu_for(1.0, 1e-6) ** 2, rel=1e-12)
    assert once == pytest.approx(PARTICIPATION_SHARE * mu_for(1.0, 1e-6) ** 2, rel=1e-12)


@pytest.mark.parametrize("rule", RULES, ids=["swift", "pegasos"])
def test_the_noise_has_the_variance_that_it_says(rule: DescentRule) -> None:
    noised = experiment(rule, n_bins=100_000, sigma=7.0)
    unit = 2**32 if noised.experiment.fixed_point_rows else 1
    empty = Tally.empty(n_models=1, n_bins=100_000, n_labels=2)
    first, second = noised(empty, 1), noised(empty, 2)
    shown = [second.plus]
    if noised.shows_both_sides(1):
        shown += [first.plus, first.minus]
    for sums in shown:
        # Rounding to whole counts adds 1/12.
        sigma = math.sqrt(7.0**2 + (1 / 12 if unit == 1 else 0))
        assert not too_wide(sums / unit, sigma)
        assert too_wide(sums / unit, 0.97 * sigma), "less noise than promised must be noticed"
    assert not second.minus.any()
    assert not np.array_equal(first.plus, second.plus)


def test_a_round_that_shows_the_difference_shows_nothing_else() -> None:
    noised = experiment(Swift(), n_bins=3, sigma=1.0)
    one = Tally.empty(n_models=1, n_bins=3, n_labels=2)
    both = Tally(plus=one.plus + 5, minus=one.minus + 5, participants=one.participants, cells=one.cells)
    assert noised(one, 2) == noised(both, 2)
    assert noised(one, 1) != noised(both, 1)


def test_weighted_sides_are_shown_apart() -> None:
    question = Experiment(n_bins=3, labels=("a", "b"), rule=Pegasos(), class_weights=(Fraction(1), Fraction(2)))
    assert CentralNoise(question, sigma=1.0, participation_sigma=1.0, seed=1).shows_both_sides(5)
    assert not experiment(Pegasos(), n_bins=3, sigma=1.0).shows_both_sides(1)


def test_the_number_of_people_is_shown_once() -> None:
    noised = experiment(Swift(), n_bins=3, sigma=1.0)
    tally = Tally.empty(n_models=1, n_bins=3, n_labels=2)
    tally = Tally(plus=tally.plus, minus=tally.minus, participants=np.array([500, 700]), cells=tally.cells)
    shown = noised(tally, 1).participants
    assert np.array_equal(shown, noised(tally, 9).participants)
    assert not np.array_equal(shown, tally.participants)


def test_a_seed_decides_everything_and_another_seed_decides_otherwise() -> None:
    rows, labels = crowd(100)
    server = CentralGaussian(1.0, 1e-6, 4, 8)
    first = server.fit(rows, labels, seed=1).weights.to_bytes()
    assert first == server.fit(rows, labels, seed=1).weights.to_bytes()
    assert first != server.fit(rows, labels, seed=2).weights.to_bytes()


@pytest.mark.parametrize("asked", [(1.0, 1e-6, 0, 5), (1.0, 1e-6, 5, 0), (1.0, 2.0, 5, 5)])
def test_nonsense_is_refused(asked: tuple[float, float, int, int]) -> None:
    with pytest.raises(BadInputError):
        CentralGaussian(*asked)


TARGET = PrivacyTarget(Fraction(2), Fraction(1, 10**5))


@cache
def planned(honest: int = 2_000) -> DevicePlan:
    return plan_devices(TARGET, honest=honest, bins=40, features=5, rounds=2, shape=30)


def test_a_plan_keeps_what_was_asked_if_so_many_are_honest() -> None:
    assert planned().mechanism.delta(2.0) <= 1e-5
    assert planned(1_000).mechanism.delta(2.0) <= 1e-5


def test_it_guarantees_less_if_fewer_are_honest_and_nothing_if_one_is() -> None:
    few = replace(planned(), honest=1_000).mechanism.epsilon(delta=1e-5)
    assert few > planned().mechanism.epsilon(delta=1e-5)
    assert math.isinf(replace(planned(), honest=1).mechanism.epsilon(delta=1e-5))


def test_a_device_sends_a_participation_all_its_units_and_both_caps() -> None:
    made = planned()
    assert made.budget == 1 + 6 + made.train.cap + made.participation.cap
    assert 0 < made.cover_mean < made.train.cap + made.participation.cap


def test_all_devices_together_add_the_mean_that_is_taken_off() -> None:
    noise, size = planned().train, 4_000
    drawn = draw_devices(np.random.default_rng(seed_for("devices' cover")), noise, 2_000, (size,))
    mean = 2_000 * noise.mean
    spread = math.sqrt(mean * (1 + noise.odds) / size)
    # Six standard errors of a mean of thousands: once in a billion, with room for what is not quite normal.
    assert abs(float(drawn.mean()) - float(mean)) < 6 * spread


def test_a_model_is_learnt_and_its_cost_is_told() -> None:
    dice = np.random.default_rng(seed_for("devices' cover, learnt"))
    labels = dice.integers(0, 2, 2_000)
    # Two bins tell the label, one is everybody's.
    rows = BinnedRows(
        indptr=np.arange(0, 4_001, 2),
        bins=np.stack([labels, np.full(2_000, 2)], axis=1).ravel().astype(np.int32),
        values=np.ones(4_000, dtype=np.int32),
        n_bins=3,
    )
    found = DeviceCover(TARGET, contribution=2, shape=30).fit(rows, labels, seed=1)
    assert found.guarantee is not None
    assert found.guarantee.epsilon == 2
    assert {"budget", "cover_mean"} <= found.notes.keys()
    assert (found.predict(rows) == labels).mean() > 0.9
