import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm_lab.privacy.bin_posterior import bin_posterior, zipf_posterior

COUNTS = st.lists(st.integers(0, 50), min_size=1, max_size=5).filter(any)


@given(COUNTS, st.integers(1, 4))
def test_every_placement_counted_gives_the_same(counts: list[int], n_bins: int) -> None:
    guessed = 0
    for place in itertools.product(range(n_bins), repeat=len(counts)):
        for bin_ in range(n_bins):
            guessed += max((count for count, where in zip(counts, place, strict=True) if where == bin_), default=0)
    assert bin_posterior(counts, n_bins) == pytest.approx(guessed / n_bins ** len(counts) / sum(counts), rel=1e-12)


@pytest.mark.parametrize(
    ("n_words", "n_bins", "exponent", "shift"),
    [(1, 7, 1, 0), (1000, 50, 1, 0), (10**6, 1000, 1, 0), (10**6, 10**5, 0.8, 2.7), (400_000, 10**6, 1.2, 0)],
)
def test_the_quick_sum_is_the_sum(n_words: int, n_bins: int, exponent: float, shift: float) -> None:
    traffic = (np.arange(1.0, n_words + 1) + shift) ** -exponent
    assert zipf_posterior(n_words, n_bins, exponent=exponent, shift=shift) == pytest.approx(
        bin_posterior(traffic, n_bins), rel=1e-9
    )


def test_the_posterior_at_the_papers_size_and_elsewhere() -> None:
    assert zipf_posterior(95_880_008, 95_880) == pytest.approx(0.605, abs=5e-4)
    # It is a figure of that number of bins, not of Zipf's law.
    assert zipf_posterior(95_880_008, 1_000) == pytest.approx(0.365, abs=5e-4)
    assert zipf_posterior(95_880_008, 10_000_000) == pytest.approx(0.850, abs=5e-4)
    assert zipf_posterior(95_880_008, 95_880, exponent=0.8) == pytest.approx(0.213, abs=5e-4)
    assert zipf_posterior(95_880_008, 95_880, exponent=1.2) == pytest.approx(0.916, abs=5e-4)


@settings(max_examples=40)
@given(st.integers(1, 10**9), st.integers(1, 10**9), st.floats(0, 3))
def test_more_bins_never_hide_better(n_words: int, n_bins: int, exponent: float) -> None:
    few = zipf_posterior(n_words, n_bins, exponent=exponent)
    assert 0 < few <= zipf_posterior(n_words, 2 * n_bins, exponent=exponent) * (1 + 1e-9) <= 1 + 2e-9


@pytest.mark.parametrize("counts", [[], [0, 0], [1, -1], [float("nan")], ["many"]])
def test_popularities_that_are_none_are_refused(counts: list[float]) -> None:
    with pytest.raises(BadInputError, match="popularities"):
        bin_posterior(counts, 5)


def test_laws_that_make_no_sense_are_refused() -> None:
    with pytest.raises(BadInputError, match="exponent"):
        zipf_posterior(10, 10, exponent=-1)
    with pytest.raises(BadInputError, match="shift"):
        zipf_posterior(10, 10, shift=float("nan"))
