"""One person of a file: what a line means. This module is the specification; every quicker reader must equal it.

A line of JSON is an object with ``label`` and ``features``; other keys are ignored, and of a key that comes twice the
last one counts. A line of svmlight is a label, then ``index:value`` pairs, then perhaps a ``#`` comment.

 1. **Text** is UTF-8 and never normalised. Blank lines (spaces and tabs only) are skipped; in svmlight also lines that
    hold only a comment. What a comment holds is not looked at.
 2. **Label.** Text is kept as it is. A number is kept as text: an integral one as a decimal integer (``+1`` and
    ``1.0`` are ``1``), any other as Python prints the float. In svmlight the label is a number. Where labels are not
    required it may be missing (in JSON also ``null``).
 3. **Features.** In a list every occurrence counts 1. In an object the value must be an integer; ``3.0`` is one,
    ``3.5``, ``"3"``, ``true`` and NaN are not. Zero means absent. A value lies strictly between -2^22 and 2^22.
 4. **svmlight features** are named by their index as written, a decimal number of at most 18 digits without sign or
    leading zeros (``007`` is refused: is it ``7``?). They come in any order. An index that comes twice in a line, and
    ``qid:``, are refused.
 5. Under **presence** each distinct feature counts 1, and a negative value is refused (``bin_features``).

An error is one sentence with the line's number. It never shows what the line holds, nor does any exception behind it.

``People`` is a whole file as rows of bins with label codes, and the names behind the codes.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import orjson
from numpy.typing import NDArray

from secvm.errors import BadPeopleFileError
from secvm.learning.individual.binning import Binning
from secvm.learning.rows import BinnedRows

#: A value beyond this could not be counted exactly (``learning.rows.MAX_UNITS``).
MAX_VALUE = 2**22 - 1
#: What may stand around a line without being part of it.
BLANK = b" \t\r\n"

#: Integral floats beyond 2^53 keep their exponent: their digits would be an accident.
_EXACT_FLOAT = 2.0**53
_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INTEGER = re.compile(rb"[+-]?[0-9]{1,18}")
_INDEX = re.compile(rb"0|[1-9][0-9]{0,17}")


@dataclass(frozen=True, slots=True, repr=False)
class Person:
    """A label and features, as a file gives them. Secret: it does not print itself."""

    #: ``None`` where labels are not required and there is none.
    label: str | None
    #: Feature to value, no zeros.
    features: dict[str, int]

    def __repr__(self) -> str:
        return "Person(...)"


#: Reads one line: (bytes, number of the line, whether a label is required) to the person, or ``None`` for a blank line.
LineReader = Callable[[bytes, int, bool], Person | None]


def number_text(number: float) -> str:
    """The text of a label that is a number."""
    # An int comes here too, and is exact at any size.
    if type(number) is int or (number == int(number) and abs(number) < _EXACT_FLOAT):
        return str(int(number))
    return repr(number)


def label_number(text: str) -> float | None:
    """The number that a label's text is, or ``None`` where it is not a finite one."""
    token = text.encode(errors="replace")
    if not _NUMBER.fullmatch(token):
        return None
    number = float(token)
    return number if math.isfinite(number) else None


def person_from_json(line: bytes, number: int, labels_required: bool) -> Person | None:
    """The person on a line of JSON."""
    line = line.strip(BLANK)
    if not line:
        return None
    try:
        content = orjson.loads(line)
    except orjson.JSONDecodeError:
        content = BadPeopleFileError(_why_not_json(line), line=number)
    # Raised outside the handler: the decoder's exception holds the whole line and must not travel along.
    if isinstance(content, BadPeopleFileError):
        raise content
    if not isinstance(content, dict):
        raise BadPeopleFileError("the line is not a JSON object", line=number)
    return Person(_json_label(content, number, labels_required), _json_features(content, number))


def _why_not_json(line: bytes) -> str:
    try:
        line.decode()
    except UnicodeDecodeError:
        return "the line is not valid UTF-8"
    return "the line is not valid JSON"


def _json_label(content: dict[str, object], number: int, required: bool) -> str | None:
    label = content.get("label")
    if isinstance(label, str):
        return label
    if isinstance(label, int | float) and not isinstance(label, bool) and math.isfinite(label):
        return number_text(label)
    if label is None and not required:
        return None
    if "label" not in content:
        raise BadPeopleFileError("the label is missing", line=number)
    raise BadPeopleFileError("the label must be a string or a number", line=number)


