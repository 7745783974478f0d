"""Whose words: a crowd as a small value from which anybody can make the same rows again.

A crowd is a file of people, or made-up people at the shape of the paper's data. ``Recipe`` adds into how many bins; it
is frozen and picklable, so that a worker elsewhere gets the recipe and not the people.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning._kernels.dispatch import kernels
from secvm.learning._kernels.layout import PreparedRows, prepare
from secvm.learning.individual.binning import HashBinning, VocabularyBinning
from secvm.learning.rows import BinnedRows
from secvm.people.person import People
from secvm.people.reader import read_people
from secvm_lab.engine.collapsed import CollapsedRows, collapse
from secvm_lab.paper.twitter.census import expected
from secvm_lab.paper.twitter.people import TwitterPeople
from secvm_lab.paper.twitter.unhashed import unhashed

#: Different words of the paper's data, and its number of people; numbers of bins are shares of this.
PAPER_WORDS = 95_880_008
PAPER_PEOPLE = 350_000
#: Bytes of a file that are read at once for its digest.
_BLOCK = 2**20


@dataclass(frozen=True)
class MadeUpCrowd:
    """Synthetic people of ``secvm_lab.paper.twitter.people``."""

    people: TwitterPeople
    seed: int
    label_names: ClassVar[tuple[str, str]] = ("0", "1")

    @property
    def n_people(self) -> int:
        """How many."""
        return self.people.n_people

    @cached_property
    def n_words(self) -> int:
        """The paper's number, scaled by what the law foretells for so many people."""
        return round(PAPER_WORDS * _foretold(self.people) / _foretold(self.people.with_people(PAPER_PEOPLE)))

    @property
    def n_entries(self) -> int:
        """About how many words people have, all together."""
        return round(self.n_people * self.people.words_per_person)

    @property
    def unhashed_bins(self) -> int:
        """Bins where every word has its own; some of them are nobody's."""
        return self.people.vocabulary

    def identity(self) -> dict[str, Any]:
        """All that decides who these people are, as JSON."""
        return {"kind": "twitter people", "seed": self.seed, **asdict(self.people)}

    def labels(self) -> NDArray[np.int64]:
        """0 or 1 for each person."""
        # Words that nobody looks at are not drawn: a person's label does not depend on how many there are.
        short = replace(self.people, words_per_person=1, spread=0.0)
        return np.concatenate([labels for *_, labels in short.chunks(self.seed)]).astype(np.int64)

    def rows(self, bins: int | None, hashes: int, salt: bytes, *, threads: int) -> BinnedRows:
        """Everybody's rows; None bins: every word has its own."""
        if bins is None:
            return self._every_word(threads)
        return self.people.all_rows(self.seed, HashBinning(bins, salt, hashes), threads=threads)[0]

    def _every_word(self, threads: int) -> BinnedRows:
        lengths, words = [], []
        for _, indptr, found, _ in self.people.chunks(self.seed, threads=threads):
            for low, high in pairwise(indptr.tolist()):
                found[low:high].sort()
            lengths.append(np.diff(indptr))
            words.append(found)
        indptr = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)
        entries = np.concatenate(words)
        return BinnedRows(indptr, entries, np.ones(len(entries), np.int32), self.unhashed_bins)

    def laid_out(self, bins: int, hashes: int, salt: bytes, *, threads: int) -> PreparedRows:
        """Everybody in the layout of the quick kernels."""
        return self.people.binned(self.seed, HashBinning(bins, salt, hashes), threads=threads).prepared

    def unhashed(self, take: NDArray[np.bool_] | None, *, threads: int) -> CollapsedRows:
        """Everybody, or those who are taken, with all their words."""
        return unhashed(self.people, self.seed, take=take, threads=threads)[0]

    def first(self, n_people: int) -> MadeUpCrowd:
        """A crowd of the first so many."""
        return replace(self, people=self.people.with_people(min(n_people, self.n_people)))


