"""Counts: how many capsules each relay handed on, and under which root (docs/protocol.md §30).

    entry relay     n₁ = B · M + D                  M submissions of B packages each, and its own cover of D
    mixing relay    n₂ = n₁ − refused + D           what did not open or came twice is refused; its own cover of D

Both are equations, not bounds: what a relay adds beyond its cover or leaves out is told as ``refused`` or is a lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from secvm.protocol.canonical import Fields
from secvm.protocol.relays.statements import Statement, taken_bytes
from secvm.protocol.version import ENTRY_COUNT_TYPE, MIX_COUNT_TYPE


@dataclass(frozen=True, kw_only=True)
class EntryCount(Statement):
    """What the entry relay hands on of a round."""

    kind: ClassVar[str] = ENTRY_COUNT_TYPE
    name: ClassVar[str] = "the entry relay's count"

    label: bytes
    #: M: submissions taken.
    clients: int
    #: Root over the distinct outer capsules of all submissions.
    received: bytes
    #: n₁: outer capsules of the batch.
    capsules: int
    #: Root over them.
    root: bytes

    def adds_up(self, *, budget: int, packages: int) -> bool:
        """Whether n₁ = B · M + D."""
        return self.capsules == budget * self.clients + packages

    def _content(self) -> dict[str, Any]:
        return {
            "capsules": self.capsules,
            "clients": self.clients,
            "label": self.label.hex(),
            "received": self.received.hex(),
            "root": self.root.hex(),
        }

    @classmethod
    def _taken(cls, fields: Fields) -> Self:
        return cls(
            label=taken_bytes(fields, "label"),
            clients=fields.integer("clients", 0),
            received=taken_bytes(fields, "received"),
            capsules=fields.integer("capsules", 1),
            root=taken_bytes(fields, "root"),
        )


@dataclass(frozen=True, kw_only=True)
class MixCount(Statement):
    """What the mixing relay hands on of a round."""

    kind: ClassVar[str] = MIX_COUNT_TYPE
    name: ClassVar[str] = "the mixing relay's count"

    label: bytes
    #: Digest of the entry relay's count.
    entry_count: str
    #: Outer capsules that did not open, and inner ones that came twice.
    refused: int
    #: n₂: inner capsules.
    capsules: int
    #: Root over them.
    root: bytes

    def adds_up(self, entry: EntryCount, *, packages: int) -> bool:
        """Whether n₂ = n₁ − refused + D, and no more was refused than came."""
        return self.refused <= entry.capsules and self.capsules == entry.capsules - self.refused + packages

    def _content(self) -> dict[str, Any]:
        return {
            "capsules": self.capsules,
            "entry_count": self.entry_count,
            "label": self.label.hex(),
            "refused": self.refused,
            "root": self.root.hex(),
        }

    @classmethod
    def _taken(cls, fields: Fields) -> Self:
        return cls(
            label=taken_bytes(fields, "label"),
            entry_count=fields.digest("entry_count"),
            refused=fields.integer("refused", 0),
            capsules=fields.integer("capsules", 1),
            root=taken_bytes(fields, "root"),
        )
