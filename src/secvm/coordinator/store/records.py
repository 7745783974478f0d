"""Blocks of opened packages: what stands in a capsule's place once it is open.

    record = SHA-256 of the capsule, 32 bytes ‖ the package as encoded, 32 bytes (docs/protocol.md §9)
    block  = records side by side

A record says which capsule it was, so that a capsule that came twice counts once, and what was in it. It says nothing
of when it came or by which way. A record is written only for a package whose form is right (``right_form``, the fast
twin of ``protocol.codec.decode``; a test holds the two equal). Whether the package fits its round is decided by the
count (``counting.epoch_count``).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from secvm.errors import LocalProtocolError
from secvm.learning.declared import MAX_BINS
from secvm.learning.label_models import MAX_MODELS
from secvm.protocol.codec import PACKAGE_BYTES
from secvm.protocol.version import MAX_ROUND, PROTOCOL_VERSION

DIGEST_BYTES = 32
RECORD_BYTES = DIGEST_BYTES + PACKAGE_BYTES
#: Words of eight bytes, little-endian: four of the digest, four of the package.
RECORD_WORDS = RECORD_BYTES // 8


def check_block(block: bytes) -> None:
    """Refuse bytes that are no whole number of records."""
    if len(block) % RECORD_BYTES:
        raise LocalProtocolError(f"a block of records has a multiple of {RECORD_BYTES} bytes")


def view_records(block: bytes) -> NDArray[np.uint8]:
    """The block as records x 64 bytes, read-only; nothing is copied."""
    check_block(block)
    return np.frombuffer(block, dtype=np.uint8).reshape(-1, RECORD_BYTES)


def view_words(block: bytes) -> NDArray[np.uint64]:
    """The block as records x 8 little-endian words. Nothing is copied where the machine counts that way too."""
    check_block(block)
    return np.frombuffer(block, dtype="<u8").reshape(-1, RECORD_WORDS).astype(np.uint64, copy=False)


def right_form(packages: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """For each row of 32 bytes whether it is the encoding of a package of any kind."""
    kind, c = packages[:, 1], packages[:, 28]
    number = packages[:, 18:22].copy().view("<u4")[:, 0]
    a = packages[:, 22:24].copy().view("<u2")[:, 0]
    b = packages[:, 24:28].copy().view("<u4")[:, 0]
    ok = (packages[:, 0] == PROTOCOL_VERSION) & (number >= 1) & (number <= MAX_ROUND) & ~packages[:, 29:].any(axis=1)
    one_or_two = (c == 1) | (c == 2)
    form: NDArray[np.bool_] = ok & (
        ((kind == 1) & one_or_two & (a < MAX_MODELS) & (b <= MAX_BINS))
        | ((kind == 2) & (c == 0) & (a < MAX_MODELS) & (b < MAX_MODELS))
        | ((kind == 3) & one_or_two & (a < MAX_MODELS) & (b == 0))
        | ((kind == 4) & (c == 0) & (a == 0) & (b == 0))
    )
    return form
