"""Accuracy, recall, precision and their intervals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.learning.aggregate.scoring import Z95, Share, Trained, score_cells


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [
        # Newcombe 1998, table I, method 3 (the score method without continuity correction).
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_interval_is_that_of_the_published_table(hits: int, of: int, low: float, high: float) -> None:
    assert Share(hits, of).interval[0] == pytest.approx(low, abs=5e-5)
    assert Share(hits, of).interval[1] == pytest.approx(high, abs=5e-5)


@given(st.integers(1, 10**6), st.data())
def test_ends_of_the_interval_solve_wilsons_equation(n: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, n))
    p = hits / n
    low, high = Share(hits, n).interval
    assert 0 <= low <= p <= high <= 1
    for end in (low, high):
        # |p - end| = z sqrt(end (1 - end) / n), squared so that ends at 0 and 1 are solutions too.
        assert math.isclose((p - end) ** 2, Z95**2 * end * (1 - end) / n, rel_tol=1e-6, abs_tol=1e-12)


def test_interval_touches_zero_and_one_exactly() -> None:
    assert Share(0, 7).interval[0] == 0.0
    assert Share(7, 7).interval[1] == 1.0
    assert Share(0, 7).interval[1] == pytest.approx(1 - Share(7, 7).interval[0])


def test_nobody_counted_leaves_everything_possible() -> None:
    assert math.isnan(Share(0, 0).value)
    assert Share(0, 0).interval == (0.0, 1.0)


def test_score_by_hand() -> None:
    s = score_cells(np.array([[3, 1], [2, 4]], dtype=np.int64))
    assert s.accuracy == Share(7, 10)
    assert s.recall == (Share(3, 4), Share(4, 6))
    assert s.precision == (Share(3, 5), Share(4, 5))
    assert s.baseline == (Share(4, 10), Share(6, 10))


def test_score_of_an_empty_matrix_has_no_values() -> None:
    s = score_cells(np.zeros((2, 2), dtype=np.int64))
    assert s.accuracy == Share(0, 0)
    assert math.isnan(s.recall[0].value)


def test_how_many_trained_is_a_count_without_cover_and_an_estimate_with_it() -> None:
    assert Trained.of(np.array([3, 4])) == Trained(7, 7, 7)
    # Two cells, each with the variance 100: z · √200.
    assert Trained.of(np.array([500, 300]), variance=100.0) == Trained(800, 772, 828)


def test_repro_nobody_is_within_the_interval_where_noise_alone_was_counted() -> None:
    told = Trained.of(np.array([-40, 127]), variance=12_000.0)
    assert (told.value, told.low) == (87, 0)
    assert told.high == 87 + round(Z95 * math.sqrt(24_000))
