"""A layout that grows by chunks is the one made at once; numbers are hashed as the text they are written as."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm.learning._kernels.dispatch import kernels
from secvm.learning._kernels.hashing import bin_rows
from secvm.learning._kernels.layout import PEOPLE, PreparedRows, count_bins, order_bins, prepare
from secvm.learning.individual.binning import HashBinning
from secvm.learning.rows import BinnedRows
from secvm_lab._kernels.hash_numbers import hash_numbers
from secvm_lab._kernels.layout_stream import LayoutBuilder


def some_rows(n_people: int, n_bins: int, seed: int) -> BinnedRows:
    """Rows with popular and rare bins, repeats, and values that are cold."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 30, n_people)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    bins = (n_bins * rng.random(int(indptr[-1])) ** 4).astype(np.int32)
    return bin_rows(indptr, bins, rng.integers(-1, 6, len(bins)), n_bins)


def build(rows: BinnedRows, chunk: int) -> PreparedRows:
    builder = LayoutBuilder(order_bins(count_bins(rows), len(rows)), len(rows))
    for low in range(0, len(rows), chunk):
        builder.add(rows.take(np.arange(low, min(low + chunk, len(rows)))))
    return builder.finish()


@pytest.mark.parametrize("n_people", [1, PEOPLE, PEOPLE + 1, 3 * PEOPLE + 17])
@pytest.mark.parametrize("blocks", [1, 2])
def test_chunks_give_the_bytes_of_the_whole(n_people: int, blocks: int) -> None:
    rows = some_rows(n_people, 200_000 if blocks == 1 else 300, seed=n_people)
    whole, grown = prepare(rows), build(rows, blocks * PEOPLE)
    for field in fields(PreparedRows):
        ours, theirs = getattr(grown, field.name), getattr(whole, field.name)
        assert np.array_equal(ours, theirs), field.name
        assert getattr(ours, "dtype", None) == getattr(theirs, "dtype", None), field.name
    assert grown.nbytes == whole.nbytes


def test_what_would_not_be_a_layout_is_refused() -> None:
    rows = some_rows(10, 50, seed=1)
    builder = LayoutBuilder(order_bins(count_bins(rows), 10), 20)
    builder.add(rows)
    with pytest.raises(BadInputError, match="whole blocks"):
        builder.add(rows)
    with pytest.raises(BadInputError, match="20 people, and 10 came"):
        builder.finish()


@settings(deadline=None, max_examples=30)
@given(
    numbers=st.lists(st.integers(0, 2**31 - 1), max_size=40),
    n_bins=st.integers(1, 2**24),
    n_hashes=st.integers(1, 3),
    threads=st.integers(1, 3),
)
def test_numbers_are_hashed_as_decimal_strings(numbers: list[int], n_bins: int, n_hashes: int, threads: int) -> None:
    # Where the number of digits changes, and the greatest number.
    numbers = [*numbers, 0, *(10**k + d for k in range(1, 10) for d in (-1, 0)), 2**31 - 1]
    binning = HashBinning(n_bins, b"salt" * 8, n_hashes)
    ours = hash_numbers(np.array(numbers, np.int32), binning.keys, n_bins, threads=threads)
    assert np.array_equal(ours, kernels().hash_strings([str(number) for number in numbers], binning.keys, n_bins))
