"""Counts: how many capsules each relay handed on, and under which root (docs/protocol.md §30).

    entry relay     n₁ = B · M + D                  M submissions of B packages each, and its own cover of D
    mixing relay    n₂ = n₁ − refused + D           what did not open or came twice is refused; its own cover of D

Both are equations, not bounds: what a relay adds beyond its cover or leaves out is told as ``refused`` or is a lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from secvm.protocol.records import Digest, Hash, whole
from secvm.protocol.relays.statements import Statement
from secvm.protocol.version import ENTRY_COUNT_TYPE, MIX_COUNT_TYPE


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
