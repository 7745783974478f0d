"""A public vocabulary with its traffic: a word a line, and after a tab, if it is known, how often it occurs.

Without counts, traffic is what Zipf's law says of the line's number: the word on line r occurs as often as r to the
power of minus the exponent. Words are kept as flat bytes: millions of them are hashed in a second or two.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError, BadPeopleFileError
from secvm.people.source import open_people


@dataclass(frozen=True, slots=True, eq=False)
class PublicVocabulary:
    """Words side by side, and how much of the traffic each is."""

    data: NDArray[np.uint8]
    #: Word i is data[offsets[i]:offsets[i + 1]].
    offsets: NDArray[np.int64]
    #: Not normalised.
    traffic: NDArray[np.float64]
    #: Whether the file told it.
    counted: bool

    def __len__(self) -> int:
        return len(self.traffic)

    def word(self, index: int) -> str:
        """One of them."""
        return bytes(self.data[self.offsets[index] : self.offsets[index + 1]]).decode()


def read_public_vocabulary(path: str | os.PathLike[str], *, exponent: float = 1.0) -> PublicVocabulary:
    """The words of a file, plain or gzipped, with their counts or by Zipf's law.

    Raises
    ------
    BadInputError
        No words, a word twice, bytes that are no UTF-8, a count that is none; with the line.
    """
    if not 0 <= exponent <= 10:
        raise BadInputError("the exponent of Zipf's law must lie between 0 and 10")
    counts: dict[bytes, int | None] = {}
    with open_people(path) as source:
        for number, line in enumerate(source.lines(), start=1):
            word, tab, told = line.removesuffix(b"\r").rpartition(b"\t")
            if not tab:
                word, told = told, b""
            if not word and not tab:
                continue
            if word in counts:
                raise BadPeopleFileError("the vocabulary has this word twice", line=number)
            if tab and not (told.isdigit() and len(told) <= 18):
                raise BadPeopleFileError("after the tab there is no count", line=number)
            counts[word] = int(told) if tab else None
        if not counts:
            raise BadInputError(f"{source.path}: the vocabulary has no words")
    return _flat(counts, exponent)


def _flat(counts: dict[bytes, int | None], exponent: float) -> PublicVocabulary:
    joined = b"".join(counts)
    try:
        # Whole, because that is quick; words cut a letter in two only where a line does.
        b"\n".join(counts).decode()
    except UnicodeDecodeError:
        raise BadInputError("the vocabulary is not valid UTF-8") from None
    counted = next(iter(counts.values())) is not None
    if any((count is not None) != counted for count in counts.values()):
        raise BadInputError("some words of the vocabulary have a count, and some have none")
    if counted:
        traffic = np.fromiter((count or 0 for count in counts.values()), np.float64, len(counts))
        if not traffic.any():
            raise BadInputError("all counts of the vocabulary are zero")
    else:
        traffic = np.arange(1, len(counts) + 1, dtype=np.float64) ** -exponent
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, counts), np.int64, len(counts)), out=offsets[1:])
    return PublicVocabulary(np.frombuffer(joined, np.uint8), offsets, traffic, counted)
