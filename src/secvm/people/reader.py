"""Read files of people, of words and of splits: the doors of this package.

``person.py`` says what a line means. ``read_people`` makes one table of bins of a whole file: the usual line, a label
of text with strings or integers, is taken as orjson gives it, any other goes through ``person.py``; features go through
the hashing kernel, many at once. Tests hold its rows, labels and errors equal to those of a reader that goes through
``person.py`` alone. Memory holds the table and one block of the file, never the whole file.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from secvm.errors import ArithmeticRangeError, BadInputError, BadPeopleFileError
from secvm.learning._kernels.dispatch import kernels
from secvm.learning.individual.binning import Binning, HashBinning, VocabularyBinning, bin_features
from secvm.learning.rows import MAX_UNITS, BinnedRows
from secvm.people.person import MAX_VALUE, LabelCodes, People, Person
from secvm.people.source import BLOCK_BYTES, LINE_READERS, OpenFile, decoded, no_people, open_people

#: Called with bytes read and bytes in all.
Progress = Callable[[int, int], None]
#: Features that are hashed together, or a little more: whole people.
_BATCH = 2**16
#: Between features that are hashed together. People are hashed one by one where one of them has it in a feature.
_SEPARATOR = "\0"


#: A line of integers, as programs write it.
_SVMLIGHT = re.compile(rb"[+-]?[0-9]{1,18}(?: (?:0|[1-9][0-9]{0,17}):-?[0-9]{1,7})*[ \r]*")


class _Waiting(NamedTuple):
    """A person whose row is still to be made."""

    number: int
    line: bytes
    n: int
    #: None where each feature counts 1.
    values: NDArray[np.int64] | None
    #: Features to be hashed, or bins that were looked up.
    features: str | NDArray[np.int32]


class BinnedReader:
    """Reads one file into one table."""

    def __init__(
        self,
        source: OpenFile,
        binning: Binning | None,
        *,
        presence: bool,
        count_features: bool,
        labels_required: bool,
        on_progress: Progress,
    ) -> None:
        self._source, self._binning, self._on_progress = source, binning, on_progress
        self._presence, self._labels_required = presence, labels_required
        self._format = source.format()
        self._kernels = kernels()
        #: Every word in the order of their coming, where the words that are found are the bins.
        self._words: dict[str, int] = {}
        self._seen: set[str] | None = set() if count_features else None
        #: Whether nobody asks which features there are, so that one of value zero may pass.
        self._only_hashes = isinstance(binning, HashBinning) and not count_features and not presence
        self._labels, self._codes = LabelCodes(), array("i")
        self._tables: list[BinnedRows] = []
        self._waiting: list[_Waiting] = []
        self._n_waiting = 0

    def read(self, block_bytes: int = BLOCK_BYTES) -> People:
        """All people of the file."""
        first = 1
        for block in self._source.blocks(block_bytes):
            for number, line in enumerate(block, start=first):
                self._take(number, line)
            first += len(block)
            self._on_progress(self._source.bytes_done, self._source.bytes_total)
        self._bin_waiting()
        if not self._codes:
            raise no_people(self._source)
        names, codes = self._labels.finish(np.frombuffer(self._codes, dtype=np.int32))
        if self._binning is not None:
            rows = _joined(self._tables, self._binning.n_bins)
            return People(rows, names, codes, self._binning, None if self._seen is None else len(self._seen))
        if not self._words:
            raise no_features(self._source)
        vocabulary, rows = _in_word_order(self._words, _joined(self._tables, len(self._words)))
        return People(rows, names, codes, vocabulary, len(self._words))

    # ── lines ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _take(self, number: int, line: bytes) -> None:
        if not self._take_usual(number, line):
            try:
                person = self._read(number, line)
            except BadPeopleFileError:
                # Of two people with a fault the first is told of, and one who waits may have too many units.
                self._bin_waiting()
                raise
            if person is None:
                return
            values = np.fromiter(person.features.values(), np.int64, len(person.features))
            self._add(number, line, person.label, person.features, values)
        if self._n_waiting >= _BATCH:
            self._bin_waiting()

    def _read(self, number: int, line: bytes) -> Person | None:
        person = LINE_READERS[self._format](line, number, self._labels_required)
        if person is not None:
            check_features(person, number, presence=self._presence, as_words=self._binning is None)
        return person

    def _take_usual(self, number: int, line: bytes) -> bool:
        """Take the person of a line that needs no second look; false where it does."""
        usual = _USUAL[self._format](line)
        if usual is None:
            return False
        label, features, values, text = usual
        if not self._only_hashes and ("\n" in text or not (values is None or _are_plain(values))):
            return False
        self._add(number, line, label, features, values, text)
        return True

    # ── bins ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _add(
        self,
        number: int,
        line: bytes,
        label: str | None,
        features: Collection[str],
        values: NDArray[np.int64] | None,
        text: str | None = None,
    ) -> None:
        """Let a person wait; ``text``: the features joined, where that was done already."""
        self._codes.append(self._labels.code(label))
        if self._presence:
            features, values, text = dict.fromkeys(features), None, None
        if self._seen is not None:
            self._seen.update(features)
        if isinstance(self._binning, HashBinning):
            kept = _SEPARATOR.join(features) if text is None else text
            person = _Waiting(number, line, len(features), values, kept)
        else:
            bins, values = self._looked_up(features, values)
            person = _Waiting(number, line, len(bins), values, bins)
        self._waiting.append(person)
        self._n_waiting += person.n

    def _looked_up(
        self, features: Collection[str], values: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.int32], NDArray[np.int64] | None]:
        words = self._words
        if isinstance(self._binning, VocabularyBinning):
            index = self._binning.index
            places = np.fromiter((index.get(word, -1) for word in features), np.int32, len(features))
            known = places >= 0
            return places[known], None if values is None else values[known]
        return np.fromiter((words.setdefault(word, len(words)) for word in features), np.int32, len(features)), values

    def _bin_waiting(self) -> None:
        waiting, self._waiting, self._n_waiting = self._waiting, [], 0
        table = self._binned(waiting) if waiting else None
        if table is not None:
            self._tables.append(table)
        else:
            self._tables += [self._binned_alone(person) for person in waiting]

    def _binned(self, waiting: list[_Waiting]) -> BinnedRows | None:
        """The rows of all of them; None where they must be looked at one by one."""
        starts = np.cumsum([0, *(person.n for person in waiting)], dtype=np.int64)
        values = None
        if any(person.values is not None for person in waiting):
            counted = (np.ones(each.n, np.int64) if each.values is None else each.values for each in waiting)
            values = np.concatenate(list(counted))
            if max(values.max(initial=0), -values.min(initial=0)) > MAX_VALUE:
                return None
        n, looked_up = int(starts[-1]), [person.features for person in waiting if not isinstance(person.features, str)]
        if looked_up:
            bins = np.concatenate(looked_up)
            n_bins = len(self._words) if self._binning is None else self._binning.n_bins
        else:
            assert isinstance(self._binning, HashBinning)
            n_bins = self._binning.n_bins
            data = _SEPARATOR.join(
                [person.features for person in waiting if person.n and isinstance(person.features, str)]
            ).encode()
            flat = np.frombuffer(data, np.uint8)
            gaps = np.flatnonzero(flat == ord(_SEPARATOR))
            if len(gaps) != max(n - 1, 0):
                return None
            offsets = np.concatenate([[0], gaps + 1, [len(data) + 1]])[: n + 1]
            bins = self._kernels.hash_flat(flat, offsets, self._binning.keys, n_bins, gap=1)
        try:
            return self._kernels.bin_rows(starts, bins, values, n_bins)
        except ArithmeticRangeError:
            return None

    def _binned_alone(self, waiting: _Waiting) -> BinnedRows:
        """A person's row by itself; what is wrong with it is said here."""
        person = self._read(waiting.number, waiting.line)
        assert person is not None
        binning = self._binning
        if binning is None:
            # Its words are known by now.
            binning = VocabularyBinning(tuple(self._words) or ("",))
        try:
            row = bin_features(person.features, binning, presence=self._presence).values
        except ArithmeticRangeError:
            raise too_many_units(waiting.number) from None
        ends = np.array([0, len(row)], np.int64)
        return BinnedRows(ends, np.array([*row], np.int32), np.array([*row.values()], np.int32), binning.n_bins)


