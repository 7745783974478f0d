"""Canonical documents: JSON with exactly one way to write each content (docs/protocol.md §10).

RFC 8785, restricted: UTF-8; keys are ``[a-z][a-z0-9_]*``, sorted; no spaces; strings escaped as JSON.stringify does;
integers within ±(2^53 - 1); true, false, null; **no floats**: a rational is text, ``p/q`` in lowest terms or ``p``.
Bytes are lower-case hexadecimal where they are short, else base64. Depth and size have limits.

``decode_document`` writes what it has read again and compares: what is not canonical is refused, a key given twice too.
``Fields`` then takes each field once, with its type and range, and refuses what is left over, at every depth.

**A text is one line of printable characters**, so that showing it changes nothing around it. An experiment's texts come
from whoever publishes it, and people decide by them. A control sequence repaints a terminal, a direction mark turns the
order of what is read, and an invisible letter makes two labels look alike. So the texts of documents are refused where
they hold one, and the command line prints none (``cli.output``). The list is of code points, not of what some version
of Unicode calls printable: every reader, in any language and in any year, decides alike. Two characters without a shape
of their own are allowed, because Persian, Indian languages and emoji are written with them, and they move nothing:
U+200C and U+200D.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NoReturn, TypeGuard

from secvm.errors import LocalProtocolError, MalformedMessageError

MAX_INTEGER = 2**53 - 1
MAX_DEPTH = 8
DIGEST_BYTES = 32

_KEY = re.compile(r"[a-z][a-z0-9_]{0,63}")
#: §3.1 allows 80 digits; a rational in lowest terms may need both sides.
_RATIO = re.compile(r"(0|-?[1-9][0-9]{0,79})(/[1-9][0-9]{0,79})?")
_HEX = re.compile(r"([0-9a-f]{2})*")


def digest_of(data: bytes) -> str:
    """The name of a document or blob: SHA-256 of its bytes as served, in lower-case hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def check_digest(data: bytes, digest: str) -> bytes:
    """These bytes, if the digest is theirs."""
    if digest_of(data) != digest:
        raise MalformedMessageError("the bytes are not those that the digest names")
    return data


def encode_document(content: dict[str, Any]) -> bytes:
    """The canonical bytes."""
    try:
        _check(content, 0)
        return _written(content)
    except ValueError as fault:
        raise LocalProtocolError(f"a document cannot say this: {fault}") from None


def decode_document(data: bytes, *, max_bytes: int) -> dict[str, Any]:
    """The content of canonical bytes."""
    if len(data) > max_bytes:
        raise MalformedMessageError(f"a document of {len(data)} bytes; at most {max_bytes} are read")
    try:
        content = json.loads(data.decode(), parse_float=_no_float, parse_constant=_no_float)
        _check(content, 0)
        same = _written(content) == data
    except (ValueError, RecursionError):
        raise MalformedMessageError("the bytes are no canonical document") from None
    if not same or not isinstance(content, dict):
        raise MalformedMessageError("the bytes are no canonical document")
    return content


def ratio_text(number: Fraction) -> str:
    """A rational as documents write it."""
    text = str(number)
    if not _RATIO.fullmatch(text):
        raise LocalProtocolError("a rational has more digits than a document may hold")
    return text


def base64_text(data: bytes) -> str:
    """Bytes as documents write them where they are long."""
    return base64.b64encode(data).decode()


def _written(content: object) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _no_float(_: str) -> NoReturn:
    raise ValueError


