"""People at the shape of the paper's Twitter data: 350,000 people, some 96 million words, about 1,826 a person.

Synthetic: nobody wrote these words, and no figure made from them says anything of Twitter. What is the paper's is the
number of people, the mean number of words, the number of different words and the balance of labels; the laws between
them (``twitter_law``), the signal and the noise are ours. docs/results/paper-people.md says which and how near.

A person is a function of the seed and its number: chunks and threads do not show, and the first 20,000 of 350,000
people are the same as 20,000 alone. A word is a number, the popular ones low; as a feature it is its decimal string, as
an index of an svmlight file is. Every word counts 1.

    people = TwitterPeople(n_people=20_000)
    for first, indptr, words, labels in people.chunks(seed=1):
        ...                                              # a few thousand people at a time
    crowd = people.binned(1, HashBinning(95_880, salt))   # straight into the layout of the quick kernels
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning._kernels.vectorised import siphash24_words
from secvm.learning.individual.binning import HashBinning
from secvm.learning.rows import BinnedRows
from secvm_lab._kernels.twitter_numbers import QUANTILE_BITS, STRENGTH_BITS, THROW_BITS
from secvm_lab.paper.twitter import law as twitter_law

# numba comes in where words are drawn on this machine's processors: a GPU draws its own.
if TYPE_CHECKING:
    from secvm.learning._kernels.layout import PreparedRows

#: People in a block of the layout (``_kernels.layout.PEOPLE``, which needs numba; tested).
PEOPLE = 1024
#: BLAKE2b personalisation of the dice.
_DICE_TAG = b"secvm-lab-people"
#: People at a time: 4,096 of 1,826 words are 120 MB of words and bins, and for a moment twice that for sums.
CHUNK = 4 * PEOPLE
#: The order of the bins in the layout is that of the first people: enough to tell frequent from rare.
_SAMPLE = 16 * PEOPLE
#: The bits of a person's one die, from above: its length, its side, its strength, and whether its label is turned over.
_SIDE_BIT, _STRENGTH_BIT, _NOISE_BITS = 51, 41, 32
_STRENGTHS = 2 ** (_SIDE_BIT - _STRENGTH_BIT)

Chunk = tuple[int, NDArray[np.int64], NDArray[np.int32], NDArray[np.int8]]


@dataclass(frozen=True, eq=False, repr=False)
class BinnedPeople:
    """Everybody in the layout of the quick kernels, and what a learner wants to know besides."""

    prepared: PreparedRows
    #: int8, 0 or 1.
    labels: NDArray[np.int8]
    #: int64, as ``BinnedRows.units``: the bias included.
    units: NDArray[np.int64]

    def __repr__(self) -> str:
        return f"BinnedPeople(<{len(self.labels)} people>, n_bins={self.prepared.n_bins})"


@dataclass(frozen=True, eq=False, repr=False)
class Facts:
    """What people's own dice decide of them, before their words. It does not print itself."""

    #: int64, where each person's words begin.
    indptr: NDArray[np.int64]
    #: int8, the side whose leans a person follows, and int64, in what share of its words.
    sides: NDArray[np.int8]
    strengths: NDArray[np.int64]
    labels: NDArray[np.int8]
    #: Of the dice for words, and for leans.
    keys: tuple[NDArray[np.uint64], NDArray[np.uint64]]


