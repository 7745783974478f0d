"""Evidence: server-signed bytes that contradict each other, in one file that convinces whoever reads it.

Nothing in it is the device's word. ``examine`` needs the file alone: no network, no clock, no secret. Kinds:

    two-documents   two manifests for one round, two endings, or a manifest after the ending
    bad-document    a manifest or an ending that its experiment, or the manifest before it, does not allow
    wrong-step      a model that does not follow from the round before and the published tally, or a first one not zero
    wrong-counts    a tally beside which the document tells other counts, or that does not fit into the relay's
    forked-log      two checkpoints of one size with different roots
    not-in-log      a log that holds another document of this kind and round than the one that was signed; of either
                    version, as the other two about the log
    two-entries     a log that holds two entries of the experiment which cannot both stand where they do

The keys that count stand in the experiment, which signs itself. So the file convicts *whoever runs the experiment of
this digest*; that people took part in that very experiment, the digest they agreed to tells.

A server can put a mark into what it serves to one device: other signatures under a fork, another order. Whoever hands
evidence on may show who received it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated, ClassVar

from secvm.crypto.notes import NoteKey
from secvm.errors import InconsistentManifestError, MalformedMessageError
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.documents.blobs import decode_state, decode_tally
from secvm.protocol.documents.ending import Ending, accept_ending
from secvm.protocol.documents.experiment import ExperimentDocument, read_published
from secvm.protocol.documents.manifest import LastRound, RoundManifest, accept, last_round, read_relay_count
from secvm.protocol.documents.recomputation import first_model, next_model, what_differs
from secvm.protocol.evidence.examination import read_relayed_document
from secvm.protocol.evidence.plausibility import violations
from secvm.protocol.evidence.relayed import NOTHING, Finding, Who, check_parts, two_documents
from secvm.protocol.log.checkpoints import SignedCheckpoint, read_checkpoint
from secvm.protocol.log.entries import Entry, Placed, contradict
from secvm.protocol.log.proofs import LogProof
from secvm.protocol.records import Record, TypedRecord, choice, listed, long_bytes
from secvm.protocol.version import EVIDENCE_TYPE

#: The largest state that a device takes fits (``recomputation``): what it refuses it must be able to show.
MAX_EVIDENCE_BYTES = 2**31
#: Every file of evidence begins so, because its keys are sorted.
EVIDENCE_BEGINS = b'{"blobs":['
MAX_PART_BYTES = 2**29
MAX_DOCUMENTS = 2**16
#: What is made in memory to examine a file: a state has a few vectors.
MAX_STATE_BYTES = 2**29
_PART = long_bytes(MAX_PART_BYTES)
_DOCUMENTS: tuple[type[RoundManifest | Ending], ...] = (RoundManifest, Ending)


class Kind(enum.Enum):
    """What it shows."""

    TWO_DOCUMENTS = "two-documents"
    BAD_DOCUMENT = "bad-document"
    WRONG_STEP = "wrong-step"
    WRONG_COUNTS = "wrong-counts"
    FORKED_LOG = "forked-log"
    NOT_IN_LOG = "not-in-log"
    TWO_ENTRIES = "two-entries"


@dataclass(frozen=True, slots=True)
class LoggedEntry(Record):
    """A line of the log, and the proof file that shows it there. **Nothing in it is checked.**"""

    entry: Annotated[bytes, _PART]
    proof: Annotated[bytes, _PART]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence(TypedRecord):
    """The parts, as they were served. **Nothing in it is checked**: ``examine`` does that."""

    purpose: ClassVar[str] = EVIDENCE_TYPE
    title: ClassVar[str] = "the evidence"
    longest: ClassVar[int] = MAX_EVIDENCE_BYTES

    kind: Annotated[Kind, choice(Kind)]
    #: The experiment's envelope.
    experiment: Annotated[bytes, _PART]
    #: Envelopes of manifests and endings, in their order.
    documents: Annotated[tuple[bytes, ...], listed(_PART, longest=MAX_DOCUMENTS)] = ()
    #: Signed checkpoints.
    checkpoints: Annotated[tuple[bytes, ...], listed(_PART, longest=2)] = ()
    #: A state and a tally, whose digests are signed.
    blobs: Annotated[tuple[bytes, ...], listed(_PART, longest=2)] = ()
    #: Lines of the log, each with its proof.
    entries: Annotated[tuple[LoggedEntry, ...], listed(LoggedEntry, longest=2)] = ()


def examine(data: bytes) -> Finding[Kind]:
    """What this file shows, if it shows it.

    Raises
    ------
    RemoteProtocolError
        It shows nothing: a part is missing, not signed, or does not contradict the others.
    """
    evidence = Evidence.from_bytes(data)
    parts = (evidence.documents, evidence.checkpoints, evidence.blobs, evidence.entries)
    check_parts(parts, _PARTS[evidence.kind])
    document = read_published(evidence.experiment)
    sentence = _EXAMINE[evidence.kind](evidence, document)
    return Finding(evidence.kind, Who.COORDINATOR, document.digest, document.title, sentence)


#: How many documents, checkpoints, blobs and entries.
_PARTS = {
    Kind.TWO_DOCUMENTS: {(2, 0, 0, 0)},
    Kind.BAD_DOCUMENT: {(1, 0, 0, 0), (2, 0, 0, 0)},
    Kind.WRONG_STEP: {(1, 0, 0, 0), (2, 0, 2, 0)},
    Kind.WRONG_COUNTS: {(1, 0, 1, 0), (2, 0, 1, 0)},
    Kind.FORKED_LOG: {(0, 2, 0, 0)},
    Kind.NOT_IN_LOG: {(1, 0, 0, 1)},
    Kind.TWO_ENTRIES: {(0, 0, 0, 2)},
}


def _read(data: bytes, document: ExperimentDocument) -> RoundManifest | Ending:
    """A document that the coordinator of an experiment without relays' cover signed."""
    return document.read_any(_DOCUMENTS, data)


