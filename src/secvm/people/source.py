"""Open a file of people and hand out its bytes: plain or gzipped, whole lines at a time, never the whole file.

Whether it is gzipped is decided by its first two bytes. Whether it is JSON lines or svmlight is decided by its suffix
(before ``.gz``), and where that says nothing by the first byte that is not blank. A byte order mark at the start of the
file is accepted and skipped. Everything that can go wrong with a file becomes one sentence with its path.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadPeopleFileError
from secvm.people.person import BLANK

Format = Literal["json", "svmlight"]
#: A block stays in the second-level cache from the read to the scan.
BLOCK_BYTES = 1 << 18
#: A line longer than this is no person; it is a file of something else, and would have to be held whole.
MAX_LINE_BYTES = 1 << 27
#: More blanks than this before the first person, and nobody looks further for what the file is.
MAX_BLANK_BYTES = 1 << 20
#: Readable bytes after a block, for the scanners' wide loads.
PADDING = 32

_FORMATS: dict[str, Format] = {
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
}
_GZIP_MAGIC = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_NEWLINE = 10


class Source:
    """An open file: its format, its text from the start, and how far reading has come."""

    def __init__(self, path: Path, raw: BufferedReader, text: BufferedReader | gzip.GzipFile) -> None:
        self.path = path
        self._raw = raw
        self._text = text
        #: Size of the file on disk.
        self.bytes_total = os.fstat(raw.fileno()).st_size
        start = text.read(len(_BOM))
        self._pending = b"" if start == _BOM else start

    @property
    def bytes_done(self) -> int:
        """Bytes of the file on disk that have been read; 0 for a pipe, which does not know."""
        return min(self._raw.tell(), self.bytes_total) if self._raw.seekable() else 0

    def format(self) -> Format:
        """JSON lines or svmlight."""
        suffixes = [suffix.lower() for suffix in self.path.suffixes]
        if suffixes and suffixes[-1] == ".gz":
            suffixes.pop()
        if suffixes and suffixes[-1] in _FORMATS:
            return _FORMATS[suffixes[-1]]
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
        return "json" if first in (b"{", b"[") else "svmlight"

    def blocks(self, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[NDArray[np.uint8], int]]:
        """Blocks of whole lines as (array, end): the last counted byte is a newline, ``PADDING`` bytes follow it.

        The array is reused; it holds until the next block is asked for.
        """
        buffer = np.zeros(block_bytes + len(self._pending) + PADDING, dtype=np.uint8)
        filled = 0
        while True:
            room = len(buffer) - PADDING
            read = self._read_into(buffer, filled, room)
            filled += read
            if read == 0:
                if filled:
                    buffer[filled] = _NEWLINE
                    yield buffer, filled + 1
                return
            end = _after_last_newline(buffer, filled - read, filled)
            if end:
                yield buffer, end
                buffer[: filled - end] = buffer[end:filled].copy()
                filled -= end
            if filled > room // 2:
                if filled > MAX_LINE_BYTES:
                    raise BadPeopleFileError(f"{self.path}: a line is longer than {MAX_LINE_BYTES >> 20} MiB")
                grown = np.zeros(2 * len(buffer), dtype=np.uint8)
                grown[:filled] = buffer[:filled]
                buffer = grown

    def lines(self) -> Iterator[bytes]:
        """The lines one by one, without their newlines."""
        for block, end in self.blocks():
            yield from block[: end - 1].tobytes().split(b"\n")

    def _read_into(self, buffer: NDArray[np.uint8], start: int, end: int) -> int:
        if self._pending:
            read = min(len(self._pending), end - start)
            buffer[start : start + read] = np.frombuffer(self._pending[:read], dtype=np.uint8)
            self._pending = self._pending[read:]
            return read
        return self._text.readinto(buffer[start:end].data)


def _after_last_newline(buffer: NDArray[np.uint8], start: int, end: int) -> int:
    """One past the last newline in ``buffer[start:end]``, or 0."""
    # From the back in small pieces: the last line is short beside the block.
    while start < end:
        low = max(start, end - (1 << 14))
        found = buffer[low:end].tobytes().rfind(b"\n")
        if found >= 0:
            return low + found + 1
        end = low
    return 0


@contextmanager
def open_people(path: str | os.PathLike[str]) -> Iterator[Source]:
    """Open a file of people; trouble with the file, now or while it is read, is one sentence with its path."""
    path = Path(path)
    trouble: str | None
    try:
        with path.open("rb") as raw:
            # A look ahead instead of a read and a seek, so that a pipe will do.
            if raw.peek(2)[:2] == _GZIP_MAGIC:
                with gzip.GzipFile(fileobj=raw) as text:
                    yield Source(path, raw, text)
            else:
                yield Source(path, raw, raw)
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
        if error.line is not None:
            error.args = (f"{path}: {error}",)
        raise
    except OSError as error:
        trouble = f"cannot be read ({os.strerror(error.errno) if error.errno else 'input/output error'})"
    # Raised outside the handlers, so that no other exception travels along.
    raise BadPeopleFileError(f"{path}: {trouble}")
