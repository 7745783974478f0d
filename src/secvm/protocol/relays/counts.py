"""Counts and reveals: what a relay signs of a round that is over, and how it shows them (docs/protocol.md §30, §31).

Counts say how many capsules each relay handed on, and under which root:

    entry relay     n₁ = B · M + D                  M submissions of B packages each, and its own cover of D
    mixing relay    n₂ = n₁ − refused + D           what did not open or came twice is refused; its own cover of D

Both are equations, not bounds: what a relay adds beyond its cover or leaves out is told as ``refused`` or is a lie.

Reveals say which part of each relay's cover is opened, and its seed. Neither relay can choose the part. The entry
relay's nonce was fixed before the round; the mixing relay's count, which enters beside it, was signed before the nonce
was shown. Each relay signs one reveal for a label, ever.

At ``GET R/counts/LABEL`` a relay shows what is there of the four:

    {"entry_count": base64, "mix_count": base64, "entry_reveal": null, "mix_reveal": null}

Whoever asks takes what can be read; every statement in it is signed, and checked by itself.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from secvm.errors import BadProofError, LocalProtocolError, MalformedMessageError
from secvm.protocol.documents.faults import OpeningFault
from secvm.protocol.records import Digest, Hash, HashPath, whole
from secvm.protocol.relays.commitments import (
    MAX_PARTS,
    EntryCommitment,
    MixCommitment,
    RoundSecret,
    check_part,
    part_path,
)
from secvm.protocol.relays.statements import ENVELOPE_BYTES, Statement, enveloped
from secvm.protocol.version import ENTRY_COUNT_TYPE, ENTRY_REVEAL_TYPE, MIX_COUNT_TYPE, MIX_REVEAL_TYPE


@dataclass(frozen=True, kw_only=True)
class EntryCount(Statement):
    """What the entry relay hands on of a round."""

    purpose: ClassVar[str] = ENTRY_COUNT_TYPE
    title: ClassVar[str] = "the entry relay's count"

    label: Hash
    #: M: submissions taken.
    clients: Annotated[int, whole(0)]
    #: Root over the distinct outer capsules of all submissions.
    received: Hash
    #: n₁: outer capsules of the batch.
    capsules: Annotated[int, whole(1)]
    #: Root over them.
    root: Hash

    def adds_up(self, *, budget: int, packages: int) -> bool:
        """Whether n₁ = B · M + D."""
        return self.capsules == budget * self.clients + packages


@dataclass(frozen=True, kw_only=True)
class MixCount(Statement):
    """What the mixing relay hands on of a round."""

    purpose: ClassVar[str] = MIX_COUNT_TYPE
    title: ClassVar[str] = "the mixing relay's count"

    label: Hash
    #: Digest of the entry relay's count.
    entry_count: Digest
    #: Outer capsules that did not open, and inner ones that came twice.
    refused: Annotated[int, whole(0)]
    #: n₂: inner capsules.
    capsules: Annotated[int, whole(1)]
    #: Root over them.
    root: Hash

    def adds_up(self, entry: EntryCount, *, packages: int) -> bool:
        """Whether n₂ = n₁ − refused + D, and no more was refused than came."""
        return self.refused <= entry.capsules and self.capsules == entry.capsules - self.refused + packages


MAX_REVEAL_BYTES = 2048


def part_index(nonce: bytes, mix_count: str, parts: int) -> int:
    """i: the part that is opened, by the entry relay's nonce and the digest of the mixing relay's count."""
    if parts < 1:
        raise LocalProtocolError(f"a cover of {parts} parts has none to open")
    return int.from_bytes(hashlib.sha256(nonce + bytes.fromhex(mix_count)).digest(), "big") % parts


@dataclass(frozen=True, kw_only=True)
class Reveal(Statement):
    """A relay opens its part."""

    longest: ClassVar[int] = MAX_REVEAL_BYTES

    label: Hash
    #: The mixing relay's count that is answered, in its envelope.
    mix_count: Annotated[bytes, enveloped(MixCount)]
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

    def _is_committed(self, parts: int, root: bytes) -> bool:
        try:
            check_part(self.seed, part=self.part, parts=parts, path=self.path, root=root)
        except BadProofError:
            return False
        return True


@dataclass(frozen=True, kw_only=True)
class EntryReveal(Reveal):
    """The entry relay opens its part."""

    purpose: ClassVar[str] = ENTRY_REVEAL_TYPE
    title: ClassVar[str] = "the entry relay's reveal"

    nonce: Hash

    def faults(self, *, label: bytes, commitment: EntryCommitment, mix_count: str, parts: int) -> set[OpeningFault]:
        """What is wrong with it where this count (by its digest) is the mixing relay's."""
        checks = {
            OpeningFault.ENTRY_REVEAL: self.label == label,
            OpeningFault.OTHER_MIX_COUNT: self.answered == mix_count,
            OpeningFault.NONCE: hashlib.sha256(self.nonce).digest() == commitment.nonce,
            OpeningFault.PART: self.part == part_index(self.nonce, mix_count, parts),
            OpeningFault.ENTRY_SEED: self._is_committed(parts, commitment.parts),
        }
        return {fault for fault, holds in checks.items() if not holds}


