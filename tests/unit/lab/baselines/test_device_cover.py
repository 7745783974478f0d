"""Devices' cover as a baseline: what is planned keeps what was asked, and rests on how many are honest."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np

from secvm.learning.rows import BinnedRows
from secvm.privacy.target import PrivacyTarget
from secvm_lab.baselines.device_cover import DeviceCover, DevicePlan, draw_devices, plan_devices
from tests.seeds import seed_for

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
