"""The margin test: exactly on the margin, one unit off it, normalised, and many people at once."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm.learning.arithmetic import MAX_THRESHOLD
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.individual.update import (
    Update,
    band,
    bands,
    fixed_epsilon,
    fixed_norm,
    fixed_target,
    local_update,
    score,
    squared_norm,
    verdicts,
)
from secvm.learning.losses import ONE, Loss
from secvm.learning.weights import Weights
from tests.unit.learning.helpers import half_even, ints, some_weights

VECTOR = BinnedVector(values={0: 3, 2: -2}, n_bins=4)


def sign_sent(
    weights: Weights, vector: BinnedVector, label_sign: int | None, threshold: int = ONE, width: int = 0
) -> int:
    update = local_update(
        weights=weights, model=0, vector=vector, label_sign=label_sign, threshold=threshold, width=width
    )
    return 0 if update is None else update.values[vector.n_bins]


# ── on the margin ────────────────────────────────────────────────────────────────────────────────────────────────────


@given(
    st.integers(-(2**31) + 1, 2**31 - 1),
    st.fractions(Fraction(1, 10**9), 10**3),
    st.sampled_from([-1, 1]),
    st.integers(-5 * ONE, 5 * ONE),
)
def test_verdict_is_the_comparison_of_exact_rationals(m: int, unit: Fraction, label_sign: int, threshold: int) -> None:
    weights = some_weights([[m, 0]], unit=unit)
    margin = label_sign * m * unit
    violates = margin < Fraction(threshold, ONE)
    assert sign_sent(weights, BinnedVector(values={0: 1}, n_bins=1), label_sign, threshold) == label_sign * violates


@given(st.integers(1, 10**6), st.sampled_from([-1, 1]), st.integers(-(2**20), 2**20))
def test_margin_reached_exactly_sends_nothing_whatever_the_unit(target: int, label_sign: int, m: int) -> None:
    # unit = 1/target: the score ``target`` is the margin 1 exactly. A bias completes what the feature leaves.
    for short, expected in ((0, 0), (1, label_sign)):
        rows = [[m, label_sign * (target - short) - m]]
        weights = some_weights(rows, unit=Fraction(1, target))
        assert sign_sent(weights, BinnedVector(values={0: 1}, n_bins=1), label_sign) == expected


def test_update_is_sign_times_vector_with_the_bias_last() -> None:
    weights = some_weights([[0, 0, 0, 0, 0]])
    update = local_update(weights=weights, model=0, vector=VECTOR, label_sign=-1, threshold=ONE)
    assert update == Update(values={0: -3, 2: 2, 4: -1})
    assert update is not None
    assert list(update.values) == [0, 2, 4]


def test_score_and_norm_include_the_bias() -> None:
    assert score(some_weights([[0] * 5, [1, 50, 10, 50, 7]]), 1, VECTOR) == 3 - 20 + 7
    assert squared_norm(VECTOR) == 9 + 4 + 1


# ── the first round ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("threshold", [ONE, 0, -3 * ONE])
@pytest.mark.parametrize("label_sign", [-1, 1])
def test_first_round_everybody_violates_whatever_the_threshold(threshold: int, label_sign: int) -> None:
    weights = some_weights([[0] * 5], first=True)
    assert sign_sent(weights, VECTOR, label_sign, threshold) == label_sign
    later = some_weights([[0] * 5])
    assert sign_sent(later, VECTOR, label_sign, threshold) == (label_sign if threshold > 0 else 0)


@pytest.mark.parametrize(("target", "sign"), [(5, 1), (-5, -1), (0, 0)])
def test_first_round_of_a_regression_has_the_sign_of_the_target(target: int, sign: int) -> None:
    assert sign_sent(some_weights([[0] * 5], first=True), VECTOR, None, target, width=10 * ONE) == sign


# ── normalised rows ──────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.integers(1, 2**44))
def test_fixed_norm_is_the_floor_of_65536_norms(squared: int) -> None:
    r = fixed_norm(squared)
    assert r * r <= squared * 2**32 < (r + 1) * (r + 1)


@pytest.mark.parametrize("label_sign", [-1, 1])
def test_normalised_rows_on_the_margin_send_nothing_and_one_below_send(label_sign: int) -> None:
    # Norm of (4, 2, 2, 1) with the bias inside is 5 exactly; with unit 1/8 the margin is the score 40.
    vector = BinnedVector(values={0: 4, 1: 2, 2: 2}, n_bins=3)
    assert squared_norm(vector) == 25
    for bias, expected in ((0, 0), (-1, label_sign), (1, 0)):
        rows = [[10 * label_sign, 0, 0, bias * label_sign]]
        weights = some_weights(rows, unit=Fraction(1, 8), normalised=True)
        assert sign_sent(weights, vector, label_sign) == expected


@given(
    st.lists(st.integers(1, 2**38), min_size=1, max_size=6),
    st.one_of(
        st.integers(-40, 60).map(lambda f: Fraction(1, 2**f) if f >= 0 else Fraction(2**-f)),
        st.fractions(Fraction(1, 10**12), 10**6),
    ),
    st.one_of(st.just([ONE] * 6), st.lists(st.integers(-9 * ONE, ONE), min_size=6, max_size=6)),
    st.sampled_from([0, 7, ONE]),
    st.booleans(),
)
def test_bands_of_many_equal_the_band_of_each(
    norms: list[int],
    unit: Fraction,
    thresholds: list[int],
    width: int,
    normalised: bool,
) -> None:
    n = len(norms)
    lower, upper = bands(
        thresholds=ints(*thresholds[:n]), width=width, norms=ints(*norms) if normalised else None, unit=unit
    )
    each = [
        band(threshold=t, width=width, norm=r if normalised else None, unit=unit)
        for t, r in zip(thresholds, norms, strict=False)
    ]
    assert list(zip(lower.tolist(), upper.tolist(), strict=True)) == each


@given(st.integers(-9 * ONE, ONE), st.integers(0, ONE), st.integers(1, 2**38), st.fractions(Fraction(1, 10**9), 10**3))
def test_band_is_the_exact_quotient_rounded_inwards(threshold: int, width: int, norm: int, unit: Fraction) -> None:
    scale = Fraction(norm, 2**16) / ONE / unit
    lower, upper = band(threshold=threshold, width=width, norm=norm, unit=unit)
    assert lower == max(-MAX_THRESHOLD, min(MAX_THRESHOLD, math.ceil((threshold - width) * scale)))
    assert upper == max(-MAX_THRESHOLD, min(MAX_THRESHOLD, math.floor((threshold + width) * scale)))


def test_bands_of_nobody_are_empty() -> None:
    for norms in (None, ints()):
        lower, upper = bands(thresholds=ints(), width=0, norms=norms, unit=Fraction(1))
        assert len(lower) == len(upper) == 0


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.integers(0, 3), st.integers(-9, 9).filter(bool), max_size=4), st.sampled_from([-1, 1])
        ),
        min_size=1,
        max_size=6,
    ),
    st.lists(st.integers(-60, 60), min_size=5, max_size=5),
    st.sampled_from([Fraction(1), Fraction(1, 64), Fraction(1, 100), Fraction(3, 7), Fraction(1, 10**6)]),
    st.booleans(),
    st.sampled_from(["hinge", "perceptron", "logistic", "modified-huber"]),
    st.integers(0, 2**53 - 1),
)
def test_verdicts_of_many_equal_local_updates(
    people: list[tuple[dict[int, int], int]],
    row: list[int],
    unit: Fraction,
    normalised: bool,
    loss: str,
    coin: int,
) -> None:
    weights = some_weights([row], unit=unit, normalised=normalised)
    vectors = [BinnedVector(values=dict(sorted(v.items())), n_bins=4) for v, _ in people]
    thresholds = Loss(loss).thresholds(np.arange(len(people), dtype=np.int64) * 2**40 ^ coin)
    norms = ints(*[fixed_norm(squared_norm(v)) for v in vectors]) if normalised else None
    lower, upper = bands(thresholds=thresholds, width=0, norms=norms, unit=unit)
    scores = ints(*[score(weights, 0, v) for v in vectors])
    signs = np.array([s for _, s in people], dtype=np.int8)
    expected = [sign_sent(weights, v, s, t) for v, (_, s), t in zip(vectors, people, thresholds.tolist(), strict=True)]
    assert verdicts(scores, signs, lower, upper).tolist() == expected


def test_verdict_of_somebody_without_part_in_a_model_is_nothing() -> None:
    signs = np.array([0, 1, -1], dtype=np.int8)
    assert verdicts(ints(0, 0, 0), signs, ints(9, 9, 9), ints(9, 9, 9)).tolist() == [0, 1, -1]


# ── a number as the label ────────────────────────────────────────────────────────────────────────────────────────────


@given(st.integers(-20, 20), st.integers(-5 * ONE, 5 * ONE), st.integers(0, 3 * ONE))
def test_regression_sends_up_below_the_band_and_down_above_it(m: int, target: int, width: int) -> None:
    weights = some_weights([[m, 0]], unit=Fraction(1, 3))
    value = m * Fraction(1, 3)
    expected = (value < Fraction(target - width, ONE)) - (value > Fraction(target + width, ONE))
    assert sign_sent(weights, BinnedVector(values={0: 1}, n_bins=1), None, target, width) == expected
    lower, upper = bands(thresholds=ints(target), width=width, norms=None, unit=Fraction(1, 3))
    assert verdicts(ints(m), None, lower, upper).tolist() == [expected]


@given(
    st.floats(-1000, 1000),
    st.fractions(-50, 50, max_denominator=99),
    st.fractions(Fraction(1, 9), 50, max_denominator=99),
)
def test_target_is_centred_and_scaled_exactly(target: float, centre: Fraction, spread: Fraction) -> None:
    expected = half_even((Fraction(repr(target)) - centre) / spread * ONE)
    assert fixed_target(target, centre=centre, spread=spread) == expected


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 2.0**20, -(2.0**20)])
def test_target_that_is_no_number_or_too_far_is_refused(bad: float) -> None:
    with pytest.raises(BadInputError):
        fixed_target(bad, centre=Fraction(0), spread=Fraction(1))


def test_epsilon_is_scaled_by_the_spread_and_zero_for_pinball() -> None:
    assert fixed_epsilon(Loss("epsilon-insensitive", Fraction(1, 2)), Fraction(4)) == ONE // 8
    assert fixed_epsilon(Loss("pinball"), Fraction(4)) == 0


@pytest.mark.parametrize("target", [-1e300, -5.0, 0.0, 5.0, 1e300])
def test_repro_a_clamped_target_is_never_refused_whatever_centre_and_spread_somebody_chose(target: float) -> None:
    """Else who writes the experiment learns from who takes part on which side of a number a label is."""
    found = fixed_target(target, centre=Fraction(1), spread=Fraction(1, 10**12), clamp=True)
    assert abs(found) <= (2**20 - 1) * 2**32
    assert (found > 0) == (target > 1)
    with pytest.raises(BadInputError):
        fixed_target(target, centre=Fraction(1), spread=Fraction(1, 10**12))
