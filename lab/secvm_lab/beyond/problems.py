"""The people on whom networks are tried: where a hidden layer should help, and where it should not.

- *interactions*: made-up people whose label is in no word, but in which kinds of words come together (exclusive or).
- *digits*: scikit-learn's handwritten digits, 64 pixels of 0 to 16, ten labels; no person's words, but real data.
- *words*: synthetic people at the paper's shape (``paper.twitter``), fewer words: each word leans a little, alone.
- *file*: the people of a file, hashed.

``Text`` has people's words before they are hashed, so that the same people can be hashed again and again.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from os import PathLike

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from secvm.errors import BadInputError
from secvm.learning._kernels.dispatch import kernels
from secvm.learning._kernels.hashing import bin_rows
from secvm.learning.individual.binning import HashBinning, VocabularyBinning
from secvm.learning.individual.dice import hold_out
from secvm.learning.rows import BinnedRows
from secvm.people.reader import read_people
from secvm_lab._kernels.hash_numbers import hash_numbers
from secvm_lab.paper.offline.crowd import MadeUpCrowd
from secvm_lab.paper.twitter.people import TwitterPeople

#: Bins for words, and words of a person, where they are made up.
BINS, WORDS = 4096, 300


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """People, and the size of the network that is tried on them. Secret: it does not print itself."""

    name: str
    #: What it is, in a sentence.
    told: str
    rows: BinnedRows
    labels: NDArray[np.int64]
    hidden: int

    @property
    def n_labels(self) -> int:
        return max(2, int(self.labels.max()) + 1)


@dataclass(frozen=True, eq=False, repr=False)
class Parts:
    """Who trains, on whom the number of rounds is chosen, and on whom the model is measured: 60, 20 and 20 %."""

    train: NDArray[np.int64]
    choose: NDArray[np.int64]
    test: NDArray[np.int64]

    @classmethod
    def drawn(cls, n: int, seed: bytes) -> Parts:
        inner = hold_out(n, Fraction(1, 5), seed + b" test")
        rest = np.flatnonzero(inner)
        kept = hold_out(len(rest), Fraction(1, 4), seed + b" choose")
        return cls(rest[kept], rest[~kept], np.flatnonzero(~inner))


@dataclass(frozen=True, slots=True)
class InteractingPeople:
    """Two coins of a person decide which half of two groups of words it uses; its label is whether they differ."""

    n_people: int = 4000
    #: Words in half a group, and how many of them a person has.
    half: int = 30
    own: int = 10
    #: Words that say nothing, and how many of them a person has.
    others: int = 300
    common: int = 20
    label_noise: float = 0.1

    @property
    def n_words(self) -> int:
        return 4 * self.half + self.others

    def made(self, seed: int) -> tuple[BinnedRows, NDArray[np.int64]]:
        """Everybody's words, each a bin of its own, and labels."""
        rng = np.random.default_rng(seed)
        n = self.n_people
        coins = rng.integers(0, 2, (n, 2))
        halves = [(2 * group + coins[:, group])[:, None] * self.half for group in (0, 1)]
        parts = [half + _some(rng, n, self.half, self.own) for half in halves]
        parts.append(4 * self.half + _some(rng, n, self.others, self.common))
        words = np.sort(np.concatenate(parts, axis=1), axis=1).astype(np.int32)
        turned = rng.random(n) < self.label_noise
        labels = (coins[:, 0] ^ coins[:, 1] ^ turned).astype(np.int64)
        indptr = np.arange(n + 1, dtype=np.int64) * words.shape[1]
        return BinnedRows(indptr, words.ravel(), np.ones(words.size, np.int32), self.n_words), labels


def interactions(people: int, seed: int) -> Problem:
    """Made-up people whose words say something only together."""
    rows, labels = InteractingPeople(n_people=people).made(seed)
    told = f"{people} made-up people of 40 words; the label is whether two hidden coins differ, 10 % turned over"
    return Problem("interactions", told, rows, labels, hidden=16)


def digits() -> Problem:
    """Handwritten digits, which come with scikit-learn."""
    bunch = load_digits()
    pixels = bunch.data.astype(np.int32)
    people, places = np.nonzero(pixels)
    indptr = np.searchsorted(people, np.arange(len(pixels) + 1)).astype(np.int64)
    rows = BinnedRows(indptr, places.astype(np.int32), pixels[people, places], pixels.shape[1])
    told = f"scikit-learn's {len(pixels)} digits, 64 pixels, ten labels"
    return Problem("digits", told, rows, bunch.target.astype(np.int64), hidden=32)


def words(people: int, seed: int) -> Problem:
    """Synthetic people at the paper's shape."""
    recipe = TwitterPeople(n_people=people, words_per_person=WORDS)
    rows, labels = recipe.all_rows(seed, HashBinning(BINS, salt_of(seed)))
    told = f"{people} synthetic people of about {WORDS} words in {BINS} bins; every word leans alone"
    return Problem("words", told, rows, labels, hidden=8)


def from_file(path: str | PathLike[str], seed: int) -> Problem:
    """The people of a file; a word of a person counts once."""
    people = read_people(path, HashBinning(BINS, salt_of(seed)), presence=True)
    if len(people.label_names) < 2 or len(people) < 20:
        raise BadInputError("the file needs twenty people and two labels at least")
    told = f"{len(people)} people of the file, their words in {BINS} bins, {len(people.label_names)} labels"
    return Problem("file", told, people.rows, people.label_codes.astype(np.int64), hidden=8)


def salt_of(seed: int, number: int = 0) -> bytes:
    """A salt for made-up experiments; in a deployment beacons make it."""
    return f"beyond {seed} {number}".encode()


def _some(rng: np.random.Generator, n: int, of: int, k: int) -> NDArray[np.int64]:
    """For each of n people k different numbers below ``of``."""
    return np.argsort(rng.random((n, of)), axis=1)[:, :k]


@dataclass(frozen=True, eq=False, repr=False)
class Text:
    """People's words before they are hashed. Secret: it does not print itself."""

    #: A bin for each word.
    rows: BinnedRows
    labels: NDArray[np.int64]
    #: None: a word is a number.
    words: tuple[str, ...] | None = None

    @property
    def words_per_person(self) -> float:
        return len(self.rows.bins) / len(self.labels)

    def binned(self, binning: HashBinning) -> BinnedRows:
        """Everybody's rows under this hash."""
        if self.words is None:
            bins = hash_numbers(self.rows.bins, binning.keys, binning.n_bins)
        else:
            bins = kernels().hash_strings(self.words, binning.keys, binning.n_bins)[self.rows.bins]
        return bin_rows(self.rows.indptr, bins, None, binning.n_bins)


def made_up_text(people: int, seed: int, words: int = WORDS) -> Text:
    """Synthetic people at the paper's shape, fewer words."""
    crowd = MadeUpCrowd(TwitterPeople(n_people=people, words_per_person=words), seed)
    return Text(crowd.rows(None, 1, b"", threads=1), crowd.labels())


def text_of_file(path: str | PathLike[str]) -> Text:
    """The people of a file with two labels; a word of a person counts once."""
    people = read_people(path, None, presence=True)
    if len(people.label_names) != 2 or len(people) < 20:
        raise BadInputError("more hashes are tried on files of twenty people or more with exactly two labels")
    assert isinstance(people.binning, VocabularyBinning)
    return Text(people.rows, people.label_codes.astype(np.int64), people.binning.words)
