"""RelayedTerms: what a relay takes on at all, signed by its key (docs/protocol.md §30).

Whoever plans an experiment asks both relays; a relay refuses a document that goes beyond its own, and a device one
whose relays' terms are of other URLs or operators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from secvm.protocol.documents.terms import ROLES, RelayRole
from secvm.protocol.records import text, whole, words
from secvm.protocol.relays.statements import Statement
from secvm.protocol.version import RELAYED_TERMS_TYPE


@dataclass(frozen=True, kw_only=True)
class RelayedTerms(Statement):
    """The terms of one relay."""

    purpose: ClassVar[str] = RELAYED_TERMS_TYPE
    title: ClassVar[str] = "the relay's terms"
    longest: ClassVar[int] = 2048

    url: Annotated[str, text(longest=510, shortest=1)]
    operator: Annotated[str, text(longest=200, shortest=1)]
    role: Annotated[RelayRole, words(*ROLES)]
    #: Submissions of one client in a round.
    quota: Annotated[int, whole(1)]
    #: Cells of an experiment, of all kinds; D; and n₁: at most.
    cells: Annotated[int, whole(1)]
    packages: Annotated[int, whole(1)]
    capsules: Annotated[int, whole(1)]
    #: Seconds in which it seals or opens a million packages.
    seconds_per_million: Annotated[int, whole(1)]
