"""What an ``init`` makes in a party's folder appears there whole or not at all.

A full disk or an interrupt must not leave a key without its settings: the next ``init`` would take it for a party and
refuse. So everything is made in a folder inside, and goes to its place when all of it is there.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from secvm.errors import BadInputError
from secvm.files import or_bad_input, sync_folder


@contextmanager
def making_in(folder: Path, *, private: bool) -> Iterator[Path]:
    """The block fills the folder that it is given; then all that is in it is in ``folder``, or nothing of it.

    ``private``: nobody but its owner may look into ``folder``, which is made where it is missing.

    Raises
    ------
    BadInputError
        When something of a name is there already, or the folder cannot be written, or is open to others.
    """
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    with or_bad_input(f"cannot make {folder}"):
        folder.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
        if private and os.name == "posix" and stat.S_IMODE(folder.stat().st_mode) & 0o077:
            raise BadInputError(f"{folder}: others may look into this folder", next_step=f"chmod 700 {folder}")
        made = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
    placed: list[Path] = []
    try:
        yield made
        for path in sorted(made.iterdir()):
            _place(path, folder / path.name)
            placed.append(folder / path.name)
        with or_bad_input(f"cannot write into {folder}"):
            made.rmdir()
            sync_folder(folder)
    except BaseException:
        for path in placed:
            path.unlink() if path.is_file() else shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(made, ignore_errors=True)
        for place in missing:
            with suppress(OSError):
                place.rmdir()
        raise


def _place(path: Path, place: Path) -> None:
    if place.exists():
        raise BadInputError(f"{place} is there already", next_step="Name another folder.")
    with or_bad_input(f"cannot write {place}"):
        path.rename(place)
