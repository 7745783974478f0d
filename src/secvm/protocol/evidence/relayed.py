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

This is the format, and what a file shows against a relay: each function takes evidence of one kind with the experiment
that it brings, and says whom it convicts and of what, or raises ``RemoteProtocolError``. No honest relay can be
convicted: it signs one statement of a kind for a label, ever, derives its cover, and answers only what it has checked.
``examination`` says what any file shows; it needs the file alone: no network, no clock, no secret. As with evidence
about other experiments, the keys that count stand in the experiment, which signs itself.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Sequence, Sized
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from secvm.crypto.signing import VerifyKey
from secvm.errors import BadProofError, BadSignatureError, MalformedMessageError
from secvm.protocol.canonical import Fields
from secvm.protocol.documents.experiment import MAX_DOCUMENT_BYTES, ExperimentDocument
from secvm.protocol.documents.faults import OpeningFault
from secvm.protocol.log.entries import CoordinatorRecord, EntryKind
from secvm.protocol.records import FieldKind, Record, TypedRecord, choice, listed, long_bytes, whole
from secvm.protocol.relays.batches import Absence, Place, capsule_digest
from secvm.protocol.relays.commitments import EntryCommitment, MixCommitment
from secvm.protocol.relays.counts import MAX_REVEAL_BYTES, EntryCount, EntryReveal, MixCount, MixReveal
from secvm.protocol.relays.cover_parts import OpenedPart, Role
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import MAX_OPENING_BYTES
from secvm.protocol.relays.shards import ShardProof
from secvm.protocol.relays.statements import ENVELOPE_BYTES, Statement
from secvm.protocol.relays.submission import Receipt
from secvm.protocol.version import RELAYED_EVIDENCE_TYPE

#: A state and a tally of the largest experiment that ``examination`` looks at.
MAX_RELAYED_EVIDENCE_BYTES = 2**31
MAX_BLOB_BYTES = 2**29
#: Many signatures of a coordinator may stand around the largest document.
_DOCUMENT = long_bytes(max(MAX_DOCUMENT_BYTES, MAX_OPENING_BYTES) + 2**12)


NOTHING = "the evidence does not show what it says"
K = TypeVar("K", bound=enum.Enum)


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
class Finding(Generic[K]):
    """What a piece of evidence shows, **verified**."""

    kind: K
    who: Who
    #: Digest and title of the experiment.
    experiment: str
    title: str
    #: In one sentence.
    sentence: str


def check_parts(parts: Sequence[Sized], allowed: Collection[tuple[int, ...]]) -> None:
    """Nothing that is not looked at: a file shows one thing, and carries nothing else along."""
    if tuple(map(len, parts)) not in allowed:
        raise MalformedMessageError("the evidence lacks a part, or has one too many")


def two_documents(first: CoordinatorRecord, second: CoordinatorRecord) -> str:
    """What the coordinator did who signed these: one of a kind for a round, and nothing after the ending."""
    kinds, rounds = (first.entry_kind, second.entry_kind), (first.round_number, second.round_number)
    if first.data != second.data:
        if kinds == (EntryKind.ENDING, EntryKind.ENDING):
            return "signed two different endings."
        if kinds[0] is kinds[1] and rounds[0] == rounds[1]:
            joined = "for" if first.entry_kind is EntryKind.MANIFEST else "of"
            return f"signed two different {first.entry_kind.value}s {joined} round {rounds[0]}."
        if kinds == (EntryKind.ENDING, EntryKind.MANIFEST) and rounds[1] > rounds[0]:
            return f"ended the experiment, and signed a manifest for round {rounds[1]}."
        if kinds == (EntryKind.MANIFEST, EntryKind.ENDING):
            return two_documents(second, first)
    raise MalformedMessageError(NOTHING)


#: To examine a part it is drawn again: a few lines can name an experiment that would take days.
MAX_EXAMINED_TALLY_BYTES = MAX_EXAMINED_PACKAGES = 2**28

