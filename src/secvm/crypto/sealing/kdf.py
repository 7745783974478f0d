"""HKDF-SHA256 (RFC 5869), and HPKE's labelled form of it (RFC 9180 §4)."""

from __future__ import annotations

import hashlib

from secvm.errors import LocalProtocolError

#: The KDF's number in HPKE's registry.
HKDF_SHA256 = 0x0001
#: Bytes of a SHA-256 digest.
HASH_BYTES = 32

_VERSION = b"HPKE-v1"
#: HMAC (RFC 2104): a block of SHA-256, and its two paddings as tables for ``bytes.translate``.
_BLOCK_BYTES = 64
_INNER, _OUTER = (bytes(i ^ pad for i in range(256)) for pad in (0x36, 0x5C))


def _hmac(key: bytes, message: bytes) -> bytes:
    """HMAC-SHA256. ``hmac.digest`` looks its algorithm up again at every call, which takes longer than all the hashing;
    a gateway needs five of these for each capsule.
    """
    if len(key) > _BLOCK_BYTES:
        key = hashlib.sha256(key).digest()
    block = key.ljust(_BLOCK_BYTES, b"\0")
    inner = hashlib.sha256(block.translate(_INNER) + message).digest()
    return hashlib.sha256(block.translate(_OUTER) + inner).digest()


#: HMAC under the empty key, the first block of each hash done: a copy of a hash is cheaper than a new one.
_UNSALTED_INNER, _UNSALTED_OUTER = (hashlib.sha256(bytes(_BLOCK_BYTES).translate(pad)) for pad in (_INNER, _OUTER))


def extract(salt: bytes, ikm: bytes) -> bytes:
    """Concentrate what is secret in ``ikm`` into a key of 32 bytes. An empty salt is as good as 32 zero bytes."""
    if salt:
        return _hmac(salt, ikm)
    inner, outer = _UNSALTED_INNER.copy(), _UNSALTED_OUTER.copy()
    inner.update(ikm)
    outer.update(inner.digest())
    return outer.digest()


def expand_twice(prk: bytes, first: bytes, second: bytes) -> tuple[bytes, bytes]:
    """``expand`` of a key of 32 bytes for two purposes, 32 bytes each; both texts end with HKDF's counter, 1."""
    block = prk.ljust(_BLOCK_BYTES, b"\0")
    inner, outer, sha256 = block.translate(_INNER), block.translate(_OUTER), hashlib.sha256
    return (
        sha256(outer + sha256(inner + first).digest()).digest(),
        sha256(outer + sha256(inner + second).digest()).digest(),
    )


def expand(prk: bytes, info: bytes, length: int) -> bytes:
    """Stretch a key to ``length`` bytes that are good for one purpose."""
    if not 0 <= length <= 255 * HASH_BYTES:
        raise LocalProtocolError(f"HKDF-SHA256 gives at most {255 * HASH_BYTES} bytes")
    if length <= HASH_BYTES:
        # One block: what almost every call asks for.
        return _hmac(prk, info + b"\1")[:length]
    block, blocks = b"", b""
    for counter in range(1, -(-length // HASH_BYTES) + 1):
        block = _hmac(prk, block + info + bytes((counter,)))
        blocks += block
    return blocks[:length]


def labeled_ikm(suite_id: bytes, label: bytes, ikm: bytes) -> bytes:
    """What ``LabeledExtract`` of RFC 9180 §4 hands to ``extract``."""
    return _VERSION + suite_id + label + ikm


def labeled_extract(suite_id: bytes, salt: bytes, label: bytes, ikm: bytes) -> bytes:
    """``LabeledExtract`` of RFC 9180 §4."""
    return extract(salt, labeled_ikm(suite_id, label, ikm))


def labeled_info(suite_id: bytes, label: bytes, info: bytes, length: int) -> bytes:
    """What ``LabeledExpand`` of RFC 9180 §4 hands to ``expand``."""
    return length.to_bytes(2, "big") + _VERSION + suite_id + label + info


def labeled_expand(suite_id: bytes, prk: bytes, label: bytes, info: bytes, length: int) -> bytes:
    """``LabeledExpand`` of RFC 9180 §4."""
    if not 0 <= length <= 255 * HASH_BYTES:
        raise LocalProtocolError(f"HKDF-SHA256 gives at most {255 * HASH_BYTES} bytes")
    return expand(prk, labeled_info(suite_id, label, info, length), length)
