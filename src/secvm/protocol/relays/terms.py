"""RelayedTerms: what a relay takes on at all, signed by its key (docs/protocol.md §30).

Whoever plans an experiment asks both relays; a relay refuses a document that goes beyond its own, and a device one
whose relays' terms are of other URLs or operators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from secvm.protocol.canonical import Fields
from secvm.protocol.documents.relay_terms import ROLES, RelayRole
from secvm.protocol.relays.statements import Statement
from secvm.protocol.version import RELAYED_TERMS_TYPE


@dataclass(frozen=True, kw_only=True)
class RelayedTerms(Statement):
    """The terms of one relay."""

    kind: ClassVar[str] = RELAYED_TERMS_TYPE
    name: ClassVar[str] = "the relay's terms"
    longest: ClassVar[int] = 2048

    url: str
    operator: str
    role: RelayRole
    #: Submissions of one client in a round.
    quota: int
    #: Cells of an experiment, of all kinds; D; and n₁: at most.
    cells: int
    packages: int
    capsules: int
    #: Seconds in which it seals or opens a million packages.
    seconds_per_million: int

    def _content(self) -> dict[str, Any]:
        return {
            "capsules": self.capsules,
            "cells": self.cells,
            "operator": self.operator,
            "packages": self.packages,
            "quota": self.quota,
            "role": self.role,
            "seconds_per_million": self.seconds_per_million,
            "url": self.url,
        }

    @classmethod
    def _taken(cls, fields: Fields) -> Self:
        told = fields.text("role", longest=5)
        role = next((known for known in ROLES if known == told), None)
        if role is None:
            raise fields.refuse("role")
        return cls(
            url=fields.text("url", longest=510, shortest=1),
            operator=fields.text("operator", longest=200, shortest=1),
            role=role,
            quota=fields.integer("quota", 1),
            cells=fields.integer("cells", 1),
            packages=fields.integer("packages", 1),
            capsules=fields.integer("capsules", 1),
            seconds_per_million=fields.integer("seconds_per_million", 1),
        )
