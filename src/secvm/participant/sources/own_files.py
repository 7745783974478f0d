"""Files of one's own: a person of a people file, a table of words, lines of words.

Features are taken as they stand, never changed, as in a people file (docs/protocol.md §2.1). With ``split=yes`` a text
is cut into words first, as titles are (``pages``); a word then counts once for every text that has it. Errors name
the line, never what stands on it.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator

import orjson

from secvm.errors import BadInputError, BadPeopleFileError
from secvm.participant.sources.pages import words_of
from secvm.participant.sources.port import Options
from secvm.people.person import BLANK, MAX_VALUE
from secvm.people.source import OpenFile, numbered_people, open_people

#: A value of more digits is refused before it is read; the sign is the other character.
_MAX_DIGITS = len(str(MAX_VALUE))


class PeopleFile:
    """One person of a people file: JSON lines or svmlight."""

    name = "people"
    about = "One person of a people file (JSON lines or svmlight); line=N says whom."

    def read(self, options: Options) -> dict[str, int]:
        options.done("line")
        wanted = options.whole("line")
        with open_people(options.file()) as source:
            people = numbered_people(source, labels_required=False)
            if wanted is None:
                _, first = next(people)
                if next(people, None) is not None:
                    raise BadInputError(
                        "the file holds several people; say which one is meant",
                        next_step="Say which with --option line=N.",
                    )
                return first.features
            for number, person in people:
                if number == wanted:
                    return person.features
        raise BadInputError(f"line {wanted} of the file holds nobody")


class Table:
    """A CSV file: a column of words, and perhaps one of counts."""

    name = "csv"
    about = "A CSV file with a column of words, and perhaps one of counts; column=, count=, header=yes, split=yes."

    def read(self, options: Options) -> dict[str, int]:
        options.done("column", "count", "header", "split")
        column, count = options.text("column"), options.text("count")
        split = options.yes("split", default=False)
        # A column that is named by a word can only be found in a header.
        named = any(name is not None and not _is_number(name) for name in (column, count))
        header = options.yes("header", default=named)
        with open_people(options.file()) as source:
            rows = _rows(source)
            heads = next(rows, (0, []))[1] if header else []
            word_at = _position(column or "1", heads)
            count_at = None if count is None else _position(count, heads)
            counts: Counter[str] = Counter()
            for number, row in rows:
                if word_at >= len(row):
                    raise BadPeopleFileError("the row has no such column", line=number)
                # Two columns and nothing said: word, count.
                at = 1 if count_at is None and column is None and len(row) == 2 else count_at
                _add(counts, row[word_at], 1 if at is None else _count(row, at, number), split=split)
        return dict(counts)


class Lines:
    """A file of JSON lines: a word, a list of words, or an object of words and counts on each."""

    name = "jsonl"
    about = "A file of JSON lines: a text, a list of texts, or an object of texts and counts on each; split=yes."

    def read(self, options: Options) -> dict[str, int]:
        options.done("split")
        split = options.yes("split", default=False)
        counts: Counter[str] = Counter()
        with open_people(options.file()) as source:
            for number, line in enumerate(source.lines(), start=1):
                for text, value in _json_counts(line, number):
                    _add(counts, text, value, split=split)
        return dict(counts)


def _add(counts: Counter[str], text: str, value: int, *, split: bool) -> None:
    for feature in set(words_of(text)) if split else {text}:
        counts[feature] += value


def _rows(source: OpenFile) -> Iterator[tuple[int, list[str]]]:
    """Rows with the number of their last line; empty ones are skipped."""
    reader = csv.reader((_decoded(line, n) + "\n" for n, line in enumerate(source.lines(), start=1)), strict=True)
    while True:
        try:
            row = next(reader, None)
        except csv.Error:  # its message is csv's own, without the row
            raise BadPeopleFileError("the row is no valid CSV", line=reader.line_num) from None
        if row is None:
            return
        if row:
            yield reader.line_num, row


def _decoded(line: bytes, number: int) -> str:
    try:
        return line.removesuffix(b"\r").decode()
    except UnicodeDecodeError:
        pass
    # Raised outside the handler: the decoder's exception holds the line.
    raise BadPeopleFileError("the line is not valid UTF-8", line=number)


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) <= 4


def _position(name: str, heads: list[str]) -> int:
    if name in heads:
        return heads.index(name)
    if _is_number(name) and int(name) >= 1:
        return int(name) - 1
    raise BadInputError("the file's header names no such column")


def _count(row: list[str], at: int, number: int) -> int:
    text = row[at].strip() if at < len(row) else ""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        next_step = "Give --option header=yes if the first row names the columns." if number == 1 else None
        raise BadPeopleFileError("the count is not a whole number", line=number, next_step=next_step)
    if len(digits) > _MAX_DIGITS or int(digits) > MAX_VALUE:
        raise BadPeopleFileError(f"the count lies beyond {MAX_VALUE}", line=number)
    return int(text)


def _json_counts(line: bytes, number: int) -> list[tuple[str, int]]:
    if not line.strip(BLANK):
        return []
    try:
        content = orjson.loads(line)
    except orjson.JSONDecodeError:
        content = BadPeopleFileError("the line is not valid JSON", line=number)
    # Raised outside the handler: the decoder's exception holds the whole line and must not travel along.
    if isinstance(content, BadPeopleFileError):
        raise content
    if isinstance(content, str):
        return [(content, 1)]
    if isinstance(content, list) and all(isinstance(text, str) for text in content):
        return [(text, 1) for text in content]
    if isinstance(content, dict) and all(type(value) is int and abs(value) <= MAX_VALUE for value in content.values()):
        return list(content.items())
    raise BadPeopleFileError(
        f"the line is no text, no list of texts and no object of whole numbers up to {MAX_VALUE}", line=number
    )
