"""What a device has checked of a server, and what it holds against it: for its person, in numbers and words.

Evidence is kept as files that convince others. Each holds what the server signed and nothing of this device
(``protocol.evidence``). But a server may have put a mark into what it served here; whoever hands a file on may show by
that who received it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from secvm.errors import BadInputError, RemoteProtocolError
from secvm.participant.storage.books import MISSING, RECOUNTED, REFETCHED, SEEN, STEPS, UNANSWERED, UNCHECKED
from secvm.participant.storage.state import DeviceState, ExperimentRecord
from secvm.privacy.sentences import Sentence, say
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.evidence.examination import examine_relayed
from secvm.protocol.evidence.missing_canary import BEGINS, examine_canary
from secvm.protocol.evidence.plain import Evidence, Kind, examine
from secvm.protocol.log.checkpoints import Checkpoint, read_checkpoint
from secvm.protocol.log.policy import LogTerms
from secvm.protocol.plain.session_events import Abstain, Reason
from secvm.protocol.relays.submission import RECOUNTED_ONE_IN
from secvm.protocol.trust.trusted_rounds import Trusted

WATERMARK = (
    "A server can put a mark into what it serves to one device: other signatures, another order. Whoever reads the file"
    " may learn from such a mark that this device received it, and so that you took part."
)
_KINDS = {Reason.EQUIVOCATION: Kind.TWO_DOCUMENTS, Reason.BAD_MANIFEST: Kind.BAD_DOCUMENT}


@dataclass(frozen=True, slots=True)
class Held:
    """One piece of evidence on this device."""

    #: Digest of the experiment.
    experiment: str
    title: str
    #: What it shows, in one sentence; verified again whenever it is shown.
    sentence: str
    kind: str
    data: bytes = field(repr=False)


def as_file(abstain: Abstain, experiment: bytes) -> Abstain:
    """With the signed documents that a session saw put into one file; ``experiment`` is the document's envelope.

    What shows nothing to others is not kept: another experiment's manifest in the place of this one's, say.
    """
    kind = _KINDS.get(abstain.reason)
    if kind is None or not abstain.evidence:
        return abstain
    file = Evidence(kind=kind, experiment=experiment, documents=abstain.evidence).to_bytes()
    try:
        examine(file)
    except RemoteProtocolError:
        return replace(abstain, evidence=())
    return replace(abstain, evidence=(file,))


def convicts(state: DeviceState, digest: str) -> bool:
    """Whether this device holds evidence against the coordinator or its log: then it sends nothing more, for good.

    That a relay left a canary out is for the person to weigh: who resumes goes on.
    """
    return any(not data.startswith(BEGINS) for data in state.evidence(digest))


def evidence_of(state: DeviceState, records: list[ExperimentRecord]) -> list[Held]:
    """All evidence of these experiments that verifies."""
    pieces = (_examined(data) for record in records for data in state.evidence(record.digest))
    return [held for held in pieces if held is not None]


def _examined(data: bytes) -> Held | None:
    """What this shows; None: nothing, as single documents of older states."""
    with contextlib.suppress(RemoteProtocolError):
        if data.startswith(BEGINS):
            missing = examine_canary(data)
            return Held(missing.document.digest, missing.document.title, missing.sentence, "missing-canary", data)
    for judge in (examine, examine_relayed):
        with contextlib.suppress(RemoteProtocolError):
            finding = judge(data)
            return Held(finding.experiment, finding.title, finding.sentence, finding.kind.value, data)
    return None


def in_a_list(held: Sequence[Held]) -> list[dict[str, Any]]:
    """What a person is told of each piece, by the number that names it."""
    return [
        {
            "number": number,
            "experiment": piece.experiment,
            "title": piece.title,
            "kind": piece.kind,
            "sentence": piece.sentence,
        }
        for number, piece in enumerate(held, 1)
    ]


def choose_one(held: list[Held], number: int | None) -> Held:
    """The piece that a person names by its number, from 1; with one piece the number may be left out."""
    if not held:
        raise BadInputError("this device holds no evidence")
    if number is None and len(held) > 1:
        raise BadInputError("this device holds several pieces of evidence", next_step="Name one with --number.")
    if number is not None and not 1 <= number <= len(held):
        raise BadInputError("there is no piece of evidence of this number")
    return held[(number or 1) - 1]


def trust_report(state: DeviceState, document: ExperimentDocument) -> dict[str, Any]:
    """Everything about one experiment, with one relay or two; ``told`` in sentences."""
    digest, terms = document.digest, document.log
    checks, checkpoint = state.trust.checks(digest), _last_checkpoint(state, document)
    unopened = sorted(state.relayed.unopened(digest))
    report: dict[str, Any] = {
        "log": None if terms is None else terms.log_key.name,
        "witnesses": [] if terms is None else [witness.name for witness in terms.witnesses],
        "quorum": None if terms is None else terms.quorum,
        "checkpoint": None if checkpoint is None else {"size": checkpoint.size, "root": checkpoint.root.hex()},
        "checks": checks,
        "unopened": unopened,
        "evidence": len(state.evidence(digest)),
        "convicted": convicts(state, digest),
        "distrust": state.trust.distrust(digest),
    }
    report["told"] = [
        *([say("checked.no-log")] if terms is None else _of_log(terms, checkpoint, checks)),
        *_of_rounds(document, checks, unopened),
        *_against(report),
    ]
    return report


def _of_log(terms: LogTerms, checkpoint: Checkpoint | None, checks: dict[str, int]) -> list[Sentence]:
    names = [witness.name for witness in terms.witnesses]
    return [
        say("checked.log", log=terms.log_key.name, quorum=terms.quorum, of=len(names), names=", ".join(names)),
        say("checked.nothing") if checkpoint is None else say("checked.lines", lines=checkpoint.size),
        say("checked.looks", answered=checks[REFETCHED], unanswered=checks[UNANSWERED]),
    ]


def _of_rounds(document: ExperimentDocument, checks: dict[str, int], unopened: list[int]) -> list[Sentence]:
    relayed = document.experiment.cover is not None
    if document.log is None and not relayed:
        return [say("checked.no-steps")]
    steps = say("checked.steps", steps=checks[STEPS])
    if not relayed:
        return [steps, say("checked.blind")]
    return [
        steps,
        say("checked.canaries", seen=checks[SEEN], missing=checks[MISSING], unchecked=checks[UNCHECKED]),
        *([say("checked.unopened", numbers=", ".join(map(str, unopened)))] if unopened else []),
        say("checked.recounted", recounted=checks[RECOUNTED], of=RECOUNTED_ONE_IN),
    ]


def _against(report: dict[str, Any]) -> list[Sentence]:
    sentences, distrust = [], report["distrust"]
    if report["convicted"]:
        sentences.append(say("checked.evidence"))
    elif report["evidence"]:
        sentences.append(say("checked.left-out"))
    if distrust is not None:
        sentences.append(say("checked.ended" if report["convicted"] else "checked.waits", why=distrust))
    return sentences


def _last_checkpoint(state: DeviceState, document: ExperimentDocument) -> Checkpoint | None:
    """The newest one under which something was believed."""
    if document.log is None:
        return None
    try:
        seen = state.relayed.log(document.digest)
        parts = state.trust.trusted(document.digest)
        if seen is None and parts is not None:
            seen = Trusted.from_parts(*parts).log
        note = None if seen is None else seen.checkpoint
        return None if note is None else read_checkpoint(note, log=document.log.log_key).checkpoint
    except RemoteProtocolError:
        return None
