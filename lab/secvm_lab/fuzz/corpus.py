"""The kept corpus: for each target a few small inputs that between them reach all that was ever reached.

    tests/contract/fuzz/corpus/TARGET/DIGEST        the name is the first half of the content's SHA-256

It is small by rule: an input is kept only if it runs through a line after another line that no smaller one does.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from secvm.errors import BadInputError
from secvm_lab.fuzz.target import Target, attempt

#: Of one target. With about a hundred targets the corpus stays below 2 MB.
MOST_BYTES = 2**14
_HERE = f"{__package__.replace('.', '/')}/"

Arc = tuple[CodeType, int, int]


def find_corpus() -> Path:
    """The corpus of the checkout that this file lies in. Raises ``BadInputError`` where there is none."""
    tests = Path(__file__).resolve().parents[3] / "tests/contract/fuzz"
    if not tests.is_dir():
        raise BadInputError(
            "this command works on a checkout of the repository, and this is an installed package",
            next_step="Clone the repository and use its launcher, ./secvm.",
        )
    return tests / "corpus"


def name_of(data: bytes) -> str:
    """What an input is called."""
    return hashlib.sha256(data).hexdigest()[:32]


def read_corpus(folder: Path, target: Target) -> list[bytes]:
    """What is kept of a target, in a fixed order."""
    place = folder / target.name
    return [file.read_bytes() for file in sorted(place.iterdir())] if place.is_dir() else []


def keep(folder: Path, target: Target, found: Iterable[bytes]) -> int:
    """Put the smallest set of these and the seeds, by what they reach, in the place of what was kept; how many."""
    kept = smallest(target, found)
    place = folder / target.name
    place.mkdir(parents=True, exist_ok=True)
    names = {name_of(data): data for data in kept}
    for file in place.iterdir():
        if file.name not in names:
            file.unlink()
    for name, data in names.items():
        (place / name).write_bytes(data)
    return len(names)


def smallest(target: Target, found: Iterable[bytes]) -> list[bytes]:
    """Inputs that reach something which no smaller one of them reaches, up to ``MOST_BYTES`` together."""
    reached: set[Arc] = set()
    kept: list[bytes] = []
    room = MOST_BYTES
    for data in sorted(set(found), key=lambda data: (len(data), data)):
        arcs = reach(target, data)
        if not arcs <= reached and len(data) <= room:
            reached |= arcs
            kept.append(data)
            room -= len(data)
    return kept


def reach(target: Target, data: bytes) -> set[Arc]:
    """Which line of ours was run after which other."""
    arcs: set[Arc] = set()
    last: dict[int, int] = {}

    def local(frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            key = id(frame)
            arcs.add((frame.f_code, last.get(key, 0), frame.f_lineno))
            last[key] = frame.f_lineno
        return local

    def called(frame: FrameType, _event: str, _argument: Any) -> Any:
        file = frame.f_code.co_filename
        if "/secvm/" not in file or _HERE in file:
            return None
        last.pop(id(frame), None)
        return local

    before = sys.gettrace()
    sys.settrace(called)
    try:
        attempt(target, data)
    finally:
        sys.settrace(before)
    return arcs
