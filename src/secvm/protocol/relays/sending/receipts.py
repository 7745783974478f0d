"""Receipt: the entry relay's signed word that it has taken a submission, whole (docs/protocol.md §28)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, ClassVar

from secvm.protocol.records import Hash, whole
from secvm.protocol.relays.batches.capsule_tree import capsule_root
from secvm.protocol.relays.statements import Statement
from secvm.protocol.version import RECEIPT_TYPE


@dataclass(frozen=True, kw_only=True)
class Receipt(Statement):
    """For one submission: under which label, and which capsules."""

    purpose: ClassVar[str] = RECEIPT_TYPE
    title: ClassVar[str] = "the receipt"

    label: Hash
    #: Over the digests of the submission's outer capsules.
    root: Hash
    #: B.
    capsules: Annotated[int, whole(1)]


def receipt_for(label: bytes, digests: Iterable[bytes]) -> Receipt:
    """The receipt for a submission of these outer digests, ascending."""
    listed = list(digests)
    return Receipt(label=label, root=capsule_root(listed), capsules=len(listed))
