"""The capsules of a part of a relay's cover, byte for byte as everybody derives them (docs/protocol.md §29).

Package i of a part is sealed with the 64 bytes from 64 · i of the part's stream ``seals``: 32 for the inner seal, 32
for the outer one. X seals the inner layer alone, E both. Blocks, because a part may have millions of packages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from secvm.crypto.sealing.bulk_sealing import BulkSealer
from secvm.crypto.sealing.kem import X25519PublicKey
from secvm.crypto.sealing.layers import EPHEMERAL_BYTES, inner_layer, outer_layer
from secvm.crypto.sealing.part_streams import seals
from secvm.errors import LocalProtocolError
from secvm.protocol.relays.cover.parts import CoverPart

#: Packages that are made at once.
BLOCK = 1 << 14


@dataclass(frozen=True, slots=True)
class SealedBlock:
    """Some capsules of a part, side by side, in the order of the part."""

    #: 80 bytes each.
    inner: bytes
    #: 128 bytes each; empty where only the inner layer was asked for.
    outer: bytes


def seal_part(
    part: CoverPart,
    *,
    count_key: X25519PublicKey,
    mix_key: X25519PublicKey | None = None,
    sealer: BulkSealer | None = None,
    block: int = BLOCK,
) -> Iterator[SealedBlock]:
    """All capsules of a part; ``count_key`` is pk_C, ``mix_key`` pk_X where the outer layer is wanted too."""
    if block < 1:
        raise LocalProtocolError(f"blocks of {block} packages")
    sealer = BulkSealer() if sealer is None else sealer
    for first in range(0, part.size, block):
        count = min(block, part.size - first)
        secrets = np.frombuffer(seals(part.key, first, count), np.uint8).reshape(count, 2, EPHEMERAL_BYTES)
        inner = sealer.seal(inner_layer(part.label), count_key, secrets[:, 0].tobytes(), part.packages(first, count))
        outer = b""
        if mix_key is not None:
            outer = sealer.seal(outer_layer(part.label), mix_key, secrets[:, 1].tobytes(), inner)
        yield SealedBlock(inner, outer)