def _two_documents(evidence: Evidence, document: ExperimentDocument) -> str:
    first, second = (_read(data, document) for data in evidence.documents)
    return f"The coordinator {two_documents(first, second)}"


def _bad_document(evidence: Evidence, document: ExperimentDocument) -> str:
    *before, data = evidence.documents
    last = accept(before[0], document=document) if before else None
    accused = _read(data, document)
    try:
        if isinstance(accused, Ending):
            accept_ending(data, document=document, last=last)
        else:
            accept(data, document=document, last=last)
    except InconsistentManifestError as fault:
        what = "the ending" if isinstance(accused, Ending) else f"the manifest of round {accused.round_number}"
        return f"The coordinator signed what its own experiment does not allow: of {what}, {fault}."
    raise MalformedMessageError(NOTHING)


def _check_size(document: ExperimentDocument) -> None:
    """Before a model is made: a few lines can name an experiment that fills any memory."""
    if document.state_bytes > MAX_STATE_BYTES:
        raise MalformedMessageError("the evidence is of an experiment whose models are too large to be examined")


def _wrong_step(evidence: Evidence, document: ExperimentDocument) -> str:
    _check_size(document)
    *earlier, data = evidence.documents
    accused = _read(data, document)
    if not earlier:
        first = accused.round_number == (0 if isinstance(accused, Ending) else 1)
        differs = what_differs(accused, first_model(document)) if first else None
        if differs is None:
            raise MalformedMessageError(NOTHING)
        return f"The first model is not zero: the coordinator signed {differs}."
    before = accept(earlier[0], document=document).manifest
    if not _follows(accused, before) or accused.last is None or accused.last.tally is None:
        raise MalformedMessageError(NOTHING)
    state, tally = evidence.blobs
    experiment = document.experiment
    started = decode_state(state, digest=before.state, experiment=experiment)
    counted = decode_tally(tally, digest=accused.last.tally, experiment=experiment)
    try:
        differs = what_differs(accused, next_model(document, started, counted))
    except InconsistentManifestError as fault:
        return f"After round {before.round_number} the coordinator signed a model although {fault}."
    if differs is None:
        raise MalformedMessageError(NOTHING)
    return f"The model after round {before.round_number} does not follow: the coordinator signed {differs}."


