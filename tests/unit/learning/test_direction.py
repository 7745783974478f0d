"""Class weights and normalisers, in exact numbers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.aggregate.direction import check_participants, direction_of
from secvm.learning.aggregate.tally import Tally
from secvm.learning.arithmetic import exact
from secvm.learning.experiment import Experiment
from secvm.learning.label_models import LabelModels
from secvm.learning.thinning import Thinning
from tests.unit.learning.helpers import half_even, small_tally

ONES = (Fraction(1), Fraction(1))


def taken(
    tally: Tally,
    models: LabelModels,
    weights: tuple[Fraction, ...],
    factors: tuple[Fraction, Fraction] = ONES,
    divisor: Fraction = Fraction(1),
) -> list[list[Fraction]]:
    d = direction_of(tally, models=models, class_weights=weights, factors=factors, divisor=divisor)
    return [[int(n) * scale for n in row] for row, scale in zip(d.numerators, d.scales, strict=True)]


@given(
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=2, max_size=4),
    st.tuples(st.integers(0, 50), st.integers(0, 50)).filter(any),
    st.tuples(st.fractions(0, 10), st.fractions(0, 10)),
    st.tuples(st.fractions(Fraction(1, 9), 9), st.fractions(Fraction(1, 9), 9)),
    st.fractions(Fraction(1, 100), 20),
)
def test_direction_is_the_weighted_mean_of_the_weighted_participants(
    counts: list[tuple[int, int]],
    n: tuple[int, int],
    weights: tuple[Fraction, Fraction],
    factors: tuple[Fraction, Fraction],
    divisor: Fraction,
) -> None:
    tally = small_tally([[p for p, _ in counts]], [[m for _, m in counts]], list(n))
    b, a = weights  # label 1 is the positive one
    weighted = a * n[1] + b * n[0]
    expected = [
        (a * factors[0] * p - b * factors[1] * m) / (divisor * weighted) if weighted else Fraction(0) for p, m in counts
    ]
    assert taken(tally, LabelModels(2), weights, factors, divisor) == [expected]


def test_weight_four_is_not_the_inverse_normaliser_of_2018() -> None:
    # 10 people of weight 4 against 30 of weight 1, all violating: the bias moves by (4·10 - 30) / (4·10 + 30).
    tally = small_tally([[10]], [[30]], [30, 10])
    assert taken(tally, LabelModels(2), (Fraction(1), Fraction(4))) == [[Fraction(10, 70)]]


@pytest.mark.parametrize("participants", [[1, 0], [0, 1]])
@pytest.mark.parametrize("rule", [Pegasos(), Swift()])
def test_one_participant_alone_gives_finite_weights(participants: list[int], rule: Pegasos | Swift) -> None:
    tally = small_tally([[0, 0, participants[1]]], [[0, 0, participants[0]]], participants)
    thinning = Thinning(rho=Fraction(3)) if rule.normalised else Thinning()
    experiment = Experiment(n_bins=2, labels=("a", "b"), rule=rule, thinning=thinning)
    state = aggregate.step(experiment, aggregate.start(experiment), tally)
    values = rule.training_weights(state).values()
    assert np.isfinite(values).all()
    assert np.sign(values[0, 2]) == (1 if participants[1] else -1)


def test_nobody_is_an_error_and_no_division_by_zero() -> None:
    with pytest.raises(BadInputError):
        check_participants(small_tally([[0]], [[0]], [0, 0]))
    experiment = Experiment(n_bins=2, labels=("a", "b"), rule=Pegasos())
    with pytest.raises(BadInputError):
        aggregate.step(experiment, aggregate.start(experiment), aggregate.empty_tally(experiment))


def test_one_vs_rest_weighs_the_rest_by_its_participants_mean() -> None:
    tally = small_tally([[5], [0], [0]], [[7], [0], [0]], [10, 20, 30])
    weights = (Fraction(2), Fraction(3), Fraction(5))
    # Model 0: label 0 against 20 people of weight 3 and 30 of weight 5, mean 21/5.
    rest = Fraction(20 * 3 + 30 * 5, 50)
    assert taken(tally, LabelModels(3), weights)[0] == [(2 * 5 - rest * 7) / (2 * 10 + rest * 50)]


def test_one_vs_one_pairs_are_normalised_by_their_own_two_classes() -> None:
    tally = small_tally([[4], [6], [2]], [[1], [0], [0]], [10, 20, 30])
    assert taken(tally, LabelModels(3, "ovo"), (Fraction(1),) * 3) == [
        [Fraction(4 - 1, 30)],
        [Fraction(6, 40)],
        [Fraction(2, 50)],
    ]


@pytest.mark.parametrize("rule", [Pegasos(), Swift()])
def test_pair_with_nobody_stands_still(rule: Pegasos | Swift) -> None:
    thinning = Thinning(rho=Fraction(3)) if rule.normalised else Thinning()
    experiment = Experiment(n_bins=1, labels=("a", "b", "c"), multiclass="ovo", rule=rule, thinning=thinning)
    somebody = small_tally([[2, 2], [2, 2], [2, 2]], [[1, 1], [1, 1], [1, 1]], [1, 1, 1])
    before = aggregate.step(experiment, aggregate.start(experiment), somebody)
    only_c = small_tally([[0, 0], [5, 5], [5, 5]], [[0, 0]] * 3, [0, 0, 3])
    after = aggregate.step(experiment, before, only_c)
    name = "sum_0" if rule.name == "pegasos" else "weights"
    assert (after.vectors[name][1] != before.vectors[name][1]).all()
    if rule.name == "pegasos":
        assert (after.vectors[name][0] == before.vectors[name][0]).all()


def test_repro_long_class_weights_do_not_wrap() -> None:
    weights = (exact(0.3333333333333333), Fraction(1))
    tally = small_tally([[2000, 3]], [[1000, 2]], [1000, 2000])
    b, a = weights
    expected = [(a * p - b * m) / (a * 2000 + b * 1000) for p, m in ((2000, 1000), (3, 2))]
    assert taken(tally, LabelModels(2), weights) == [expected]
    experiment = Experiment(n_bins=1, labels=("a", "b"), class_weights=weights, rule=Pegasos(averaging=1))
    state = aggregate.step(experiment, aggregate.start(experiment), tally)
    assert state.vectors["sum_0"].tolist() == [[half_even(e * 2**32) for e in expected]]


def test_repro_long_class_weights_of_one_pair_leave_the_other_pairs_right() -> None:
    weights = (exact(0.3333333333333333), Fraction(1), Fraction(1))
    experiment = Experiment(
        n_bins=1, labels=("a", "b", "c"), multiclass="ovo", class_weights=weights, rule=Pegasos(averaging=1)
    )
    tally = small_tally([[2000, 3], [900, 1], [5, 7]], [[2000, 2], [30, 1], [2, 9]], [1000, 2000, 30])
    b = weights[0]
    expected = [
        [(p - b * m) / (2000 + b * 1000) for p, m in ((2000, 2000), (3, 2))],
        [(p - b * m) / (30 + b * 1000) for p, m in ((900, 30), (1, 1))],
        [Fraction(p - m, 2030) for p, m in ((5, 2), (7, 9))],
    ]
    state = aggregate.step(experiment, aggregate.start(experiment), tally)
    assert state.vectors["sum_0"].tolist() == [[half_even(e * 2**32) for e in row] for row in expected]


def test_repro_negative_counts_times_large_class_weights_do_not_wrap_around() -> None:
    # Counts become negative when cover is taken off.
    tally = small_tally([[-(2**40), 1, 1]], [[0, 0, 0]], [3, 3])
    weights = (Fraction(1), Fraction(2**40))
    assert taken(tally, LabelModels(2), weights)[0][0] == Fraction(-(2**80), 3 * 2**40 + 3)


def test_popularity_is_unweighted_and_unsigned() -> None:
    tally = small_tally([[10, 1]], [[30, 2]], [30, 10])
    d = direction_of(
        tally, models=LabelModels(2), class_weights=(Fraction(1), Fraction(4)), factors=ONES, divisor=Fraction(3)
    )
    assert d.totals.tolist() == [[40, 3]]
    assert d.total_scales == (Fraction(1, 3 * 40),)
