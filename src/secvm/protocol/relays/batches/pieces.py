"""Pieces of a batch: how many capsules travel together, and how they are cut (docs/protocol.md §30).

Capsules of a batch have one size and lie side by side, in the order of their digests. All pieces but the last are full,
so the length of each follows from the number of capsules.
"""

from __future__ import annotations

from secvm.errors import MalformedMessageError

MEDIA_TYPE = "application/vnd.secvm.capsules-fixed"
#: Of one piece: at most 8 MiB.
PIECE_CAPSULES = 2**16


def piece_count(capsules: int) -> int:
    """In so many pieces a batch of so many capsules travels; the empty batch in none."""
    return -(-capsules // PIECE_CAPSULES)


def capsules_in_piece(index: int, capsules: int) -> int:
    """How many capsules of a batch are in one of its pieces; 0 where it has no such piece."""
    return max(0, min(PIECE_CAPSULES, capsules - index * PIECE_CAPSULES)) if index >= 0 else 0


def cut(piece: bytes, size: int) -> list[bytes]:
    """The capsules of a piece, each of ``size`` bytes; what is left over at the end is none."""
    return [piece[at : at + size] for at in range(0, len(piece) - size + 1, size)]


def split_piece(data: bytes, size: int) -> list[bytes]:
    """The capsules of a piece that somebody sent. Raises ``MalformedMessageError`` and nothing else."""
    if not data or len(data) % size or len(data) > size * PIECE_CAPSULES:
        raise MalformedMessageError(
            f"a piece of {len(data)} bytes is not between 1 and {PIECE_CAPSULES} capsules of {size} bytes"
        )
    return cut(data, size)
