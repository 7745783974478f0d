"""People at Twitter's shape: the same whoever asks, by the law they claim, in little memory."""

import hashlib
import itertools
import math
import struct
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning._kernels import fast
from secvm.learning._kernels.layout import PEOPLE
from secvm.learning._kernels.reference import siphash24
from secvm.learning.individual.binning import HashBinning, bin_features
from secvm_lab.paper.twitter import census as twitter_census
from secvm_lab.paper.twitter import law as twitter_law
from secvm_lab.paper.twitter.people import TwitterPeople

#: How often a fair generator would fail one of the statistical tests below.
RATE = 1e-6
SMALL = TwitterPeople(n_people=60, words_per_person=40, vocabulary=3_000, label_noise=0.3)
BINNING = HashBinning(997, b"salt" * 8)


def everybody(people: TwitterPeople, seed: int, **how: Any) -> tuple[list[list[int]], list[int]]:
    words: list[list[int]] = []
    labels: list[int] = []
    for first, indptr, chunk, chunk_labels in people.chunks(seed, **how):
        assert first == len(words)
        words += [chunk[a:b].tolist() for a, b in itertools.pairwise(indptr)]
        labels += chunk_labels.tolist()
    return words, labels


def keys(seed: int) -> list[bytes]:
    digest = hashlib.blake2b(seed.to_bytes(32, "little"), digest_size=48, person=b"secvm-lab-people").digest()
    return [digest[:16], digest[16:32], digest[32:]]


def die(key: bytes, counter: int) -> int:
    return siphash24(key, struct.pack("<Q", counter))


def readable(people: TwitterPeople, seed: int) -> tuple[list[list[int]], list[int]]:
    """The same people, one word after the other."""
    person_key, word_key, lean_key = keys(seed)
    edges, leans = people.edges.tolist(), twitter_law.leans(people.signal).tolist()
    everyone, labels = [], []
    for person in range(people.n_people):
        it = die(person_key, person)
        length, side = int(people.lengths[it >> 52]), it >> 51 & 1
        strength = round((people.weakest + (1 - people.weakest) * ((it >> 41 & 1023) + 0.5) / 1024) * 2**16)
        words: dict[int, None] = {}
        for throw in itertools.count():
            thrown = die(word_key, person << 24 | throw)
            cell, place, coin = thrown >> 52, thrown >> 21 & (2**31 - 1), thrown & (2**21 - 1)
            pair = edges[cell] + (place * (edges[cell + 1] - edges[cell]) >> 31) >> 10
            heads = coin < 2**20 + (leans[die(lean_key, pair) >> 52] * strength >> 16)
            words[2 * pair + (int(heads) ^ side)] = None
            if len(words) == length:
                break
        everyone.append(list(words))
        labels.append(side ^ int((it & (2**32 - 1)) < round(people.label_noise * 2**32)))
    return everyone, labels


@pytest.mark.parametrize("seed", [0, 2**70])
def test_people_are_those_of_the_readable_generator(seed: int) -> None:
    assert everybody(SMALL, seed) == readable(SMALL, seed)


@settings(deadline=None, max_examples=20)
@given(size=st.integers(1, 70), threads=st.integers(1, 4), n=st.integers(1, 60), start=st.integers(0, 60))
def test_chunks_threads_and_the_number_of_people_do_not_show(size: int, threads: int, n: int, start: int) -> None:
    words, labels = everybody(SMALL, 7)
    assert everybody(SMALL.with_people(n), 7, size=size, threads=threads) == (words[:n], labels[:n])
    later = [chunk for _, _, chunk, _ in SMALL.chunks(7, size, start=start)]
    assert np.concatenate([*later, np.empty(0, np.int32)]).tolist() == list(itertools.chain(*words[start:]))


def test_another_seed_is_other_people() -> None:
    assert everybody(SMALL, 1)[0] != everybody(SMALL, 2)[0]


def test_a_person_has_each_word_once_and_about_as_many_as_asked_for() -> None:
    people = TwitterPeople(n_people=400)
    words, _ = everybody(people, 3)
    assert all(len(set(row)) == len(row) and min(row) >= 0 and max(row) < people.vocabulary for row in words)
    assert people.lengths.mean() == pytest.approx(people.words_per_person, rel=1e-3)
    # The logarithm of a length is normal with a standard deviation of .5: z of the mean, of which 5 has a rate of 6e-7.
    logs = np.log([len(row) for row in words])
    assert abs(logs.mean() - np.log(people.lengths).mean()) / (people.spread / math.sqrt(len(words))) < 5
    assert set(map(len, everybody(replace(SMALL, spread=0.0), 3)[0])) == {40}


# ── the laws ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def first_words(people: TwitterPeople, seed: int) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """One word of each of many people: independent draws from the law."""
    alone = replace(people, words_per_person=1, spread=0.0)
    parts = [(words, labels) for _, _, words, labels in alone.chunks(seed)]
    return np.concatenate([words for words, _ in parts]), np.concatenate([labels for _, labels in parts])


