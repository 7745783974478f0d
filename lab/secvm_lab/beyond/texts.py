"""People's words before they are hashed, so that the same people can be hashed again and again."""

from __future__ import annotations

from os import PathLike
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning._kernels.dispatch import kernels
from secvm.learning._kernels.hashing import bin_rows
from secvm.learning.individual.binning import HashBinning, VocabularyBinning
from secvm.learning.rows import BinnedRows
from secvm.people.reader import read_people
from secvm_lab._kernels.hash_numbers import hash_numbers
from secvm_lab.beyond.problems import WORDS
from secvm_lab.paper.twitter.people import TwitterPeople


class Text(Protocol):
    """People's words before they are hashed. Secret: it does not print itself."""

    labels: NDArray[np.int64]

    @property
    def words_per_person(self) -> float: ...

    def binned(self, binning: HashBinning) -> BinnedRows: ...


class MadeUpText:
    """Synthetic people at the paper's shape, fewer words."""

    def __init__(self, people: int, seed: int, words: int = WORDS) -> None:
        chunks = list(TwitterPeople(n_people=people, words_per_person=words).chunks(seed))
        lengths = np.concatenate([np.diff(indptr) for _, indptr, _, _ in chunks])
        self._indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self._words = np.concatenate([words for _, _, words, _ in chunks])
        self.labels = np.concatenate([labels for _, _, _, labels in chunks]).astype(np.int64)

    @property
    def words_per_person(self) -> float:
        return len(self._words) / len(self.labels)

    def binned(self, binning: HashBinning) -> BinnedRows:
        return bin_rows(self._indptr, hash_numbers(self._words, binning.keys, binning.n_bins), None, binning.n_bins)


class FileText:
    """The people of a file with two labels; a word of a person counts once."""

    def __init__(self, path: str | PathLike[str]) -> None:
        people = read_people(path, None, presence=True)
        if len(people.label_names) != 2 or len(people) < 20:
            raise BadInputError("more hashes are tried on files of twenty people or more with exactly two labels")
        assert isinstance(people.binning, VocabularyBinning)
        self._vocabulary, self._rows = people.binning.words, people.rows
        self.labels = people.label_codes.astype(np.int64)

    @property
    def words_per_person(self) -> float:
        return len(self._rows.bins) / len(self.labels)

    def binned(self, binning: HashBinning) -> BinnedRows:
        table = kernels().hash_strings(self._vocabulary, binning.keys, binning.n_bins)
        return bin_rows(self._rows.indptr, table[self._rows.bins], None, binning.n_bins)
