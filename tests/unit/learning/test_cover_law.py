"""The law of two relays' cover: means, quantiles, what is taken off, and what a device of such an experiment sends."""

from dataclasses import replace
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from secvm.errors import BadExperimentError
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.cover_law import Noise, relay_budget
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.individual.contribution import Individual, contribute
from secvm.learning.individual.dice import UnsafeSeededDice
from secvm.learning.package import Cohort, NullPackage, Package, ParticipationPackage, TestPackage, TrainPackage
from secvm.learning.thinning import Thinning
from tests.unit.learning.helpers import relay_cover

BINS, LABELS, FEATURES = 6, 2, 5


def noise(cells: int, shape: Fraction = Fraction(15), odds: Fraction = Fraction(3, 2)) -> Noise:
    return Noise(cells=cells, shape=shape, odds=odds)


COVER = relay_cover(bins=BINS, train="3/2", here="1/4", tested="1/4", parts=4, room=200, train_share=Fraction(7, 10))
BUDGET = relay_budget(violable=1, features=FEATURES)
COVERED = Experiment(
    n_bins=BINS,
    labels=("f", "m"),
    rule=Swift(),
    thinning=Thinning(rho=Fraction(1)),
    features_per_person=FEATURES,
    budget=BUDGET,
    cover=COVER,
)
UNTHINNED = replace(COVERED, rule=Pegasos(), thinning=Thinning())


def sent(one: Individual, experiment: Experiment, number: int) -> list[Package]:
    state = aggregate.start(experiment)
    return contribute(
        one,
        experiment=experiment,
        training=aggregate.training_weights(experiment, state),
        evaluation=aggregate.evaluation_weights(experiment, state),
        dice=UnsafeSeededDice(b"relays", number),
        round_number=1,
    )


def person(label: int, cohort: Cohort, bins: set[int]) -> Individual:
    vector = BinnedVector(values=dict.fromkeys(sorted(bins), 1), n_bins=BINS)
    return Individual(vector=vector, label=label, cohort=cohort)


people = st.builds(
    person, st.integers(0, 1), st.sampled_from(Cohort), st.sets(st.integers(0, BINS - 1), max_size=FEATURES)
)


# ── the law ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def exact_quantile(shape: int, odds: Fraction) -> int:
    """By rational arithmetic alone, for a whole shape."""
    p = odds / (1 + odds)
    missing, k = 1 - (1 - p) ** shape - Fraction(1, 10**12), 0
    while missing > 0:
        k += 1
        missing -= comb(k + shape - 1, k) * (1 - p) ** shape * p**k
    return k


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 6), st.integers(1, 12), st.integers(1, 6))
def test_the_quantile_is_that_of_rational_arithmetic(shape: int, over: int, under: int) -> None:
    odds = Fraction(over, under)
    assert noise(1, Fraction(shape), odds).quantile == exact_quantile(shape, odds)


@pytest.mark.parametrize("power", [1, 2, 3])
def test_a_quantile_reached_exactly_is_reached(power: int) -> None:
    """With shape 1 P(count > k) = p^(k+1): for p = 10^(-12/n) it is 1e-12 exactly at k = n - 1."""
    p = Fraction(1, 10 ** (12 // power))
    assert noise(1, Fraction(1), p / (1 - p)).quantile == power - 1
    beside = p * (1 + Fraction(1, 10**30))
    assert noise(1, Fraction(1), beside / (1 - beside)).quantile == power


@settings(deadline=None, max_examples=30)
@given(st.fractions(Fraction(1, 50), 40, max_denominator=60), st.fractions(Fraction(1, 50), 30, max_denominator=60))
def test_the_quantile_agrees_with_a_second_library_about_any_shape(shape: Fraction, odds: Fraction) -> None:
    """In doubles the tail is only about right: the neighbours must lie on the two sides of 1e-12, to a part in 1e3."""
    q = noise(1, shape, odds).quantile
    law = stats.nbinom(float(shape), float(1 / (1 + odds)))
    assert law.sf(q) < 1e-12 * 1.001
    assert q == 0 or law.sf(q - 1) > 1e-12 * 0.999


@pytest.mark.parametrize(
    "change",
    [
        {"cells": 0},
        {"shape": Fraction(0)},
        {"shape": Fraction(2**16 + 1)},
        {"odds": Fraction(0)},
        {"odds": Fraction(2**15)},
        {"odds": Fraction(2**14), "shape": Fraction(65)},
    ],
)
def test_noise_that_makes_no_sense_is_refused(change: dict[str, Fraction]) -> None:
    fields = {"cells": 1, "shape": Fraction(1), "odds": Fraction(1)} | change
    with pytest.raises(BadExperimentError):
        Noise(**fields)  # type: ignore[arg-type]  # a table of fields


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"parts": 3}, "4 to 64"),
        ({"parts": 65, "packages": 65 * 200}, "4 to 64"),
        ({"packages": 801}, "multiple of its 4 parts"),
        ({"packages": 0}, "positive multiple"),
        ({"packages": 2**32}, "below 4294967296"),
        ({"packages": 4 * 100}, "a part holds 100 packages"),
        ({"train_share": Fraction(0)}, "share of devices"),
    ],
)
def test_relays_cover_that_makes_no_sense_is_refused(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadExperimentError, match=sentence):
        replace(COVER, **change)  # type: ignore[arg-type]  # a table of fields


