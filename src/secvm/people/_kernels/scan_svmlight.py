"""The svmlight scanner, compiled: a block of whole lines to rows of bins.

The fast path knows a label, ascending indices with small integer values, and a comment. Ascending indices cannot come
twice, so they need no other check. Every other line is read by ``person_from_svmlight``.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from secvm.learning._kernels.compiling import compiled
from secvm.people._kernels.bits import lent
from secvm.people._kernels.rows import ADDS, DONE, SLOW, finish_row, lend_rules, lend_scratch, put
from secvm.people._kernels.scan import (
    LABEL_END,
    LABEL_KIND,
    LABEL_START,
    NO_LABEL,
    NUMBER_BYTES,
    NUMBER_LABEL,
    ROW_END,
    ROW_LINE,
    skip_blanks,
    small_integer,
)
from secvm.people._kernels.text import NEWLINE
from secvm.people._kernels.words import ATTEMPT, N_WORDS, forget_since, lend_words

_MAX_DIGITS = 18


@nb.njit
def _at_end(byte):
    return byte == NEWLINE or byte == ord("#")


@nb.njit
def _pairs(rules, words, scratch, data, i):
    """The pairs from ``i`` on: number of keys (or a status), and where they end."""
    n = np.int64(0)
    last = np.int64(-1)
    while not _at_end(data[i]):
        start = i
        index = np.int64(0)
        while np.uint8(data[i] - 48) < 10 and i <= start + _MAX_DIGITS:
            index = index * 10 + (np.int64(data[i]) - 48)
            i += 1
        digits = i - start
        leading_zero = data[start] == 48 and digits > 1
        if digits == 0 or digits > _MAX_DIGITS or leading_zero or index <= last or data[i] != ord(":"):
            return SLOW, i
        last = index
        colon = i
        value, i = small_integer(data, colon + 1)
        if i < 0 or (value < 0 and rules.presence):
            return SLOW, i
        after = skip_blanks(data, i)
        if after == i and not _at_end(data[i]):
            return SLOW, i
        i = after
        if value != 0:
            n = put(rules, words, scratch.keys, n, data, start, colon, min(value, 1) if rules.presence else value, ADDS)
            if n < 0:
                return n, i
    return n, i


@compiled
def scan_svmlight(rules, words, scratch, data, position, end, line):
    """As ``scan_json``, for svmlight."""
    rules, words, scratch = lend_rules(rules), lend_words(words), lend_scratch(scratch)
    data = lent(data)
    n_rows = 0
    at = np.int64(0)
    while position < end:
        i = skip_blanks(data, position)
        if not _at_end(data[i]):
            words.state[ATTEMPT] += 1
            n_words = words.state[N_WORDS]
            label_start = i
            while NUMBER_BYTES[data[i]]:
                i += 1
            label_end = i
            kind = NUMBER_LABEL
            if data[i] == ord(":") and not rules.labels_required:
                kind = NO_LABEL
                i = label_start
            n = np.int64(SLOW)
            after = skip_blanks(data, i)
            if kind == NO_LABEL or (label_end > label_start and (after > i or _at_end(data[i]))):
                n, i = _pairs(rules, words, scratch, data, after)
            after = finish_row(rules, words, scratch, n, ADDS, at) if n >= 0 else n
            if after < 0:
                forget_since(words, n_words)
                return after, position, line, n_rows
            at = after
            row = scratch.rows[n_rows]
            row[ROW_END] = at
            row[LABEL_KIND] = kind
            row[LABEL_START] = label_start
            row[LABEL_END] = label_end
            row[ROW_LINE] = line
            n_rows += 1
        while data[i] != NEWLINE:
            i += 1
        position = i + 1
        line += 1
    return np.int64(DONE), position, line, n_rows
