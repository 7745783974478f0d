r"""Many capsules as one body: what a relay hands on, and what a store keeps, packed.

    "secvm-capsules-v1\n" ‖ number of capsules, 4 bytes LE ‖ (length, 2 bytes LE ‖ capsule) …

Nothing here looks into a capsule, and nothing says where it came from. ``unpack`` takes only what ``pack`` writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from secvm.errors import LocalProtocolError, MalformedMessageError

MEDIA_TYPE = "application/vnd.secvm.capsules"
MAGIC = b"secvm-capsules-v1\n"
#: A package sealed with the hybrid suite has about 1.2 kB.
MAX_CAPSULE_BYTES = 2**14
#: Where the first capsule's length stands.
_START = len(MAGIC) + 4


def pack(capsules: Sequence[bytes]) -> bytes:
    """All of them, in this order."""
    if any(not 0 < len(capsule) <= MAX_CAPSULE_BYTES for capsule in capsules):
        raise LocalProtocolError("a capsule has no bytes, or too many")
    parts = [MAGIC, len(capsules).to_bytes(4, "little")]
    for capsule in capsules:
        parts += (len(capsule).to_bytes(2, "little"), capsule)
    return b"".join(parts)


def packed_size(capsule: bytes) -> int:
    """How many bytes it takes there."""
    return 2 + len(capsule)


def unpack(data: bytes) -> list[bytes]:
    """The capsules again. Raises ``MalformedMessageError`` and nothing else."""
    length = _one_length(data)
    if length:
        return [data[at : at + length] for at in range(_START + 2, len(data), length + 2)]
    return [capsule for group in unpack_in_groups(data, 2**32) for capsule in group]


def first_bytes(data: bytes) -> bytes:
    """The first byte of each capsule, which names its key; the capsules themselves stay as they are. Raises as
    ``unpack`` does.
    """
    length = _one_length(data)
    return data[_START + 2 :: length + 2] if length else bytes(capsule[0] for capsule in unpack(data))


def _one_length(data: bytes) -> int:
    """The length that all capsules have; 0 where they have several, or where something is wrong. Packages have one, and
    many lengths are compared at once.
    """
    length = int.from_bytes(data[_START : _START + 2], "little")
    count = int.from_bytes(data[len(MAGIC) : _START], "little")
    if not (0 < length <= MAX_CAPSULE_BYTES and data.startswith(MAGIC) and len(data) == _START + count * (length + 2)):
        return 0
    low, high = data[_START : _START + 2]
    same = data[_START :: length + 2].count(low) == data[_START + 1 :: length + 2].count(high) == count
    return length if same else 0


def unpack_in_groups(data: bytes, largest: int) -> Iterator[list[bytes]]:
    """The same, so many at a time: for bodies that would keep somebody waiting. What is wrong at the end is only found
    there.
    """
    at = _START
    if data[: len(MAGIC)] != MAGIC or len(data) < at:
        raise MalformedMessageError("these bytes are no capsules side by side")
    left = int.from_bytes(data[len(MAGIC) : at], "little")
    while left:
        capsules = []
        for _ in range(min(left, largest)):
            length = int.from_bytes(data[at : at + 2], "little")
            end = at + 2 + length
            if not 0 < length <= MAX_CAPSULE_BYTES or end > len(data):
                raise MalformedMessageError("capsules whose lengths do not add up")
            capsules.append(data[at + 2 : end])
            at = end
        left -= len(capsules)
        yield capsules
    if at != len(data):
        raise MalformedMessageError("capsules whose lengths do not add up")
