"""What a device has checked of a server, for the person whose device it is: in numbers, and in plain words."""

from __future__ import annotations

from typing import Any

from secvm.errors import RemoteProtocolError
from secvm.participant.storage.state import DeviceState
from secvm.participant.storage.trust_book import MISSING, RECOUNTED, REFETCHED, SEEN, STEPS, UNANSWERED, UNCHECKED
from secvm.participant.trust.evidence import convicts
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.log.checkpoints import Checkpoint, read_checkpoint
from secvm.protocol.log.terms import LogTerms
from secvm.protocol.trust.trusted_rounds import Trusted

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
