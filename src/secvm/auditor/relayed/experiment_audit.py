"""All checks of one experiment with two relays, in their order, whatever each of them finds."""

from __future__ import annotations

from secvm.auditor.experiment_list import Listed
from secvm.auditor.findings import EnoughError
from secvm.auditor.log.log_check import log_check
from secvm.auditor.log.salt_check import UNKNOWN, SaltCheck
from secvm.auditor.log.whole_log import WholeLog
from secvm.auditor.relayed.replay import RUNNING, RelayedReplay
from secvm.auditor.relayed.subject import RelayedSubject
from secvm.auditor.report import ExperimentReport, RoundReport
from secvm.auditor.round_facts import RoundFacts
from secvm.crypto.beacons.sources import BeaconSource

_VERDICTS = {
    "opened": "step follows",
    "unopened": "unopened; nothing changed",
    RUNNING: "not over: how it ended is not published yet",
}


class RelayedAudit:
    """The audit of one experiment whose cover is two relays'."""

    def __init__(self, subject: RelayedSubject, replay: RelayedReplay, *, beacons: BeaconSource | None) -> None:
        self._subject, self._replay, self._beacons = subject, replay, beacons

    def audit(self, log: WholeLog | None, listed: Listed | None) -> ExperimentReport:
        """The report. ``log``: the coordinator's; ``listed``: what its list says of the experiment."""
        subject, replay = self._subject.subject, self._replay
        document, found = subject.document, subject.findings
        salt_words, salt, log_size, committed_at = UNKNOWN, None, None, None
        try:
            if document.test:
                found.warn("the experiment is marked as a test: no people, and dice that its author may know")
            check_log = log_check(subject, log)
            if check_log is not None:
                # What is in the log before anything is read is shown; what is shown is in the log after that.
                check_log.look()
            replay.follow()
            if check_log is not None:
                log_size, committed_at = check_log.check(replay), check_log.committed_at
                found.leave_out("whether openings were logged by their time: a log tells an order, and no times")
            unused = replay.ending is not None and replay.last_round == 0
            check = SaltCheck(subject, beacons=self._beacons)
            told = check.check(committed_at=committed_at, first_opening=replay.first_opening, unused=unused)
            salt_words, salt = told.words, told.value
            if listed is not None and listed.title != document.title:
                found.fault("list", "the list gives the experiment another title than its document")
        except EnoughError:
            found.leave_out("the rest: so much is wrong that the audit stopped")
        rounds = tuple(self._round(number, facts) for number, facts in sorted(replay.facts.items()))
        return ExperimentReport(
            experiment=document.digest,
            title=document.title,
            standing="running" if replay.ending is None else replay.ending.why,
            rounds=rounds,
            steps_replayed=replay.steps.count,
            salt=salt_words,
            salt_value=None if salt is None else salt.hex(),
            log_size=log_size,
            committed_at=committed_at,
            findings=found,
            capsules_gone=tuple(replay.capsules.gone),
            model=replay.steps.model if rounds or replay.ending is not None else None,
        )

    def _round(self, number: int, facts: RoundFacts) -> RoundReport:
        found = self._subject.subject.findings
        fault = found.first_fault(number)
        verdict = _VERDICTS[facts.ended] if fault is None else f"at fault: {fault.sentence}"
        return RoundReport(self._subject.document.digest, number, verdict, found.marks.get(number, {}), facts)
