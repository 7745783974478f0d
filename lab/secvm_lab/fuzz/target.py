"""Target: one decoder, or a few that belong together, as a fuzzer sees them.

The laws of a target:

 1. Any bytes are decoded, or refused with one of the errors that the decoder's documentation names.
 2. Where the format is canonical, encoding what was decoded gives the same bytes again.
 3. Where it is not, what was decoded and encoded is decoded to the same.

What breaks a law is an ``Escape``. Time and memory are watched by whoever runs the target (``worker``).

The kept corpus has, for each target a few small inputs that between them reach all that was ever reached.

    tests/contract/fuzz/corpus/TARGET/DIGEST        the name is the first half of the content's SHA-256

It is small by rule: an input is kept only if it runs through a line after another line that no smaller one does.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from secvm.errors import BadInputError, BadSignatureError, MalformedMessageError

#: What readers of signed bytes may raise.
SIGNED = (MalformedMessageError, BadSignatureError)


class Escape(Exception):  # noqa: N818  (no error of the program: what a fuzzer is looking for)
    """A law was broken. The message names the law and the kind of error, never the bytes."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is fuzzed, and what is expected of it."""

    name: str
    #: Takes any bytes.
    decode: Callable[[bytes], Any]
    #: Good ones, from which a fuzzer begins. Made when they are asked for.
    seeds: Callable[[], Sequence[bytes]]
    #: What it may raise.
    allowed: tuple[type[Exception], ...] = (MalformedMessageError,)
    #: Law 2: what was decoded, as bytes.
    canonical: Callable[[Any], bytes] | None = None
    #: Law 3: the same, where several encodings mean the same.
    encode: Callable[[Any], bytes] | None = None

    @property
    def most_bytes(self) -> int:
        """Longer inputs are not tried: with this much room every limit that a decoder has can be passed."""
        return 2 * max(map(len, self.seeds())) + 1024


def attempt(target: Target, data: bytes) -> bool:
    """Hold these bytes to the target's laws; whether they were decoded.

    Raises
    ------
    Escape
        A law is broken.
    """
    try:
        decoded = target.decode(data)
    except target.allowed:
        return False
    except Escape:
        raise
    except Exception as error:
        raise Escape(f"{target.name}: {type(error).__name__} is not among what it may raise") from error
    for law, encode in ((2, target.canonical), (3, target.encode)):
        if encode is None:
            continue
        try:
            again = encode(decoded)
            kept = again == data if law == 2 else target.decode(again) == decoded
        except Exception as error:
            raise Escape(f"{target.name}: law {law} ends in {type(error).__name__}") from error
        if not kept:
            raise Escape(f"{target.name}: law {law} is broken")
    return True


def expect(holds: bool, law: str) -> None:
    """A law of a target's own."""
    if not holds:
        raise Escape(law)


#: Of one target. With about a hundred targets the corpus stays below 2 MB.
MOST_BYTES = 2**14
_HERE = f"{__package__.replace('.', '/')}/"

Arc = tuple[CodeType, int, int]


def find_checkout() -> Path:
    """The checkout that this file lies in. Raises ``BadInputError`` where there is none."""
    root = Path(__file__).resolve().parents[3]
    if not (root / "tests/contract/fuzz").is_dir():
        raise BadInputError(
            "this command works on a checkout of the repository, and this is an installed package",
            next_step="Clone the repository and use its launcher, ./secvm.",
        )
    return root


def find_corpus() -> Path:
    """The corpus of this checkout."""
    return find_checkout() / "tests/contract/fuzz/corpus"


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
