"""All checks of one experiment, in their order, whatever each of them finds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from secvm.auditor.experiment_list import ListEntry
from secvm.auditor.files import MOST_JSON_BYTES, experiment_path
from secvm.auditor.findings import EnoughError
from secvm.auditor.log.log_check import log_check
from secvm.auditor.log.salt_check import UNKNOWN, CheckedSalt, SaltCheck
from secvm.auditor.log.whole_log import WholeLog
from secvm.auditor.relayed.replay import RelayedReplay
from secvm.auditor.replay import Replay
from secvm.auditor.report import ExperimentReport, RoundFacts, RoundReport
from secvm.auditor.subject import Subject
from secvm.crypto.beacons.sources import BeaconSource
from secvm.errors import ArithmeticRangeError
from secvm.learning import aggregate
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import LastRound


def audit_experiment(
    subject: Subject,
    replay: Replay | RelayedReplay,
    *,
    log: WholeLog | None,
    listed: ListEntry | None,
    beacons: BeaconSource | None,
) -> ExperimentReport:
    """Audit one experiment.

    Parameters
    ----------
    log
        The coordinator's log.
    listed
        What the coordinator's list says of the experiment.
    beacons
        Where to fetch records of public randomness besides.
    """
    document, findings = subject.document, subject.findings
    salt, log_size, committed_at = CheckedSalt(UNKNOWN), None, None
    try:
        if document.test:
            findings.warn("the experiment is marked as a test: no people, laxer rules, dice that its author may know")
        check = log_check(subject, log)
        if check is not None and isinstance(replay, RelayedReplay):
            # What is in the log before anything is read is shown; what is shown is in the log after that.
            check.look()
            findings.leave_out("whether openings were logged by their time: a log tells an order, and no times")
        replay.follow()
        if check is not None:
            log_size, committed_at = check.check(replay), check.committed_at
        salt = SaltCheck(subject, beacons=beacons).check(
            committed_at=committed_at,
            first_opening=replay.first_opening,
            unused=replay.standing is not None and replay.last_round == 0,
        )
        replay.check_latest()
        if listed is not None:
            _check_listed(subject, listed, replay.standing)
        if isinstance(replay, Replay):
            _check_status(subject, replay.steps.ended)
    except EnoughError:
        findings.leave_out("the rest: so much is wrong that the audit stopped")
    rounds = tuple(_round_report(subject, *one) for one in replay.verdicts())
    return ExperimentReport(
        experiment=document.digest,
        title=document.title,
        standing=replay.standing or "running",
        rounds=rounds,
        steps_replayed=replay.steps.count,
        salt=salt.words,
        salt_value=None if salt.value is None else salt.value.hex(),
        log_size=log_size,
        committed_at=committed_at,
        findings=findings,
        capsules_gone=tuple(replay.capsules.gone) if isinstance(replay, RelayedReplay) else (),
        model=replay.steps.model if rounds or replay.standing is not None else None,
    )


def _round_report(subject: Subject, number: int, verdict: str, facts: RoundFacts | None) -> RoundReport:
    # What was found later, of the log say, is a fault of the round as well.
    fault = subject.findings.first_fault(number)
    if fault is not None:
        verdict = f"at fault: {fault.sentence}"
    return RoundReport(subject.document.digest, number, verdict, subject.findings.marks.get(number, {}), facts)


# ── what is told to people ───────────────────────────────────────────────────────────────────────────────────────────


def _check_listed(subject: Subject, listed: ListEntry, standing: str | None) -> None:
    """Hold what the coordinator's list says of the experiment to what was signed."""
    claimed = listed.standing[:40]
    if listed.title != subject.document.title:
        subject.findings.fault("list", "the list gives the experiment another title than its document")
    if standing is not None and claimed != standing:
        subject.findings.warn(f"the list calls the experiment {claimed!r}, and its ending says {standing}")
    if standing is None and claimed in ("finished", "stopped"):
        subject.findings.warn(f"the list calls the experiment {claimed}, and no ending is shown")


def _check_status(subject: Subject, ended: Mapping[int, LastRound]) -> None:
    """The page of numbers is computed from what is signed, and must not tell another story."""
    document, findings = subject.document, subject.findings
    data = subject.read("status", experiment_path(document.digest, "status"), None, most=MOST_JSON_BYTES)
    if data is None:
        findings.leave_out("the status, which is for people and unsigned: it is not to be had")
        return
    try:
        content = json.loads(data)
        rounds = {item["number"]: item for item in content["rounds"]}
        experiment = content["experiment"]
    except (ValueError, LookupError, TypeError, RecursionError):
        findings.fault("status", "the status, which is for people and unsigned, cannot be read")
        return
    if experiment != document.digest:
        findings.fault("status", "the status is of another experiment")
    for number, last in ended.items():
        if number in rounds and not _same_counts(rounds[number], last, document):
            findings.fault("status", f"the status tells other counts of round {number} than those that were signed")


def _same_counts(status: Mapping[str, Any], last: LastRound, document: ExperimentDocument) -> bool:
    """Whether the numbers for people are the signed ones; of a round that is not told yet there are none."""
    participants, cells = status.get("participants"), status.get("cells")
    if last.tally is None:
        return participants is None and cells is None
    labels = document.experiment.labels
    if participants is not None and participants != dict(zip(labels, last.participants, strict=True)):
        return False
    if cells is None:
        return True
    accuracy = status.get("accuracy")
    # The numbers for people are without cover, which everybody can take off.
    try:
        share = aggregate.score(document.experiment, last.counts).accuracy
    except ArithmeticRangeError:
        return False
    signed = share.hits, share.of
    claimed = (accuracy.get("hits"), accuracy.get("of")) if isinstance(accuracy, dict) else signed
    return bool(cells == [list(row) for row in last.cells]) and claimed == signed