def _json_features(content: dict[str, object], number: int) -> dict[str, int]:
    if "features" not in content:
        raise BadPeopleFileError("the features are missing", line=number)
    features = content["features"]
    if isinstance(features, list):
        if not all(isinstance(feature, str) for feature in features):
            raise BadPeopleFileError("a feature in the list is not a string", line=number)
        counts = dict(Counter(features))
        if len(features) > MAX_VALUE and max(counts.values()) > MAX_VALUE:
            raise BadPeopleFileError(f"a feature comes more than {MAX_VALUE} times", line=number)
        return counts
    if isinstance(features, dict):
        return {feature: value for feature, raw in features.items() if (value := _value(raw, number))}
    raise BadPeopleFileError("the features must be a list of strings or an object of integers", line=number)


def _value(raw: object, number: int) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not math.isfinite(raw) or raw != int(raw):
        raise BadPeopleFileError("a feature's value is not an integer", line=number)
    if abs(raw) > MAX_VALUE:
        raise BadPeopleFileError(f"a feature's value lies beyond {MAX_VALUE}", line=number)
    return int(raw)


def person_from_svmlight(line: bytes, number: int, labels_required: bool) -> Person | None:
    """The person on a line of svmlight."""
    tokens = line.partition(b"#")[0].replace(b"\r", b" ").replace(b"\t", b" ").strip(BLANK).split(b" ")
    tokens = [token for token in tokens if token]
    if not tokens:
        return None
    label = None
    if b":" not in tokens[0]:
        label = _svmlight_label(tokens.pop(0))
        if label is None:
            raise BadPeopleFileError("the label is not a number", line=number)
    elif labels_required:
        raise BadPeopleFileError("the label is missing", line=number)
    features: dict[str, int] = {}
    for token in tokens:
        index, colon, value = token.partition(b":")
        if index == b"qid":
            raise BadPeopleFileError("a qid is not supported: people are not grouped by queries", line=number)
        if not colon:
            raise BadPeopleFileError("a feature is not written as index:value", line=number)
        if not _INDEX.fullmatch(index):
            raise BadPeopleFileError(
                "a feature's index is not a decimal number of at most 18 digits without sign or leading zeros",
                line=number,
            )
        name = index.decode()
        if name in features:
            raise BadPeopleFileError("a feature's index comes twice", line=number)
        if not _NUMBER.fullmatch(value):
            raise BadPeopleFileError("a feature's value is not an integer", line=number)
        features[name] = _value(int(value) if _INTEGER.fullmatch(value) else float(value), number)
    return Person(label, {name: value for name, value in features.items() if value})


def _svmlight_label(token: bytes) -> str | None:
    """The text of a label of svmlight, or ``None`` where it is not a finite number."""
    if _INTEGER.fullmatch(token):
        return str(int(token))
    if _NUMBER.fullmatch(token) and math.isfinite(value := float(token)):
        return number_text(value)
    return None


@dataclass(frozen=True, eq=False, repr=False)
class People:
    """The people of a file, in its order. Secret: it does not print itself."""

    rows: BinnedRows
    #: Each label once: in numeric order where all are numbers, else in the order of their text.
    label_names: tuple[str, ...]
    #: int32, the place of each person's label in ``label_names``; -1 where a person has none.
    label_codes: NDArray[np.int32]
    #: The binning asked for, or the vocabulary that was found.
    binning: Binning
    #: Distinct features seen, where they were counted.
    n_features: int | None

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"People(<{len(self)} people>)"

    @property
    def label_texts(self) -> list[str | None]:
        """Each person's label."""
        return [self.label_names[code] if code >= 0 else None for code in self.label_codes.tolist()]

    def numeric_labels(self) -> NDArray[np.float64]:
        """Each person's label as a number, for regression."""
        if np.any(self.label_codes < 0):
            raise BadPeopleFileError("regression needs a label for every person, and one has none")
        numbers = [label_number(name) for name in self.label_names]
        if None in numbers:
            raise BadPeopleFileError("regression needs numbers as labels, and one label is not a number")
        return np.array(numbers, dtype=np.float64)[self.label_codes]


def in_order(labels: Iterable[str]) -> list[str]:
    """Labels in numeric order where all are numbers, else in the order of their text."""
    labels = list(labels)
    numbers = [label_number(label) for label in labels]
    if None in numbers:
        return sorted(labels)
    return [label for _, label in sorted(zip(numbers, labels, strict=True))]


class LabelCodes:
    """Numbers labels as they come, and renumbers them in order at the end."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def code(self, label: str | None) -> int:
        """The preliminary code of a label."""
        return -1 if label is None else self._codes.setdefault(label, len(self._codes))

    def finish(self, codes: NDArray[np.int32]) -> tuple[tuple[str, ...], NDArray[np.int32]]:
        """The names in order, and the codes that go with them."""
        names = in_order(self._codes)
        # One more place at the end, where the code -1 finds itself.
        final = np.full(len(names) + 1, -1, dtype=np.int32)
        for code, name in enumerate(names):
            final[self._codes[name]] = code
        return tuple(names), final[codes]