@dataclass(frozen=True)
class FileCrowd:
    """The people of a file, or its first ones. The name of the file is no part of who they are."""

    path: str
    #: BLAKE2b-256 of the file's bytes.
    digest: str
    n_people: int
    n_words: int
    n_entries: int
    label_names: tuple[str, str]

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> FileCrowd:
        """Read a file once, to see who is in it."""
        place, digest = Path(path).resolve(), _digest(Path(path))
        people = _read(str(place), digest)
        if len(people.label_names) != 2:
            raise BadInputError(f"{path}: the evaluation tells two labels apart, and {_counted(people.label_names)}")
        low, high = people.label_names
        return cls(str(place), digest, len(people), people.rows.n_bins, len(people.rows.bins), (low, high))

    @property
    def unhashed_bins(self) -> int:
        return self.n_words

    def identity(self) -> dict[str, Any]:
        return {"kind": "file", "digest": self.digest, "people": self.n_people}

    def labels(self) -> NDArray[np.int64]:
        return self._table().label_codes[: self.n_people].astype(np.int64)

    def rows(self, bins: int | None, hashes: int, salt: bytes, *, threads: int) -> BinnedRows:  # noqa: ARG002
        table = self._table()
        rows = table.rows
        if bins is not None:
            binning, words = HashBinning(bins, salt, hashes), cast("VocabularyBinning", table.binning).words
            hashed = kernels().hash_strings(words, binning.keys, bins)
            rows = kernels().bin_rows(rows.indptr, hashed[rows.bins], rows.values, bins)
        return rows if len(rows) == self.n_people else rows.take(np.arange(self.n_people))

    def laid_out(self, bins: int, hashes: int, salt: bytes, *, threads: int) -> PreparedRows:
        return prepare(self.rows(bins, hashes, salt, threads=threads))

    def unhashed(self, take: NDArray[np.bool_] | None, *, threads: int) -> CollapsedRows:
        rows = self.rows(None, 1, b"", threads=threads)
        return collapse(rows if take is None else rows.take(np.flatnonzero(take)))

    def first(self, n_people: int) -> FileCrowd:
        return replace(self, n_people=min(n_people, self.n_people))

    def _table(self) -> People:
        return _read(self.path, self.digest)


Crowd = MadeUpCrowd | FileCrowd


@dataclass(frozen=True)
class Recipe:
    """How to make a crowd's rows."""

    crowd: Crowd
    #: None: unhashed.
    bins: int | None
    hashes: int
    salt: bytes
    #: A bit for each person, as ``np.packbits`` has them: who takes part. None: everybody.
    taken: bytes | None = None

    @property
    def n_bins(self) -> int:
        """Bins of its rows."""
        return self.crowd.unhashed_bins if self.bins is None else self.bins

    @property
    def take(self) -> NDArray[np.bool_]:
        """Who takes part."""
        if self.taken is None:
            return np.ones(self.crowd.n_people, np.bool_)
        bits = np.unpackbits(np.frombuffer(self.taken, np.uint8), count=self.crowd.n_people)
        return bits.astype(np.bool_)

    def prepared(self, *, threads: int = 1) -> PreparedRows | CollapsedRows:
        """What an engine takes: those who take part, in their order."""
        if self.bins is None:
            return self.crowd.unhashed(None if self.taken is None else self.take, threads=threads)
        if self.taken is not None:
            raise BadInputError("parts of a crowd are taken unhashed")
        return self.crowd.laid_out(self.bins, self.hashes, self.salt, threads=threads)


@lru_cache(maxsize=1)
def _read(path: str, digest: str) -> People:
    """The file with all its words, read once: hashing words anew is far quicker than reading them again."""
    # Another machine may have another file there.
    if _digest(Path(path)) != digest:
        raise BadInputError(f"{path} is not the file that was read first")
    return read_people(path, None)


@lru_cache(maxsize=8)
def _foretold(people: TwitterPeople) -> float:
    """Different words that so many people use."""
    return expected(people)[0]


def _counted(labels: tuple[str, ...]) -> str:
    return f"there are {len(labels)}" if len(labels) > 1 else "everybody has the same"


def _digest(path: Path) -> str:
    hasher = hashlib.blake2b(digest_size=32)
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                hasher.update(block)
    except OSError as error:
        raise BadInputError(f"cannot read {path}: {error.strerror or 'input/output error'}") from None
    return hasher.hexdigest()
