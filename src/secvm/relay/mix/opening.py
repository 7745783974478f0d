"""Opening the outer layer of a batch: each capsule is judged alone (docs/protocol.md §30)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from secvm.crypto.sealing.bulk_sealing import BulkSealer
from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.layers import INNER_BYTES, outer_layer

#: Outer capsules, each of its one size → the inner capsule of each; None where it does not open.
OpenOuters = Callable[[Sequence[bytes]], list[bytes | None]]


def opener(private_key: X25519PrivateKey, label: bytes, sealer: BulkSealer) -> OpenOuters:
    """What opens the capsules of this round."""

    def open_outers(capsules: Sequence[bytes]) -> list[bytes | None]:
        inside, opened = sealer.open_all(outer_layer(label), private_key, b"".join(capsules))
        return [inside[at * INNER_BYTES : (at + 1) * INNER_BYTES] if fate else None for at, fate in enumerate(opened)]

    return open_outers