def _wrong_counts(evidence: Evidence, document: ExperimentDocument) -> str:
    _check_size(document)
    (*earlier, data), (blob,) = evidence.documents, evidence.blobs
    accused = _read(data, document)
    if accused.last is None or accused.last.tally is None:
        raise MalformedMessageError(NOTHING)
    tally = decode_tally(blob, digest=accused.last.tally, experiment=document.experiment)
    if earlier:
        before = accept(earlier[0], document=document).manifest
        fault = count_fault(document, before, accused.last, tally) if _follows(accused, before) else None
        if fault is None:
            raise MalformedMessageError(NOTHING)
        return f"Of round {before.round_number} the coordinator signed what cannot be: {fault}."
    counted = last_round(tally)
    if (counted.cells, counted.participants) == (accused.last.cells, accused.last.participants):
        raise MalformedMessageError(NOTHING)
    return "The coordinator signed counts beside a tally that has others."


def _forked_log(evidence: Evidence, document: ExperimentDocument) -> str:
    first, second = (_note(note, document).checkpoint for note in evidence.checkpoints)
    if first.size != second.size or first.root == second.root:
        raise MalformedMessageError(NOTHING)
    return f"The log was forked: it signed two different trees of {first.size} entries."


def _not_in_log(evidence: Evidence, document: ExperimentDocument) -> str:
    read = _read if document.experiment.cover is None else read_relayed_document
    signed, placed = read(evidence.documents[0], document).log_entry, _placed(evidence.entries[0], document)
    if placed.entry.key != signed.key or placed.entry == signed:
        raise MalformedMessageError(NOTHING)
    what = signed.kind.value if signed.round_number is None else f"{signed.kind.value} of round {signed.round_number}"
    return f"The log holds, as its entry {placed.index}, another {what} than one that the coordinator signed."


def _two_entries(evidence: Evidence, document: ExperimentDocument) -> str:
    first, second = (_placed(logged, document) for logged in evidence.entries)
    if not contradict(first, second):
        raise MalformedMessageError(NOTHING)
    return (
        f"The log holds, as its entries {first.index} and {second.index}, two lines of the experiment that cannot both"
        " stand there."
    )


_EXAMINE = {
    Kind.TWO_DOCUMENTS: _two_documents,
    Kind.BAD_DOCUMENT: _bad_document,
    Kind.WRONG_STEP: _wrong_step,
    Kind.WRONG_COUNTS: _wrong_counts,
    Kind.FORKED_LOG: _forked_log,
    Kind.NOT_IN_LOG: _not_in_log,
    Kind.TWO_ENTRIES: _two_entries,
}


# ── counts ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def count_fault(document: ExperimentDocument, before: RoundManifest, last: LastRound, tally: Tally) -> str | None:
    """Why the round of ``before`` cannot have had this tally, given the relay's count in ``last``; None: it can.

    Only what no participant can have brought about (``plausibility``).
    """
    count = None if last.relay_count is None else read_relay_count(last.relay_count, document)
    broken = violations(document, tally, count, opened_at=before.opens_at)
    return next((violation.sentence.rstrip(".") for violation in broken if violation.whatever_people_send), None)


def _follows(accused: RoundManifest | Ending, before: RoundManifest) -> bool:
    return (accused.manifest if isinstance(accused, Ending) else accused.previous) == before.digest


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _note(data: bytes, document: ExperimentDocument) -> SignedCheckpoint:
    return read_checkpoint(data, log=_log_key(document))


def _placed(logged: LoggedEntry, document: ExperimentDocument) -> Placed:
    """An entry of the experiment that stands in its log."""
    entry, proof = Entry.from_bytes(logged.entry), LogProof.from_bytes(logged.proof)
    if entry.experiment != document.digest:
        raise MalformedMessageError("the evidence has an entry of another experiment")
    proof.check(logged.entry, log=_log_key(document))
    return Placed(proof.index, entry)


def _log_key(document: ExperimentDocument) -> NoteKey:
    if document.log is None:
        raise MalformedMessageError("the evidence speaks of a log, and the experiment has none")
    return document.log.log_key
