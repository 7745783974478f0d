"""The two seals of a package: the inner one for the coordinator, the outer one for the mixing relay.

    inner = Seal(pk_C, package)    80 bytes        outer = Seal(pk_X, inner)    128 bytes

Both are HPKE in base mode (``hpke.Schedule``) whose ``info`` is the layer's name and the label of the round
(docs/protocol.md §25), so that a capsule of one round or layer opens in no other. A capsule is ``enc`` and ciphertext,
without a header: label and length say all that a header would.

The ephemeral secret is an argument. A device throws it; a relay reads it from the stream of a part of its cover, so
that whoever is shown the part's seed seals the same capsules again, byte for byte. A secret used for two different
contents gives both away.

``BulkSealer`` does the same with many capsules of one layer for one key, byte for byte, in the same order. With lanes
(``lanes``) eight capsules are worked on at a time, and other threads run meanwhile, so that a pool of them uses every
core; without, one is done after the other. There contents and capsules lie side by side in one ``bytes``: a relay's
cover has hundreds of thousands of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

from secvm.crypto.sealing.hpke import AES_128_GCM, TAG_BYTES, Schedule
from secvm.crypto.sealing.kem import X25519, X25519PrivateKey, X25519PublicKey
from secvm.crypto.sealing.lanes import OPENED, LaneKey, Lanes
from secvm.errors import LocalProtocolError, OpeningError

LABEL_BYTES = 32
EPHEMERAL_BYTES = 32
#: What a seal adds: the ephemeral public key and the cipher's tag.
SEAL_BYTES: Final = 32 + TAG_BYTES
PACKAGE_BYTES = 32
INNER_BYTES: Final = PACKAGE_BYTES + SEAL_BYTES
OUTER_BYTES: Final = INNER_BYTES + SEAL_BYTES


@dataclass(frozen=True, slots=True)
class Layer:
    """One of the two seals, for the round of one label. Public."""

    schedule: Schedule
    #: Bytes that it seals: all of them, always.
    content_bytes: int

    @property
    def capsule_bytes(self) -> int:
        return self.content_bytes + SEAL_BYTES

    def seal(self, public_key: X25519PublicKey, ephemeral: bytes, content: bytes) -> bytes:
        """The capsule of this content and this ephemeral secret, for whoever holds the private key."""
        if len(ephemeral) != EPHEMERAL_BYTES:
            raise LocalProtocolError(f"an ephemeral secret of {len(ephemeral)} bytes: it has {EPHEMERAL_BYTES}")
        if len(content) != self.content_bytes:
            raise LocalProtocolError(f"{len(content)} bytes to be sealed: this layer takes {self.content_bytes}")
        sender = self.schedule.send_to(public_key, lambda _: ephemeral)
        return sender.enc + sender.seal(b"", content)

    def open(self, private_key: X25519PrivateKey, capsule: bytes) -> bytes:
        """What is inside. Raises ``OpeningError`` and nothing else, whatever the bytes are."""
        if len(capsule) != self.capsule_bytes:
            raise OpeningError(f"a capsule of {len(capsule)} bytes: here it has {self.capsule_bytes}")
        return self.schedule.open_one(private_key, capsule[:EPHEMERAL_BYTES], capsule[EPHEMERAL_BYTES:])


@lru_cache(maxsize=64)
def inner_layer(label: bytes) -> Layer:
    """Package → inner capsule."""
    return _layer(b"secvm-v2-inner\n", label, PACKAGE_BYTES)


@lru_cache(maxsize=64)
def outer_layer(label: bytes) -> Layer:
    """Inner capsule → outer capsule."""
    return _layer(b"secvm-v2-outer\n", label, INNER_BYTES)


def _layer(name: bytes, label: bytes, content_bytes: int) -> Layer:
    if len(label) != LABEL_BYTES:
        raise LocalProtocolError(f"a label of {len(label)} bytes: it is a SHA-256 digest of {LABEL_BYTES}")
    return Layer(Schedule(X25519, AES_128_GCM, name + label), content_bytes)


def seal_inner(public_key: X25519PublicKey, label: bytes, ephemeral: bytes, package: bytes) -> bytes:
    """80 bytes for the coordinator; ``public_key`` is pk_C of the round."""
    return inner_layer(label).seal(public_key, ephemeral, package)


def open_inner(private_key: X25519PrivateKey, label: bytes, capsule: bytes) -> bytes:
    """The 32 bytes of a package, whatever they say. Raises ``OpeningError`` and nothing else."""
    return inner_layer(label).open(private_key, capsule)


def seal_outer(public_key: X25519PublicKey, label: bytes, ephemeral: bytes, inner: bytes) -> bytes:
    """128 bytes for the mixing relay; ``public_key`` is pk_X of the round."""
    return outer_layer(label).seal(public_key, ephemeral, inner)


def open_outer(private_key: X25519PrivateKey, label: bytes, capsule: bytes) -> bytes:
    """The 80 bytes of an inner capsule, whatever they say. Raises ``OpeningError`` and nothing else."""
    return outer_layer(label).open(private_key, capsule)


def seal_both(
    count_key: X25519PublicKey, mix_key: X25519PublicKey, label: bytes, ephemerals: bytes, package: bytes
) -> tuple[bytes, bytes]:
    """Inner and outer capsule of a package; ``ephemerals``: the inner seal's 32 bytes, then the outer one's."""
    if len(ephemerals) != 2 * EPHEMERAL_BYTES:
        raise LocalProtocolError(f"ephemeral secrets of {len(ephemerals)} bytes: two of {EPHEMERAL_BYTES} are needed")
    inner = seal_inner(count_key, label, ephemerals[:EPHEMERAL_BYTES], package)
    return inner, seal_outer(mix_key, label, ephemerals[EPHEMERAL_BYTES:], inner)


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
            opened = [_open_one(layer, private_key, capsule) for capsule in _cut(capsules, size)]
        else:
            runs = self._shared(count, lambda low, high: key.open_all(capsules[size * low : size * high], size))
            opened = [(inside, fates.translate(_OPENED)) for inside, fates in runs]
        return b"".join(inside for inside, _ in opened), b"".join(state for _, state in opened)

    def _key(
        self, layer: Layer, public_key: X25519PublicKey, private_key: X25519PrivateKey | None = None
    ) -> LaneKey | None:
        return None if self._lanes is None else self._lanes.key(layer.schedule, public_key, private_key)

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
