"""Strings of JSON, compiled: where one ends, whether it is UTF-8, and what its escapes stand for.

Whatever is not plainly right is answered with ``UNSURE``; the slow path then decides with orjson. The data ends with a
newline, which no string may hold, so nothing here runs past the end.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from secvm.people._kernels.bits import special_mask, trailing_zeros

UNSURE = -1

NEWLINE = 10
QUOTE = ord('"')
BACKSLASH = ord("\\")

#: The character that a letter after a backslash stands for; 0: none.
_ESCAPES = np.zeros(256, dtype=np.uint8)
_ESCAPES[list(b'"\\/bfnrt')] = list(b'"\\/\b\f\n\r\t')


@nb.njit
def after_character(data, i):
    """One past the well-formed UTF-8 character of two to four bytes at ``i`` (Unicode, table 3-7), or ``UNSURE``."""
    lead = data[i]
    second = data[i + 1]
    if lead < 0xC2 or lead > 0xF4 or second & 0xC0 != 0x80:
        return UNSURE
    if lead < 0xE0:
        return i + 2
    if data[i + 2] & 0xC0 != 0x80:
        return UNSURE
    if lead < 0xF0:
        overlong = lead == 0xE0 and second < 0xA0
        surrogate = lead == 0xED and second >= 0xA0
        return UNSURE if overlong or surrogate else i + 3
    if data[i + 3] & 0xC0 != 0x80 or (lead == 0xF0 and second < 0x90) or (lead == 0xF4 and second >= 0x90):
        return UNSURE
    return i + 4


@nb.njit(forceinline=True)
def string_end(data, i):
    """The closing quote of the string whose first byte is at ``i``; ``UNSURE`` at an escape or anything wrong."""
    while True:
        mask = special_mask(data, i)
        if mask == np.uint64(0):
            i += 16
            continue
        i += trailing_zeros(mask)
        if data[i] == QUOTE:
            return i
        while data[i] >= 0x80:
            i = after_character(data, i)
            if i < 0:
                return UNSURE
        if data[i] < 0x20 or data[i] == BACKSLASH:
            return UNSURE


@nb.njit
def _hex4(data, i):
    """The number of the four hexadecimal digits at ``i``, or ``UNSURE``."""
    code = 0
    for k in range(4):
        c = np.int64(data[i + k])
        if 48 <= c <= 57:
            digit = c - 48
        elif 97 <= (c | 32) <= 102:
            digit = (c | 32) - 87
        else:
            return UNSURE
        code = code * 16 + digit
    return code


@nb.njit
def _write_character(text, n, code):
    """Append a code point as UTF-8; the new length."""
    if code < 0x80:
        text[n] = code
        return n + 1
    if code < 0x800:
        text[n] = 0xC0 | (code >> 6)
        text[n + 1] = 0x80 | (code & 63)
        return n + 2
    if code < 0x10000:
        text[n] = 0xE0 | (code >> 12)
        text[n + 1] = 0x80 | ((code >> 6) & 63)
        text[n + 2] = 0x80 | (code & 63)
        return n + 3
    text[n] = 0xF0 | (code >> 18)
    text[n + 1] = 0x80 | ((code >> 12) & 63)
    text[n + 2] = 0x80 | ((code >> 6) & 63)
    text[n + 3] = 0x80 | (code & 63)
    return n + 4


@nb.njit
def unescape(data, i, text, breaks):
    """Write the string whose first byte is at ``i`` into ``text``; its closing quote (or ``UNSURE``) and its length.

    Where ``breaks`` is false a line break is ``UNSURE``: no vocabulary can hold one, and the slow path says so.
    """
    n = 0
    while True:
        c = data[i]
        if c == QUOTE:
            return i, n
        if c < 0x20:
            return UNSURE, 0
        if c == BACKSLASH:
            meaning = _ESCAPES[data[i + 1]]
            if meaning and (meaning != NEWLINE or breaks):
                text[n] = meaning
                n += 1
                i += 2
                continue
            code = _hex4(data, i + 2) if data[i + 1] == ord("u") else UNSURE
            i += 6
            if 0xD800 <= code < 0xDC00 and data[i] == BACKSLASH and data[i + 1] == ord("u"):
                low = _hex4(data, i + 2)
                code = 0x10000 + ((code - 0xD800) << 10) + low - 0xDC00 if 0xDC00 <= low < 0xE000 else UNSURE
                i += 6
            if code < 0 or (code == NEWLINE and not breaks) or 0xD800 <= code < 0xE000:
                return UNSURE, 0
            n = _write_character(text, n, code)
            continue
        after = after_character(data, i) if c >= 0x80 else i + 1
        if after < 0:
            return UNSURE, 0
        while i < after:
            text[n] = data[i]
            n += 1
            i += 1
