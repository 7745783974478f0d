"""Quick hashing equals the reference hash, and quick rows equal what a device bins for itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.errors import ArithmeticRangeError, BadInputError
from secvm.learning._kernels import dispatch, reference
from secvm.learning._kernels.dispatch import Kernels, kernels
from secvm.learning.individual.binning import HashBinning, bin_features
from secvm.learning.rows import MAX_UNITS

FAST, PLAIN = kernels("fast"), kernels("reference")
BOTH = pytest.mark.parametrize("hasher", [FAST, PLAIN], ids=["numba", "numpy"])
KEYS = (bytes(range(16)), bytes(range(100, 116)))


def expected_bins(features: list[bytes], keys: tuple[bytes, ...], n_bins: int) -> list[list[int]]:
    return [[reference.reduce_to_bin(reference.siphash24(key, f), n_bins) for key in keys] for f in features]


@BOTH
def test_hash_flat_equals_reference_at_every_length(hasher: Kernels) -> None:
    features = [bytes((7 * i + length) % 256 for i in range(length)) for length in [*range(41), 255, 256, 257, 1000]]
    data = np.frombuffer(b"".join(features), np.uint8)
    offsets = np.cumsum([0] + [len(f) for f in features])
    for n_bins in (1, 1000, 2**24):
        assert hasher.hash_flat(data, offsets, KEYS, n_bins).tolist() == expected_bins(features, KEYS, n_bins)


@BOTH
@pytest.mark.parametrize("length", range(18))
def test_the_last_feature_reads_nothing_past_the_end(hasher: Kernels, length: int) -> None:
    """The bytes after the message are not zero, and the buffer may end at once: both must not matter."""
    buffer = np.full(length + 9, 0xEE, np.uint8)
    whole = hasher.hash_flat(buffer[:length], np.asarray([0, length]), KEYS, 2**24)
    inside = hasher.hash_flat(buffer, np.asarray([0, length]), KEYS, 2**24)
    assert whole.tolist() == inside.tolist() == expected_bins([b"\xee" * length], KEYS, 2**24)


@BOTH
@pytest.mark.parametrize(
    "features",
    [
        [],
        [""],
        ["", ""],
        ["", "a", ""],
        ["naïve", "日本語", "🙂", "ß" * 30],
        ["a\0b", "c"],
        ["\0"],
        ["\0", "\0\0", "", "x"],
        ["a\nb", "a b"],
    ],
)
def test_hash_strings_equals_reference(hasher: Kernels, features: list[str]) -> None:
    found = hasher.hash_strings(features, KEYS, 12_345)
    assert found.shape == (len(features), 2)
    assert found.tolist() == expected_bins([f.encode() for f in features], KEYS, 12_345)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(features=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=12))
def test_any_text_hashes_like_the_reference(features: list[str]) -> None:
    expected = expected_bins([f.encode() for f in features], KEYS, 50_000)
    for hasher in (FAST, PLAIN):
        assert hasher.hash_strings(features, KEYS, 50_000).tolist() == expected


@BOTH
@pytest.mark.parametrize("features", [["fine", "secret\ud800word"], ["sec\0ret", "secret\udfffword"]])
def test_half_a_surrogate_pair_is_refused_without_showing_it(hasher: Kernels, features: list[str]) -> None:
    with pytest.raises(BadInputError) as caught:
        hasher.hash_strings(features, KEYS, 10)
    shown = str(caught.value) + str(caught.value.__cause__)
    assert "secret" not in shown
    assert "ret" not in shown
    assert caught.value.__suppress_context__


@BOTH
def test_pieces_are_put_together_in_order(hasher: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    features = [f"{i}" + "\0" * (i % 50 == 7) for i in range(200)]
    whole = hasher.hash_strings(features, KEYS, 5000).tolist()
    assert whole == expected_bins([f.encode() for f in features], KEYS, 5000)
    for piece in (1, 3, 16, 199):
        monkeypatch.setattr(dispatch, "_PIECE", piece)
        assert hasher.hash_strings(features, KEYS, 5000).tolist() == whole


feature_values = st.dictionaries(
    st.sampled_from([f"w{i}" for i in range(60)]), st.integers(-4, 4) | st.integers(-3000, 3000), max_size=40
)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    people=st.lists(feature_values, max_size=6),
    n_bins=st.sampled_from([1, 7, 63, 64, 65, 4097, 100_000]),
    n_hashes=st.sampled_from([1, 3]),
)
def test_bin_rows_equals_bin_features(people: list[dict[str, int]], n_bins: int, n_hashes: int) -> None:
    binning = HashBinning(n_bins=n_bins, salt=b"salt", n_hashes=n_hashes)
    expected = [bin_features(person, binning).values for person in people]
    for chosen in (FAST, PLAIN):
        offsets = np.cumsum([0, *map(len, people)])
        bins = chosen.hash_strings([word for person in people for word in person], binning.keys, n_bins)
        values = np.asarray([v for person in people for v in person.values()], np.int64)
        rows = chosen.bin_rows(offsets, bins, values, n_bins)
        assert [a.dtype.name for a in (rows.indptr, rows.bins, rows.values)] == ["int64", "int32", "int32"]
        found = []
        for i in range(len(rows)):
            row = slice(rows.indptr[i], rows.indptr[i + 1])
            found.append(dict(zip(rows.bins[row].tolist(), rows.values[row].tolist(), strict=True)))
            assert list(found[-1]) == sorted(found[-1])
        assert found == expected


@BOTH
def test_bin_rows_without_values_counts_each_feature_once(hasher: Kernels) -> None:
    rows = hasher.bin_rows(np.asarray([0, 3, 3, 4]), np.asarray([5, 2, 5, 9], np.int32), None, 10)
    assert rows.indptr.tolist() == [0, 2, 2, 3]
    assert rows.bins.tolist() == [2, 5, 9]
    assert rows.values.tolist() == [1, 2, 1]


@BOTH
def test_bin_rows_refuses_units_beyond_exact_sums(hasher: Kernels) -> None:
    one, bins = np.asarray([0, 2]), np.asarray([0, 1], np.int32)
    assert len(hasher.bin_rows(one, bins, np.asarray([MAX_UNITS - 2, -1]), 5).bins) == 2
    for values in ([MAX_UNITS - 1, -1], [2**41, 1], [1, -(2**63)]):
        with pytest.raises(ArithmeticRangeError):
            hasher.bin_rows(one, bins, np.asarray(values, np.int64), 5)
