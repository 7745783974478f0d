"""Commitments: what both relays are bound to before a round's manifest exists (docs/protocol.md §27, §29).

A relay draws one secret of 32 bytes for a round. All else follows from it: the seeds of the S parts of its cover; the
entry relay's nonce and its key of tokens, or the mixing relay's key. The commitment fixes them by their hashes, so that
nobody can try seeds until the noise leans their way, and shows nothing of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from secvm.crypto import merkle
from secvm.crypto.sealing.kem import X25519PrivateKey, X25519PublicKey
from secvm.crypto.sealing.part_streams import part_seed
from secvm.crypto.tokens import TokenKey
from secvm.errors import LocalProtocolError
from secvm.protocol.records import OMITTED, Digest, FieldKind, Hash, RoundNumber
from secvm.protocol.relays.statements import Statement
from secvm.protocol.version import ENTRY_COMMITMENT_TYPE, MIX_COMMITMENT_TYPE

SEED_BYTES = 32
#: S, the parts of a relay's cover (docs/protocol.md §26).
MIN_PARTS, MAX_PARTS = 4, 64

_PART_TAG = b"secvm-v2-part-seed\n"
_PERSON = b"secvm-v2-seeds\0\0"


@dataclass(frozen=True, slots=True, repr=False)
class RoundSecret:
    """What one relay draws for one round. It does not print itself, and is forgotten after the reveal."""

    secret: bytes

    def __post_init__(self) -> None:
        if len(self.secret) != SEED_BYTES:
            raise LocalProtocolError(f"a relay's secret of a round has {SEED_BYTES} bytes")

    def part_seed(self, part: int) -> bytes:
        """s_j: all that part j of the cover is drawn from."""
        if not 0 <= part < MAX_PARTS:
            raise LocalProtocolError(f"parts are numbered from 0 to {MAX_PARTS - 1}; there is no part {part}")
        return part_seed(self.secret, part)

    def part_seeds(self, parts: int) -> tuple[bytes, ...]:
        """The seeds of all S parts."""
        return tuple(self.part_seed(part) for part in range(parts))

    @property
    def nonce(self) -> bytes:
        """The entry relay's share in which part is opened."""
        return self._derived(b"nonce")

    @property
    def mix_key(self) -> X25519PrivateKey:
        """The mixing relay's private key of the round."""
        return X25519PrivateKey.derive(self._derived(b"key"))

    @property
    def token_seed(self) -> bytes:
        """From which the entry relay's key of the round's tokens grows (``crypto.tokens``)."""
        return self._derived(b"tokens")

    def _derived(self, what: bytes) -> bytes:
        return hashlib.blake2b(what, digest_size=SEED_BYTES, key=self.secret, person=_PERSON).digest()

    def __repr__(self) -> str:
        return "RoundSecret(...)"


def part_entry(seed: bytes) -> bytes:
    """What stands in the tree of the parts for a seed."""
    return hashlib.sha256(_PART_TAG + seed).digest()


def parts_root(seeds: Sequence[bytes]) -> bytes:
    """The root of the parts, in the order of their numbers."""
    return _tree(seeds).root()


def part_path(seeds: Sequence[bytes], part: int) -> tuple[bytes, ...]:
    """That this part's seed is under the root."""
    return _tree(seeds).inclusion_proof(part)


def check_part(seed: bytes, *, part: int, parts: int, path: Sequence[bytes], root: bytes) -> None:
    """That this is the seed of the part of this number, of so many. Raises ``BadProofError``."""
    leaf = merkle.leaf_hash(part_entry(seed))
    merkle.check_inclusion(leaf, index=part, size=parts, proof=path, root=root)


def _tree(seeds: Sequence[bytes]) -> merkle.Tree:
    return merkle.Tree(merkle.leaf_hash(part_entry(seed)) for seed in seeds)


#: A public key that capsules are sealed for. A point of low order is none: whatever is sealed for it, everybody opens.
SealingKey = Annotated[
    bytes,
    FieldKind(
        lambda taken, field: X25519PublicKey(bytes.fromhex(taken.digest(field))).to_bytes(), lambda key: key.hex()
    ),
]


@dataclass(frozen=True, kw_only=True)
class MixCommitment(Statement):
    """What the mixing relay is bound to in a round."""

    purpose: ClassVar[str] = MIX_COMMITMENT_TYPE
    title: ClassVar[str] = "the mixing relay's commitment"

    #: Digest of the experiment.
    experiment: Digest
    round_number: RoundNumber
    #: pk_X: outer capsules are sealed for it.
    key: SealingKey
    #: Root of the parts.
    parts: Hash

    @property
    def public_key(self) -> X25519PublicKey:
        """The same key, to seal for."""
        return X25519PublicKey(self.key)


@dataclass(frozen=True, kw_only=True)
class EntryCommitment(Statement):
    """What the entry relay is bound to in a round."""

    purpose: ClassVar[str] = ENTRY_COMMITMENT_TYPE
    title: ClassVar[str] = "the entry relay's commitment"

    #: Digest of the experiment.
    experiment: Digest
    round_number: RoundNumber
    #: Root of the parts.
    parts: Hash
    #: SHA-256 of the nonce.
    nonce: Hash
    #: The public key of the round's tokens; None where the experiment has none.
    tokens: Annotated[Hash | None, OMITTED] = None


def mix_commitment(secret: RoundSecret, *, experiment: str, round_number: int, parts: int) -> MixCommitment:
    """The mixing relay's commitment of a round, from its secret."""
    return MixCommitment(
        experiment=experiment,
        round_number=round_number,
        key=secret.mix_key.public_key.to_bytes(),
        parts=parts_root(secret.part_seeds(parts)),
    )


def entry_commitment(
    secret: RoundSecret, *, experiment: str, round_number: int, parts: int, tokens: bool = False
) -> EntryCommitment:
    """The entry relay's commitment of a round, from its secret. ``tokens``: whether the experiment has some."""
    return EntryCommitment(
        experiment=experiment,
        round_number=round_number,
        parts=parts_root(secret.part_seeds(parts)),
        nonce=hashlib.sha256(secret.nonce).digest(),
        tokens=TokenKey.of_round(secret.token_seed).public if tokens else None,
    )
