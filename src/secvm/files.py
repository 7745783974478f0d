"""Files appear whole or not at all, several together too.

Each is written beside its place under another name and made durable; only when all are written are they renamed into
place. A reader sees the old files or the new ones, and a failure or an interrupt before the first rename leaves nothing
behind. A link is followed. Where a place is no file but, say, ``/dev/null`` or a pipe, there is nothing to replace: it
is written first, so that its failure comes before any file has changed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from secvm.errors import BadInputError


def write_atomically(path: Path, data: bytes) -> None:
    """Put ``data`` into the file, whole or not at all."""
    write_together({path: data})


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Put every content into its file, all of them or none.

    Raises
    ------
    BadInputError
        When a place cannot be written; nothing was.
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
    except OSError as error:
        raise BadInputError(f"cannot write {path}: {error.strerror or 'input/output error'}") from None
    finally:
        for written in beside.values():
            written.unlink(missing_ok=True)


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
