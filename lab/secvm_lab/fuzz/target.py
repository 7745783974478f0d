"""Target: one decoder, or a few that belong together, as a fuzzer sees them.

The laws of a target:

 1. Any bytes are decoded, or refused with one of the errors that the decoder's documentation names.
 2. Where the format is canonical, encoding what was decoded gives the same bytes again.
 3. Where it is not, what was decoded and encoded is decoded to the same.

What breaks a law is an ``Escape``. Time and memory are watched by whoever runs the target (``worker``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from secvm.errors import MalformedMessageError


class Escape(Exception):  # noqa: N818  (no error of the program: what a fuzzer is looking for)
    """A law was broken. The message names the law and the kind of error, never the bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is fuzzed, and what is expected of it."""

    name: str
    #: Takes any bytes.
    decode: Callable[[bytes], Any]
    #: Good ones, from which a fuzzer begins. Made when they are asked for.
    seeds: Callable[[], Sequence[bytes]]
    #: What it may raise.
    allowed: tuple[type[Exception], ...] = (MalformedMessageError,)
    #: The decoders that it reaches beside ``decode`` itself, as ``module:qualified name`` below ``secvm``.
    covers: tuple[str, ...] = ()
    #: Law 2: what was decoded, as bytes.
    canonical: Callable[[Any], bytes] | None = None
    #: Law 3: the same, where several encodings mean the same.
    encode: Callable[[Any], bytes] | None = None
    #: Longer inputs are not tried.
    most_bytes: int = 4096

    @property
    def decoders(self) -> frozenset[str]:
        """All decoders that it reaches: what it covers, and ``decode`` where that is a function of ``secvm``."""
        decode = inspect.unwrap(self.decode)
        home, name = decode.__module__, getattr(decode, "__qualname__", "")
        return frozenset(self.covers) | ({f"{home[6:]}:{name}"} if home.startswith("secvm.") else set())


def attempt(target: Target, data: bytes) -> bool:
    """Hold these bytes to the target's laws; whether they were decoded.

    Raises
    ------
    Escape
        A law is broken.
    """
    try:
        found = target.decode(data)
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
            again = encode(found)
            kept = again == data if law == 2 else target.decode(again) == found
        except Exception as error:
            raise Escape(f"{target.name}: law {law} ends in {type(error).__name__}") from error
        if not kept:
            raise Escape(f"{target.name}: law {law} is broken")
    return True


def expect(holds: bool, law: str) -> None:
    """A law of a target's own."""
    if not holds:
        raise Escape(law)