def _check(value: object, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ValueError("too deep")
    match value:
        case None | bool() | str():
            pass
        case int():
            if abs(value) > MAX_INTEGER:
                raise ValueError("an integer too large")
        case list():
            for item in value:
                _check(item, depth + 1)
        case dict():
            for key, item in value.items():
                if not isinstance(key, str) or not _KEY.fullmatch(key):
                    raise ValueError("a key of other letters")
                _check(item, depth + 1)
        case _:
            raise ValueError(type(value).__name__)


class Fields:
    """The fields of a document, taken one by one. Whatever does not fit raises ``MalformedMessageError``."""

    def __init__(self, content: object, where: str) -> None:
        if not isinstance(content, dict):
            raise MalformedMessageError(f"{where} is no object")
        self._left = dict(content)
        self._where = where

    def _take(self, name: str) -> object:
        if name not in self._left:
            raise MalformedMessageError(f"{self._where} lacks {name}")
        return self._left.pop(name)

    def refuse(self, name: str, expected: str = "as the protocol says") -> MalformedMessageError:
        """The error for a field that does not hold what it should; the value may be secret, and is not told."""
        return MalformedMessageError(f"{name} of {self._where} must be {expected}")

    def has(self, name: str) -> bool:
        """Whether there is such a field: for one that only some documents have."""
        return name in self._left

    def is_null(self, name: str) -> bool:
        """Whether the field is null; then it is taken."""
        if self._left.get(name, "") is None:
            del self._left[name]
            return True
        return False

    def null(self, name: str) -> None:
        """A place kept for later versions: must be there and null."""
        if not self.is_null(name):
            raise self.refuse(name, "there, and null")

    def constant(self, name: str, value: str) -> None:
        self.one_of(name, [value])

    def one_of(self, name: str, allowed: Sequence[str]) -> str:
        """One of these words."""
        value = self._take(name)
        if not isinstance(value, str) or value not in allowed:
            raise self.refuse(name, " or ".join(allowed))
        return value

    def text(self, name: str, *, longest: int, shortest: int = 0, pattern: str | None = None) -> str:
        """Text of this many bytes, in one line of printable characters."""
        value = self._take(name)
        if not isinstance(value, str) or not shortest <= len(value.encode()) <= longest:
            raise self.refuse(name, f"a text of {shortest} to {longest} bytes")
        wrong = first_unprintable(value)
        if wrong is not None:
            raise MalformedMessageError(
                f"{name} of {self._where} has U+{ord(value[wrong]):04X} as character {wrong + 1};"
                " a text is one line of printable characters"
            )
        if pattern is not None and not re.fullmatch(pattern, value):
            raise self.refuse(name, f"a text of the form {pattern}")
        return value

    def integer(self, name: str, low: int, high: int = MAX_INTEGER) -> int:
        value = self._take(name)
        if not is_integer(value) or not low <= value <= high:
            actual = f", not {value}" if is_integer(value) else ""
            raise self.refuse(name, f"an integer from {low} to {high}{actual}")
        return value

    def flag(self, name: str) -> bool:
        value = self._take(name)
        if not isinstance(value, bool):
            raise self.refuse(name, "true or false")
        return value

    def ratio(self, name: str) -> Fraction:
        value = self._take(name)
        try:
            return as_ratio(value)
        except ValueError:
            raise self.refuse(name, "a rational in lowest terms, such as 1/2") from None

    def hexadecimal(self, name: str, *, shortest: int, longest: int) -> bytes:
        """Short bytes."""
        value = self._take(name)
        if not isinstance(value, str) or not _HEX.fullmatch(value) or not shortest <= len(value) // 2 <= longest:
            size = str(shortest) if shortest == longest else f"{shortest} to {longest}"
            raise self.refuse(name, f"{size} bytes in lower-case hexadecimal")
        return bytes.fromhex(value)

    def digest(self, name: str) -> str:
        return self.hexadecimal(name, shortest=DIGEST_BYTES, longest=DIGEST_BYTES).hex()

    def base64(self, name: str, *, longest: int) -> bytes:
        """Long bytes."""
        value = self._take(name)
        try:
            data = base64.b64decode(value, validate=True) if isinstance(value, str) else None
        except (binascii.Error, ValueError):
            data = None
        if data is None or base64_text(data) != value or len(data) > longest:
            raise self.refuse(name, f"at most {longest} bytes in base64")
        return data

    def items(self, name: str, *, longest: int, shortest: int = 0) -> list[object]:
        value = self._take(name)
        if not isinstance(value, list) or not shortest <= len(value) <= longest:
            raise self.refuse(name, f"a list of {shortest} to {longest} items")
        return list(value)

    def counts(self, name: str, *, longest: int) -> tuple[int, ...]:
        """A list of integers from zero."""
        return tuple(item.integer("item", 0) for item in self.each(name, longest=longest))

    def inner(self, name: str) -> Fields:
        # An item of a list is named by its place already.
        return Fields(self._take(name), self._where if name == "item" else f"{self._where}.{name}")

    def each(self, name: str, *, longest: int, shortest: int = 0) -> list[Fields]:
        """The items of a list, each as the one field ``item``."""
        items = self.items(name, longest=longest, shortest=shortest)
        return [Fields({"item": item}, f"{self._where}.{name}[{i}]") for i, item in enumerate(items)]

    def rest_as_text(self, *, longest: int) -> dict[str, str]:
        """All that is left, each of them text: an object whose keys somebody else checks."""
        names = sorted(self._left)
        return {name: self.text(name, longest=longest) for name in names}

    def done(self) -> None:
        """Nothing may be left over."""
        if self._left:
            names = ", ".join(sorted(self._left))
            raise MalformedMessageError(f"{self._where} has fields that it should not have: {names}")


def is_integer(value: object) -> TypeGuard[int]:
    """Whether this is an integer, which true and false are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def as_ratio(value: object) -> Fraction:
    """A rational in its one spelling; else ValueError."""
    if not isinstance(value, str) or not _RATIO.fullmatch(value):
        raise ValueError
    number = Fraction(value)
    if str(number) != value:
        raise ValueError
    return number


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
