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

This is the format. ``examination`` says what a file shows; it needs the file alone: no network, no clock, no secret. As
with evidence about other experiments, the keys that count stand in the experiment, which signs itself.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated, ClassVar

from secvm.errors import BadProofError, MalformedMessageError
from secvm.protocol.canonical import Fields
from secvm.protocol.documents.experiment import MAX_DOCUMENT_BYTES, ExperimentDocument
from secvm.protocol.records import FieldKind, Record, TypedRecord, choice, listed, long_bytes, whole
from secvm.protocol.relays.batches.capsule_tree import Absence, Place
from secvm.protocol.relays.batches.counts import EntryCount
from secvm.protocol.relays.counting.shards import ShardProof
from secvm.protocol.relays.cover.reveals import MAX_REVEAL_BYTES
from secvm.protocol.relays.opening import MAX_OPENING_BYTES
from secvm.protocol.relays.statements import ENVELOPE_BYTES
from secvm.protocol.version import RELAYED_EVIDENCE_TYPE

#: A state and a tally of the largest experiment that ``examination`` looks at.
MAX_RELAYED_EVIDENCE_BYTES = 2**31
MAX_BLOB_BYTES = 2**29
#: Many signatures of a coordinator may stand around the largest document.
_DOCUMENT = long_bytes(max(MAX_DOCUMENT_BYTES, MAX_OPENING_BYTES) + 2**12)


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
        entry = f"{document.entry_relay.operator} ({Who.ENTRY.value})"
        mix = f"{document.mix_relay.operator} ({Who.MIX.value})"
        return {Who.ENTRY: entry, Who.MIX: mix, Who.EITHER: f"{entry} or {mix}"}.get(self, self.value)


def who_lost(outer: bytes, count: EntryCount, place: Place | None, absence: Absence | None) -> Who:
    """Which relay left a capsule out: by where its outer digest stands in the entry relay's batch, if that is shown.

    Raises ``BadProofError`` where what is shown is not true.
    """
    if absence is not None:
        absence.check(outer, size=count.capsules, root=count.root)
        return Who.ENTRY
    if place is None:
        return Who.EITHER
    if place.digest != outer:
        raise BadProofError("the entry relay's batch is shown for another capsule than the one that is missing")
    place.check(size=count.capsules, root=count.root)
    return Who.MIX


@dataclass(frozen=True, slots=True, kw_only=True)
class PartProof(Record):
    """That a package of an opened part is not under the mixing relay's root."""

    #: Its number in the part.
    package: Annotated[int, whole(0)]
    #: Of its inner capsule, under the mixing relay's root.
    absence: Absence
    #: Of the entry relay's part, from the digests of its batch: where the outer capsule stands, or that it does not.
    batch_place: Place | None = None
    batch_absence: Absence | None = None

    def _check_whole(self) -> None:
        if self.batch_place is not None and self.batch_absence is not None:
            raise MalformedMessageError("a capsule stands in the entry relay's batch, or does not: not both")


def _read_proof(fields: Fields, name: str) -> PartProof | ShardProof:
    """A shard's proof has a label, and a part's has none."""
    inner = fields.inner(name)
    return ShardProof.from_fields(inner) if inner.has("label") else PartProof.from_fields(inner)


_PROOF = FieldKind(_read_proof, lambda proof: proof.to_content())


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayedEvidence(TypedRecord):
    """The parts, as they were served. **Nothing in it is checked**: ``examination.examine_relayed`` does that."""

    purpose: ClassVar[str] = RELAYED_EVIDENCE_TYPE
    title: ClassVar[str] = "the evidence"
    longest: ClassVar[int] = MAX_RELAYED_EVIDENCE_BYTES

    kind: Annotated[RelayedKind, choice(RelayedKind)]
    #: The experiment's envelope.
    experiment: Annotated[bytes, _DOCUMENT]
    #: Envelopes of the coordinator's documents, in their order.
    documents: Annotated[tuple[bytes, ...], listed(_DOCUMENT, longest=3)] = ()
    #: Envelopes of the relays' statements.
    statements: Annotated[tuple[bytes, ...], listed(long_bytes(MAX_REVEAL_BYTES + ENVELOPE_BYTES), longest=4)] = ()
    #: A state and a net tally; the capsules of a shard and its sub-tally; a net tally and all shards' sub-tallies. What
    #: is signed are their digests, or roots over them.
    blobs: Annotated[tuple[bytes, ...], listed(long_bytes(MAX_BLOB_BYTES), longest=2)] = ()
    #: Of a package of an opened part, or of a shard.
    proof: Annotated[PartProof | ShardProof, _PROOF] | None = None

    def _check_whole(self) -> None:
        if self.proof is not None and isinstance(self.proof, ShardProof) != (self.kind is RelayedKind.WRONG_COUNT):
            raise MalformedMessageError(f"evidence of kind {self.kind.value} with a proof of another kind")


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
