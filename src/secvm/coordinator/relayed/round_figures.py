"""RoundFigures: what a coordinator tells of a concluded round beside its opening. Numbers and reasons, no capsule.

They are for people who run it or look at it; devices and auditors go by the opening. A reason is a short name as logs
write them: what was missing, what was false, or which opened part was not in the batch. It accuses nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from secvm.errors import MalformedMessageError
from secvm.protocol.canonical import Fields, decode_document, encode_document
from secvm.protocol.relays.faults import Missing, OpeningFault
from secvm.protocol.relays.step import Stayed

_MAX_BYTES = 2**12
_MAX_REASONS = 32

MISSING_BATCH, OTHER_BATCH = "missing-batch", "batch-not-as-announced"
ENTRY_PART, MIX_PART = "entry-part-not-in-batch", "mix-part-not-in-batch"
ONE_PART = "both-parts-are-one"
TOO_LATE = "not-counted-in-time"
#: Opened, and not stepped.
STAYED = {
    Stayed.FLOOR: "below-floor",
    Stayed.UNEXPLAINED: "count-beyond-cover",
    Stayed.NOBODY: "nobody-left-without-cover",
    Stayed.RANGE: "step-out-of-range",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFigures:
    """Of one round."""

    #: Inner capsules of the batch; of these packages, nulls included, and junk. Zero where nothing was counted.
    capsules: int = 0
    packages: int = 0
    junk: int = 0
    #: Whether a new model followed.
    stepped: bool = False
    #: Why it is unopened, or not stepped.
    reasons: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """As it is kept."""
        return encode_document(
            {
                "capsules": self.capsules,
                "junk": self.junk,
                "packages": self.packages,
                "reasons": list(self.reasons),
                "stepped": self.stepped,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> RoundFigures:
        """The figures of these bytes. Raises ``MalformedMessageError`` and nothing else."""
        fields = Fields(decode_document(data, max_bytes=_MAX_BYTES), "the figures of a round")
        reasons = fields.items("reasons", longest=_MAX_REASONS)
        if not all(isinstance(reason, str) for reason in reasons):
            raise MalformedMessageError("a reason is a short name")
        found = cls(
            capsules=fields.integer("capsules", 0),
            packages=fields.integer("packages", 0),
            junk=fields.integer("junk", 0),
            stepped=fields.flag("stepped"),
            reasons=tuple(str(reason) for reason in reasons),
        )
        fields.done()
        return found


def missing_names(missing: Iterable[Missing]) -> list[str]:
    """What is missing from an opening, as logs name it; that the seed is not published is no reason but its effect."""
    return [f"missing-{_name(what)}" for what in missing if what is not Missing.SEED]


def fault_names(faults: Iterable[OpeningFault]) -> list[str]:
    """What is false in an opening, as logs name it."""
    return [f"false-{_name(fault)}" for fault in faults]


def _name(one: Missing | OpeningFault) -> str:
    return one.name.lower().replace("_", "-")