@dataclass(frozen=True)
class TwitterPeople:
    """What the generator is asked for; the defaults are the paper's shape."""

    n_people: int = 350_000
    words_per_person: float = 1_826
    #: Words there are; most are used by nobody.
    vocabulary: int = 2**29
    exponent: float = 1.0597
    #: Mandelbrot's shift; 2.7 is the classic value for text.
    shift: float = 2.7
    #: Standard deviation of the logarithm of a person's number of words.
    spread: float = 0.5
    #: Standard deviation of a word's lean.
    signal: float = 0.5
    #: Share of its words in which the least typical person follows the leans; the most typical follows all.
    weakest: float = 0.0
    #: Share of labels that are turned over.
    label_noise: float = 0.22

    def __post_init__(self) -> None:
        if not (self.n_people >= 1 and self.words_per_person >= 1 and self.shift > 0 and self.exponent > 0):
            raise BadInputError("people, words per person, shift and exponent must be positive")
        if not 2 <= self.vocabulary <= twitter_law.MAX_VOCABULARY or self.vocabulary % 2:
            raise BadInputError(f"the vocabulary must be an even number up to {twitter_law.MAX_VOCABULARY}")
        if not (0 <= self.label_noise <= 1 and 0 <= self.weakest <= 1 and self.signal >= 0 and self.spread >= 0):
            raise BadInputError("label noise and weakest lie between 0 and 1; signal and spread are not negative")
        if int(self.lengths.max()) > self.vocabulary // 2:
            raise BadInputError("some people would need more than half of the vocabulary")

    @classmethod
    def weak_signal(cls, n_people: int = 350_000) -> TwitterPeople:
        """The same shape with words that say nearly nothing: full-batch Pegasos is long caught in its two-cycle."""
        return cls(n_people=n_people, signal=0.05, weakest=1.0, label_noise=0.1)

    def with_people(self, n_people: int) -> TwitterPeople:
        """More of the same people, or fewer."""
        return replace(self, n_people=n_people)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Numbers of words that people have, all equally likely."""
        return twitter_law.lengths(self.words_per_person, self.spread)

    @property
    def edges(self) -> NDArray[np.uint64]:
        """The law of words: ``twitter_law.word_edges``."""
        return twitter_law.word_edges(self.vocabulary, self.exponent, self.shift)

    def chunks(self, seed: int, size: int = CHUNK, *, start: int = 0, threads: int = 1) -> Iterator[Chunk]:
        """(first person, indptr, words, labels), ``size`` people at a time, from person ``start`` on; none is kept.

        Row i of a chunk is ``words[indptr[i] : indptr[i + 1]]``: different words as they first come up, int32.
        """
        if size < 1 or seed < 0:
            raise BadInputError("a chunk has at least one person, and a seed is not negative")
        leans = twitter_law.leans(self.signal)
        longest = int(self.lengths.max())
        for first in range(start, self.n_people, size):
            some = self.facts(seed, first, min(first + size, self.n_people))
            words = np.empty(int(some.indptr[-1]), np.int32)
            tables = (self.edges, leans, *some.keys, first, some.sides, some.strengths, some.indptr)
            self._draw(tables, len(some.labels), longest, words, threads)
            yield first, some.indptr, words, some.labels

    def facts(self, seed: int, first: int, last: int) -> Facts:
        """What some people's own dice decide of them."""
        digest = hashlib.blake2b(seed.to_bytes(32, "little"), digest_size=48, person=_DICE_TAG).digest()
        person_key, word_key, lean_key = np.frombuffer(digest, "<u8").astype(np.uint64).reshape(3, 2)
        people = np.arange(first, last, dtype=np.uint64)
        dice = siphash24_words(np.broadcast_to(person_key, (len(people), 2)), people)
        indptr = np.zeros(len(people) + 1, np.int64)
        np.cumsum(self.lengths[dice >> np.uint64(64 - QUANTILE_BITS)], out=indptr[1:])
        sides = ((dice >> np.uint64(_SIDE_BIT)) & np.uint64(1)).astype(np.int8)
        above = ((dice >> np.uint64(_STRENGTH_BIT)) & np.uint64(_STRENGTHS - 1)).astype(np.float64) + 0.5
        shares = self.weakest + (1 - self.weakest) * above / _STRENGTHS
        strengths = np.rint(shares * 2**STRENGTH_BITS).astype(np.int64)
        noise = dice & np.uint64(2**_NOISE_BITS - 1)
        labels = sides ^ (noise < np.uint64(round(self.label_noise * 2**_NOISE_BITS))).astype(np.int8)
        return Facts(indptr, sides, strengths, labels, (word_key, lean_key))

    @staticmethod
    def _draw(tables: tuple[Any, ...], n: int, longest: int, words: NDArray[np.int32], threads: int) -> None:
        from secvm_lab._kernels.twitter_words import draw_words  # noqa: PLC0415

        # Half full at most: a set that is fuller is searched for long.
        table_bits = (2 * longest).bit_length()
        pieces = max(1, min(threads, n))
        cuts = np.linspace(0, n, pieces + 1).astype(np.int64).tolist()

        def work(low: int, high: int) -> int:
            return int(draw_words(*tables, low, high, table_bits, words))

        with ThreadPoolExecutor(pieces) as pool:
            stuck = [i for i in pool.map(work, cuts[:-1], cuts[1:]) if i >= 0]
        if stuck:
            raise BadInputError(f"a person did not find so many different words in {2**THROW_BITS} draws")

    def rows(
        self, seed: int, binning: HashBinning, size: int = CHUNK, *, threads: int = 1
    ) -> Iterator[tuple[BinnedRows, NDArray[np.int8]]]:
        """People as rows of bins with their labels, ``size`` at a time."""
        from secvm.learning._kernels.hashing import bin_rows  # noqa: PLC0415
        from secvm_lab._kernels.hash_numbers import hash_numbers  # noqa: PLC0415

        for _, indptr, words, labels in self.chunks(seed, size, threads=threads):
            bins = hash_numbers(words, binning.keys, binning.n_bins, threads=threads)
            yield bin_rows(indptr, bins, None, binning.n_bins), labels

    def all_rows(self, seed: int, binning: HashBinning, *, threads: int = 1) -> tuple[BinnedRows, NDArray[np.int64]]:
        """Everybody's rows and labels at once."""
        parts = list(self.rows(seed, binning, threads=threads))
        lengths = np.concatenate([np.diff(rows.indptr) for rows, _ in parts])
        rows = BinnedRows(
            indptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            bins=np.concatenate([rows.bins for rows, _ in parts]),
            values=np.concatenate([rows.values for rows, _ in parts]),
            n_bins=binning.n_bins,
        )
        return rows, np.concatenate([labels for _, labels in parts]).astype(np.int64)

    def binned(self, seed: int, binning: HashBinning, size: int = CHUNK, *, threads: int = 1) -> BinnedPeople:
        """Everybody in the blocked layout, without ever holding everybody's rows.

        The order of the bins is that of the first 16,384 people, who are made twice for it.
        """
        from secvm.learning._kernels.layout import count_bins, order_bins  # noqa: PLC0415
        from secvm_lab._kernels.layout_stream import LayoutBuilder  # noqa: PLC0415

        if size % PEOPLE:
            raise BadInputError(f"the layout takes chunks of whole blocks of {PEOPLE} people")
        sample = self.with_people(min(self.n_people, _SAMPLE))
        frequencies = np.zeros(binning.n_bins, np.int64)
        for rows, _ in sample.rows(seed, binning, size, threads=threads):
            frequencies += count_bins(rows)
        builder = LayoutBuilder(order_bins(frequencies, sample.n_people), self.n_people)
        labels, units = [], []
        for rows, chunk_labels in self.rows(seed, binning, size, threads=threads):
            builder.add(rows)
            labels.append(chunk_labels)
            units.append(rows.units)
        return BinnedPeople(builder.finish(), np.concatenate(labels), np.concatenate(units))
