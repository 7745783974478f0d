"""All checks of one experiment, in their order, whatever each of them finds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from secvm.auditor.experiment_list import Listed
from secvm.auditor.files import MOST_JSON_BYTES, experiment_path
from secvm.auditor.findings import EnoughError
from secvm.auditor.log.log_check import log_check
from secvm.auditor.log.salt_check import UNKNOWN, SaltCheck
from secvm.auditor.log.whole_log import WholeLog
from secvm.auditor.plain.replay import Replay
from secvm.auditor.report import ExperimentReport, RoundReport
from secvm.auditor.subject import Subject
from secvm.crypto.beacons.sources import BeaconSource
from secvm.errors import ArithmeticRangeError, RemoteProtocolError
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import LastRound

#: Told digest, rounds read and rounds planned, as an audit goes on.
OnRound = Callable[[str, int, int], None]


class ExperimentAudit:
    """All checks of one experiment."""

    def __init__(self, subject: Subject, *, beacons: BeaconSource | None, on_round: OnRound) -> None:
        self._subject, self._beacons = subject, beacons
        self._document, self._findings = subject.document, subject.findings
        digest, planned = subject.document.digest, subject.document.rounds
        self._replay = Replay(subject, on_round=lambda: on_round(digest, self._replay.last_round, planned))
        self._log_size: int | None = None
        self._committed_at: int | None = None
        self._salt_words = UNKNOWN
        self._salt: bytes | None = None

    def audit(self, log: WholeLog | None, listed: Listed | None) -> ExperimentReport:
        """The report. ``log``: the coordinator's; ``listed``: what the list says of this experiment."""
        document, found, replay = self._document, self._findings, self._replay
        try:
            self._look(log)
            replay.check_latest()
            if listed is not None:
                self._check_listed(listed)
            self._check_status()
        except EnoughError:
            found.leave_out("the rest: so much is wrong that the audit stopped")
        rounds = tuple(self._round(number) for number in range(1, replay.last_round + 1))
        ending = replay.ending
        return ExperimentReport(
            experiment=document.digest,
            title=document.title,
            standing="running" if ending is None else ending.why.value,
            rounds=rounds,
            steps_replayed=replay.steps.count,
            salt=self._salt_words,
            salt_value=None if self._salt is None else self._salt.hex(),
            log_size=self._log_size,
            committed_at=self._committed_at,
            findings=found,
            model=replay.steps.model if rounds or ending is not None else None,
        )

    def _look(self, log: WholeLog | None) -> None:
        document, found, replay = self._document, self._findings, self._replay
        if document.test:
            found.warn("the experiment is marked as a test: no people, and laxer rules")
        replay.follow()
        check = log_check(self._subject, log)
        if check is not None:
            self._log_size = check.check(self._replay)
            self._committed_at = check.committed_at
        self._check_salt()

    def _check_salt(self) -> None:
        windows = self._replay.closed_at
        first = windows[1] - 1000 * self._document.windows.length_s if 1 in windows else None
        check = SaltCheck(self._subject, beacons=self._beacons)
        unused = self._replay.ending is not None and self._replay.last_round == 0
        salt = check.check(committed_at=self._committed_at, first_opening=first, unused=unused)
        self._salt_words, self._salt = salt.words, salt.value

    def _round(self, number: int) -> RoundReport:
        found, verdict = self._findings, self._replay.verdicts[number]
        # What was found later, of the log say, is a fault of the round as well.
        fault = found.first_fault(number)
        if fault is not None:
            verdict = f"at fault: {fault.sentence}"
        return RoundReport(self._document.digest, number, verdict, found.marks.get(number, {}))

    # ── what is told to people ───────────────────────────────────────────────────────────────────────────────────────

    def _check_listed(self, listed: Listed) -> None:
        ending, standing = self._replay.ending, listed.standing[:40]
        if listed.title != self._document.title:
            self._findings.fault("list", "the list gives the experiment another title than its document")
        if ending is not None and standing != ending.why.value:
            self._findings.warn(f"the list calls the experiment {standing!r}, and its ending says {ending.why.value}")
        if ending is None and standing in ("finished", "stopped"):
            self._findings.warn(f"the list calls the experiment {standing}, and no ending is shown")

    def _check_status(self) -> None:
        """The page of numbers is computed from what is signed, and must not tell another story."""
        found = self._findings
        try:
            data = self._subject.files.get(experiment_path(self._document.digest, "status"), most=MOST_JSON_BYTES)
        except RemoteProtocolError as fault:
            found.fault("status", f"the status cannot be read: {fault}")
            return
        if data is None:
            found.leave_out("the status, which is for people and unsigned: it is not served")
            return
        try:
            told = {one["number"]: one for one in json.loads(data)["rounds"]}
            named = json.loads(data)["experiment"]
        except (ValueError, LookupError, TypeError, RecursionError):
            found.fault("status", "the status, which is for people and unsigned, cannot be read")
            return
        if named != self._document.digest:
            found.fault("status", "the status is of another experiment")
        for number, last in self._replay.steps.ended.items():
            if number in told and not _same_counts(told[number], last, self._document):
                sentence = f"the status tells other counts of round {number} than those that were signed"
                found.fault("status", sentence)


def _same_counts(told: Mapping[str, Any], last: LastRound, document: ExperimentDocument) -> bool:
    """Whether the numbers for people are the signed ones; of a round that is not told yet nothing is."""
    participants = told.get("participants")
    if last.tally is None:
        return participants is None and told.get("cells") is None
    labels = document.experiment.labels
    if participants is not None and participants != dict(zip(labels, last.participants, strict=True)):
        return False
    cells = told.get("cells")
    if cells is None:
        return True
    accuracy = told.get("accuracy")
    # The numbers for people are without cover, which everybody can take off.
    try:
        share = document.experiment.score(last.counts).accuracy
    except ArithmeticRangeError:
        return False
    hits, of = share.hits, share.of
    said = (accuracy.get("hits"), accuracy.get("of")) if isinstance(accuracy, dict) else (hits, of)
    return bool(cells == [list(row) for row in last.cells]) and said == (hits, of)
