"""What a device has checked of a server, for the person whose device it is: in numbers, and in plain words."""

from __future__ import annotations

from typing import Any

from secvm.errors import RemoteProtocolError
from secvm.participant.state import DeviceState
from secvm.participant.trust_book import MISSING, RECEIPTS, REFETCHED, STEPS, UNANSWERED, UNCHECKED
from secvm.protocol.checkpoints import Checkpoint, read_checkpoint
from secvm.protocol.experiment_document import ExperimentDocument
from secvm.protocol.trusted_rounds import Trusted

_NO_LOG = (
    "It has no log: your device cannot tell whether everybody is told the same, nor whether the model follows from what"
    " was counted."
)


def trust_report(state: DeviceState, document: ExperimentDocument) -> dict[str, Any]:
    """Everything about one experiment; ``told`` in sentences."""
    evidence = len(state.evidence(document.digest))
    distrust = state.trust.distrust(document.digest)
    found: dict[str, Any] = {"log": None, "evidence": evidence, "distrust": distrust, "told": []}
    terms = document.log
    if terms is None:
        found["told"] = [_NO_LOG, *_against(evidence, None)]
        return found
    checks, checkpoint = state.trust.checks(document.digest), _last_checkpoint(state, document)
    names = [witness.name for witness in terms.witnesses]
    found |= {
        "log": terms.log_key(document.digest).name,
        "witnesses": names,
        "quorum": terms.quorum,
        "checkpoint": None if checkpoint is None else {"size": checkpoint.size, "root": checkpoint.root.hex()},
        "checks": checks,
    }
    found["told"] = [
        (
            f"Its rounds stand in the log {terms.log_key(document.digest).name}, and count when {terms.quorum} of"
            f" {len(names)} witnesses have cosigned: {', '.join(names)}."
        ),
        "Your device has checked no round of it yet."
        if checkpoint is None
        else (
            f"Your device has checked all {checkpoint.size} entries of the log, and computed {checks[STEPS]} steps of"
            " the model again: each follows from the published tally. That the tallies are true this does not show."
        ),
        (
            f"It looked at the log again {checks[REFETCHED]} times while a window was open, and was not answered"
            f" {checks[UNANSWERED]} times. It found {checks[RECEIPTS]} of its capsules under a received root;"
            f" {checks[MISSING]} were missing, {checks[UNCHECKED]} could not be looked for in time."
        ),
        *_against(evidence, distrust),
    ]
    return found


def _against(evidence: int, distrust: str | None) -> list[str]:
    told = []
    if evidence:
        told.append("It holds evidence against the server, and sends nothing more. See: secvm participant evidence")
    if distrust is not None:
        told.append(
            f"It takes no part for now: {distrust}. It is your word against the server's. To go on all the same: secvm"
            " participant resume"
        )
    return told


def _last_checkpoint(state: DeviceState, document: ExperimentDocument) -> Checkpoint | None:
    parts = state.trust.trusted(document.digest)
    if parts is None or document.log is None:
        return None
    try:
        note = Trusted.from_parts(*parts).checkpoint
        return None if note is None else read_checkpoint(note, log=document.log.log_key(document.digest)).checkpoint
    except RemoteProtocolError:
        return None
