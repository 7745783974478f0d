"""Read files of people, of words and of splits: the doors of this package.

``person.py`` says what a line means, ``binned.py`` reads a whole file so. Memory holds the table and one block of the
file, never the whole file.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError, BadPeopleFileError
from secvm.learning.individual.binning import Binning, VocabularyBinning
from secvm.people.binned import BinnedReader
from secvm.people.person import People
from secvm.people.reference import Progress
from secvm.people.source import BLOCK_BYTES, open_people


def read_people(
    path: str | os.PathLike[str],
    binning: Binning | None,
    *,
    presence: bool = False,
    count_features: bool = False,
    labels_required: bool = True,
    on_progress: Progress | None = None,
    _block_bytes: int = BLOCK_BYTES,
) -> People:
    """All people of a file as rows of bins.

    Args:
        path: JSON lines or svmlight, plain or gzipped.
        binning: how features become bins; ``None`` makes every feature a bin of its own, in the order of their UTF-8
            bytes, and gives back the vocabulary found.
        presence: every distinct feature counts 1, whatever its value.
        count_features: also count distinct features where the binning does not need to know them (takes longer).
        labels_required: whether a person without a label is an error.
        on_progress: called with (bytes read, bytes in all) of the file on disk, as reading goes on.

    Raises
    ------
        BadPeopleFileError: one sentence: the line and what is wrong with it, or the path and what is wrong with it.
    """
    with open_people(path) as source:
        reader = BinnedReader(
            source,
            binning,
            presence=presence,
            count_features=count_features,
            labels_required=labels_required,
            on_progress=on_progress or _no_progress,
        )
        return reader.read(_block_bytes)


def _no_progress(_done: int, _total: int) -> None:
    pass


def read_vocabulary(path: str | os.PathLike[str]) -> VocabularyBinning:
    """A vocabulary: one word a line, UTF-8, plain or gzipped; its order is the order of the bins.

    A word is its line without the line end, not stripped of anything else; empty lines are skipped.
    """
    words: dict[str, int] = {}
    with open_people(path) as source:
        for number, line in enumerate(source.lines(), start=1):
            word = _decoded(line.removesuffix(b"\r"), number)
            if word and words.setdefault(word, number) != number:
                raise BadPeopleFileError("the vocabulary has this word twice", line=number)
        if not words:
            raise BadPeopleFileError(f"{source.path}: the vocabulary has no words")
    return VocabularyBinning(tuple(words))


def read_split(path: str | os.PathLike[str], n: int) -> NDArray[np.bool_]:
    """Who of ``n`` people is in the training cohort: a line a person, ``train`` or ``test``; true is train."""
    cohorts = {b"train": True, b"test": False}
    train: list[bool] = []
    with open_people(path) as source:
        for number, line in enumerate(source.lines(), start=1):
            word = line.strip()
            if word and word not in cohorts:
                raise BadInputError(f"{source.path}: line {number} is neither train nor test")
            if word:
                train.append(cohorts[word])
        if len(train) != n:
            raise BadInputError(f"{source.path}: the split has {len(train)} lines for {n} people")
    return np.array(train, dtype=np.bool_)


def _decoded(line: bytes, number: int) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        pass
    # Raised outside the handler: the decoder's exception holds the line.
    raise BadPeopleFileError("the line is not valid UTF-8", line=number)
