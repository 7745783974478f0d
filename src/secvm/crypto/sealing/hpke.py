"""HPKE (RFC 9180) in base mode, with exporter: KDF HKDF-SHA256, AEAD AES-128-GCM (or ChaCha20-Poly1305).

The key schedule is our own, on pyca's X25519 and AEADs: Oblivious HTTP seals its answers with HPKE's exporter, which
pyca's own ``Suite`` does not have (docs/adr/0014-own-hpke-key-schedule.md). Base mode only: no pre-shared key, and no
sender that proves who it is; nobody shall know who sends.

    schedule = Schedule(public_key.kem_id, AES_128_GCM, b"what this is for")
    sender = schedule.send_to(public_key, dice)                # sender.enc travels beside the ciphertext
    ciphertext = sender.seal(b"", b"hello")
    schedule.receive(private_key, sender.enc).open(b"", ciphertext)
"""

from __future__ import annotations

from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from secvm.crypto.sealing import kdf
from secvm.crypto.sealing.kem import PrivateKey, PublicKey, RandomBytes
from secvm.errors import LocalProtocolError, OpeningError

#: Bytes that an AEAD of ours adds to what it seals.
TAG_BYTES = 16
#: pyca takes no more at once.
MAX_PLAINTEXT_BYTES = 2**31 - 1 - TAG_BYTES

_NONCE_BYTES = 12
_MODE_BASE = b"\0"


@dataclass(frozen=True, slots=True)
class Aead:
    """An authenticated cipher."""

    #: Its number in HPKE's registry.
    aead_id: int
    key_bytes: int
    cipher: type[AESGCM | ChaCha20Poly1305]
    nonce_bytes: int = _NONCE_BYTES

    def seal(self, key: bytes, nonce: bytes, aad: bytes, plaintext: bytes) -> bytes:
        if len(plaintext) > MAX_PLAINTEXT_BYTES:
            raise LocalProtocolError(f"at most {MAX_PLAINTEXT_BYTES} bytes can be sealed at once")
        return self.cipher(key).encrypt(nonce, plaintext, aad)

    def open(self, key: bytes, nonce: bytes, aad: bytes, ciphertext: bytes) -> bytes:
        if not TAG_BYTES <= len(ciphertext) <= MAX_PLAINTEXT_BYTES + TAG_BYTES:
            raise OpeningError
        try:
            return self.cipher(key).decrypt(nonce, ciphertext, aad)
        except InvalidTag:
            pass
        # Raised out here, so that no other error hangs on it whose frames hold the key.
        raise OpeningError


AES_128_GCM = Aead(0x0001, 16, AESGCM)
CHACHA20_POLY1305 = Aead(0x0003, 32, ChaCha20Poly1305)
AEADS = {aead.aead_id: aead for aead in (AES_128_GCM, CHACHA20_POLY1305)}


class Schedule:
    """RFC 9180's key schedule for one suite and one ``info``; what is the same for every capsule is done once."""

    def __init__(self, kem_id: int, aead: Aead, info: bytes) -> None:
        self.aead = aead
        numbers = (kem_id, kdf.HKDF_SHA256, aead.aead_id)
        self._kem_id = kem_id
        self.suite_id = b"HPKE" + b"".join(number.to_bytes(2, "big") for number in numbers)
        psk_id_hash = kdf.labeled_extract(self.suite_id, b"", b"psk_id_hash", b"")
        info_hash = kdf.labeled_extract(self.suite_id, b"", b"info_hash", info)
        context = _MODE_BASE + psk_id_hash + info_hash
        #: What the key schedule hands to HKDF, the same for every capsule. Public.
        self.secret_ikm = kdf.labeled_ikm(self.suite_id, b"secret", b"")
        self.key_info = kdf.labeled_info(self.suite_id, b"key", context, aead.key_bytes)
        self.nonce_info = kdf.labeled_info(self.suite_id, b"base_nonce", context, aead.nonce_bytes)
        self._key_text, self._nonce_text = self.key_info + b"\1", self.nonce_info + b"\1"
        self.exporter_info = kdf.labeled_info(self.suite_id, b"exp", context, kdf.HASH_BYTES)

    def send_to(self, public_key: PublicKey, dice: RandomBytes) -> Context:
        """``SetupBaseS``: begin to seal for whoever holds the private key."""
        self._check_kind(public_key.kem_id)
        return Context(self, *public_key.encapsulate(dice))

    def receive(self, private_key: PrivateKey, enc: bytes) -> Context:
        """``SetupBaseR``. Raises ``OpeningError`` for an ``enc`` that nobody honest sends."""
        self._check_kind(private_key.kem_id)
        return Context(self, private_key.decapsulate(enc), enc)

    def open_one(self, private_key: PrivateKey, enc: bytes, ciphertext: bytes) -> bytes:
        """The first message of a conversation that has no second, without ``aad``; as ``receive`` and ``open``."""
        self._check_kind(private_key.kem_id)
        secret = kdf.extract(private_key.decapsulate(enc), self.secret_ikm)
        key, nonce = kdf.expand_twice(secret, self._key_text, self._nonce_text)
        aead = self.aead
        return aead.open(key[: aead.key_bytes], nonce[: aead.nonce_bytes], b"", ciphertext)

    def _check_kind(self, kem_id: int) -> None:
        if kem_id != self._kem_id:
            raise LocalProtocolError("the key is not of the kind that this key schedule is for")


class Context:
    """One side of a conversation in one direction: the sender's seals, the recipient's opens.

    Messages are numbered: they open in the order they were sealed.
    """

    def __init__(self, schedule: Schedule, shared_secret: bytes, enc: bytes) -> None:
        self._schedule = schedule
        self.aead = schedule.aead
        #: What the recipient needs beside the ciphertext; not secret.
        self.enc = enc
        self._secret = kdf.extract(shared_secret, schedule.secret_ikm)
        self._key = kdf.expand(self._secret, schedule.key_info, self.aead.key_bytes)
        self._base_nonce = int.from_bytes(kdf.expand(self._secret, schedule.nonce_info, self.aead.nonce_bytes), "big")
        self._sequence = 0

    def seal(self, aad: bytes, plaintext: bytes) -> bytes:
        """Seal the next message; ``aad`` is bound to it but does not travel in it."""
        sealed = self.aead.seal(self._key, self._nonce(), aad, plaintext)
        self._sequence += 1
        return sealed

    def open(self, aad: bytes, ciphertext: bytes) -> bytes:
        """Open the next message. Raises ``OpeningError`` and nothing else; the next message is then still this one."""
        opened = self.aead.open(self._key, self._nonce(), aad, ciphertext)
        self._sequence += 1
        return opened

    def export(self, context: bytes, length: int) -> bytes:
        """A further secret that both sides have, good for the purpose that ``context`` names."""
        exporter_secret = kdf.expand(self._secret, self._schedule.exporter_info, kdf.HASH_BYTES)
        return kdf.labeled_expand(self._schedule.suite_id, exporter_secret, b"sec", context, length)

    def _nonce(self) -> bytes:
        if self._sequence >= 2 ** (8 * _NONCE_BYTES) - 1:
            raise LocalProtocolError("too many messages under one key")
        return (self._base_nonce ^ self._sequence).to_bytes(_NONCE_BYTES, "big")

    def __repr__(self) -> str:
        return "Context(...)"
