"""Reveals: which part of each relay's cover is opened, and its seed (docs/protocol.md §31).

Neither relay can choose the part. The entry relay's nonce was fixed before the round; the mixing relay's count, which
enters beside it, was signed before the nonce was shown. Each relay signs one reveal for a label, ever.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from secvm.errors import BadProofError, LocalProtocolError
from secvm.protocol.documents.faults import OpeningFault
from secvm.protocol.records import Digest, Hash, HashPath, whole
from secvm.protocol.relays.batches.counts import MixCount
from secvm.protocol.relays.cover.commitments import (
    MAX_PARTS,
    EntryCommitment,
    MixCommitment,
    RoundSecret,
    check_part,
    part_path,
)
from secvm.protocol.relays.statements import Statement, enveloped
from secvm.protocol.version import ENTRY_REVEAL_TYPE, MIX_REVEAL_TYPE

MAX_REVEAL_BYTES = 2048


def part_index(nonce: bytes, mix_count: str, parts: int) -> int:
    """i: the part that is opened, by the entry relay's nonce and the digest of the mixing relay's count."""
    if parts < 1:
        raise LocalProtocolError(f"a cover of {parts} parts has none to open")
    return int.from_bytes(hashlib.sha256(nonce + bytes.fromhex(mix_count)).digest(), "big") % parts


@dataclass(frozen=True, kw_only=True)
class EntryReveal(Statement):
    """The entry relay opens its part."""

    purpose: ClassVar[str] = ENTRY_REVEAL_TYPE
    title: ClassVar[str] = "the entry relay's reveal"
    longest: ClassVar[int] = MAX_REVEAL_BYTES

    label: Hash
    #: The mixing relay's count that is answered, in its envelope.
    mix_count: Annotated[bytes, enveloped(MixCount)]
    nonce: Hash
    #: i.
    part: Annotated[int, whole(0, MAX_PARTS - 1)]
    #: s_i.
    seed: Hash
    #: From the seed's entry to the committed root.
    path: HashPath

    @property
    def answered(self) -> str:
        """Digest of the mixing relay's count that is answered."""
        return MixCount.enclosed(self.mix_count).digest

    def faults(self, *, label: bytes, commitment: EntryCommitment, mix_count: str, parts: int) -> set[OpeningFault]:
        """What is wrong with it where this count (by its digest) is the mixing relay's."""
        checks = {
            OpeningFault.ENTRY_REVEAL: self.label == label,
            OpeningFault.OTHER_MIX_COUNT: self.answered == mix_count,
            OpeningFault.NONCE: hashlib.sha256(self.nonce).digest() == commitment.nonce,
            OpeningFault.PART: self.part == part_index(self.nonce, mix_count, parts),
            OpeningFault.ENTRY_SEED: _is_committed(self.seed, self.part, parts, self.path, commitment.parts),
        }
        return {fault for fault, holds in checks.items() if not holds}


@dataclass(frozen=True, kw_only=True)
class MixReveal(Statement):
    """The mixing relay opens the same part of its own cover."""

    purpose: ClassVar[str] = MIX_REVEAL_TYPE
    title: ClassVar[str] = "the mixing relay's reveal"
    longest: ClassVar[int] = MAX_REVEAL_BYTES

    label: Hash
    #: Digest of the entry relay's reveal that is answered.
    entry_reveal: Digest
    #: The relay's own count, in its envelope.
    mix_count: Annotated[bytes, enveloped(MixCount)]
    part: Annotated[int, whole(0, MAX_PARTS - 1)]
    seed: Hash
    path: HashPath

    @property
    def answered(self) -> str:
        """Digest of the count that it names."""
        return MixCount.enclosed(self.mix_count).digest

    def faults(
        self, *, label: bytes, commitment: MixCommitment, entry_reveal: EntryReveal, mix_count: str, parts: int
    ) -> set[OpeningFault]:
        """What is wrong with it where these are the entry relay's reveal and the mixing relay's count."""
        checks = {
            OpeningFault.MIX_REVEAL: self.label == label,
            OpeningFault.OTHER_MIX_COUNT: self.answered == mix_count,
            OpeningFault.OTHER_ENTRY_REVEAL: self.entry_reveal == entry_reveal.digest,
            OpeningFault.PART: self.part == entry_reveal.part,
            OpeningFault.MIX_SEED: _is_committed(self.seed, self.part, parts, self.path, commitment.parts),
        }
        return {fault for fault, holds in checks.items() if not holds}


def entry_reveal(secret: RoundSecret, mix_count: bytes, *, parts: int) -> EntryReveal:
    """The entry relay's answer to a count of the mixing relay, whose signature was checked."""
    count = MixCount.enclosed(mix_count)
    part = part_index(secret.nonce, count.digest, parts)
    return EntryReveal(
        label=count.label,
        mix_count=mix_count,
        nonce=secret.nonce,
        part=part,
        seed=secret.part_seed(part),
        path=part_path(secret.part_seeds(parts), part),
    )


def mix_reveal(secret: RoundSecret, answered: EntryReveal, mix_count: bytes, *, parts: int) -> MixReveal:
    """The mixing relay's answer to a reveal that was checked, with its own count."""
    return MixReveal(
        label=answered.label,
        entry_reveal=answered.digest,
        mix_count=mix_count,
        part=answered.part,
        seed=secret.part_seed(answered.part),
        path=part_path(secret.part_seeds(parts), answered.part),
    )


def _is_committed(seed: bytes, part: int, parts: int, path: Sequence[bytes], root: bytes) -> bool:
    try:
        check_part(seed, part=part, parts=parts, path=path, root=root)
    except BadProofError:
        return False
    return True
