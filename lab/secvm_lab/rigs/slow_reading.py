"""The reader of files of people, written to be read: a person at a time, with orjson and the reference hash.

``secvm.people.reader.read_people``, which is quick, must equal ``read_slowly`` in every row, label and error.
"""

from __future__ import annotations

import os
from array import array
from typing import cast

import numpy as np
from numpy.typing import NDArray

from secvm.errors import ArithmeticRangeError
from secvm.learning.individual.binning import Binning, VocabularyBinning, bin_features
from secvm.learning.rows import BinnedRows
from secvm.people.person import LabelCodes, People
from secvm.people.reader import check_features, no_features, too_many_units
from secvm.people.source import numbered_people, open_people


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
    path: str | os.PathLike[str],
    binning: Binning | None,
    *,
    presence: bool = False,
    count_features: bool = False,
    labels_required: bool = True,
) -> People:
    """All people of a file; the arguments are those of ``read_people``."""
    growing = _GrowingVocabulary()
    seen: set[str] = set()
    labels = LabelCodes()
    codes, indptr, bins, values = array("i"), array("q", [0]), array("i"), array("i")
    with open_people(path) as source:
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
