"""Evidence about experiments with two relays: signed bytes in one file that convict whoever signed them (§34).

    two-statements      a relay signed two statements where it signs one: counts or reveals for a label, commitments for
                        a round, receipts for a request
    false-count         a relay signed a count that does not add up
    false-reveal        a relay opened what it was not bound to, or answered a count that was none
    part-not-in-batch   a capsule of an opened part is not under the root that the mixing relay signed
    two-documents       the coordinator signed two manifests or openings for one round, two endings, or a round after it
    bad-document        the coordinator signed what its experiment, or the document before, does not allow
    wrong-step          the coordinator signed a model that does not follow
    wrong-count         the coordinator signed a sub-tally of a shard that is not what the shard's capsules give
    wrong-tally         the coordinator signed a net tally that is not its own sub-tallies less the two opened parts

What a device shows of its own canary is a file of another type (``secvm-v2-missing-canary``, §32).

This is the format. ``examining`` says what a file shows; it needs the file alone: no network, no clock, no secret. As
with ``evidence``, the keys that count stand in the experiment, which signs itself.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from secvm.errors import MalformedMessageError
from secvm.protocol.canonical import Fields, base64_text, decode_document, encode_document
from secvm.protocol.documents.experiment import MAX_DOCUMENT_BYTES, ExperimentDocument
from secvm.protocol.relays.batches.capsule_tree import Absence, Place
from secvm.protocol.relays.counting.shards import ShardProof
from secvm.protocol.relays.cover.reveals import MAX_REVEAL_BYTES
from secvm.protocol.relays.opening import MAX_OPENING_BYTES
from secvm.protocol.relays.statements import ENVELOPE_BYTES
from secvm.protocol.version import RELAYED_EVIDENCE_TYPE

#: A state and a tally of the largest experiment that ``examining`` looks at.
MAX_RELAYED_EVIDENCE_BYTES = 2**31
MAX_BLOB_BYTES = 2**29
#: Many signatures of a coordinator may stand around the largest document.
_MAX_DOCUMENT = max(MAX_DOCUMENT_BYTES, MAX_OPENING_BYTES) + 2**12
_MAX_STATEMENT = MAX_REVEAL_BYTES + ENVELOPE_BYTES
_MOST_DOCUMENTS, _MOST_STATEMENTS, _MOST_BLOBS = 3, 4, 2


class RelayedKind(enum.Enum):
    """What it shows."""

    TWO_STATEMENTS = "two-statements"
    FALSE_COUNT = "false-count"
    FALSE_REVEAL = "false-reveal"
    PART_NOT_IN_BATCH = "part-not-in-batch"
    TWO_DOCUMENTS = "two-documents"
    BAD_DOCUMENT = "bad-document"
    WRONG_STEP = "wrong-step"
    WRONG_COUNT = "wrong-count"
    WRONG_TALLY = "wrong-tally"


class Who(enum.Enum):
    """Whom it convicts."""

    COORDINATOR = "the coordinator"
    ENTRY = "the entry relay"
    MIX = "the mixing relay"
    EITHER = "the entry relay or the mixing relay"

    def named(self, document: ExperimentDocument) -> str:
        """With the names under which the experiment knows the relays' operators."""
        entry, mix = (f"{relay.operator} (the {role})" for relay, role in _roles(document))
        return {Who.ENTRY: entry, Who.MIX: mix, Who.EITHER: f"{entry} or {mix}"}.get(self, self.value)


