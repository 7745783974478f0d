"""How many words people at Twitter's shape use, counted and foretold.

Words grow with people as in text: each new person brings words that nobody had. ``expected`` says how many of their
words are different, and how many belong to one person alone, from the law; ``count`` counts them among made people.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm_lab._kernels.twitter_numbers import POINT_BITS
from secvm_lab._kernels.twitter_words import count_people
from secvm_lab.paper.twitter.people import CHUNK, TwitterPeople

#: Words whose counts are looked at together.
_SLICE = 2**24


@dataclass(frozen=True, slots=True)
class Census:
    """Words of the first so many people."""

    people: int
    #: Pairs of a person and a word.
    entries: int
    #: Different words.
    words: int
    #: Words that one person alone uses.
    alone: int
    expected_words: float
    expected_alone: float


def _word_groups(edges: NDArray[np.uint64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Probability that one draw is a word, and how many words have it: exact for the head, in thin slices behind."""
    pairs = int(edges[-1]) >> POINT_BITS
    head = min(pairs, 2**14)
    slices = np.geomspace(head, pairs, 2**12 + 1).astype(np.int64)
    positions = np.unique(np.concatenate([np.arange(head + 1), slices])).astype(np.float64)
    below = np.interp(positions * 2**POINT_BITS, edges.astype(np.float64), np.arange(len(edges)) / (len(edges) - 1))
    n_words = 2 * np.diff(positions)
    return np.diff(below) / n_words, n_words


def _chance_of_words(
    edges: NDArray[np.uint64], person_lengths: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Chance that a person has a word, and how many words have that chance. Leans are left out: they add some .2 %.

    A person throws until there are enough different words; we take the number of throws that gives as many on average.
    """
    each, n_words = _word_groups(edges)
    never = np.log1p(-np.minimum(each, 1 - 1e-12))
    longest = int(person_lengths.max())
    throws = np.geomspace(1, 64 * longest, 512)
    found = np.array([-(n_words * np.expm1(t * never)).sum() for t in throws])
    # Neighbouring lengths are taken together by their mean: the longest few have a good part of all words.
    some = person_lengths.reshape(256, -1).mean(axis=1)
    needed = np.exp(np.interp(np.log(some), np.log(found), np.log(throws)))
    return -np.mean([np.expm1(t * never) for t in needed], axis=0), n_words


def expected(people: TwitterPeople) -> tuple[float, float]:
    """Different words that so many people use, and those that one person alone uses, on average."""
    chance, n_words = _chance_of_words(people.edges, people.lengths)
    nobody = np.log1p(-np.minimum(chance, 1 - 1e-12))
    distinct = -(n_words * np.expm1(people.n_people * nobody)).sum()
    alone = (n_words * people.n_people * chance * np.exp((people.n_people - 1) * nobody)).sum()
    return float(distinct), float(alone)


def count(
    people: TwitterPeople, seed: int, sizes: tuple[int, ...], chunk: int = CHUNK, *, threads: int = 1
) -> list[Census]:
    """Count words among the first so many people, for some ascending numbers; takes a byte per word there is."""
    counts, entries, done, found = np.zeros(people.vocabulary, np.uint8), 0, 0, []
    for size in sizes:
        some = people.with_people(size)
        for _, indptr, words, _ in some.chunks(seed, chunk, start=done, threads=threads):
            count_people(words, counts)
            entries += int(indptr[-1])
        done = size
        slices = [counts[low : low + _SLICE] for low in range(0, len(counts), _SLICE)]
        used = sum(int(np.count_nonzero(part)) for part in slices)
        alone = sum(int(np.count_nonzero(part == 1)) for part in slices)
        found.append(Census(size, entries, used, alone, *expected(some)))
    return found
