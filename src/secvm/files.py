"""Files appear whole or not at all, several together too.

Each is written beside its place under another name and made durable; only when all are written are they renamed into
place, and then their folders are made durable too: after a power loss no replaced file comes back. A reader sees the
old files or the new ones, and a failure or an interrupt before the first rename leaves nothing behind. A link is
followed. Where a place is no file but, say, ``/dev/null`` or a pipe, there is nothing to replace: it is written first,
so that its failure comes before any file has changed.

Files that somebody names are read with a limit, and only if they begin as they should.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from secvm.errors import BadInputError


@contextmanager
def or_bad_input(what: str) -> Iterator[None]:
    """What the system refuses in the block is one sentence of ours that begins so."""
    try:
        yield
    except OSError as error:
        raise BadInputError(f"{what}: {error.strerror or 'input/output error'}") from None


def write_atomically(path: Path, data: bytes) -> None:
    """Put ``data`` into the file, whole or not at all."""
    write_together({path: data})


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Put every content into its file, all of them or none.

    Raises
    ------
    BadInputError
        When a place cannot be written; nothing was. Only when a folder cannot be made durable, the new files are there.
    """
    beside: dict[Path, Path] = {}
    path = Path()
    try:
        places = {path: path.resolve() for path in contents}
        for path, place in places.items():
            if place.is_dir():
                raise BadInputError(f"cannot write {path}: it is a folder")
            if place.exists() and not place.is_file():
                place.write_bytes(contents[path])
        for path, place in places.items():
            if place.is_file() or not place.exists():
                beside[place] = _write_beside(place, contents[path])
        for place, written in beside.items():
            written.replace(place)
        for folder in {place.parent for place in beside}:
            sync_folder(folder)
    except OSError as error:
        raise BadInputError(f"cannot write {path}: {error.strerror or 'input/output error'}") from None
    finally:
        for written in beside.values():
            written.unlink(missing_ok=True)


def read_beginning_with(begins: bytes | tuple[bytes, ...], path: Path, *, most: int) -> bytes:
    """The bytes of a file, all of them only if it begins so, or in one of these ways.

    Of another kind of file just as many as were looked at.

    Raises
    ------
    BadInputError
        When the file cannot be read, or has more than ``most`` bytes.
    """
    with or_bad_input(f"cannot read {path}"), path.open("rb") as file:
        data = file.read(max(map(len, begins)) if isinstance(begins, tuple) else len(begins))
        if not data.startswith(begins):
            return data
        # A pipe has no size: there the read is the limit.
        size = os.fstat(file.fileno()).st_size
        if size <= most:
            data += file.read(most + 1 - len(data))
    if max(size, len(data)) > most:
        raise BadInputError(f"{path} has more than {most} bytes, the most that is read of such a file")
    return data


def sync_folder(folder: Path) -> None:
    """Make durable which files a folder has: a rename is not, before that."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def try_beside(place: Path) -> None:
    """Make and remove an empty file where one for ``place`` would be written: also root cannot everywhere."""
    _write_beside(place, b"").unlink()


def _write_beside(place: Path, data: bytes) -> Path:
    beside = place.with_name(f".{place.name}.{os.getpid()}.tmp")
    mode = stat.S_IMODE(place.stat().st_mode) if place.exists() else None
    try:
        with beside.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            beside.chmod(mode)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return beside
