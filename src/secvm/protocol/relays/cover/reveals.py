"""Reveals: which part of each relay's cover is opened, and its seed (docs/protocol.md §31).

Neither relay can choose the part. The entry relay's nonce was fixed before the round; the mixing relay's count, which
enters beside it, was signed before the nonce was shown. Each relay signs one reveal for a label, ever.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from secvm.errors import BadProofError, LocalProtocolError
from secvm.protocol.canonical import Fields, base64_text
from secvm.protocol.relays.batches.capsule_tree import read_path
from secvm.protocol.relays.batches.counts import MixCount
from secvm.protocol.relays.cover.commitments import (
    MAX_PARTS,
    EntryCommitment,
    MixCommitment,
    RoundSecret,
    check_part,
    part_path,
)
from secvm.protocol.relays.faults import OpeningFault
from secvm.protocol.relays.statements import ENVELOPE_BYTES, Statement, taken_bytes
from secvm.protocol.version import ENTRY_REVEAL_TYPE, MIX_REVEAL_TYPE

MAX_REVEAL_BYTES = 2048
_MAX_COUNT_ENVELOPE = MixCount.longest + ENVELOPE_BYTES


def part_index(nonce: bytes, mix_count: str, parts: int) -> int:
    """i: the part that is opened, by the entry relay's nonce and the digest of the mixing relay's count."""
    if parts < 1:
        raise LocalProtocolError(f"a cover of {parts} parts has none to open")
    return int.from_bytes(hashlib.sha256(nonce + bytes.fromhex(mix_count)).digest(), "big") % parts


@dataclass(frozen=True, kw_only=True)
class EntryReveal(Statement):
    """The entry relay opens its part."""

    kind: ClassVar[str] = ENTRY_REVEAL_TYPE
    name: ClassVar[str] = "the entry relay's reveal"
    longest: ClassVar[int] = MAX_REVEAL_BYTES

    label: bytes
    #: The mixing relay's count that is answered, in its envelope.
    mix_count: bytes
    nonce: bytes
    #: i.
    part: int
    #: s_i.
    seed: bytes
    #: From the seed's entry to the committed root.
    path: tuple[bytes, ...]

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

    def _content(self) -> dict[str, Any]:
        return {
            "label": self.label.hex(),
            "mix_count": base64_text(self.mix_count),
            "nonce": self.nonce.hex(),
            "part": self.part,
            "path": [node.hex() for node in self.path],
            "seed": self.seed.hex(),
        }

    @classmethod
    def _taken(cls, fields: Fields) -> Self:
        found = cls(
            label=taken_bytes(fields, "label"),
            mix_count=fields.base64("mix_count", longest=_MAX_COUNT_ENVELOPE),
            nonce=taken_bytes(fields, "nonce"),
            part=fields.integer("part", 0, MAX_PARTS - 1),
            seed=taken_bytes(fields, "seed"),
            path=read_path(fields, "path"),
        )
        MixCount.enclosed(found.mix_count)  # refuses what is no count
        return found


@dataclass(frozen=True, kw_only=True)
class MixReveal(Statement):
    """The mixing relay opens the same part of its own cover."""

    kind: ClassVar[str] = MIX_REVEAL_TYPE
    name: ClassVar[str] = "the mixing relay's reveal"
    longest: ClassVar[int] = MAX_REVEAL_BYTES

    label: bytes
    #: Digest of the entry relay's reveal that is answered.
    entry_reveal: str
    #: The relay's own count, in its envelope.
    mix_count: bytes
    part: int
    seed: bytes
    path: tuple[bytes, ...]

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

    def _content(self) -> dict[str, Any]:
        return {
            "entry_reveal": self.entry_reveal,
            "label": self.label.hex(),
            "mix_count": base64_text(self.mix_count),
            "part": self.part,
            "path": [node.hex() for node in self.path],
            "seed": self.seed.hex(),
        }

    @classmethod
    def _taken(cls, fields: Fields) -> Self:
        found = cls(
            label=taken_bytes(fields, "label"),
            entry_reveal=fields.digest("entry_reveal"),
            mix_count=fields.base64("mix_count", longest=_MAX_COUNT_ENVELOPE),
            part=fields.integer("part", 0, MAX_PARTS - 1),
            seed=taken_bytes(fields, "seed"),
            path=read_path(fields, "path"),
        )
        MixCount.enclosed(found.mix_count)  # refuses what is no count
        return found


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
