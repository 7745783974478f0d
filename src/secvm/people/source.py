"""Open a file of people and hand out its lines or its people: plain or gzipped, some at a time, never the whole file.

Whether it is gzipped is decided by its first two bytes. Whether it is JSON lines or svmlight is decided by its suffix
(before ``.gz``), and where that says nothing by the first byte that is not blank. A byte order mark at the start of the
file is accepted and skipped. Everything that can go wrong with a file becomes one sentence with its path, and with what
the file was taken for where its name did not say it.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import Literal

from secvm.errors import BadPeopleFileError
from secvm.people.person import BLANK, LineReader, Person, person_from_json, person_from_svmlight

Format = Literal["json", "svmlight"]
#: A block stays in the second-level cache from the read to the parsing.
BLOCK_BYTES = 1 << 18
#: A line longer than this is no person; it is a file of something else, and would have to be held whole.
MAX_LINE_BYTES = 1 << 27
#: More blanks than this before the first person, and nobody looks further for what the file is.
MAX_BLANK_BYTES = 1 << 20

_FORMATS: dict[str, Format] = {
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
}
#: What reads a line of each format.
LINE_READERS: dict[Format, LineReader] = {"json": person_from_json, "svmlight": person_from_svmlight}
_GZIP_MAGIC = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"


def suffix_of(path: Path) -> str:
    """What the name says of the content: its suffix, before ``.gz``."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".gz"]:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


class OpenFile:
    """An open file: its format, its text from the start, and how far reading has come."""

    def __init__(self, path: Path, raw: BufferedReader, text: BufferedReader | gzip.GzipFile) -> None:
        self.path = path
        self._raw = raw
        self._text = text
        #: Size of the file on disk.
        self.bytes_total = os.fstat(raw.fileno()).st_size
        #: Whether the first byte had to say what the file is, as its name does not, and said svmlight.
        self.guessed = False
        start = text.read(len(_BOM))
        self._pending = b"" if start == _BOM else start

    @property
    def bytes_done(self) -> int:
        """Bytes of the file on disk that have been read; 0 for a pipe, which does not know."""
        return min(self._raw.tell(), self.bytes_total) if self._raw.seekable() else 0

    def format(self) -> Format:
        """JSON lines or svmlight."""
        suffix = suffix_of(self.path)
        if suffix in _FORMATS:
            return _FORMATS[suffix]
        # Blanks are kept, because lines are counted, but each of them is looked at once.
        pieces = [self._pending]
        while not (first := pieces[-1].lstrip(BLANK)[:1]) and (more := self._text.read(1 << 12)):
            pieces.append(more)
            if len(pieces) > MAX_BLANK_BYTES >> 12:
                raise BadPeopleFileError(
                    f"{self.path}: nothing but blanks in the first {MAX_BLANK_BYTES >> 20} MiB",
                    next_step="If people follow, name the file .jsonl or .svm, which says what it is.",
                )
        self._pending = b"".join(pieces)
        self.guessed = first not in (b"{", b"[")
        return "svmlight" if self.guessed else "json"

    def blocks(self, block_bytes: int = BLOCK_BYTES) -> Iterator[list[bytes]]:
        """The lines without their newlines, as many at once as a block of the file ends."""
        begun, size = [b""], 0
        pieces = chain([self._pending], iter(lambda: self._text.read(block_bytes), b""))
        for piece in pieces:
            whole, newline, rest = piece.rpartition(b"\n")
            if newline:
                yield b"".join([*begun, whole]).split(b"\n")
                begun, size = [], 0
            begun.append(rest)
            size += len(rest)
            if size > MAX_LINE_BYTES:
                raise BadPeopleFileError(f"{self.path}: a line is longer than {MAX_LINE_BYTES >> 20} MiB")
        if size:
            yield [b"".join(begun)]

    def lines(self) -> Iterator[bytes]:
        """The lines one by one, without their newlines."""
        return chain.from_iterable(self.blocks())


@contextmanager
def open_people(path: str | os.PathLike[str]) -> Iterator[OpenFile]:
    """Open a file of people; trouble with the file, now or while it is read, is one sentence with its path."""
    path = Path(path)
    trouble: str | None
    source: OpenFile | None = None
    gzipped = True
    try:
        with path.open("rb") as raw:
            # A look ahead instead of a read and a seek, so that a pipe will do.
            gzipped = raw.peek(2)[:2] == _GZIP_MAGIC
            with gzip.GzipFile(fileobj=raw) if gzipped else nullcontext(raw) as text:
                source = OpenFile(path, raw, text)
                yield source
            return
    except FileNotFoundError:
        trouble = "no such file"
    except IsADirectoryError:
        trouble = "is a directory, not a file of people"
    except PermissionError:
        trouble = "may not be read by this user"
    except EOFError:
        trouble = "the gzip file is cut off"
    except (gzip.BadGzipFile, zlib.error):
        trouble = "the gzip file is broken"
    except BadPeopleFileError as error:
        if error.line is None:
            raise
        if path.suffix.lower() != ".gz" or gzipped:
            error.args = (f"{path}: {error}",)
            if source is not None and source.guessed:
                error.args = (f"{error}; as it begins with no {{, the file is taken for svmlight",)
                error.next_step = error.next_step or "If it has columns, name it .csv; if it has JSON lines, .jsonl."
            raise
        trouble = "is called .gz, and is no gzip file"
    except OSError as error:
        trouble = f"cannot be read ({os.strerror(error.errno) if error.errno else 'input/output error'})"
    # Raised outside the handlers, so that no other exception travels along.
    raise BadPeopleFileError(f"{path}: {trouble}")


def decoded(line: bytes, number: int) -> str:
    """A line as text."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        pass
    # Raised outside the handler: the decoder's exception holds the line.
    raise BadPeopleFileError("the line is not valid UTF-8", line=number)


def iter_people(path: str | os.PathLike[str], *, labels_required: bool = True) -> Iterator[Person]:
    """The people of a file one by one, in its order."""
    with open_people(path) as source:
        for _, person in numbered_people(source, labels_required=labels_required):
            yield person


def numbered_people(source: OpenFile, *, labels_required: bool) -> Iterator[tuple[int, Person]]:
    """The people of an open file with their line numbers; a file without people is an error."""
    read_line = LINE_READERS[source.format()]
    anyone = False
    for number, line in enumerate(source.lines(), start=1):
        person = read_line(line, number, labels_required)
        if person is not None:
            anyone = True
            yield number, person
    if not anyone:
        raise no_people(source)


def no_people(source: OpenFile) -> BadPeopleFileError:
    """What to say of a file without people."""
    return BadPeopleFileError(f"{source.path}: the file holds no people")
