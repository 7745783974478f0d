"""Key encapsulation: a fresh secret for the holder of a private key, in ``enc`` bytes that anybody may see.

Two kinds, by their numbers in HPKE's registry:

- 0x0020 DHKEM(X25519, HKDF-SHA256), RFC 9180 §4.1: what every browser has;
- 0x647a MLKEM768-X25519, also called X-Wing (draft-connolly-cfrg-xwing-kem, draft-ietf-hpke-pq): X25519 and ML-KEM-768
  side by side, secret as long as one of the two is: for capsules that somebody keeps until there are quantum
  computers.

A Diffie-Hellman result of zero is refused wherever it could appear: somebody chose a point of low order, so that the
"secret" is known to all.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import ClassVar, Self, final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import mlkem, x25519

from secvm.crypto.sealing.kdf import (
    HASH_BYTES,
    expand,
    extract,
    labeled_expand,
    labeled_extract,
    labeled_ikm,
    labeled_info,
)
from secvm.errors import LocalProtocolError, MalformedMessageError, OpeningError

#: Where random bytes come from: ``dice(32)`` are 32 fresh ones. A main program hands in the operating system's; any
#: that can be thrown again are for tests.
RandomBytes = Callable[[int], bytes]

X25519 = 0x0020
MLKEM768_X25519 = 0x647A

_X25519_BYTES = 32
#: What an exchange with a point of low order gives.
_ZERO = bytes(_X25519_BYTES)
_MLKEM_PUBLIC_BYTES = 1184
_MLKEM_ENC_BYTES = 1088
_MLKEM_SEED_BYTES = 64
#: How long a public key of each kind is: known also to a machine that lacks the kind.
PUBLIC_KEY_BYTES = {X25519: _X25519_BYTES, MLKEM768_X25519: _MLKEM_PUBLIC_BYTES + _X25519_BYTES}
DHKEM_SUITE_ID = b"KEM" + X25519.to_bytes(2, "big")
#: What is the same in ``ExtractAndExpand`` (RFC 9180 §4.1) of every capsule, written once.
EXTRACT_TEXT = labeled_ikm(DHKEM_SUITE_ID, b"eae_prk", b"")
EXPAND_TEXT = labeled_info(DHKEM_SUITE_ID, b"shared_secret", b"", HASH_BYTES)
#: Drawn as a picture in the draft: the wings of an X-Wing.
_XWING_LABEL = b"\\.//^\\"


class _PublicKey:
    """Of whoever shall be able to open."""

    kem_id: ClassVar[int]
    _bytes: bytes

    def to_bytes(self) -> bytes:
        return self._bytes

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.to_bytes() == self._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)


class _PrivateKey:
    """Opens. Does not show itself when printed."""

    def __init__(self, secret: bytes) -> None:
        self._secret = bytes(secret)

    @classmethod
    def generate(cls, dice: RandomBytes) -> Self:
        return cls(throw(dice, _X25519_BYTES))

    def secret_bytes(self) -> bytes:
        """The key itself, for whoever stores it."""
        return self._secret

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


# ── X25519 ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _diffie_hellman(private: x25519.X25519PrivateKey, peer: bytes) -> bytes | None:
    """The shared secret; None where it is zero, or where the peer's key has not 32 bytes."""
    try:
        secret = private.exchange(x25519.X25519PublicKey.from_public_bytes(peer))
    except ValueError:
        return None
    # pyca's OpenSSL has refused zero already. RFC 9180 §7.1.4 makes it our duty, so it does not rest on that.
    return None if secret == _ZERO else secret


def low_order() -> OpeningError:
    """Why such a capsule does not open."""
    return OpeningError("the capsule's ephemeral key is none, or a point of low order")


@functools.lru_cache(maxsize=1024)
def _x25519_public(data: bytes) -> bytes:
    """A public key that is not of low order: with those, and only with those, any private key gives zero.

    Kept: seeing that takes as long as a seal, and whoever seals is shown the same keys again and again.
    """
    if _diffie_hellman(x25519.X25519PrivateKey.from_private_bytes(b"\1" * _X25519_BYTES), data) is None:
        raise MalformedMessageError("the public key is a point of low order")
    return data


