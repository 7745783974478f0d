"""What a device holds against a server: kept as files that convince others, and explained to its person.

Each file holds what the server signed and nothing of this device (``protocol.evidence``). But a server may have put a
mark into what it served here; whoever hands a file on may show by that who received it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace

from secvm.errors import BadInputError, RemoteProtocolError
from secvm.participant.storage.state import DeviceState, ExperimentRecord
from secvm.protocol.evidence.examination import examine_relayed
from secvm.protocol.evidence.missing_canary import BEGINS, examine_canary
from secvm.protocol.evidence.plain import Evidence, Finding, Kind, examine
from secvm.protocol.evidence.relayed import RelayedFinding
from secvm.protocol.plain.session_events import Abstain, Reason

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
    pieces = []
    for record in records:
        for data in state.evidence(record.digest):
            if data.startswith(BEGINS):
                held = _of_canary(data)
                pieces += [] if held is None else [held]
                continue
            finding = _examined(data)
            if finding is not None:
                pieces.append(Held(finding.experiment, finding.title, finding.sentence, finding.kind.value, data))
    return pieces


def _examined(data: bytes) -> Finding | RelayedFinding | None:
    """What evidence of one relay or of two shows; None: nothing, as single documents of older states."""
    for judge in (examine, examine_relayed):
        with contextlib.suppress(RemoteProtocolError):
            return judge(data)
    return None


def _of_canary(data: bytes) -> Held | None:
    try:
        finding = examine_canary(data)
    except RemoteProtocolError:
        return None
    document = finding.document
    return Held(document.digest, document.title, finding.sentence, "missing-canary", data)


def choose_one(held: list[Held], number: int | None) -> Held:
    """The piece that a person names by its number, from 1; with one piece the number may be left out."""
    if not held:
        raise BadInputError("this device holds no evidence")
    if number is None and len(held) > 1:
        raise BadInputError("this device holds several pieces of evidence", next_step="Name one with --number.")
    if number is not None and not 1 <= number <= len(held):
        raise BadInputError("there is no piece of evidence of this number")
    return held[(number or 1) - 1]
