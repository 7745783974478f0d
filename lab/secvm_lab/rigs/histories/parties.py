"""Everybody's keys, drawn from seeded dice, and witnesses that do their work in memory.

For tests and for the lab: whoever knows the seed knows every key.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from secvm.crypto.merkle import EMPTY_ROOT
from secvm.crypto.notes import NoteKey, NoteSignature
from secvm.crypto.signing import SEED_BYTES, SigningKey
from secvm.protocol.log.checkpoints import Checkpoint, check_growth, read_checkpoint
from secvm.protocol.log.proofs import CosigningRequest
from secvm.protocol.log.terms import LogTerms, Witness


@dataclass(slots=True)
class HonestWitness:
    """Cosigns what extends what it has seen of an origin, and nothing else. It remembers as long as it lives."""

    name: str
    key: SigningKey
    #: The largest tree that it has cosigned, by origin.
    seen: dict[str, Checkpoint] = field(default_factory=dict)

    @property
    def public(self) -> Witness:
        """As an experiment names it."""
        return Witness(self.name, self.key.public)

    def size_of(self, origin: str) -> int:
        """How much it has seen of a log."""
        return self.seen[origin].size if origin in self.seen else 0

    def cosign(self, request: CosigningRequest, *, log: NoteKey, time_s: int) -> NoteSignature:
        """Its line under the checkpoint.

        Raises
        ------
        BadProofError
            The checkpoint does not extend what it has seen.
        RemoteProtocolError
            It is none of this log.
        """
        found = read_checkpoint(request.checkpoint, log=log).checkpoint
        old = self.seen.get(log.name, Checkpoint(log.name, 0, EMPTY_ROOT))
        check_growth(old, found, request.path)
        self.seen[log.name] = found
        return found.cosign(self.key, name=self.name, time_s=time_s)


@dataclass(frozen=True, slots=True)
class Parties:
    """Who serves an experiment, with their keys."""

    coordinator: SigningKey
    log: SigningKey
    relays: tuple[SigningKey, ...]
    witnesses: tuple[HonestWitness, ...]
    #: What the origins of the log begin with.
    log_name: str = "log.example"

    @classmethod
    def drawn(cls, dice: random.Random, *, witnesses: int = 3, relays: int = 1) -> Parties:
        """Fresh keys for all of them."""
        return cls(
            coordinator=draw_key(dice),
            log=draw_key(dice),
            relays=tuple(draw_key(dice) for _ in range(relays)),
            witnesses=tuple(HonestWitness(f"w{i}.example", draw_key(dice)) for i in range(witnesses)),
        )

    def anew(self) -> Parties:
        """The same keys, and witnesses that have seen nothing yet: another world."""
        return replace(self, witnesses=tuple(HonestWitness(one.name, one.key) for one in self.witnesses))

    def log_terms(self, *, quorum: int | None = None, freshness_s: int = 3600) -> LogTerms:
        """The terms of their log; the quorum is the smallest that is allowed, unless told."""
        return LogTerms(
            name=self.log_name,
            key=self.log.public,
            witnesses=tuple(witness.public for witness in self.witnesses),
            quorum=len(self.witnesses) // 2 + 1 if quorum is None else quorum,
            freshness_s=freshness_s,
        )


def draw_key(dice: random.Random) -> SigningKey:
    """A key that comes back with the same dice."""
    return SigningKey(dice.randbytes(SEED_BYTES))