def throw(dice: RandomBytes, count: int) -> bytes:
    """So many random bytes, or the ``LocalProtocolError`` that the dice are none."""
    thrown = dice(count)
    if len(thrown) != count:
        raise LocalProtocolError(f"the dice gave {len(thrown)} bytes where {count} were asked for")
    return thrown


def _dhkem_secret(shared: bytes, enc: bytes, public: bytes) -> bytes:
    """``ExtractAndExpand`` of RFC 9180 §4.1."""
    return expand(extract(b"", EXTRACT_TEXT + shared), EXPAND_TEXT + enc + public, HASH_BYTES)


@final
class X25519PublicKey(_PublicKey):
    """Public key of DHKEM(X25519, HKDF-SHA256)."""

    kem_id = X25519

    def __init__(self, data: bytes) -> None:
        if len(data) != _X25519_BYTES:
            raise MalformedMessageError(f"an X25519 key has {_X25519_BYTES} bytes")
        self._bytes = _x25519_public(bytes(data))

    def encapsulate(self, dice: RandomBytes) -> tuple[bytes, bytes]:
        """A fresh secret of 32 bytes, and ``enc``, from which the private key makes it again."""
        ephemeral = x25519.X25519PrivateKey.from_private_bytes(throw(dice, _X25519_BYTES))
        enc = ephemeral.public_key().public_bytes_raw()
        shared = _diffie_hellman(ephemeral, self._bytes)
        assert shared is not None, "points of low order were refused when the key was made"
        return _dhkem_secret(shared, enc, self._bytes), enc


@final
class X25519PrivateKey(_PrivateKey):
    """Private key of DHKEM(X25519, HKDF-SHA256)."""

    kem_id = X25519

    def __init__(self, data: bytes) -> None:
        if len(data) != _X25519_BYTES:
            raise LocalProtocolError(f"an X25519 key has {_X25519_BYTES} bytes")
        super().__init__(data)
        self._key = x25519.X25519PrivateKey.from_private_bytes(data)
        self.public_key = X25519PublicKey(self._key.public_key().public_bytes_raw())

    @classmethod
    def derive(cls, ikm: bytes) -> X25519PrivateKey:
        """``DeriveKeyPair`` of RFC 9180 §7.1.3: the key that belongs to these secret bytes, 32 or more."""
        if len(ikm) < _X25519_BYTES:
            raise LocalProtocolError(f"a key is derived from {_X25519_BYTES} secret bytes or more")
        prk = labeled_extract(DHKEM_SUITE_ID, b"", b"dkp_prk", ikm)
        return cls(labeled_expand(DHKEM_SUITE_ID, prk, b"sk", b"", _X25519_BYTES))

    def decapsulate(self, enc: bytes) -> bytes:
        """The secret again. Raises ``OpeningError`` for an ``enc`` that nobody honest sends."""
        shared = _diffie_hellman(self._key, enc)
        if shared is None:
            raise low_order()
        return _dhkem_secret(shared, enc, self.public_key.to_bytes())


# ── ML-KEM-768 beside X25519 ─────────────────────────────────────────────────────────────────────────────────────────


@functools.cache
def hybrid_is_here() -> bool:
    """Whether the cryptography package of this machine has ML-KEM; wheels have it, an older OpenSSL may not."""
    try:
        mlkem.MLKEM768PrivateKey.from_seed_bytes(bytes(_MLKEM_SEED_BYTES))
    except UnsupportedAlgorithm:
        return False
    return True


def _xwing_secret(post_quantum: bytes, shared: bytes, enc: bytes, public: bytes) -> bytes:
    return hashlib.sha3_256(post_quantum + shared + enc + public + _XWING_LABEL).digest()