def misfit(words: NDArray[np.int32], exponent: float, shift: float, vocabulary: int) -> float:
    """Chi-square against Zipf and Mandelbrot, over 200 ranges of words of about one probability, in units of its limit.

    The limit is Laurent and Massart's: k + 2 sqrt(k x) + 2 x with x = ln(1 / RATE). The law is worked out here from its
    formula, not from the generator's table.
    """
    power, pairs = 1 - exponent, vocabulary // 2
    below = ((np.arange(pairs + 1) + shift) ** power - shift**power) / ((pairs + shift) ** power - shift**power)
    cuts = np.unique(np.searchsorted(below, np.linspace(0, 1, 201)[1:-1]))
    edges = np.concatenate([[0], cuts, [pairs]])
    expected = np.diff(below[edges]) * len(words)
    found = np.histogram(words // 2, bins=edges)[0]
    k, x = len(expected) - 1, math.log(1 / RATE)
    return float(((found - expected) ** 2 / expected).sum() / (k + 2 * math.sqrt(k * x) + 2 * x))


def test_words_follow_zipf_and_mandelbrot() -> None:
    people = TwitterPeople(n_people=100_000, vocabulary=200_000, exponent=1.05)
    words, _ = first_words(people, 1)
    assert misfit(words, 1.05, 2.7, 200_000) < 1
    # It can fail: another exponent, another shift, a tenth of the words from nowhere.
    assert misfit(words, 1.1, 2.7, 200_000) > 1
    assert misfit(words, 1.05, 4.0, 200_000) > 1
    strange = np.where(np.arange(len(words)) % 10, words, np.arange(len(words)) % 200_000)
    assert misfit(strange, 1.05, 2.7, 200_000) > 1


def test_an_exponent_of_one_is_the_limit_of_those_beside_it() -> None:
    edges = [twitter_law.word_edges(2**20, exponent, 2.7).astype(float) for exponent in (1 - 1e-6, 1.0, 1 + 1e-6)]
    assert np.abs(edges[0] - edges[1]).max() < 2e-5 * edges[1].max()
    assert np.abs(edges[2] - edges[1]).max() < 2e-5 * edges[1].max()


def test_the_two_words_of_a_pair_are_equally_popular_over_both_sides() -> None:
    words, _ = first_words(TwitterPeople(n_people=100_000, weakest=1.0, signal=1.0), 5)
    # Hoeffding: off by more than this with a rate of 1e-6. The leans of popular pairs cancel over the sides only.
    assert abs((words % 2).mean() - 0.5) < math.sqrt(math.log(2 / RATE) / (2 * len(words)))


def test_labels_are_balanced_and_a_share_of_them_is_turned_over() -> None:
    many = TwitterPeople(n_people=40_000, words_per_person=1, vocabulary=1_000, spread=0.0, label_noise=0.0)
    limit = math.sqrt(math.log(2 / RATE) / (2 * many.n_people))
    _, sides = first_words(many, 11)
    _, labels = first_words(replace(many, label_noise=0.3), 11)
    assert abs(sides.mean() - 0.5) < limit
    assert abs(labels.mean() - 0.5) < limit
    assert abs((sides != labels).mean() - 0.3) < limit


@pytest.mark.parametrize(("signal", "weakest", "share"), [(1.0, 1.0, 1.0), (1.0, 0.0, 0.5), (0.0, 1.0, 0.0)])
def test_sides_prefer_the_words_that_lean_to_them(signal: float, weakest: float, share: float) -> None:
    people = TwitterPeople(
        n_people=60_000, words_per_person=1, spread=0.0, vocabulary=400, signal=signal, weakest=weakest, label_noise=0.0
    )
    words, sides = first_words(people, 4)
    lean_key = keys(4)[2]
    by_pair = np.array([twitter_law.leans(1.0)[die(lean_key, pair) >> 52] for pair in range(200)]) / 2**21
    even = np.where(words % 2 == 0, 1, -1) * np.where(sides == 1, 1, -1)
    # The mean of ±1 under leans p - 1/2 is 2 (p - 1/2); weighted by it, the mean is share times twice the mean square.
    weights = by_pair[words // 2]
    slope = (even * weights).mean() / (2 * weights * weights).mean()
    error = math.sqrt((weights**2).mean() / len(words)) / (2 * weights * weights).mean()
    assert abs(slope - share) < 5 * error  # five standard deviations: 6e-7
    assert 5 * error < 0.1


def test_words_grow_as_the_law_foretells() -> None:
    few, more = twitter_census.count(TwitterPeople(spread=0.0), 1, (500, 1_500))
    assert (few.entries, more.entries) == (500 * 1_826, 1_500 * 1_826)
    # The number of different words varies by less than its square root: a thousandth. One per cent is ten of them.
    for found in (few, more):
        assert found.words == pytest.approx(found.expected_words, rel=0.01)
        assert found.alone == pytest.approx(found.expected_alone, rel=0.01)
    distinct, alone = twitter_census.expected(TwitterPeople())
    assert distinct == pytest.approx(95_880_008, rel=0.005)
    assert alone > distinct / 2


# ── into bins ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_word_is_binned_as_its_decimal_string() -> None:
    words, labels = everybody(SMALL, 9)
    done = 0
    for rows, chunk_labels in SMALL.rows(9, BINNING, 25):
        for i in range(len(rows)):
            row = slice(rows.indptr[i], rows.indptr[i + 1])
            ours = dict(zip(rows.bins[row].tolist(), rows.values[row].tolist(), strict=True))
            assert ours == bin_features({str(word): 1 for word in words[done + i]}, BINNING).values
        assert chunk_labels.tolist() == labels[done : done + len(rows)]
        done += len(rows)
    assert done == len(words)


@pytest.mark.parametrize("threads", [1, 3])
def test_the_layout_scores_and_counts_as_the_rows_do(threads: int) -> None:
    people = replace(SMALL, n_people=2 * PEOPLE + 100)
    ((rows, labels),) = people.rows(2, BINNING, people.n_people)
    crowd = people.binned(2, BINNING, PEOPLE, threads=threads)
    rng = np.random.default_rng(0)
    mantissas = rng.integers(-(2**31), 2**31, (3, BINNING.n_bins + 1)).astype(np.int32)
    signs = rng.integers(-1, 2, (people.n_people, 3)).astype(np.int8)
    whole = fast.prepare(rows)
    assert np.array_equal(fast.scores(crowd.prepared, mantissas), fast.scores(whole, mantissas))
    assert np.array_equal(fast.tally(crowd.prepared, signs), fast.tally(whole, signs))
    assert np.array_equal(crowd.labels, labels)
    assert np.array_equal(crowd.units, rows.units)
    assert str(crowd) == f"BinnedPeople(<{people.n_people} people>, n_bins=997)"


def test_memory_is_that_of_one_chunk_and_of_the_layout() -> None:
    people = TwitterPeople(n_people=16 * PEOPLE, words_per_person=50, vocabulary=20_000, spread=0.0)
    binning = HashBinning(5_000, b"salt" * 8)
    people.with_people(PEOPLE).binned(1, binning, PEOPLE)  # compiled, and the tables are there
    # Words, bins, sorted bins and values of a chunk are four int32 arrays; sums over a chunk are a few of int64.
    chunk = PEOPLE * 50 * (4 * 4 + 4 * 8)
    tracemalloc.start()
    crowd = people.binned(1, binning, PEOPLE)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Twice the layout where the array of groups had to grow; everybody's rows alone would be 8 bytes an entry.
    assert peak < chunk + 2.2 * crowd.prepared.nbytes
    assert crowd.prepared.entry_bytes < 4 * people.n_people * 50


def test_weak_signal_catches_pegasos_in_its_two_cycle() -> None:
    people, binning = TwitterPeople.weak_signal(1_000), HashBinning(2_003, b"salt" * 8)
    crowd = people.binned(1, binning)
    signs = np.where(crowd.labels == 1, 1, -1).astype(np.int8)
    total, sent, senders = np.zeros(2_004, np.int64), signs, []
    for t in range(1, 31):
        plus, minus = fast.tally(crowd.prepared, sent[:, None])
        total += (plus - minus)[0]
        scores = fast.scores(crowd.prepared, total.astype(np.int32)[None])[:, 0]
        sent = np.where(signs * scores < 1e-4 * people.n_people * t, signs, 0).astype(np.int8)
        senders.append({int(sign) for sign in np.unique(sent)} - {0})
    # Round after round all who are wrong are of one label, and then of the other.
    assert senders[10:20] in ([{1}, {-1}] * 5, [{-1}, {1}] * 5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_people": 0},
        {"words_per_person": 0},
        {"shift": 0.0},
        {"exponent": 0.0},
        {"vocabulary": 2_001},
        {"vocabulary": 2**31},
        {"vocabulary": 10},
        {"label_noise": 1.5},
        {"weakest": -0.1},
        {"signal": -1.0},
        {"spread": -1.0},
    ],
)
def test_numbers_without_meaning_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInputError):
        replace(SMALL, **wrong)


def test_chunks_and_laws_without_meaning_are_refused() -> None:
    with pytest.raises(BadInputError, match="at least one person"):
        next(SMALL.chunks(1, 0))
    with pytest.raises(BadInputError, match="whole blocks"):
        SMALL.binned(1, BINNING, 100)
    with pytest.raises(BadInputError, match="so steep a law"):
        twitter_law.word_edges(2**30, 2.0, 2.7)
    with pytest.raises(BadInputError, match="so steep a law"):
        twitter_law.word_edges(3_000, 6.0, 2.7)
    # Half of a vocabulary whose rarest words hardly ever come up.
    greedy = TwitterPeople(n_people=1, words_per_person=10**6, vocabulary=2 * 10**6, exponent=1.4, spread=0.0)
    with pytest.raises(BadInputError, match="did not find"):
        list(greedy.chunks(1))