Verdict = tuple[Who, str]
S = TypeVar("S", EntryCount, MixCount, EntryReveal, MixReveal)
#: Kinds of statements: whose each is, and what it is signed once for.
_ONCE: dict[type[Statement], tuple[Who, Callable[[Any], object]]] = {
    EntryCommitment: (Who.ENTRY, lambda statement: (statement.experiment, statement.round_number)),
    MixCommitment: (Who.MIX, lambda statement: (statement.experiment, statement.round_number)),
    Receipt: (Who.ENTRY, lambda statement: (statement.label, statement.root)),
    EntryCount: (Who.ENTRY, lambda statement: statement.label),
    MixCount: (Who.MIX, lambda statement: statement.label),
    EntryReveal: (Who.ENTRY, lambda statement: statement.label),
    MixReveal: (Who.MIX, lambda statement: statement.label),
}


def two_statements(evidence: RelayedEvidence, document: ExperimentDocument) -> Verdict:
    """One relay, one kind, one label or round or request: two different statements."""
    for kind, (who, place) in _ONCE.items():
        try:
            first, second = (kind.enclosed(data) for data in evidence.statements)
        except MalformedMessageError:
            continue
        first, second = (kind.read(data, _key(who, document)) for data in evidence.statements)
        if first.data == second.data or place(first) != place(second):
            break
        what = kind.title.removeprefix("the ").replace("relay's ", "relay's two different ")
        return who, f"It signed two statements where it signs one: {what}s for the same round or request."
    raise MalformedMessageError(NOTHING)


def false_count(evidence: RelayedEvidence, document: ExperimentDocument, manifest: RelayedManifest) -> Verdict:
    """The entry relay's count alone, or the mixing relay's after it."""
    cover = document.relay_cover
    entry = _read(EntryCount, evidence.statements[0], document, manifest)
    if len(evidence.statements) == 1:
        if entry.adds_up(budget=document.budget, packages=cover.packages):
            raise MalformedMessageError(NOTHING)
        return Who.ENTRY, (
            f"It counted {entry.capsules} capsules of {entry.clients} submissions; with {document.budget} of each and"
            f" its cover they are {document.budget * entry.clients + cover.packages}."
        )
    mix = _read(MixCount, evidence.statements[1], document, manifest)
    if mix.entry_count != entry.digest or mix.adds_up(entry, packages=cover.packages):
        raise MalformedMessageError(NOTHING)
    return Who.MIX, (
        f"It counted {mix.capsules} capsules after {entry.capsules} came and {mix.refused} were refused; with its"
        f" cover they are {entry.capsules - mix.refused + cover.packages}."
    )


def false_reveal(evidence: RelayedEvidence, document: ExperimentDocument, manifest: RelayedManifest) -> Verdict:
    """The entry relay's reveal alone, or the mixing relay's after it."""
    entry = _read(EntryReveal, evidence.statements[0], document, manifest)
    who, reveal = Who.ENTRY, entry.mix_count
    if len(evidence.statements) == 2:
        mix = _read(MixReveal, evidence.statements[1], document, manifest)
        if mix.entry_reveal != entry.digest:
            raise MalformedMessageError(NOTHING)
        who, reveal = Who.MIX, mix.mix_count
        faults = _mix_faults(mix, entry, document, manifest)
    else:
        faults = _entry_faults(entry, document, manifest)
    if not _is_count_of(reveal, document.mix_relay.key, manifest):
        return who, "Its reveal answers a count that the mixing relay did not sign for this round."
    if not faults:
        raise MalformedMessageError(NOTHING)
    first = next(fault for fault in OpeningFault if fault in faults)
    return who, f"Its reveal is not what it was bound to: {first.value}."