@final
class HybridPublicKey(_PublicKey):
    """Public key of MLKEM768-X25519: 1,184 bytes of ML-KEM, 32 of X25519."""

    kem_id = MLKEM768_X25519

    def __init__(self, data: bytes) -> None:
        if len(data) != _MLKEM_PUBLIC_BYTES + _X25519_BYTES:
            raise MalformedMessageError(f"a hybrid key has {_MLKEM_PUBLIC_BYTES + _X25519_BYTES} bytes")
        self._bytes = bytes(data)
        self._classical = _x25519_public(self._bytes[_MLKEM_PUBLIC_BYTES:])
        try:
            self._post_quantum = mlkem.MLKEM768PublicKey.from_public_bytes(self._bytes[:_MLKEM_PUBLIC_BYTES])
        except ValueError:
            raise MalformedMessageError("the public key is no ML-KEM key") from None

    def encapsulate(self, dice: RandomBytes) -> tuple[bytes, bytes]:
        """As the protocol says, but ML-KEM's half of the randomness is the operating system's: pyca takes none.

        So the same dice do not give the same capsule, and a simulation that must repeat itself uses X25519.
        """
        ephemeral = x25519.X25519PrivateKey.from_private_bytes(throw(dice, _X25519_BYTES))
        post_quantum, post_quantum_enc = self._post_quantum.encapsulate()
        enc = ephemeral.public_key().public_bytes_raw()
        shared = _diffie_hellman(ephemeral, self._classical)
        assert shared is not None, "points of low order were refused when the key was made"
        return _xwing_secret(post_quantum, shared, enc, self._classical), post_quantum_enc + enc


@final
class HybridPrivateKey(_PrivateKey):
    """Private key of MLKEM768-X25519: a seed of 32 bytes."""

    kem_id = MLKEM768_X25519

    def __init__(self, seed: bytes) -> None:
        if len(seed) != _X25519_BYTES:
            raise LocalProtocolError(f"a hybrid key is a seed of {_X25519_BYTES} bytes")
        if not hybrid_is_here():
            raise LocalProtocolError("the cryptography package of this machine has no ML-KEM")
        super().__init__(seed)
        expanded = hashlib.shake_256(self._secret).digest(_MLKEM_SEED_BYTES + _X25519_BYTES)
        self._post_quantum = mlkem.MLKEM768PrivateKey.from_seed_bytes(expanded[:_MLKEM_SEED_BYTES])
        self._classical = x25519.X25519PrivateKey.from_private_bytes(expanded[_MLKEM_SEED_BYTES:])
        self._classical_public = self._classical.public_key().public_bytes_raw()
        self.public_key = HybridPublicKey(self._post_quantum.public_key().public_bytes_raw() + self._classical_public)

    def decapsulate(self, enc: bytes) -> bytes:
        """As ``X25519PrivateKey`` does."""
        shared = _diffie_hellman(self._classical, enc[_MLKEM_ENC_BYTES:])
        if shared is None:
            raise low_order()
        # A wrong ML-KEM part gives a wrong secret, not an error: FIPS 203 rejects implicitly.
        post_quantum = self._post_quantum.decapsulate(enc[:_MLKEM_ENC_BYTES])
        return _xwing_secret(post_quantum, shared, enc[_MLKEM_ENC_BYTES:], self._classical_public)


PublicKey = X25519PublicKey | HybridPublicKey
PrivateKey = X25519PrivateKey | HybridPrivateKey


# ── by number ────────────────────────────────────────────────────────────────────────────────────────────────────────


def public_key_bytes(kem_id: int) -> int | None:
    """How long a public key of this kind is; None for a kind that is not here."""
    return None if kem_id == MLKEM768_X25519 and not hybrid_is_here() else PUBLIC_KEY_BYTES.get(kem_id)


def enc_bytes(kem_id: int) -> int:
    """How long ``enc`` is."""
    return _X25519_BYTES if kem_id == X25519 else _MLKEM_ENC_BYTES + _X25519_BYTES


def read_public_key(kem_id: int, data: bytes) -> PublicKey:
    """A public key of a kind that is here. Raises ``MalformedMessageError``."""
    return X25519PublicKey(data) if kem_id == X25519 else HybridPublicKey(data)
