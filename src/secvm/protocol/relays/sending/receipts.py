"""Receipt: the entry relay's signed word that it has taken a submission, whole (docs/protocol.md §28)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from secvm.protocol.canonical import Fields
from secvm.protocol.relays.batches.capsule_tree import capsule_root
from secvm.protocol.relays.statements import Statement, taken_bytes
from secvm.protocol.version import RECEIPT_TYPE


@dataclass(frozen=True, kw_only=True)
class Receipt(Statement):
    """For one submission: under which label, and which capsules."""

    kind: ClassVar[str] = RECEIPT_TYPE
    name: ClassVar[str] = "the receipt"

    label: bytes
    #: Over the digests of the submission's outer capsules.
    root: bytes
    #: B.
    capsules: int

    def _content(self) -> dict[str, Any]:
        return {"capsules": self.capsules, "label": self.label.hex(), "root": self.root.hex()}

    @classmethod
    def _taken(cls, fields: Fields) -> Self:
        return cls(
            label=taken_bytes(fields, "label"),
            root=taken_bytes(fields, "root"),
            capsules=fields.integer("capsules", 1),
        )


def receipt_for(label: bytes, digests: Iterable[bytes]) -> Receipt:
    """The receipt for a submission of these outer digests, ascending."""
    listed = list(digests)
    return Receipt(label=label, root=capsule_root(listed), capsules=len(listed))
