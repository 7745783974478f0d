"""Features to bins: the hash, its range reduction, collisions, and the vocabulary."""

import hashlib
import unicodedata

import pytest
import siphash24  # type: ignore[import-not-found]  # compiled, without types
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import ArithmeticRangeError, BadExperimentError, BadInputError
from secvm.learning._kernels.reference import reduce_to_bin
from secvm.learning._kernels.reference import siphash24 as reference_siphash24
from secvm.learning.declared import MAX_BINS, MAX_HASHES
from secvm.learning.individual.binning import (
    BinnedVector,
    HashBinning,
    VocabularyBinning,
    bin_features,
)
from secvm.learning.rows import MAX_UNITS

# ── the hash ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.binary(min_size=16, max_size=16), st.binary(max_size=600))
def test_siphash_equals_an_independent_implementation(key: bytes, message: bytes) -> None:
    peer = siphash24.siphash24(message, key=key).digest()
    assert reference_siphash24(key, message) == int.from_bytes(peer, "little")


@given(st.integers(0, 2**64 - 1), st.integers(1, MAX_BINS))
def test_range_reduction_scales_the_upper_half_and_stays_in_range(hashed: int, n_bins: int) -> None:
    b = reduce_to_bin(hashed, n_bins)
    assert 0 <= b < n_bins
    assert b == (hashed // 2**32) * n_bins // 2**32
    assert b == reduce_to_bin(hashed ^ 0xFFFFFFFF, n_bins)  # the lower half plays no part


def test_key_is_blake2b_of_salt_bins_and_hash_number() -> None:
    """So another salt, another hash and another number of bins are all other hashes."""
    for n_bins, salt in ((300, b"public"), (600, b"public"), (300, b"other")):
        binning = HashBinning(n_bins=n_bins, salt=salt, n_hashes=3)
        for r in range(3):
            message = salt + n_bins.to_bytes(8, "little") + r.to_bytes(4, "little")
            key = hashlib.blake2b(message, digest_size=16, person=b"secvm-v1-binning").digest()
            assert binning.keys[r] == key
            hashed = siphash24.siphash24("Wörter".encode(), key=key).digest()
            assert binning.bins_of("Wörter")[r] == (int.from_bytes(hashed, "little") >> 32) * n_bins >> 32


@pytest.mark.parametrize(("n_bins", "n_hashes"), [(0, 1), (-1, 1), (MAX_BINS + 1, 1), (8, 0), (8, MAX_HASHES + 1)])
def test_hashing_refuses_numbers_out_of_range(n_bins: int, n_hashes: int) -> None:
    with pytest.raises(BadExperimentError):
        HashBinning(n_bins=n_bins, salt=b"", n_hashes=n_hashes)


# ── features to values ───────────────────────────────────────────────────────────────────────────────────────────────


@given(st.dictionaries(st.text(max_size=8), st.integers(-5, 5), max_size=20), st.integers(1, 6), st.integers(1, 3))
def test_values_that_share_a_bin_add_and_those_that_cancel_vanish(
    features: dict[str, int], n_bins: int, n_hashes: int
) -> None:
    binning = HashBinning(n_bins=n_bins, salt=b"salt", n_hashes=n_hashes)
    try:
        vector = bin_features(features, binning)
    except BadInputError:
        assert any(0xD800 <= ord(c) < 0xE000 for f in features for c in f)
        return
    expected = [0] * n_bins
    for feature, value in features.items():
        for b in binning.bins_of(feature):
            expected[b] += value
    assert vector.values == {b: v for b, v in enumerate(expected) if v}
    assert list(vector.values) == sorted(vector.values)


def test_presence_counts_each_feature_once_and_adds_on_collision() -> None:
    assert bin_features({"a": 7, "b": 1, "c": 0}, HashBinning(n_bins=1, salt=b""), presence=True).values == {0: 2}


def test_presence_refuses_negative_values_without_naming_the_feature() -> None:
    with pytest.raises(BadInputError) as refused:
        bin_features({"illness": -1}, HashBinning(n_bins=3, salt=b""), presence=True)
    assert "illness" not in str(refused.value)


def test_text_is_not_normalised() -> None:
    composed, decomposed = "é", unicodedata.normalize("NFD", "é")
    assert composed != decomposed
    binning = HashBinning(n_bins=MAX_BINS, salt=b"")
    assert binning.bins_of(composed) != binning.bins_of(decomposed)
    words = VocabularyBinning(words=(composed, decomposed))
    assert [words.bins_of(composed), words.bins_of(decomposed)] == [[0], [1]]


def test_text_without_utf8_is_refused_without_showing_it() -> None:
    for binning in (HashBinning(n_bins=3, salt=b""),):
        with pytest.raises(BadInputError) as refused:
            bin_features({"illness \udc80": 1}, binning)
        assert "illness" not in str(refused.value)
        assert "udc80" not in str(refused.value)


@pytest.mark.parametrize("sign", [-1, 1])
def test_person_with_too_many_units_is_refused(sign: int) -> None:
    binning = VocabularyBinning(words=("a", "b"))
    most = MAX_UNITS - 1  # and the bias
    assert bin_features({"a": sign * (most - 1), "b": -1}, binning).values == {0: sign * (most - 1), 1: -1}
    with pytest.raises(ArithmeticRangeError):
        bin_features({"a": sign * most, "b": -1}, binning)


def test_largest_score_stays_below_what_javascript_holds() -> None:
    assert MAX_UNITS * (2**31 - 1) < 2**53


# ── the vocabulary ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_vocabulary_keeps_its_order_and_drops_other_words() -> None:
    binning = VocabularyBinning(words=("b", "a", ""))
    assert bin_features({"a": 2, "c": 9, "b": -1, "": 4}, binning) == BinnedVector({0: -1, 1: 2, 2: 4}, n_bins=3)


def test_vocabulary_is_named_by_a_digest_of_its_words_in_order() -> None:
    expected = hashlib.blake2b("zwei\nä\n".encode(), digest_size=32, person=b"secvm-v1-vocab\0\0").hexdigest()
    assert VocabularyBinning(words=("zwei", "ä")).digest == expected
    assert VocabularyBinning(words=("ä", "zwei")).digest != expected
    # A line break ends a word, and none may hold one: no two vocabularies share their bytes.
    assert VocabularyBinning(words=("ab", "c")).digest != VocabularyBinning(words=("a", "bc")).digest


@pytest.mark.parametrize("words", [(), ("a", "b", "a"), ("a\nb",), ("a", "\n")])
def test_vocabulary_refuses_none_twice_and_line_breaks(words: tuple[str, ...]) -> None:
    with pytest.raises(BadExperimentError):
        VocabularyBinning(words=words)