def part_not_in_batch(evidence: RelayedEvidence, document: ExperimentDocument, manifest: RelayedManifest) -> Verdict:
    """A capsule of an opened part that should be under the mixing relay's root, and is not."""
    proof = evidence.proof
    if not isinstance(proof, PartProof):
        raise MalformedMessageError(NOTHING)
    opened = _Opened.read(evidence.statements, document, manifest)
    largest = document.relay_cover.packages > MAX_EXAMINED_PACKAGES
    if largest or document.tally_bytes > MAX_EXAMINED_TALLY_BYTES:
        raise MalformedMessageError("the evidence is of an experiment whose cover is too large to be examined")
    part = OpenedPart.of(opened.role, document, manifest, opened.entry_count, opened.seed)
    if proof.package >= part.part.size:
        raise MalformedMessageError(f"the evidence names package {proof.package} of a part of {part.part.size}")
    inner, outer = part.capsules(proof.package)
    count = opened.mix_count
    proof.absence.check(capsule_digest(inner), size=count.capsules, root=count.root)
    who = Who.MIX
    if outer is not None:
        who = who_lost(capsule_digest(outer), opened.entry_count, proof.batch_place, proof.batch_absence)
    if outer is None and (proof.batch_place is not None or proof.batch_absence is not None):
        raise MalformedMessageError("the mixing relay's cover was never in the entry relay's batch")
    return who, (
        f"Package {proof.package} of the {'mixing' if outer is None else 'entry'} relay's opened part is not among"
        " the capsules that the mixing relay handed on."
    )


@dataclass(frozen=True, slots=True)
class _Opened:
    """Counts and reveals that fit each other and the manifest's commitments."""

    role: Role
    entry_count: EntryCount
    mix_count: MixCount
    seed: bytes

    @classmethod
    def read(cls, statements: tuple[bytes, ...], document: ExperimentDocument, manifest: RelayedManifest) -> _Opened:
        """Both counts and the entry relay's reveal; and the mixing relay's, where its part is looked at."""
        entry_count = _read(EntryCount, statements[0], document, manifest)
        mix_count = _read(MixCount, statements[1], document, manifest)
        reveal = _read(EntryReveal, statements[2], document, manifest)
        fits = mix_count.entry_count == entry_count.digest and reveal.answered == mix_count.digest
        if not fits or _entry_faults(reveal, document, manifest):
            raise MalformedMessageError("counts and reveals of the evidence do not belong together")
        if len(statements) == 3:
            return cls("entry", entry_count, mix_count, reveal.seed)
        answer = _read(MixReveal, statements[3], document, manifest)
        if answer.entry_reveal != reveal.digest or _mix_faults(answer, reveal, document, manifest):
            raise MalformedMessageError("counts and reveals of the evidence do not belong together")
        return cls("mix", entry_count, mix_count, answer.seed)


def _entry_faults(reveal: EntryReveal, document: ExperimentDocument, manifest: RelayedManifest) -> set[OpeningFault]:
    """What of a reveal its relay was not bound to."""
    bound = EntryCommitment.read(manifest.entry, document.entry_relay.key)
    parts = document.relay_cover.parts
    return reveal.faults(label=manifest.label, commitment=bound, mix_count=reveal.answered, parts=parts)


def _mix_faults(
    reveal: MixReveal, answered: EntryReveal, document: ExperimentDocument, manifest: RelayedManifest
) -> set[OpeningFault]:
    bound, parts = MixCommitment.read(manifest.mix, document.mix_relay.key), document.relay_cover.parts
    count = reveal.answered
    return reveal.faults(label=manifest.label, commitment=bound, entry_reveal=answered, mix_count=count, parts=parts)


def _is_count_of(envelope: bytes, key: VerifyKey, manifest: RelayedManifest) -> bool:
    try:
        return MixCount.read(envelope, key).label == manifest.label
    except (MalformedMessageError, BadSignatureError):
        return False


def _key(who: Who, document: ExperimentDocument) -> VerifyKey:
    return document.entry_relay.key if who is Who.ENTRY else document.mix_relay.key


def _read(kind: type[S], envelope: bytes, document: ExperimentDocument, manifest: RelayedManifest) -> S:
    """A statement for the manifest's label: a relay signs for a label only when it holds that manifest."""
    statement = kind.read(envelope, _key(_ONCE[kind][0], document))
    if statement.label != manifest.label:
        raise MalformedMessageError("the parts of the evidence are of different rounds")
    return statement
