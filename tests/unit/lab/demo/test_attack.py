"""The label attack on a demonstration's rounds."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Swift
from secvm.learning.experiment import Experiment
from secvm.learning.rows import BinnedRows
from secvm.learning.thinning import Thinning
from secvm.learning.weights import Weights
from secvm.privacy.planning.private_plan import AskedPrivately, plan_private
from secvm.privacy.target import PrivacyTarget
from secvm_lab.attacks.counting.covered import law_of
from secvm_lab.attacks.counting.likelihood import CoverLaw
from secvm_lab.demo.attack import VICTIMS, attack_labels, log_ratio

BINS, FEATURES, ROUNDS = 6, 3, 2


@cache
def experiment() -> Experiment:
    plain = Experiment(
        n_bins=BINS,
        labels=("no", "yes"),
        rule=Swift(),
        thinning=Thinning(rho=Fraction(1)),
        features_per_person=FEATURES,
    )
    asked = AskedPrivately(
        experiment=plain, target=PrivacyTarget(Fraction(1), Fraction(1, 10**5), 4), people=1000, rounds=ROUNDS
    )
    return plan_private(asked).experiment


def victims(count: int, seed: int = 1) -> BinnedRows:
    """People with three of the bins each."""
    dice = np.random.default_rng(seed)
    bins = np.sort(dice.permuted(np.tile(np.arange(BINS), (count, 1)), axis=1)[:, :FEATURES], axis=1)
    return BinnedRows(
        indptr=np.arange(0, FEATURES * count + 1, FEATURES, dtype=np.int64),
        bins=bins.astype(np.int32).ravel(),
        values=np.ones(FEATURES * count, dtype=np.int64),
        n_bins=BINS,
    )


def first_weights() -> Weights:
    """Of round 1: everybody sends."""
    one = experiment()
    return aggregate.training_weights(one, aggregate.start(one))


def played(changed: Experiment | None = None, seed: int = 3) -> tuple[float, tuple[float, float], float, float]:
    told = attack_labels(
        changed or experiment(), [first_weights()] * ROUNDS, victims(VICTIMS), np.random.default_rng(seed)
    )
    return told.auc, told.interval, told.allowed, told.plain


def test_the_attack_finds_something_and_no_more_than_the_accountant_allows() -> None:
    value, (low, high), allowed, _ = played()
    assert 0.52 < low <= value <= high
    assert (high - low) / 2 <= 0.02
    assert low <= allowed < 0.7


def test_without_cover_the_label_is_certain() -> None:
    assert played()[3] == 1.0


def test_less_cover_than_promised_is_seen_by_the_attack() -> None:
    made = experiment()
    assert made.cover is not None
    thin = replace(made.cover, train=replace(made.cover.train, odds=made.cover.train.odds / 8))
    _, (low, _), _, _ = played(replace(made, cover=thin))
    assert low > played()[2]


def test_the_same_dice_give_the_same_figures_and_others_give_others() -> None:
    assert played() == played()
    assert played()[0] != played(seed=4)[0]


@pytest.mark.parametrize("q", [1.0, 0.4])
def test_the_score_is_the_likelihood_ratio_of_the_cells_law(q: float) -> None:
    cover = experiment().cover
    assert cover is not None
    law = law_of(cover.train)

    def chance(k: int) -> float:
        if k < 0:
            return 0.0
        return math.exp(
            math.lgamma(k + law.shape)
            - math.lgamma(k + 1)
            - math.lgamma(law.shape)
            + law.shape * math.log(1 - law.p)
            + k * math.log(law.p)
        )

    counts = np.arange(1, 60)
    expected = [math.log(((1 - q) * chance(k) + q * chance(k - 1)) / chance(k)) for k in counts.tolist()]
    assert np.allclose(log_ratio(counts, q, law), expected, rtol=0, atol=1e-9)


def test_a_count_of_zero_refutes_a_unit_that_is_always_sent() -> None:
    zero, law = np.array([0]), CoverLaw(shape=15.0, p=0.5)
    assert log_ratio(zero, 1.0, law)[0] < -1e5
    assert log_ratio(zero, 0.5, law)[0] == pytest.approx(math.log(0.5))
    assert log_ratio(np.array([1]), 0.5, None)[0] > 1e5


def test_an_experiment_without_cover_is_refused() -> None:
    plain = replace(experiment(), cover=None, budget=None)
    with pytest.raises(ValueError, match="has none"):
        attack_labels(plain, [first_weights()], victims(10), np.random.default_rng(1))


def test_who_sends_nothing_is_told_by_participation_alone() -> None:
    """Weights under which nobody with the second label violates the margin still leave the package of being here."""
    far = Weights(np.full((1, BINS + 1), -(2**20), dtype=np.int32), Fraction(1))
    told = attack_labels(experiment(), [far], victims(500), np.random.default_rng(2))
    assert told.plain == 1.0
    assert told.within
