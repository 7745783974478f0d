"""The JSON lines scanner, compiled: a block of whole lines to rows of bins.

The fast path knows one shape: an object with the keys ``label`` and ``features`` in any order, white space anywhere,
strings, and small integers as values. At a line of any other shape the scan stops, and the caller reads that line with
``person_from_json`` and comes back: so every doubt is decided by orjson, and this file has no errors of its own.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from secvm.learning._kernels.compiling import compiled
from secvm.people._kernels.bits import lent, load_word
from secvm.people._kernels.rows import (
    ADDS,
    DONE,
    LAST_COUNTS,
    ONCE,
    SLOW,
    ZERO,
    finish_row,
    lend_rules,
    lend_scratch,
    put,
)
from secvm.people._kernels.text import NEWLINE, QUOTE, string_end, unescape
from secvm.people._kernels.words import ATTEMPT, N_WORDS, forget_since, lend_words

#: Kinds of label, and the columns of ``Scratch.rows``.
NO_LABEL, TEXT_LABEL, NUMBER_LABEL = 0, 1, 2
ROW_END, LABEL_KIND, LABEL_START, LABEL_END, ROW_LINE = 0, 1, 2, 3, 4

_LABEL_KEY = np.uint64(int.from_bytes(b'"label"', "little"))
_SEVEN_BYTES = np.uint64((1 << 56) - 1)
_FEATURES_KEY = np.uint64(int.from_bytes(b'"feature', "little"))

#: Bytes of a number; whether they make one is for the caller to see.
NUMBER_BYTES = np.zeros(256, dtype=np.bool_)
NUMBER_BYTES[list(b"0123456789+-.eE")] = True


@nb.njit(forceinline=True)
def skip_blanks(data, i):
    """The first byte from ``i`` on that is no space, tab or carriage return."""
    while data[i] == 32 or data[i] == 9 or data[i] == 13:
        i += 1
    return i


@nb.njit(forceinline=True)
def small_integer(data, i):
    """The integer at ``i``, of one to seven digits, and one past it; the latter is ``SLOW`` for anything else."""
    negative = data[i] == ord("-")
    if negative:
        i += 1
    first = i
    value = np.int64(0)
    while np.uint8(data[i] - 48) < 10 and i < first + 8:
        value = value * 10 + (np.int64(data[i]) - 48)
        i += 1
    too_long = i == first or i > first + 7
    # What orjson makes of -0 and 07 is for orjson to say.
    odd = data[first] == 48 and (negative or i > first + 1)
    if too_long or odd or value >= 1 << 22 or data[i] == ord(".") or data[i] | 32 == ord("e"):
        return np.int64(0), SLOW
    return -value if negative else value, i


@nb.njit
def _put_unescaped(rules, words, scratch, n, length, value, twice):
    """Append the feature that ``unescape`` wrote."""
    return put(rules, words, scratch.keys, n, scratch.text, 0, length, value, twice)


@nb.njit(forceinline=True)
def _features(rules, words, scratch, data, i):
    """The features at ``i``; number of keys (or a status), one past the end, and what a feature twice means."""
    is_list = data[i] == ord("[")
    if not is_list and data[i] != ord("{"):
        return SLOW, i, ADDS
    closing = ord("]") if is_list else ord("}")
    twice = ADDS if rules.distinct else LAST_COUNTS
    if is_list:
        twice = ONCE if rules.presence else ADDS
    n = np.int64(0)
    n_strings = 0
    i = skip_blanks(data, i + 1)
    if data[i] == closing:
        return n, i + 1, twice
    while True:
        if data[i] != QUOTE:
            return SLOW, i, twice
        start = i + 1
        close = string_end(data, start)
        length = 0
        i = close
        if close < 0:
            i, length = unescape(data, start, scratch.text, not rules.renumbers)
            if i < 0:
                return SLOW, i, twice
        i += 1
        value = np.int64(1)
        n_strings += 1
        if is_list:
            if n_strings >= ZERO:  # One of them may come too often.
                return SLOW, i, twice
        else:
            i = skip_blanks(data, i)
            if data[i] != ord(":"):
                return SLOW, i, twice
            value, i = small_integer(data, skip_blanks(data, i + 1))
            if i < 0 or (value < 0 and rules.presence):
                return SLOW, i, twice
            if rules.presence:
                value = min(value, 1)
        if close >= 0:
            n = put(rules, words, scratch.keys, n, data, start, close, value, twice)
        else:
            n = _put_unescaped(rules, words, scratch, n, length, value, twice)
        if n < 0:
            return n, i, twice
        i = skip_blanks(data, i)
        if data[i] == closing:
            return n, i + 1, twice
        if data[i] != ord(","):
            return SLOW, i, twice
        i = skip_blanks(data, i + 1)


@nb.njit(forceinline=True)
def _line(rules, words, scratch, data, i):
    """The line at ``i``: keys (or a status), its newline, feature twice, kind, start and end of its label."""
    n = np.int64(SLOW)
    twice = ADDS
    kind, start, end = NO_LABEL, 0, 0
    wrong = SLOW, i, ADDS, NO_LABEL, 0, 0
    if data[i] != ord("{"):
        return wrong
    while True:
        i = skip_blanks(data, i + 1)
        word = load_word(data, i)
        is_label = word & _SEVEN_BYTES == _LABEL_KEY
        if is_label and kind == NO_LABEL:
            i += 7
        elif n < 0 and word == _FEATURES_KEY and data[i + 8] == ord("s") and data[i + 9] == QUOTE:
            i += 10
        else:
            return wrong
        i = skip_blanks(data, i)
        if data[i] != ord(":"):
            return wrong
        i = skip_blanks(data, i + 1)
        if not is_label:
            n, i, twice = _features(rules, words, scratch, data, i)
            if n < 0:
                return n, i, ADDS, NO_LABEL, 0, 0
        elif data[i] == QUOTE:
            kind, start, end = TEXT_LABEL, i + 1, string_end(data, i + 1)
            if end < 0:
                return wrong
            i = end + 1
        else:
            kind, start = NUMBER_LABEL, i
            while NUMBER_BYTES[data[i]]:
                i += 1
            end = i
            if start == end:
                return wrong
        i = skip_blanks(data, i)
        if data[i] == ord("}"):
            break
        if data[i] != ord(","):
            return wrong
    i = skip_blanks(data, i + 1)
    if data[i] != NEWLINE or n < 0 or (kind == NO_LABEL and rules.labels_required):
        return wrong
    return n, i, twice, kind, start, end


@compiled
def scan_json(rules, words, scratch, data, position, end, line):
    """Scan lines from ``position`` on: (status, position, line number, rows written).

    It stops at ``end`` (``DONE``), or at the start of a line that is for the slow path (``SLOW``) or that needs more
    room for words (``GROW``).
    """
    rules, words, scratch = lend_rules(rules), lend_words(words), lend_scratch(scratch)
    data = lent(data)
    n_rows = 0
    at = np.int64(0)
    while position < end:
        i = skip_blanks(data, position)
        if data[i] != NEWLINE:
            words.state[ATTEMPT] += 1
            n_words = words.state[N_WORDS]
            n, i, twice, kind, label_start, label_end = _line(rules, words, scratch, data, i)
            after = finish_row(rules, words, scratch, n, twice, at) if n >= 0 else n
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
        position = i + 1
        line += 1
    return np.int64(DONE), position, line, n_rows
