"""The label of a round, and the capsules that carry it: their sizes and digests (docs/protocol.md §25).

A label is SHA-256 of a manifest's payload. It is the route at the entry relay, the name of the batch at the mixing
relay and part of both seals, so that nobody can move a capsule from one round to another.
"""

from __future__ import annotations

import hashlib

from secvm.crypto.sealing.layers import INNER_BYTES, LABEL_BYTES, OUTER_BYTES
from secvm.errors import MalformedMessageError

DIGEST_BYTES = 32


def label_of(payload: bytes) -> bytes:
    """The label of the round whose manifest has this payload."""
    return hashlib.sha256(payload).digest()


def label_from_text(text: str) -> bytes:
    """The label that a path or a file's name spells, in lower-case hexadecimal; anything else is refused."""
    if len(text) != 2 * LABEL_BYTES or text.strip("0123456789abcdef"):
        raise MalformedMessageError(f"a label is {2 * LABEL_BYTES} hexadecimal digits in lower case")
    return bytes.fromhex(text)


def capsule_digest(capsule: bytes) -> bytes:
    """The digest under which a capsule is sorted, counted once, and found again."""
    return hashlib.sha256(capsule).digest()


__all__ = [
    "DIGEST_BYTES",
    "INNER_BYTES",
    "LABEL_BYTES",
    "OUTER_BYTES",
    "capsule_digest",
    "label_from_text",
    "label_of",
]