# ── what is taken off ────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.integers(0, 500))
def test_the_mean_of_both_relays_is_taken_off_whatever_was_counted(counted: int) -> None:
    tally = aggregate.empty_tally(COVERED)
    tally = replace(
        tally,
        plus=tally.plus + counted,
        minus=tally.minus + counted,
        participants=tally.participants + counted,
        cells=tally.cells + counted,
    )
    net = aggregate.uncovered(COVERED.cover, tally)
    # 2 · 15 · 3/2, and 2 · 15 / 4 = 15/2, half to even: 8.
    assert (net.plus == counted - 45).all()
    assert (net.minus == counted - 45).all()
    assert (net.participants == max(0, counted - 8)).all()
    assert (net.cells == max(0, counted - 8)).all()


def test_half_goes_to_the_even_number() -> None:
    for shape, taken in ((1, 0), (3, 2), (5, 2), (7, 4)):
        half = replace(COVER, participation=noise(4, Fraction(shape), Fraction(1, 4)))
        tally = replace(aggregate.empty_tally(COVERED), participants=np.array([100, 100]))
        assert aggregate.uncovered(half, tally).participants.tolist() == [100 - taken] * 2


def test_variances_are_those_of_both_relays_parts_but_the_opened() -> None:
    tally = aggregate.empty_tally(COVERED)
    assert COVER.train_variance == 2 * 15 * Fraction(3, 2) * Fraction(5, 2)
    assert COVER.test_variance == pytest.approx(2 * 15 * 0.25 * 1.25)
    assert replace(COVER, test=None).test_variance == 0.0
    counted = replace(tally, cells=np.array([[90, 10], [10, 90]]), participants=np.array([100, 100]))
    assert aggregate.score(COVERED, counted).accuracy.variance == pytest.approx(COVER.test_variance)


def test_a_step_is_that_of_the_uncovered_tally() -> None:
    tally = aggregate.empty_tally(COVERED)
    tally = replace(tally, plus=tally.plus + 70, minus=tally.minus + 50, participants=np.array([90, 80]))
    plain = replace(COVERED, cover=None)
    covered = aggregate.step(COVERED, aggregate.start(COVERED), tally).to_bytes()
    assert covered == aggregate.step(plain, aggregate.start(plain), aggregate.uncovered(COVER, tally)).to_bytes()


@pytest.mark.parametrize("field", ["plus", "minus", "participants", "cells"])
def test_one_package_too_many_in_a_cell_is_not_explained(field: str) -> None:
    kinds = {"plus": 0, "minus": 0, "participants": 1, "cells": 2}
    most = COVER.most_in_a_cell(30)[kinds[field]]
    assert most == 30 + 2 * COVER.kinds[kinds[field]].quantile
    for count, explained in ((most, True), (most + 1, False)):
        tally = aggregate.empty_tally(COVERED)
        getattr(tally, field).flat[1] = count
        assert aggregate.explains(COVER, tally, 30) is explained


# ── an experiment ────────────────────────────────────────────────────────────────────────────────────────────────────


@given(people, st.integers(0, 10**6), st.sampled_from([COVERED, UNTHINNED]))
def test_a_device_sends_its_own_packages_and_nulls_and_always_b(
    one: Individual, number: int, experiment: Experiment
) -> None:
    packages = sent(one, experiment, number)
    assert len(packages) == BUDGET
    own = [p for p in packages if not isinstance(p, NullPackage)]
    assert own == sent(one, replace(experiment, cover=None, budget=None), number)
    assert isinstance(own[0], ParticipationPackage)
    kind = TrainPackage if one.cohort is Cohort.TRAIN else TestPackage
    assert all(isinstance(p, kind) for p in own[1:])
    # The canary always has a place.
    assert isinstance(packages[-1], NullPackage)


@pytest.mark.parametrize("hashes", [1, 2, 3])
def test_only_budgets_of_some_number_of_hashes_are_taken(hashes: int) -> None:
    budget = relay_budget(violable=1, features=FEATURES, hashes=hashes)
    replace(COVERED, budget=budget)
    for other in (budget - 1, budget + 1):
        with pytest.raises(BadExperimentError, match="not that of relays' cover"):
            replace(COVERED, budget=other)


def test_one_versus_one_counts_the_models_that_a_person_takes_part_in() -> None:
    labels = ("a", "b", "c", "d")
    cover = replace(COVER, train=noise(2 * 6 * (BINS + 1)), participation=noise(8), test=noise(16), packages=4 * 900)
    made = replace(COVERED, labels=labels, multiclass="ovo", cover=cover, budget=2 + 3 * (FEATURES + 1))
    assert made.models.most_per_person == 3
    with pytest.raises(BadExperimentError):
        replace(made, budget=2 + 6 * (FEATURES + 1))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"n_bins": 7}, "made for other bins"),
        ({"labels": ("a", "b", "c")}, "made for other bins"),
        ({"features_per_person": None}, "bound on the features"),
    ],
)
def test_relays_cover_that_does_not_fit_is_refused(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadExperimentError, match=sentence):
        replace(COVERED, **change)  # type: ignore[arg-type]  # a table of fields
