"""The paper's rule: against plain floats over real people, and against exact rationals."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from secvm.errors import ArithmeticRangeError
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos, State
from secvm.learning.experiment import Experiment
from secvm.learning.weights import Weights
from tests.unit.learning.helpers import half_even, one_round, person, small_tally


def weights_of(published: Weights) -> list[Fraction]:
    return [int(m) * published.unit for m in published.mantissas[0]]


# ── against plain Pegasos, unhashed, in floats ───────────────────────────────────────────────────────────────────────


def plain_pegasos(
    rounds: list[tuple[NDArray[np.float64], NDArray[np.float64]]], λ: float, side_weight: dict[float, float]
) -> NDArray[np.float64]:
    """Full-batch Pegasos as the paper has it: w ← w - η (λ w - Σ δ y x / N), η = 1 / (λ t). Nothing of ours inside."""
    w = np.zeros(rounds[0][0].shape[1])
    for t, (x, y) in enumerate(rounds, start=1):
        c = np.array([side_weight[s] for s in y])
        violates = y * (x @ w) < 1
        gradient = λ * w - ((c * y * violates)[:, None] * x).sum(axis=0) / c.sum()
        w = w - gradient / (λ * t)
    return w


@pytest.mark.parametrize("positive_weight", [Fraction(1), Fraction(4)])
@pytest.mark.parametrize("λ", [Fraction(1, 10), Fraction(1, 3), Fraction(1)])
def test_rounds_of_packages_equal_plain_pegasos_in_floats(λ: Fraction, positive_weight: Fraction) -> None:
    n_bins = 6
    rng = np.random.default_rng(5)
    experiment = Experiment(
        n_bins=n_bins,
        labels=("minus", "plus"),
        rule=Pegasos(lambda_=λ, averaging=1),
        class_weights=(Fraction(1), positive_weight),
    )
    state = aggregate.start(experiment)
    rounds: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    for t, n in enumerate((9, 14, 5, 11, 1), start=1):  # another number of people every round
        # Class weights need values that are never negative: a package's sign must be that of its sender's side.
        lowest = -3 if positive_weight == 1 else 0
        dense = rng.integers(lowest, 4, (n, n_bins)) * rng.integers(0, 2, (n, n_bins))
        labels = rng.integers(0, 2, n)
        people = [
            person({b: int(v) for b, v in enumerate(row) if v}, n_bins, int(label))
            for row, label in zip(dense, labels, strict=True)
        ]
        state = aggregate.step(
            experiment, state, one_round(experiment, people, aggregate.training_weights(experiment, state), t)
        )
        with_bias = np.hstack([dense, np.ones((n, 1))]).astype(np.float64)
        rounds.append((with_bias, np.asarray(2 * labels - 1, dtype=np.float64)))
        plain = plain_pegasos(rounds, float(λ), {-1.0: 1.0, 1.0: float(positive_weight)})
        ours = aggregate.training_weights(experiment, state).values()[0]
        assert np.allclose(ours, plain, rtol=1e-6, atol=1e-7 / float(λ)), t


# ── against exact rationals ──────────────────────────────────────────────────────────────────────────────────────────

ROUNDS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 50), min_size=3, max_size=3),
        st.lists(st.integers(0, 50), min_size=3, max_size=3),
        st.integers(1, 40),
        st.integers(0, 40),
    ),
    min_size=1,
    max_size=6,
)


def run(rule: Pegasos, rounds: list[tuple[list[int], list[int], int, int]]) -> State:
    experiment = Experiment(n_bins=2, labels=("a", "b"), rule=rule)
    state = aggregate.start(experiment)
    for plus, minus, n_plus, n_minus in rounds:
        state = aggregate.step(experiment, state, small_tally([plus], [minus], [n_minus, n_plus]))
    return state


@given(ROUNDS, st.fractions(Fraction(1, 1000), 100), st.integers(1, 3))
def test_state_and_weights_equal_exact_rationals(
    rounds: list[tuple[list[int], list[int], int, int]], λ: Fraction, k: int
) -> None:
    rule = Pegasos(lambda_=λ, averaging=k)
    state = run(rule, rounds)
    sums = [[0, 0, 0]]
    for plus, minus, n_plus, n_minus in rounds:
        n = n_plus + n_minus
        sums.append(
            [s + half_even(Fraction((p - m) * 2**32, n)) for s, p, m in zip(sums[-1], plus, minus, strict=True)]
        )
    t = len(rounds)
    assert state.step == t
    for i in range(k):
        assert state.vectors[f"sum_{i}"].tolist() == [sums[max(0, t - i)]]

    w = {s: [Fraction(v, 2**32) / (λ * s) for v in sums[s]] for s in range(1, t + 1)}
    published = rule.training_weights(state)
    for ours, true in zip(weights_of(published), w[t], strict=True):
        assert abs(ours - true) <= published.unit / 2

    used = min(k, t)
    mean = [sum((w[t - i][j] for i in range(used)), Fraction(0)) / used for j in range(3)]
    evaluated = rule.evaluation_weights(state)
    for ours, true in zip(weights_of(evaluated), mean, strict=True):
        # Half a unit for the mantissa, and 2^-41 of a sum for each quotient.
        assert abs(ours - true) <= evaluated.unit / 2 + Fraction(1, 2**41) / λ


def test_start_has_zero_weights_marked_as_first() -> None:
    rule = Pegasos()
    for published in (rule.training_weights(rule.start(1, 4)), rule.evaluation_weights(rule.start(1, 4))):
        assert published.first
        assert not published.mantissas.any()
        assert published.mantissas.shape == (1, 5)
    assert not rule.training_weights(run(rule, [([1, 0, 0], [0, 0, 0], 1, 0)])).first


def test_step_leaves_the_old_state_alone() -> None:
    experiment = Experiment(n_bins=2, labels=("a", "b"), rule=Pegasos(averaging=3))
    state = aggregate.step(experiment, aggregate.start(experiment), small_tally([[1, 2, 3]], [[0, 1, 0]], [3, 1]))
    before = state.to_bytes()
    aggregate.step(experiment, state, small_tally([[5, 2, 3]], [[0, 1, 7]], [3, 1]))
    assert state.to_bytes() == before


def test_repro_average_of_large_sums_is_refused_and_does_not_wrap() -> None:
    rule = Pegasos(lambda_=Fraction(1), averaging=8)
    with pytest.raises(ArithmeticRangeError):
        rule.evaluation_weights(run(rule, [([1_050_000, 0, 0], [0, 0, 0], 1, 0)] * 8))


def test_state_that_would_leave_its_range_is_refused() -> None:
    rule = Pegasos(averaging=1)
    with pytest.raises(ArithmeticRangeError):
        run(rule, [([2**29 - 1, 0, 0], [0, 0, 0], 1, 0)] * 2)


# ── the cap ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(
    st.integers(2, 5).flatmap(
        lambda n: st.lists(
            st.tuples(st.lists(st.integers(0, 4), min_size=3, max_size=3), st.integers(0, 1)), min_size=n, max_size=8
        )
    ),
    st.sampled_from([Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)]),
    st.sampled_from([Fraction(1, 10_000), Fraction(1, 10)]),
)
def test_with_the_cap_no_round_takes_everybody_across_the_orbit(
    drawn: list[tuple[list[int], int]], cap: Fraction, λ: Fraction
) -> None:
    """One half of a two-cycle at 50 % takes all scores from above 0 to below -1 or back: > 1 each, beyond shrinking."""
    experiment = Experiment(n_bins=3, labels=("a", "b"), rule=Pegasos(lambda_=λ, averaging=1, step_cap=cap))
    people = [person({b: v for b, v in enumerate(values) if v}, 3, label) for values, label in drawn]
    x = [[*values, 1] for values, _ in drawn]
    state = aggregate.start(experiment)
    before = [Fraction(0)] * 4
    for t in range(1, 13):
        state = aggregate.step(
            experiment, state, one_round(experiment, people, aggregate.training_weights(experiment, state), t)
        )
        after = [Fraction(int(s), 2**32) / (λ * t) for s in state.vectors["sum_0"][0]]
        shrunk = [w * (1 - Fraction(1, t)) for w in before]
        moves = [sum(abs(a - b) * v for a, b, v in zip(after, shrunk, row, strict=True)) for row in x]
        # Rounding the halved step may add half a unit of 2^-32 per bin.
        slack = Fraction(sum(map(sum, x)), len(x)) / (2**33 * λ * t)
        assert sum(moves, Fraction(0)) / len(moves) <= cap + 2 * slack
        old = [sum(w * v for w, v in zip(before, row, strict=True)) for row in x]
        new = [sum(w * v for w, v in zip(after, row, strict=True)) for row in x]
        assert not (all(s > 0 for s in old) and all(s < -1 for s in new))
        assert not (all(s < 0 for s in old) and all(s > 1 for s in new))
        before = after


def test_cap_only_halves_and_leaves_small_steps_alone() -> None:
    tallies = [([3, 1, 2], [1, 0, 2], 2, 2), ([2, 1, 2], [0, 0, 0], 2, 2)]
    λ = Fraction(10)
    plain, capped = run(Pegasos(lambda_=λ), tallies), run(Pegasos(lambda_=λ, step_cap=Fraction(1, 2)), tallies)
    assert (plain.vectors["sum_0"] == capped.vectors["sum_0"]).all()
    tight = run(Pegasos(lambda_=Fraction(1, 100), step_cap=Fraction(1, 2)), tallies[:1]).vectors["sum_0"][0]
    # Moved at η = 100: Σ |g| x̄ = 100 · (1/2 · 1 + 1/4 · 1/4 + 0); halved seven times it is below 1/2.
    assert tight.tolist() == [2**31 >> 7, 2**30 >> 7, 0]


# ── parameters ───────────────────────────────────────────────────────────────────────────────────────────────────────