@dataclass(frozen=True, kw_only=True)
class MixReveal(Reveal):
    """The mixing relay opens the same part of its own cover, with its own count."""

    purpose: ClassVar[str] = MIX_REVEAL_TYPE
    title: ClassVar[str] = "the mixing relay's reveal"

    #: Digest of the entry relay's reveal that is answered.
    entry_reveal: Digest

    def faults(
        self, *, label: bytes, commitment: MixCommitment, entry_reveal: EntryReveal, mix_count: str, parts: int
    ) -> set[OpeningFault]:
        """What is wrong with it where these are the entry relay's reveal and the mixing relay's count."""
        checks = {
            OpeningFault.MIX_REVEAL: self.label == label,
            OpeningFault.OTHER_MIX_COUNT: self.answered == mix_count,
            OpeningFault.OTHER_ENTRY_REVEAL: self.entry_reveal == entry_reveal.digest,
            OpeningFault.PART: self.part == entry_reveal.part,
            OpeningFault.MIX_SEED: self._is_committed(parts, commitment.parts),
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


NAMES = ("entry_count", "mix_count", "entry_reveal", "mix_reveal")
#: Of one statement in its envelope, and of all four as text.
MAX_PAPER_BYTES = MAX_REVEAL_BYTES + ENVELOPE_BYTES
MAX_SHOWN_BYTES = 2**14


def write_shown(papers: Mapping[str, bytes]) -> bytes:
    """As a relay writes it."""
    content = {name: base64.b64encode(papers[name]).decode() if name in papers else None for name in NAMES}
    return json.dumps(content, separators=(",", ":")).encode()


def read_shown(data: bytes) -> dict[str, bytes]:
    """Envelopes by name; those that are null are left out. Names that nobody knows are not looked at.

    Raises
    ------
    MalformedMessageError
        It is no such answer. Nothing else is raised.
    """
    if len(data) > MAX_SHOWN_BYTES:
        raise MalformedMessageError(f"a relay shows {len(data)} bytes of a round; at most are {MAX_SHOWN_BYTES}")
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        raise MalformedMessageError("what a relay shows of a round is no JSON") from None
    if not isinstance(content, dict):
        raise MalformedMessageError("what a relay shows of a round is no object")
    return {name: _envelope(content[name], name) for name in NAMES if content.get(name) is not None}


def _envelope(value: object, name: str) -> bytes:
    try:
        envelope = base64.b64decode(value.encode("ascii"), validate=True) if isinstance(value, str) else None
    except (binascii.Error, ValueError):
        envelope = None
    if envelope is None or len(envelope) > MAX_PAPER_BYTES:
        raise MalformedMessageError(f"{name} is not base64 of at most {MAX_PAPER_BYTES} bytes")
    return envelope
