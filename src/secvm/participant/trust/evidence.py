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
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.evidence.examination import examine_relayed
from secvm.protocol.evidence.missing_canary import BEGINS, examine_canary
from secvm.protocol.evidence.plain import Evidence, Kind, examine
from secvm.protocol.log.checkpoints import Checkpoint, read_checkpoint
from secvm.protocol.log.policy import LogTerms
from secvm.protocol.plain.session_events import Abstain, Reason
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


_NO_LOG = "It has no log: your device cannot tell whether everybody is told the same."
_NO_STEPS = "Nor can it tell whether the model follows from what was counted."


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
        *([_NO_LOG] if terms is None else _of_log(terms, checkpoint, checks)),
        *_of_rounds(document, checks, unopened),
        *_against(report),
    ]
    return report


def _of_log(terms: LogTerms, checkpoint: Checkpoint | None, checks: dict[str, int]) -> list[str]:
    names = [witness.name for witness in terms.witnesses]
    return [
        (
            f"Its rounds stand in the log {terms.log_key.name}, and count when {terms.quorum} of"
            f" {len(names)} witnesses have cosigned: {', '.join(names)}."
        ),
        "Your device has checked no round of it yet."
        if checkpoint is None
        else f"Your device has read all {checkpoint.size} lines of the log, those of other experiments too.",
        (
            f"It looked at the log again {checks[REFETCHED]} times while a window was open, and was not answered"
            f" {checks[UNANSWERED]} times."
        ),
    ]


def _of_rounds(document: ExperimentDocument, checks: dict[str, int], unopened: list[int]) -> list[str]:
    relayed = document.experiment.cover is not None
    if document.log is None and not relayed:
        return [_NO_STEPS]
    steps = (
        f"It has computed {checks[STEPS]} steps of the model again: each follows from the published tally. That the"
        " tallies are true this does not show."
    )
    if not relayed:
        return [steps, "Whether what it sent was counted it cannot see."]
    numbers = f" ({', '.join(map(str, unopened))})" if unopened else ""
    return [
        steps,
        (
            f"It found {checks[SEEN]} of its canaries among what was handed on; {checks[MISSING]} were missing,"
            f" {checks[UNCHECKED]} could not be looked for in time. {len(unopened)} of its rounds were"
            f" unopened{numbers}."
        ),
        (
            f"It counted the shards of {checks[RECOUNTED]} of these again, every package that lay with them, and came"
            " to the published counts. In which rounds it does so is drawn, one of 64."
        ),
    ]


def _against(report: dict[str, Any]) -> list[str]:
    sentences, distrust = [], report["distrust"]
    if report["convicted"]:
        sentences.append(
            "It holds evidence against the server, and sends nothing more. See: secvm participant evidence"
        )
    elif report["evidence"]:
        sentences.append("It holds evidence that a relay left a package of it out. See: secvm participant evidence")
    if distrust is not None and report["convicted"]:
        sentences.append(f"It takes no part any more: {distrust}.")
    elif distrust is not None:
        sentences.append(f"It takes no part for now: {distrust}. To go on all the same: secvm participant resume")
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
