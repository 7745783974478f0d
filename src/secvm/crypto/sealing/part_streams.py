"""The streams of one part of a relay's cover: all randomness of the part, from its seed (docs/protocol.md §29).

    seed     = BLAKE2b-256(number of the part), key: the relay's secret of the round
    part key = BLAKE2b-256(label ‖ root of the incoming batch ‖ attempt), key: the part's seed
    stream   = AES-256-CTR keystream from counter 0, key: BLAKE2b-256(name of the stream) under the part key

Label and root are in the key because one seed must not serve two batches: the same noise over two batches gives their
difference. An attempt is drawn again with the next number where the part overflows. Whoever is shown the seed reads the
same streams.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final, Literal

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR

from secvm.errors import LocalProtocolError

SEED_BYTES = 32
ROOT_BYTES = 32
WORD_BYTES = 8
#: Both ephemeral secrets of one package.
SEALS_BYTES: Final = 64
MAX_ATTEMPT: Final = 2**32 - 1

StreamName = Literal["train", "participation", "test", "seals"]

_KEY_BYTES = 32
_PART, _STREAM = b"secvm-v2-part\0\0\0", b"secvm-v2-stream\0"
_SEEDS, _TEST_SEEDS = b"secvm-v2-seeds\0\0", b"secvm-v2-tests\0\0"
_CIPHER_BLOCK = 16
#: Bytes of a keystream made at once where words are read one by one.
_TAKEN_BYTES = 1 << 12


def part_seed(secret: bytes, part: int) -> bytes:
    """s_j of part j, from a relay's secret of a round."""
    if len(secret) != SEED_BYTES or not 0 <= part < 1 << 32:
        raise LocalProtocolError(f"part {part} of a secret of {len(secret)} bytes: {SEED_BYTES} bytes, parts from 0 on")
    return hashlib.blake2b(part.to_bytes(4, "little"), digest_size=SEED_BYTES, key=secret, person=_SEEDS).digest()


def part_key(seed: bytes, *, label: bytes, root: bytes, attempt: int) -> bytes:
    """The secret of one attempt at one part."""
    if len(seed) != SEED_BYTES or len(label) != ROOT_BYTES or len(root) != ROOT_BYTES:
        raise LocalProtocolError("seed, label and root of a part have 32 bytes each")
    if not 0 <= attempt <= MAX_ATTEMPT:
        raise LocalProtocolError(f"attempt {attempt} at a part: attempts are 0 … {MAX_ATTEMPT}")
    data = label + root + attempt.to_bytes(4, "little")
    return hashlib.blake2b(data, digest_size=_KEY_BYTES, key=seed, person=_PART).digest()


class PartStream:
    """One named stream of a part, read from a place on. Does not show itself when printed."""

    def __init__(self, key: bytes, name: StreamName, *, start: int = 0) -> None:
        """``key``: what ``part_key`` gave. ``start``: the first byte that is read."""
        if start < 0:
            raise LocalProtocolError(f"a stream begins at byte 0, not at {start}")
        stream_key = hashlib.blake2b(name.encode("ascii"), digest_size=_KEY_BYTES, key=key, person=_STREAM).digest()
        block, within = divmod(start, _CIPHER_BLOCK)
        counter = block.to_bytes(_CIPHER_BLOCK, "big")
        self._keystream = Cipher(AES256(stream_key), CTR(counter)).encryptor()
        self._keystream.update(bytes(within))

    def take(self, size: int) -> bytes:
        """The next so many bytes."""
        return self._keystream.update(bytes(size))

    def words(self) -> Iterator[int]:
        """The rest of the stream as 64-bit numbers, low byte first; never ends."""
        while True:
            data = self.take(_TAKEN_BYTES)
            for at in range(0, _TAKEN_BYTES, WORD_BYTES):
                yield int.from_bytes(data[at : at + WORD_BYTES], "little")

    def __repr__(self) -> str:
        return "PartStream(...)"


def seals(key: bytes, first: int, count: int) -> bytes:
    """Both ephemeral secrets of packages ``first``, ``first`` + 1, … of a part, 64 bytes each."""
    return PartStream(key, "seals", start=SEALS_BYTES * first).take(SEALS_BYTES * count)


def seeded_round_secret(seed: str, role: Literal["entry", "mix"], round_number: int) -> bytes:
    """The secret of a round at the relay of this role, from a public seed: **for tests**, which repeat themselves."""
    key = hashlib.sha256(seed.encode()).digest()
    data = role.encode() + b"\n" + round_number.to_bytes(4, "little")
    return hashlib.blake2b(data, digest_size=32, key=key, person=_TEST_SEEDS).digest()
