r"""A secret under a passphrase, as it lies on a disk: scrypt (RFC 7914) makes the key, AES-256-GCM locks.

    "secvm-locked-v1\n" ‖ log2 N, 1 byte ‖ r, 1 byte ‖ p, 1 byte ‖ salt, 16 bytes ‖ nonce, 12 bytes ‖ locked secret

The key is the 32 bytes that scrypt makes of the passphrase and the salt. What is locked is bound to all that stands
before it, so a file whose numbers were changed does not open. Salt and nonce are new each time a file is written.

The numbers of a file are **bounded before anything is computed**: whoever can put a file before us must not have us
take gigabytes or hours for it.

``KeptKey`` locks larger things that change often under a key that is itself a locked secret: what a device keeps about
its person. There the text before the nonce is "secvm-kept-v1\n", and the place is bound too, so that what was locked
for one does not open at another.
"""

from __future__ import annotations

from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from secvm.crypto.sealing.kem import RandomBytes, throw
from secvm.errors import BadInputError, WrongPassphraseError

MAGIC = b"secvm-locked-v1\n"
KEPT_MAGIC = b"secvm-kept-v1\n"
KEY_BYTES = 32
SALT_BYTES = 16
NONCE_BYTES = 12
TAG_BYTES = 16
_HEAD_BYTES = len(MAGIC) + 3 + SALT_BYTES + NONCE_BYTES

#: What is asked of a file at most. 128 N r bytes of memory, and p times that much work.
MOST_MEMORY_BYTES = 2**28
MOST_WORK_BYTES = 2**29
_LEAST_LOG2_N, _MOST_LOG2_N = 10, 20
_MOST_R, _MOST_P = 16, 16
#: A passphrase is typed, or 32 random bytes as text; not a file that was mistaken for one.
MOST_PASSPHRASE_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Cost:
    """How dear a guess is: scrypt's numbers. By default 128 MiB and a third of a second."""

    log2_n: int = 17
    r: int = 8
    p: int = 1

    def __post_init__(self) -> None:
        memory = 128 * self.r << min(max(self.log2_n, 0), 64)
        if not (
            _LEAST_LOG2_N <= self.log2_n <= _MOST_LOG2_N
            and 1 <= self.r <= _MOST_R
            and 1 <= self.p <= _MOST_P
            and memory <= MOST_MEMORY_BYTES
            and memory * self.p <= MOST_WORK_BYTES
        ):
            raise BadInputError("it asks for more work than a passphrase takes, or for none worth the name")


DEFAULT_COST = Cost()


def is_locked(data: bytes) -> bool:
    """Whether these bytes say of themselves that they are under a passphrase."""
    return data.startswith(MAGIC)


def lock(secret: bytes, passphrase: bytes, dice: RandomBytes, cost: Cost = DEFAULT_COST) -> bytes:
    """The secret under a passphrase."""
    _check_passphrase(passphrase)
    salt, nonce = throw(dice, SALT_BYTES), throw(dice, NONCE_BYTES)
    head = MAGIC + bytes([cost.log2_n, cost.r, cost.p]) + salt + nonce
    return head + AESGCM(_key(passphrase, salt, cost)).encrypt(nonce, secret, head)


def unlock(data: bytes, passphrase: bytes) -> bytes:
    """What is under the passphrase.

    Raises
    ------
    WrongPassphraseError
        When it is another passphrase, or one bit of the file is another. Nobody can tell which.
    BadInputError
        When these are no bytes that ``lock`` writes, or ask for more work than is done for anybody.
    """
    if not is_locked(data) or len(data) < _HEAD_BYTES + TAG_BYTES:
        raise BadInputError("these bytes are no locked secret, or not all of it")
    _check_passphrase(passphrase)
    head, locked = data[:_HEAD_BYTES], data[_HEAD_BYTES:]
    cost = Cost(*head[len(MAGIC) : len(MAGIC) + 3])
    salt, nonce = head[-SALT_BYTES - NONCE_BYTES : -NONCE_BYTES], head[-NONCE_BYTES:]
    try:
        return AESGCM(_key(passphrase, salt, cost)).decrypt(nonce, locked, head)
    except InvalidTag:
        raise WrongPassphraseError from None


def _key(passphrase: bytes, salt: bytes, cost: Cost) -> bytes:
    return Scrypt(salt=salt, length=KEY_BYTES, n=1 << cost.log2_n, r=cost.r, p=cost.p).derive(passphrase)


def _check_passphrase(passphrase: bytes) -> None:
    if not 0 < len(passphrase) <= MOST_PASSPHRASE_BYTES:
        raise BadInputError(f"a passphrase has 1 to {MOST_PASSPHRASE_BYTES} bytes")


@dataclass(frozen=True, slots=True, repr=False)
class KeptKey:
    """A key under which a device keeps what is about its person. It does not print itself."""

    key: bytes

    def __post_init__(self) -> None:
        if len(self.key) != KEY_BYTES:
            raise BadInputError(f"a key of kept things has {KEY_BYTES} bytes")

    def __repr__(self) -> str:
        return "KeptKey(...)"

    def lock(self, content: bytes, place: bytes, dice: RandomBytes) -> bytes:
        """The content, for this place alone."""
        head = KEPT_MAGIC + throw(dice, NONCE_BYTES)
        return head + AESGCM(self.key).encrypt(head[-NONCE_BYTES:], content, head + place)

    def unlock(self, data: bytes, place: bytes) -> bytes:
        """What was locked for this place.

        Raises
        ------
        BadInputError
            When it was locked with another key, for another place, or was changed.
        """
        head, locked = data[: len(KEPT_MAGIC) + NONCE_BYTES], data[len(KEPT_MAGIC) + NONCE_BYTES :]
        if not is_kept(data) or len(locked) < TAG_BYTES:
            raise BadInputError("these bytes are nothing that was locked, or not all of it")
        try:
            return AESGCM(self.key).decrypt(head[-NONCE_BYTES:], locked, head + place)
        except InvalidTag:
            raise BadInputError("what is kept does not belong to this device's key, or was changed") from None


def is_kept(data: bytes) -> bool:
    """Whether these bytes say of themselves that a ``KeptKey`` locked them."""
    return data.startswith(KEPT_MAGIC)
