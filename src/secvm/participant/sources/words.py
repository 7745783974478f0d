"""Text → words: the one way in which built-in sources cut titles.

The protocol never changes a feature (docs/protocol.md §2.1): two devices agree on a word only if they cut alike. So:

 1. The text is put into Unicode's form NFC, case-folded (``Straße`` becomes ``strasse``), and put into NFC again.
 2. A word is a longest run of letters (L), decimal digits (Nd) and marks (M) that does not begin with a mark. Marks are
    part of words because most Indian words have them in the middle. All else separates: ``don't`` is ``don`` and ``t``.
 3. A word of one character, or of more than 64 bytes in UTF-8, is dropped. It is never cut short.

There are no lists of words to leave out, no stems, and no word breaks in scripts that write none (Chinese, Japanese,
Thai): there a run is one word. Which characters are letters is Python's Unicode version's to say; a character too new
for it separates.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

MIN_CHARACTERS = 2
MAX_BYTES = 64

_ASCII_WORD = re.compile(r"[0-9a-z]+")
_SEPARATOR, _INNER, _MARK = range(3)


def words_of(text: str) -> list[str]:
    """The words of a text in its order, each as often as it comes."""
    # Most titles: for ASCII the three forms are the text in lower case.
    words = _ASCII_WORD.findall(text.lower()) if text.isascii() else _runs(text)
    return [word for word in words if len(word) >= MIN_CHARACTERS and len(word.encode()) <= MAX_BYTES]


def _runs(text: str) -> list[str]:
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
    runs: list[str] = []
    start = None
    for position, character in enumerate(folded):
        kind = _kind(character)
        if start is None:
            if kind == _INNER:
                start = position
        elif kind == _SEPARATOR:
            runs.append(folded[start:position])
            start = None
    if start is not None:
        runs.append(folded[start:])
    return runs


@lru_cache(maxsize=4096)
def _kind(character: str) -> int:
    category = unicodedata.category(character)
    if category[0] == "L" or category == "Nd":
        return _INNER
    return _MARK if category[0] == "M" else _SEPARATOR
