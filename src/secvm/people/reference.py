"""The readers, written to be read: a person at a time, with orjson and the reference hash, without numba.

``binned.py``, which ``reader.read_people`` uses, must equal ``read_slowly`` in every row, label and error.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterator
from typing import cast

import numpy as np
from numpy.typing import NDArray

from secvm.errors import ArithmeticRangeError, BadPeopleFileError
from secvm.learning.individual.binning import Binning, VocabularyBinning, bin_features
from secvm.learning.rows import MAX_UNITS, BinnedRows
from secvm.people.person import LabelCodes, LineReader, People, Person, person_from_json, person_from_svmlight
from secvm.people.source import Format, OpenFile, open_people

Progress = Callable[[int, int], None]

LINE_READERS: dict[Format, LineReader] = {"json": person_from_json, "svmlight": person_from_svmlight}


def iter_people(path: str | os.PathLike[str], *, labels_required: bool = True) -> Iterator[Person]:
    """The people of a file one by one, in its order."""
    with open_people(path) as source:
        for _, person in numbered_people(source, labels_required=labels_required):
            yield person


def numbered_people(source: OpenFile, *, labels_required: bool) -> Iterator[tuple[int, Person]]:
    """The people of an open file with their line numbers; a file without people is an error."""
    read_line = LINE_READERS[source.format()]
    anyone = False
    for number, line in enumerate(source.lines(), start=1):
        person = read_line(line, number, labels_required)
        if person is not None:
            anyone = True
            yield number, person
    if not anyone:
        raise no_people(source)


def no_people(source: OpenFile) -> BadPeopleFileError:
    """What to say of a file without people."""
    return BadPeopleFileError(f"{source.path}: the file holds no people")


def no_features(source: OpenFile) -> BadPeopleFileError:
    """What to say of a file whose people have no features, so that there is no vocabulary."""
    return BadPeopleFileError(f"{source.path}: nobody in the file has a feature, so there is nothing to learn from")


def check_features(person: Person, number: int, *, presence: bool, as_words: bool) -> None:
    """Refuse features that cannot be bins: negative ones as presence, and words that no vocabulary can hold."""
    if presence and any(value < 0 for value in person.features.values()):
        raise BadPeopleFileError("a feature's value is negative, which has no meaning as presence", line=number)
    # A vocabulary is written one word a line.
    if as_words and any("\n" in feature for feature in person.features):
        raise BadPeopleFileError(
            "a feature has a line break in it, which a vocabulary cannot hold",
            line=number,
            next_step="Use hashed bins.",
        )


def too_many_units(number: int) -> BadPeopleFileError:
    """What to say of a person who is too much for exact arithmetic."""
    return BadPeopleFileError(f"the person has {MAX_UNITS} units or more, too many to count exactly", line=number)


class _GrowingVocabulary:
    """A binning that takes in every word it meets, in the order of their coming."""

    def __init__(self) -> None:
        self.words: dict[str, int] = {}

    @property
    def n_bins(self) -> int:
        return len(self.words)

    def bins_of(self, feature: str) -> list[int]:
        return [self.words.setdefault(feature, len(self.words))]


def read_slowly(
    source: OpenFile,
    binning: Binning | None,
    *,
    presence: bool,
    count_features: bool,
    labels_required: bool,
    on_progress: Progress,
) -> People:
    """All people of an open file."""
    growing = _GrowingVocabulary()
    seen: set[str] = set()
    labels = LabelCodes()
    codes, indptr, bins, values = array("i"), array("q", [0]), array("i"), array("i")
    for number, person in numbered_people(source, labels_required=labels_required):
        check_features(person, number, presence=presence, as_words=binning is None)
        # The growing vocabulary has the two members of a binning that bin_features asks for.
        using = cast("Binning", growing) if binning is None else binning
        try:
            row = bin_features(person.features, using, presence=presence).values
        except ArithmeticRangeError:
            raise too_many_units(number) from None
        if count_features:
            seen.update(person.features)
        codes.append(labels.code(person.label))
        bins.extend(row.keys())
        values.extend(row.values())
        indptr.append(len(bins))
        on_progress(source.bytes_done, source.bytes_total)
    names, label_codes = labels.finish(np.array(codes, dtype=np.int32))
    table = np.array(indptr, dtype=np.int64), np.array(bins, dtype=np.int32), np.array(values, dtype=np.int32)
    if binning is None:
        if not growing.words:
            raise no_features(source)
        binning, table = _in_word_order(growing.words, *table)
        seen.update(growing.words)
    rows = BinnedRows(indptr=table[0], bins=table[1], values=table[2], n_bins=binning.n_bins)
    return People(rows, names, label_codes, binning, len(seen) or (0 if count_features else None))


def _in_word_order(
    words: dict[str, int], indptr: NDArray[np.int64], bins: NDArray[np.int32], values: NDArray[np.int32]
) -> tuple[VocabularyBinning, tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]]:
    """The vocabulary in the order of its UTF-8 bytes (which is the order of code points), and the rows renumbered."""
    ordered = sorted(words)
    ranks = np.empty(len(ordered), dtype=np.int32)
    ranks[[words[word] for word in ordered]] = np.arange(len(ordered), dtype=np.int32)
    bins = ranks[bins]
    order = np.lexsort((bins, np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))))
    return VocabularyBinning(tuple(ordered)), (indptr, bins[order], values[order])
