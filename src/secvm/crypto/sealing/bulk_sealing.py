"""Many capsules of one layer for one key, sealed or opened at once, on all cores where there is machine code.

``layers`` is the specification: what comes out is the same, byte for byte, and in the same order. With lanes
(``lanes``) eight capsules are worked on at a time, and other threads run meanwhile, so that a pool of them uses
every core. Without lanes one capsule is done after the other: everything works, and takes longer.

Contents and capsules lie side by side in one ``bytes``: a relay's cover has hundreds of thousands of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from secvm.crypto.sealing.kem import X25519PrivateKey, X25519PublicKey
from secvm.crypto.sealing.lanes import OPENED, Lanes, LayerKey
from secvm.crypto.sealing.layers import EPHEMERAL_BYTES, Layer
from secvm.errors import LocalProtocolError, OpeningError

#: Capsules that one thread is given at once.
_RUN = 1 << 11

T = TypeVar("T")
#: Fates of capsules as lanes tell them → whether they opened.
_OPENED = bytes(fate == OPENED for fate in range(256))


class BulkSealer:
    """Seals and opens many capsules; knows this machine's lanes and cores."""

    def __init__(self, lanes: Lanes | None = None, *, threads: int = 1) -> None:
        if threads < 1:
            raise LocalProtocolError(f"{threads} threads: at least one is needed")
        self._lanes, self._threads = lanes, threads

    def seal(self, layer: Layer, public_key: X25519PublicKey, ephemerals: bytes, contents: bytes) -> bytes:
        """One capsule for each content, side by side; the i-th ephemeral secret belongs to the i-th content."""
        count, rest = divmod(len(contents), layer.content_bytes)
        if rest or len(ephemerals) != count * EPHEMERAL_BYTES:
            raise LocalProtocolError(
                f"{len(contents)} bytes in contents of {layer.content_bytes} and {len(ephemerals)} bytes of ephemeral"
                f" secrets of {EPHEMERAL_BYTES} do not belong together"
            )
        key = self._key(layer, public_key)
        if key is not None:
            size = layer.content_bytes
            runs = self._shared(
                count,
                lambda low, high: key.seal(
                    ephemerals[EPHEMERAL_BYTES * low : EPHEMERAL_BYTES * high], contents[size * low : size * high], size
                ),
            )
            return b"".join(runs)
        secrets, inside = _cut(ephemerals, EPHEMERAL_BYTES), _cut(contents, layer.content_bytes)
        return b"".join(
            layer.seal(public_key, secret, content) for secret, content in zip(secrets, inside, strict=True)
        )

    def open_all(self, layer: Layer, private_key: X25519PrivateKey, capsules: bytes) -> tuple[bytes, bytes]:
        """What is inside of each capsule, side by side, and one byte each: 1 where it opened, 0 where it did not.

        What did not open is zeros among the contents. Raises ``OpeningError`` where the bytes are no whole number of
        capsules.
        """
        size = layer.capsule_bytes
        count, rest = divmod(len(capsules), size)
        if rest:
            raise OpeningError(f"{len(capsules)} bytes are no whole number of capsules of {size}")
        key = self._key(layer, private_key.public_key, private_key)
        if key is None:
            found = [_open_one(layer, private_key, capsule) for capsule in _cut(capsules, size)]
        else:
            runs = self._shared(count, lambda low, high: key.open_all(capsules[size * low : size * high], size))
            found = [(inside, fates.translate(_OPENED)) for inside, fates in runs]
        return b"".join(inside for inside, _ in found), b"".join(opened for _, opened in found)

    def _key(
        self, layer: Layer, public_key: X25519PublicKey, private_key: X25519PrivateKey | None = None
    ) -> LayerKey | None:
        return None if self._lanes is None else self._lanes.layer_key(layer.schedule, public_key, private_key)

    def _shared(self, count: int, work: Callable[[int, int], T]) -> Iterator[T]:
        """Runs of capsules, on all threads, in their order."""
        runs = [(low, min(low + _RUN, count)) for low in range(0, count, _RUN)]
        if self._threads == 1 or len(runs) < 2:
            yield from (work(low, high) for low, high in runs)
            return
        with ThreadPoolExecutor(self._threads) as pool:
            yield from pool.map(lambda run: work(*run), runs)

    def __repr__(self) -> str:
        return f"BulkSealer(lanes={self._lanes is not None}, threads={self._threads})"


def _cut(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def _open_one(layer: Layer, private_key: X25519PrivateKey, capsule: bytes) -> tuple[bytes, bytes]:
    try:
        return layer.open(private_key, capsule), b"\1"
    except OpeningError:
        return bytes(layer.content_bytes), b"\0"
