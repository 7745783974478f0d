"""The quick reader: blocks of lines through the compiled scanners, doubtful lines through the reference, one table.

The scanners write the rows of a block into a scratch; this module resolves their labels, sends the lines the scanners
stop at through ``person.py``, makes room for words, and gathers everything. It equals ``reference.read_slowly``.
"""

from __future__ import annotations

import os
from array import array
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from secvm.learning.individual.binning import Binning, HashBinning, VocabularyBinning
from secvm.learning.rows import BinnedRows
from secvm.people._kernels.rows import DONE, GROW, MAX_BUCKET_BITS, Rules, Scratch, renumber
from secvm.people._kernels.scan import NO_LABEL, NUMBER_LABEL, ROW_END, scan_json
from secvm.people._kernels.scan_svmlight import scan_svmlight
from secvm.people._kernels.words import N_WORDS, Words, add_all, new_words
from secvm.people.person import canonical_json, canonical_svmlight
from secvm.people.reference import (
    LINE_READERS,
    Progress,
    check_features,
    no_features,
    no_people,
    too_many_units,
)
from secvm.people.source import BLOCK_BYTES, PADDING, Format, Source
from secvm.people.table import LabelCodes, People

_SCANNERS = {"json": scan_json, "svmlight": scan_svmlight}
_CANONICAL = {"json": canonical_json, "svmlight": canonical_svmlight}
#: The shortest feature, ``"",``; and the shortest line, a label and its newline.
_MIN_FEATURE_BYTES = 3
_MIN_LINE_BYTES = 2
#: Bins are int32.
_MAX_WORDS = 2**31 - 1
_FIRST_WORDS = 1 << 12
_BYTES_PER_WORD = 16