#: Label, features, their values (None: each counts 1), and the features joined.
_Usual = tuple[str, Collection[str], NDArray[np.int64] | None, str]


def _usual_json(line: bytes) -> _Usual | None:
    try:
        content = orjson.loads(line)
        label, features = content["label"], content["features"]
        # Refuses what is no text.
        text = _SEPARATOR.join(features)
        values = None
        if type(features) is dict:
            if not set(map(type, features.values())) <= {int}:
                return None
            values = np.fromiter(features.values(), np.int64, len(features))
    except (orjson.JSONDecodeError, KeyError, OverflowError, TypeError):
        return None
    if type(label) is not str or type(features) is str or len(features) > MAX_VALUE:
        return None
    return label, features, values, text


def _usual_svmlight(line: bytes) -> _Usual | None:
    if not _SVMLIGHT.fullmatch(line):
        return None
    label, *pairs = line.replace(b":", b" ").split()
    names = pairs[::2]
    if len(set(names)) != len(names):
        return None
    text = _SEPARATOR.encode().join(names).decode()
    values = np.fromiter(map(int, pairs[1::2]), np.int64, len(names))
    return str(int(label)), text.split(_SEPARATOR) if names else [], values, text


_USUAL = {"json": _usual_json, "svmlight": _usual_svmlight}


def _are_plain(values: NDArray[np.int64]) -> bool:
    return not len(values) or bool(values.min() > 0 and values.max() <= MAX_VALUE)


def _joined(tables: list[BinnedRows], n_bins: int) -> BinnedRows:
    ends = np.cumsum([0, *(len(table.bins) for table in tables)])
    indptr = [np.zeros(1, np.int64), *(table.indptr[1:] + end for table, end in zip(tables, ends, strict=False))]
    bins = np.concatenate([table.bins for table in tables])
    return BinnedRows(np.concatenate(indptr), bins, np.concatenate([table.values for table in tables]), n_bins)


def _in_word_order(words: dict[str, int], rows: BinnedRows) -> tuple[VocabularyBinning, BinnedRows]:
    """The vocabulary in the order of its UTF-8 bytes (which is the order of code points), and the rows renumbered."""
    ordered = sorted(words)
    ranks = np.empty(len(ordered), dtype=np.int32)
    ranks[[words[word] for word in ordered]] = np.arange(len(ordered), dtype=np.int32)
    return VocabularyBinning(tuple(ordered)), kernels().bin_rows(
        rows.indptr, ranks[rows.bins], rows.values, rows.n_bins
    )


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
            word = decoded(line.removesuffix(b"\r"), number)
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


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────────


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