def _roles(document: ExperimentDocument) -> list[tuple[Any, str]]:
    return [(document.entry_relay, "entry relay"), (document.mix_relay, "mixing relay")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartProof:
    """That a package of an opened part is not under the mixing relay's root."""

    #: Its number in the part.
    package: int
    #: Of its inner capsule, under the mixing relay's root.
    absence: Absence
    #: Of the entry relay's part, from the digests of its batch: where the outer capsule stands, or that it does not.
    batch_place: Place | None = None
    batch_absence: Absence | None = None

    def to_content(self) -> dict[str, Any]:
        """As the file writes it."""
        return {
            "absence": self.absence.to_content(),
            "batch_absence": None if self.batch_absence is None else self.batch_absence.to_content(),
            "batch_place": None if self.batch_place is None else self.batch_place.to_content(),
            "package": self.package,
        }

    @classmethod
    def from_fields(cls, fields: Fields) -> PartProof:
        """As the file tells it; nothing is checked against a root."""
        found = cls(
            package=fields.integer("package", 0),
            absence=Absence.from_fields(fields.inner("absence")),
            batch_place=None if fields.is_null("batch_place") else Place.from_fields(fields.inner("batch_place")),
            batch_absence=None
            if fields.is_null("batch_absence")
            else Absence.from_fields(fields.inner("batch_absence")),
        )
        fields.done()
        if found.batch_place is not None and found.batch_absence is not None:
            raise MalformedMessageError("a capsule stands in the entry relay's batch, or does not: not both")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayedEvidence:
    """The parts, as they were served. **Nothing in it is checked**: ``examining.examine_relayed`` does that."""

    kind: RelayedKind
    #: The experiment's envelope.
    experiment: bytes
    #: Envelopes of the coordinator's documents, in their order.
    documents: tuple[bytes, ...] = ()
    #: Envelopes of the relays' statements.
    statements: tuple[bytes, ...] = ()
    #: A state and a net tally; the capsules of a shard and its sub-tally; a net tally and all shards' sub-tallies. What
    #: is signed are their digests, or roots over them.
    blobs: tuple[bytes, ...] = ()
    #: Of a package of an opened part, or of a shard.
    proof: PartProof | ShardProof | None = None

    def to_bytes(self) -> bytes:
        """The one encoding, which is the file."""
        content: dict[str, Any] = {
            "blobs": [base64_text(data) for data in self.blobs],
            "documents": [base64_text(data) for data in self.documents],
            "experiment": base64_text(self.experiment),
            "kind": self.kind.value,
            "proof": None if self.proof is None else self.proof.to_content(),
            "statements": [base64_text(data) for data in self.statements],
            "type": RELAYED_EVIDENCE_TYPE,
        }
        return encode_document(content)

    @classmethod
    def from_bytes(cls, data: bytes) -> RelayedEvidence:
        """Take a file apart; anything but a whole encoding is refused."""
        fields = Fields(decode_document(data, max_bytes=MAX_RELAYED_EVIDENCE_BYTES), "the evidence")
        fields.constant("type", RELAYED_EVIDENCE_TYPE)
        kind = fields.text("kind", longest=40)
        if kind not in {one.value for one in RelayedKind}:
            raise fields.refuse("kind")
        of_a_shard = kind == RelayedKind.WRONG_COUNT.value
        read_proof: Callable[[Fields], PartProof | ShardProof] = (
            ShardProof.from_fields if of_a_shard else PartProof.from_fields
        )
        found = cls(
            kind=RelayedKind(kind),
            experiment=fields.base64("experiment", longest=_MAX_DOCUMENT),
            documents=_many(fields, "documents", _MOST_DOCUMENTS, _MAX_DOCUMENT),
            statements=_many(fields, "statements", _MOST_STATEMENTS, _MAX_STATEMENT),
            blobs=_many(fields, "blobs", _MOST_BLOBS, MAX_BLOB_BYTES),
            proof=None if fields.is_null("proof") else read_proof(fields.inner("proof")),
        )
        fields.done()
        return found


def is_relayed_evidence(data: bytes) -> bool:
    """Whether a file says that it is of this type; whether it is, ``from_bytes`` tells."""
    # Keys are sorted, so the type stands last in every such file.
    return data.endswith(f'"type":"{RELAYED_EVIDENCE_TYPE}"}}'.encode())


@dataclass(frozen=True, slots=True)
class RelayedFinding:
    """What a piece of evidence shows, **verified**."""

    kind: RelayedKind
    who: Who
    #: Digest and title of the experiment.
    experiment: str
    title: str
    #: In one sentence.
    sentence: str


def _many(fields: Fields, name: str, most: int, longest: int) -> tuple[bytes, ...]:
    return tuple(
        Fields({"part": item}, "the evidence").base64("part", longest=longest)
        for item in fields.items(name, longest=most)
    )