class _Growing:
    """An array that grows to the size it will have at the end of the file, if the file goes on as it began.

    Memory that is asked for and not yet written to costs nothing; copying and clearing would.
    """

    def __init__(self) -> None:
        self._array = np.empty(1 << 16, dtype=np.int32)
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def extend(self, entries: NDArray[np.int32], share: float) -> None:
        """Append entries; ``share`` is how much of the file they and all before them are."""
        n = self._n + len(entries)
        if n > len(self._array):
            grown = np.empty(max(n * 3 // 2, int(1.05 * n / share) if share else 0), dtype=np.int32)
            grown[: self._n] = self._array[: self._n]
            self._array = grown
        self._array[self._n : n] = entries
        self._n = n

    def finish(self, n: int | None = None) -> NDArray[np.int32]:
        """The array at its final size."""
        self._array.resize(self._n if n is None else n, refcheck=False)
        return self._array

    def view(self) -> NDArray[np.int32]:
        return self._array[: self._n]


class ScannedReader:
    """Reads one file into one table."""

    def __init__(
        self,
        source: Source,
        binning: Binning | None,
        *,
        presence: bool,
        count_features: bool,
        labels_required: bool,
        on_progress: Progress,
    ) -> None:
        self._source = source
        self._binning = binning
        self._presence = presence
        self._labels_required = labels_required
        self._on_progress = on_progress
        self._format: Format = source.format()
        hashed = isinstance(binning, HashBinning)
        self._counts = count_features or binning is None
        keys = b"".join(binning.keys) if isinstance(binning, HashBinning) else b""
        self._rules = Rules(
            n_hash_bins=binning.n_bins if isinstance(binning, HashBinning) else 0,
            n_word_bins=_MAX_WORDS if binning is None else binning.n_bins,
            looks_up=not hashed or count_features,
            adds=count_features or not isinstance(binning, VocabularyBinning),
            renumbers=binning is None,
            presence=presence,
            distinct=False,
            labels_required=labels_required,
            hash_keys=np.frombuffer(keys, dtype="<u8").astype(np.uint64),
        )
        self._words = _table_of(binning) if isinstance(binning, VocabularyBinning) else _table(_FIRST_WORDS)
        self._scratch: Scratch | None = None
        self._labels = LabelCodes()
        #: Codes of labels as they are written in the file: (kind, bytes).
        self._known: dict[tuple[int, bytes], int] = {}
        self._codes = array("i")
        self._indptr = array("q", [0])
        self._bins = _Growing()
        self._values = _Growing()

    def read(self, block_bytes: int = BLOCK_BYTES) -> People:
        """All people of the file."""
        line = 1
        for block, end in self._source.blocks(block_bytes):
            line = self._read_block(block, end, line)
            self._on_progress(self._source.bytes_done, self._source.bytes_total)
        if not self._codes:
            raise no_people(self._source)
        names, codes = self._labels.finish(np.frombuffer(self._codes, dtype=np.int32))
        binning, rows = self._finish_rows()
        return People(rows, names, codes, binning, self._n_features(rows) if self._counts else None)

    def _n_features(self, rows: BinnedRows) -> int:
        n_words = int(self._words.state[N_WORDS])
        if not isinstance(self._binning, VocabularyBinning):
            return n_words
        # The vocabulary's words come first in the table, seen or not; in a row a seen one cannot cancel.
        return n_words - self._binning.n_bins + len(np.unique(rows.bins))

    def _read_block(self, block: NDArray[np.uint8], end: int, line: int) -> int:
        scan = _SCANNERS[self._format]
        scratch = self._scratch_for(len(block))
        position = 0
        while position < end:
            status, position, line, n_rows = scan(self._rules, self._words, scratch, block, position, end, line)
            self._take_rows(block, scratch, n_rows)
            if status == GROW:
                self._words = _grown(self._words)
            elif status != DONE:
                after = _line_end(block, position, end)
                self._read_doubtful(block[position:after].tobytes(), line)
                scratch = self._scratch_for(len(block))
                position = after + 1
                line += 1
        return line

    def _scratch_for(self, n_bytes: int) -> Scratch:
        scratch = self._scratch
        if scratch is None or len(scratch.text) < n_bytes:
            n = n_bytes // _MIN_FEATURE_BYTES * max(1, len(self._rules.hash_keys) // 2) + 1
            scratch = self._scratch = Scratch(
                keys=np.empty(n, dtype=np.uint64),
                spare=np.empty(n, dtype=np.uint64),
                counts=np.empty(1 << MAX_BUCKET_BITS, dtype=np.int32),
                text=np.zeros(n_bytes + PADDING, dtype=np.uint8),
                bins=np.empty(n, dtype=np.int32),
                values=np.empty(n, dtype=np.int32),
                rows=np.empty((n_bytes // _MIN_LINE_BYTES + 1, 5), dtype=np.int64),
            )
        return scratch

    def _take_rows(self, block: NDArray[np.uint8], scratch: Scratch, n_rows: int) -> None:
        """Move finished rows out of the scratch."""
        if not n_rows:
            return
        rows = scratch.rows[:n_rows]
        known = self._known
        for _, kind, start, end, line in rows.tolist():
            written = block[start:end].tobytes()
            code = known.get((kind, written))
            if code is None:
                code = known[kind, written] = self._labels.code(self._label(kind, written, line))
            self._codes.append(code)
        n = int(rows[-1, ROW_END])
        self._indptr.frombytes((rows[:, ROW_END] + len(self._bins)).tobytes())
        self._append(scratch, n)

    def _label(self, kind: int, written: bytes, line: int) -> str | None:
        """The label as text, from how it is written."""
        if kind == NO_LABEL:
            return None
        if kind != NUMBER_LABEL:
            return written.decode()
        # Whether these bytes are a number, and which text it has, is the reference's to say.
        alone = b'{"label":' + written + b',"features":[]}' if self._format == "json" else written
        person = LINE_READERS[self._format](alone, line, self._labels_required)
        return None if person is None else person.label

    def _read_doubtful(self, text: bytes, line: int) -> None:
        """A line that the scanner stopped at."""
        person = LINE_READERS[self._format](text, line, self._labels_required)
        if person is None:
            return
        check_features(person, line, presence=self._presence, as_words=self._binning is None)
        # Written down plainly, the person passes the scanner; only too many units can still stop it.
        text = _CANONICAL[self._format](person)
        # A bytearray, because numba would compile once more for an array that may not be written.
        data = np.frombuffer(bytearray(text + bytes(PADDING)), dtype=np.uint8)
        scratch = self._scratch_for(len(data))
        rules = self._rules._replace(distinct=True)
        status = GROW
        while status == GROW:
            status, *_ = _SCANNERS[self._format](rules, self._words, scratch, data, 0, len(text), line)
            if status == GROW:
                self._words = _grown(self._words)
        if status != DONE:
            raise too_many_units(line)
        self._codes.append(self._labels.code(person.label))
        self._append(scratch, int(scratch.rows[0, ROW_END]))
        self._indptr.append(len(self._bins))

    def _append(self, scratch: Scratch, n: int) -> None:
        done, total = self._source.bytes_done, self._source.bytes_total
        share = done / total if total else 1.0
        self._bins.extend(scratch.bins[:n], share)
        self._values.extend(scratch.values[:n], share)

    def _finish_rows(self) -> tuple[Binning, BinnedRows]:
        indptr = np.frombuffer(self._indptr, dtype=np.int64).copy()
        binning = self._binning
        if binning is not None:
            return binning, BinnedRows(indptr, self._bins.finish(), self._values.finish(), binning.n_bins)
        if not len(self._bins):
            raise no_features(self._source)
        words = _words_of(self._words)
        # The order of code points is the order of UTF-8 bytes.
        order = sorted(range(len(words)), key=words.__getitem__)
        ranks = np.empty(len(words), dtype=np.int64)
        ranks[order] = np.arange(len(words))
        binning = VocabularyBinning(tuple([words[i] for i in order]))
        longest = int(np.diff(indptr).max())
        keys, spare = np.empty(longest, dtype=np.uint64), np.empty(longest, dtype=np.uint64)
        counts = np.empty(256, dtype=np.int32)
        n = int(renumber(indptr, self._bins.view(), self._values.view(), ranks, keys, spare, counts))
        return binning, BinnedRows(indptr, self._bins.finish(n), self._values.finish(n), binning.n_bins)


def _line_end(block: NDArray[np.uint8], position: int, end: int) -> int:
    """The newline that ends the line at ``position``."""
    step = 1 << 12
    while True:
        found = block[position : min(position + step, end)].tobytes().find(b"\n")
        if found >= 0:
            return position + found
        position += step


def _joined(words: list[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Words one after the other as bytes, with padding, and where each begins."""
    encoded = [word.encode() for word in words]
    data = np.frombuffer(bytearray(b"".join([*encoded, bytes(PADDING)])), dtype=np.uint8)
    return data, np.array([0, *accumulate(map(len, encoded))], dtype=np.int64)


def _table(n_words: int, n_bytes: int | None = None) -> Words:
    key = os.urandom(16)  # noqa: TID251 the speed depends on these dice, no result does
    return new_words(key, n_words=n_words, n_bytes=n_words * _BYTES_PER_WORD if n_bytes is None else n_bytes)


def _table_of(binning: VocabularyBinning) -> Words:
    data, offsets = _joined(list(binning.words))
    words = _table(binning.n_bins, len(data))
    add_all(words, data, offsets)
    return words


def _grown(words: Words) -> Words:
    """The same words with twice the room."""
    n = int(words.state[N_WORDS])
    grown = _table(2 * len(words.stamps), 2 * len(words.arena))
    add_all(grown, words.arena, words.starts[: n + 1])
    grown.state[:] = words.state
    return grown


def _words_of(words: Words) -> list[str]:
    n = int(words.state[N_WORDS])
    text = words.arena[: words.starts[n]].tobytes()
    starts = words.starts[: n + 1].tolist()
    return [text[start:end].decode() for start, end in pairwise(starts)]
