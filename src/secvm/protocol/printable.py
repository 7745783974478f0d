"""Which characters a text may hold, so that showing it changes nothing around it (docs/protocol.md §10).

An experiment's texts come from whoever publishes it, and people decide by them. A control sequence repaints a terminal,
a direction mark turns the order of what is read, and an invisible letter makes two labels look alike. So the texts of
documents are refused where they hold one (``canonical``), and the command line prints none (``cli.output``).

The list is of code points, not of what some version of Unicode calls printable: every reader, in any language and in
any year, decides alike. Two characters without a shape of their own are allowed, because Persian, Indian languages and
emoji are written with them, and they move nothing: U+200C and U+200D.
"""

from __future__ import annotations

import re

_UNPRINTABLE = re.compile(
    "["
    r"\x00-\x1f\x7f-\x9f"  # controls, the line feed among them
    r"\u00ad\u061c\u180e\u200b\u200e\u200f"  # soft hyphen, direction marks, spaces without width
    r"\u2028-\u202e\u2060-\u206f"  # ends of lines and paragraphs, directions, invisible operators
    r"\ud800-\uf8ff"  # halves of surrogate pairs, private use
    r"\ufeff\ufff9-\ufffb"  # byte order mark, annotations
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # controls of shorthand and of music
    r"\U000e0000-\U0010ffff"  # tags, selectors of variants, private use
    "]"
)


def first_unprintable(text: str) -> int | None:
    """The index of the first character that a document's text may not hold; None: there is none."""
    match = _UNPRINTABLE.search(text)
    return None if match is None else match.start()


def plain(text: str) -> str:
    """The text with a question mark for each character that could change a terminal. Line feeds stay."""
    return _UNPRINTABLE.sub(lambda match: match[0] if match[0] == "\n" else "?", text)


def escaped(json_text: str) -> str:
    """JSON with these characters escaped: the same values for a program, and nothing for a terminal."""
    return _UNPRINTABLE.sub(lambda match: "".join(f"\\u{unit:04x}" for unit in _utf16(match[0])), json_text)


def _utf16(letter: str) -> memoryview:
    return memoryview(letter.encode("utf-16-le", "surrogatepass")).cast("H")
