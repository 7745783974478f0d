"""Words in bins: counts that a plain loop gives too, and a posterior that a formula gives too."""

import gzip
import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.auditor.collisions import PublicVocabulary, find_collisions, published_bins, read_public_vocabulary
from secvm.auditor.files import GivenFiles
from secvm.errors import BadInputError
from secvm.learning.individual.binning import HashBinning
from secvm.protocol.trust.salt import salt_of
from tests.unit.auditor.histories import history


def vocabulary(tmp_path: Path, text: str, **options: float) -> PublicVocabulary:
    file = tmp_path / "words.txt"
    file.write_text(text, encoding="utf-8")
    return read_public_vocabulary(file, **options)


@given(
    counts=st.dictionaries(st.text("abcä", min_size=1, max_size=4), st.integers(0, 50), min_size=1, max_size=30),
    n_bins=st.integers(1, 12),
    n_hashes=st.integers(1, 3),
    salt=st.binary(min_size=16, max_size=16),
)
def test_quick_counts_are_those_of_a_plain_loop(
    counts: dict[str, int], n_bins: int, n_hashes: int, salt: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if not any(counts.values()):
        counts = dict.fromkeys(counts, 1)
    text = "".join(f"{word}\t{count}\n" for word, count in counts.items())
    words = vocabulary(tmp_path_factory.mktemp("words"), text)
    binning = HashBinning(n_bins=n_bins, salt=salt, n_hashes=n_hashes)
    found = find_collisions(words, binning)

    bins: dict[int, Counter[str]] = {place: Counter() for place in range(n_bins)}
    for word, count in counts.items():
        for place in binning.bins_of(word):
            bins[place][word] += count
    sizes = sorted(len(inside) for inside in bins.values())
    assert (found.smallest, found.largest, found.empty) == (sizes[0], sizes[-1], sizes.count(0))
    assert found.median == (sizes[(n_bins - 1) // 2] + sizes[n_bins // 2]) / 2
    alone = {next(iter(inside)) for inside in bins.values() if len(inside) == 1}
    assert {words.word(int(index)) for index in found.alone} == alone
    total = sum(sum(inside.values()) for inside in bins.values())
    best = sum(max(inside.values(), default=0) for inside in bins.values())
    assert found.posterior == pytest.approx(best / total)
    assert found.histogram.sum() == pytest.approx(1)


@pytest.mark.parametrize(("n_bins", "expected"), [(100, 0.385), (300, 0.432)])
def test_posterior_under_zipf_is_what_the_formula_says(tmp_path: Path, n_bins: int, expected: float) -> None:
    """A bin's most popular word is its first line, so the mean over salts is sum of (1 - 1/n)^(r - 1) / r over ranks.

    With m words that is about ln n / (ln m + 0.577): .48 for a thousand bins of a thousand words each, .61 for 100,000.
    """
    n_words = 1000 * n_bins
    words = vocabulary(tmp_path, "".join(f"w{rank}\n" for rank in range(n_words)))
    harmonic = math.log(n_words) + 0.5772
    formula = sum((1 - 1 / n_bins) ** (rank - 1) / rank for rank in range(1, n_words + 1)) / harmonic
    assert formula == pytest.approx(expected, abs=0.002)
    found = [
        find_collisions(words, HashBinning(n_bins=n_bins, salt=bytes([salt]) * 16)).posterior for salt in range(20)
    ]
    assert sum(found) / len(found) == pytest.approx(formula, rel=0.03)
    assert math.log(100_000) / (math.log(100_000_000) + 0.5772) == pytest.approx(0.61, abs=0.005)


def test_counts_decide_where_they_are_given(tmp_path: Path) -> None:
    one_bin = HashBinning(n_bins=1, salt=bytes(16))
    counted = find_collisions(vocabulary(tmp_path, "a\t9\nb\t1\n"), one_bin)
    assert (counted.posterior, counted.counted, counted.above_half, counted.above_nine_tenths) == (0.9, True, 1.0, 0.0)
    by_rank = find_collisions(vocabulary(tmp_path, "a\nb\n"), one_bin)
    assert by_rank.posterior == pytest.approx(2 / 3)
    assert not by_rank.counted
    flat = find_collisions(vocabulary(tmp_path, "a\nb\n", exponent=0), one_bin)
    assert flat.posterior == 0.5


def test_gzipped_vocabulary_with_empty_lines_and_carriage_returns_is_read(tmp_path: Path) -> None:
    file = tmp_path / "words.gz"
    file.write_bytes(gzip.compress(b"owl\r\n\r\n\nmouse\r\n"))
    words = read_public_vocabulary(file)
    assert [words.word(i) for i in range(len(words))] == ["owl", "mouse"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no words"),
        (b"\n\n", "no words"),
        (b"a\na\n", "line 2: the vocabulary has this word twice"),
        (b"a\t1\nb\n", "some words"),
        (b"a\tmany\n", "line 1: after the tab there is no count"),
        (b"a\t-1\n", "no count"),
        (b"a\t0\nb\t0\n", "all counts"),
        (b"\xff\n", "UTF-8"),
    ],
)
def test_bad_vocabulary_is_one_sentence(tmp_path: Path, data: bytes, said: str) -> None:
    file = tmp_path / "words.txt"
    file.write_bytes(data)
    with pytest.raises(BadInputError, match=said):
        read_public_vocabulary(file)


def test_exponent_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="exponent"):
        vocabulary(tmp_path, "a\n", exponent=-1)


@pytest.mark.parametrize("beacons", [0, 2])
def test_bins_of_a_published_experiment_have_its_salt(beacons: int) -> None:
    made = history(beacons=beacons, rounds=0)
    found = published_bins(GivenFiles(made.files), made.document.digest[:10])
    salt = salt_of(made.document, first=made.first, records=made.records, allow_unsafe=True)
    assert (found.salt, found.n_bins) == (salt, made.document.experiment.n_bins)
    assert found.n_hashes == made.document.binning.hashes


def test_salt_that_cannot_be_told_is_one_sentence() -> None:
    made = history(beacons=2, rounds=0)
    files = {path: data for path, data in made.files.items() if not path.endswith("/beacon/1")}
    with pytest.raises(BadInputError, match="salt cannot be told"):
        published_bins(GivenFiles(files), made.document.digest)
    with pytest.raises(BadInputError, match="no such experiment"):
        published_bins(GivenFiles(files), "0" * 64)
    with pytest.raises(BadInputError, match="no experiment here"):
        published_bins(GivenFiles(files), "")
