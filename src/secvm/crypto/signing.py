r"""Signed envelopes: Ed25519 (RFC 8032) over a payload *and* what the signature is for.

A signature is never over the payload alone. What is signed is the pre-authentication encoding

    "secvm-v1-signed\n" ‖ length of purpose ‖ purpose ‖ length of payload ‖ payload        lengths: 8 bytes LE

so that a signature given for one purpose is worth nothing for another. An envelope is

    "secvm-envelope-v1\n" ‖ number of signatures, 1 byte ‖ (key id, 16 bytes ‖ signature, 64 bytes) … ‖
    length of payload, 4 bytes LE ‖ payload

with key ids ascending, none twice, and nothing after the payload. A key's id is the first half of SHA-256 of
"secvm-v1-key\n" and the key. ``verify`` returns the payload, or raises; it takes bytes, so that nobody can read an
envelope's payload before its signatures were looked at, except through ``Envelope.from_bytes``, which says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from secvm.errors import BadSignatureError, LocalProtocolError, MalformedMessageError

SEED_BYTES = 32
PUBLIC_KEY_BYTES = 32
SIGNATURE_BYTES = 64
KEY_ID_BYTES = 16
#: Coordinator keys, a relay or two; more would only be there to keep a verifier busy.
MAX_SIGNATURES = 16
#: A manifest has a few kilobytes; weights and tallies are named by digest and need no signature of their own.
MAX_PAYLOAD_BYTES = 2**20

_MAGIC = b"secvm-envelope-v1\n"
_SIGNED_TAG = b"secvm-v1-signed\n"
_KEY_TAG = b"secvm-v1-key\n"
_SLOT = KEY_ID_BYTES + SIGNATURE_BYTES
_P = 2**255 - 19
_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
#: The y of the eight points whose order divides 8: of order 1, 2, 4 and, the last two, 8. Those of 4 and 8 have two x.
_SMALL_ORDER = frozenset({1, _P - 1, 0, _ORDER_8, _P - _ORDER_8})


@dataclass(frozen=True, slots=True)
class VerifyKey:
    """A public key under which a signature binds somebody.

    Under a key of small order anybody can write signatures that are right, without a private key. A key with y ≥ p is a
    second spelling of another one, with an id of its own.

    Raises
    ------
    MalformedMessageError
        A key of either kind.
    """

    data: bytes

    def __post_init__(self) -> None:
        if len(self.data) != PUBLIC_KEY_BYTES:
            raise LocalProtocolError(f"a public key has {PUBLIC_KEY_BYTES} bytes")
        # The last bit is the sign of x.
        y = int.from_bytes(self.data, "little") & (2**255 - 1)
        if y >= _P or y in _SMALL_ORDER:
            raise MalformedMessageError(
                "a public key under which anybody can sign, or a second spelling of one, is refused",
                next_step="Ask its owner for the key that their own program shows.",
            )

    @property
    def key_id(self) -> bytes:
        """Which key this is, in an envelope."""
        return hashlib.sha256(_KEY_TAG + self.data).digest()[:KEY_ID_BYTES]

    def check(self, signature: bytes, message: bytes) -> None:
        """That the owner of this key signed the message, or raise ``BadSignatureError``."""
        try:
            Ed25519PublicKey.from_public_bytes(self.data).verify(signature, message)
        except (InvalidSignature, ValueError):
            raise BadSignatureError("a signature does not fit what it is said to sign") from None


@dataclass(frozen=True, slots=True, repr=False)
class SigningKey:
    """A private key. It does not print itself."""

    #: 32 bytes from good dice: the key is made of nothing else.
    seed: bytes
    public: VerifyKey = field(init=False)

    def __post_init__(self) -> None:
        if len(self.seed) != SEED_BYTES:
            raise LocalProtocolError(f"a signing key grows from {SEED_BYTES} bytes")
        public = Ed25519PrivateKey.from_private_bytes(self.seed).public_key().public_bytes_raw()
        object.__setattr__(self, "public", VerifyKey(public))

    def sign(self, message: bytes) -> bytes:
        """The signature of exactly these bytes; whoever calls sees to it that they say what they are for."""
        return Ed25519PrivateKey.from_private_bytes(self.seed).sign(message)

    def __repr__(self) -> str:
        return "SigningKey(...)"


@dataclass(frozen=True, slots=True)
class Envelope:
    """A payload with its signatures. **Nothing in it is checked**: ``verify`` does that."""

    payload: bytes
    #: Key id to signature.
    signatures: tuple[tuple[bytes, bytes], ...]

    def to_bytes(self) -> bytes:
        """The one encoding."""
        fits = all(len(i) == KEY_ID_BYTES and len(s) == SIGNATURE_BYTES for i, s in self.signatures)
        ids = [key_id for key_id, _ in self.signatures]
        if not fits or ids != sorted(set(ids)) or not 1 <= len(ids) <= MAX_SIGNATURES:
            raise LocalProtocolError("an envelope needs signatures, ordered by key, one of each")
        if len(self.payload) > MAX_PAYLOAD_BYTES:
            raise LocalProtocolError("the payload is too long for an envelope")
        slots = b"".join(key_id + signature for key_id, signature in self.signatures)
        return _MAGIC + bytes([len(ids)]) + slots + len(self.payload).to_bytes(4, "little") + self.payload

    @classmethod
    def from_bytes(cls, data: bytes) -> Envelope:
        """Take an envelope apart without checking its signatures; anything but a whole encoding is refused."""
        start = len(_MAGIC) + 1
        if not data.startswith(_MAGIC) or len(data) < start:
            raise MalformedMessageError("these bytes are not an envelope")
        count = data[len(_MAGIC)]
        body = start + count * _SLOT + 4
        if not 1 <= count <= MAX_SIGNATURES or len(data) < body:
            raise MalformedMessageError("an envelope without its signatures")
        slots = [data[at : at + _SLOT] for at in range(start, body - 4, _SLOT)]
        signatures = tuple((slot[:KEY_ID_BYTES], slot[KEY_ID_BYTES:]) for slot in slots)
        ids = [key_id for key_id, _ in signatures]
        if ids != sorted(set(ids)):
            raise MalformedMessageError("an envelope's signatures are out of order, or one comes twice")
        length = int.from_bytes(data[body - 4 : body], "little")
        if length > MAX_PAYLOAD_BYTES or len(data) != body + length:
            raise MalformedMessageError("an envelope's payload does not have the length it says")
        return cls(payload=data[body:], signatures=signatures)


def signed_bytes(purpose: str, payload: bytes) -> bytes:
    """What a signature is over."""
    named = purpose.encode()
    lengths = (len(named).to_bytes(8, "little"), len(payload).to_bytes(8, "little"))
    return _SIGNED_TAG + lengths[0] + named + lengths[1] + payload


def sign(payload: bytes, *, purpose: str, keys: Iterable[SigningKey]) -> bytes:
    """An envelope around the payload, signed by all these keys."""
    message = signed_bytes(purpose, payload)
    signatures = {key.public.key_id: key.sign(message) for key in dict.fromkeys(keys)}
    return Envelope(payload=payload, signatures=tuple(sorted(signatures.items()))).to_bytes()


def verify(data: bytes, *, purpose: str, keys: Iterable[VerifyKey], threshold: int = 1) -> bytes:
    """The payload, if at least ``threshold`` of these keys signed it for this purpose.

    Signatures of other keys are passed over: an envelope may carry some for other readers. A wrong signature in the
    name of a trusted key is never passed over.

    Raises
    ------
    MalformedMessageError
        The bytes are no envelope.
    BadSignatureError
        Too few of the keys signed it, or a signature is wrong.
    """
    trusted = {key.key_id: key for key in keys}
    if not 1 <= threshold <= len(trusted):
        raise LocalProtocolError("a threshold lies between one and the number of trusted keys")
    envelope = Envelope.from_bytes(data)
    message = signed_bytes(purpose, envelope.payload)
    good = 0
    for key_id, signature in envelope.signatures:
        if key_id in trusted:
            trusted[key_id].check(signature, message)
            good += 1
    if good < threshold:
        raise BadSignatureError
    return envelope.payload
