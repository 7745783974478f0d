"""Many whole numbers near zero in few bytes: how a tally travels (docs/protocol.md §13).

Numbers are folded (0, -1, 1, -2, … become 0, 1, 2, 3, …), written as the lowest byte of each, then the second byte of
each, and so on, in as few such *planes* as the largest needs, and deflated (RFC 1950). Cover is noise, which no coder
makes smaller than its entropy; of it the lowest plane has nearly all, and the others are nearly empty.

Whoever reads knows how many numbers there are. So what is inflated never takes more than ``MAX_PLANES`` bytes for each,
whatever it would grow to. One list of numbers has one list of planes; deflated it has many forms, and none is signed.
"""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from secvm.errors import LocalProtocolError, MalformedMessageError

#: Numbers lie between -2^55 and 2^55 - 1: a count, which is below 2^53, less a known mean.
MAX_PLANES = 7
#: Nothing repeats in noise, so looking further back than one byte finds nothing; runs of zeros are all there is.
_STRATEGY, _LEVEL, _MEMORY_LEVEL = zlib.Z_RLE, 9, 9


def pack(numbers: NDArray[np.int64]) -> bytes:
    """These numbers, at least one, as bytes."""
    folded = (numbers << 1) ^ (numbers >> 63)
    planes = max(1, -(-int(folded.max()).bit_length() // 8))
    if int(folded.min()) < 0 or planes > MAX_PLANES:
        raise LocalProtocolError(f"a number needs more than {MAX_PLANES} bytes")
    table = folded.astype("<i8").view(np.uint8).reshape(-1, 8)
    deflater = zlib.compressobj(_LEVEL, zlib.DEFLATED, zlib.MAX_WBITS, _MEMORY_LEVEL, _STRATEGY)
    deflated = bytearray()
    for plane in range(planes):
        # Planes are not alike: a new block has a code of its own.
        deflated += deflater.compress(table[:, plane].tobytes()) + deflater.flush(zlib.Z_BLOCK)
    return bytes(deflated + deflater.flush())


def unpack(data: bytes, count: int) -> NDArray[np.int64]:
    """The numbers in these bytes, of which there must be ``count``, at least one."""
    refused = MalformedMessageError(f"these bytes are not {count} packed numbers")
    inflater = zlib.decompressobj()
    try:
        # One byte beyond what can be right: where it is there, the rest of a bomb is left alone.
        inflated = inflater.decompress(data, MAX_PLANES * count + 1)
    except zlib.error:
        raise refused from None
    planes, left_over = divmod(len(inflated), count)
    if not inflater.eof or inflater.unused_data or left_over or not 1 <= planes <= MAX_PLANES:
        raise refused
    table = np.zeros((count, 8), dtype=np.uint8)
    table[:, :planes] = np.frombuffer(inflated, np.uint8).reshape(planes, count).T
    if planes > 1 and not table[:, planes - 1].any():
        raise refused
    folded = table.view("<i8").reshape(count).astype(np.int64)
    return (folded >> 1) ^ -(folded & 1)
