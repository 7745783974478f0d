"""``audit_files``: all that can be seen from outside, from a coordinator's public files alone.

 1. The directory: experiments that are shown and not logged; experiments that were logged and never run.
 2. Each experiment's log: signed, cosigned by a quorum, lately; one tree, which holds exactly what is shown.
 3. Its salt: from public randomness that nobody knew when the experiment was logged, or not.
 4. Its rounds, from zero: documents, windows, floors, keys, counts, every step from its published tally.
 5. What it tells people in numbers (``status``) is what it signed.

Everything is looked at, whatever was found before. The time comes in: an audit of a copy is as old as the copy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from secvm.auditor.directory import DirectoryCheck, Listed, is_digest, listed_experiments, newest_terms
from secvm.auditor.files import MOST_DOCUMENT_BYTES, MOST_JSON_BYTES, PublicFiles, experiment_path
from secvm.auditor.findings import EnoughError, Findings
from secvm.auditor.log_check import LogCheck
from secvm.auditor.receipts_check import check_receipts
from secvm.auditor.replay import Replay
from secvm.auditor.report import ExperimentReport, Report, RoundReport
from secvm.auditor.salts import UNKNOWN, SaltCheck
from secvm.auditor.steps import tally_bytes
from secvm.auditor.subject import Subject
from secvm.crypto.beacon import BeaconSource
from secvm.errors import BadInputError, RemoteProtocolError
from secvm.protocol.experiment_document import ExperimentDocument, read_published
from secvm.protocol.manifest import LastRound

#: A million bins in eight models. Larger ones are replayed when the auditor says so.
MOST_TALLY_BYTES = 2**28
#: How often the log may grow while it is read.
_LOOKS = 4

OnRound = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class _Published:
    document: ExperimentDocument
    envelope: bytes


def audit_files(
    files: PublicFiles,
    *,
    now: int | Callable[[], int],
    experiment: str | None = None,
    beacons: BeaconSource | None = None,
    snapshot: bool = False,
    models: bool = True,
    most_tally_bytes: int = MOST_TALLY_BYTES,
    on_round: OnRound = lambda _experiment, _done, _planned: None,
) -> Report:
    """Audit what is in these files.

    Parameters
    ----------
    now
        Milliseconds, or who tells them, where the files are those of a running coordinator: checkpoints must be fresh
        when they are read, and windows over that are told to be.
    experiment
        A digest, or its beginning; None audits all of them.
    beacons
        Where to fetch records of public randomness besides; None takes what is served.
    snapshot
        The files are a copy of some time ago: an old checkpoint is no fault.
    models
        Also fetch states and weights, which follow from the tallies, and hold them to their digests.
    most_tally_bytes
        Experiments with larger tallies are not begun.
    on_round
        Called with digest, rounds read and rounds planned, as the audit goes on.

    Raises
    ------
    BadInputError
        There is nothing to audit here, or it cannot be reached, or it is larger than allowed.
    """
    time = now if callable(now) else lambda: now
    general = Findings()
    listed = listed_experiments(files, general)
    if listed is None and not is_digest(experiment):
        raise BadInputError(
            "there is no coordinator here: it lists no experiments", next_step="Is it a relay's, or lacks it a path?"
        )
    listed = listed or {}
    published = {digest: one for digest in listed if (one := _published(files, general, digest)) is not None}
    chosen = _choose(listed, experiment)
    for digest in chosen:
        if digest not in listed:
            general.warn("the experiment is not in the coordinator's list")
            one = _published(files, general, digest)
            if one is not None:
                published[digest] = one
    logged = _directory(files, general, [one.document for one in published.values()], now=time(), snapshot=snapshot)
    never_run: dict[str, str] = {}
    reports = []
    for digest in chosen:
        if digest not in published:
            continue
        one = published[digest]
        size = tally_bytes(one.document)
        if size > most_tally_bytes:
            raise BadInputError(
                f"a tally of the experiment {digest[:16]} has {-(-size // 2**20)} MiB, more than may be read here",
                next_step="Say --largest-tally to read larger ones.",
            )
        subject = Subject(
            document=one.document,
            envelope=one.envelope,
            files=files,
            findings=Findings(digest),
            time=time,
            snapshot=snapshot,
            models=models,
        )
        auditor = _Auditor(subject, beacons=beacons, on_round=on_round)
        reports.append(auditor.audit(logged, listed.get(digest)))
    if logged is not None:
        never_run = _never_run(files, general, logged, published, {one.experiment: one for one in reports}, chosen)
    if not reports and not general.faults:
        raise BadInputError("there is no experiment to audit here")
    return Report(tuple(reports), general, never_run)


def _published(files: PublicFiles, general: Findings, digest: str) -> _Published | None:
    """An experiment's document, if it is served and of this digest."""
    try:
        envelope = files.get(experiment_path(digest), most=MOST_DOCUMENT_BYTES)
        if envelope is None:
            general.fault("list", f"the experiment {digest[:16]} is listed, and its document is not served")
            return None
        return _Published(read_published(envelope, digest=digest), envelope)
    except RemoteProtocolError as fault:
        general.fault("list", f"the document of the experiment {digest[:16]} cannot be believed: {fault}")
        return None


def _choose(listed: Mapping[str, Listed], experiment: str | None) -> list[str]:
    if experiment is None:
        return list(listed)
    wanted = experiment.lower()
    found = [digest for digest in listed if digest.startswith(wanted)] if wanted else []
    if is_digest(wanted):
        return [wanted]
    if len(found) != 1:
        what = "no experiment" if not found else "more than one experiment"
        raise BadInputError(f"{what} here has a digest that begins with '{wanted[:64]}'")
    return found


def _directory(
    files: PublicFiles, general: Findings, documents: list[ExperimentDocument], *, now: int, snapshot: bool
) -> list[str] | None:
    terms = newest_terms(documents)
    if terms is None:
        return None
    if len({(one.log.name, one.log.key) for one in documents if one.log is not None}) > 1:
        general.leave_out("directories of earlier logs: this coordinator has changed its log's name or key")
    return DirectoryCheck(terms, files, general, now=now, snapshot=snapshot).digests()


def _never_run(
    files: PublicFiles,
    general: Findings,
    logged: list[str],
    published: Mapping[str, _Published],
    reports: Mapping[str, ExperimentReport],
    chosen: list[str],
) -> dict[str, str]:
    """Experiments of the directory that had no round, and why each is named."""
    found = {}
    for digest in logged:
        if digest not in published:
            found[digest] = "logged, and not listed"
        elif digest in reports:
            if not reports[digest].rounds:
                found[digest] = "logged, and without a round so far"
        elif digest not in chosen and files.get(experiment_path(digest, "manifest", 1), most=2**21) is None:
            found[digest] = "logged, and without a round so far"
    if found:
        general.warn(
            f"{len(found)} of {len(logged)} experiments in the directory have no round:"
            " whoever logs many can run the one whose salt pleases"
        )
    return found


class _Auditor:
    """One experiment."""

    def __init__(self, subject: Subject, *, beacons: BeaconSource | None, on_round: OnRound) -> None:
        self._subject, self._beacons = subject, beacons
        self._document, self._findings = subject.document, subject.findings
        digest, planned = subject.document.digest, subject.document.rounds
        self._replay = Replay(subject, on_round=lambda: on_round(digest, self._replay.last_round, planned))
        self._log_size: int | None = None
        self._committed_at: int | None = None
        self._salt_words = UNKNOWN
        self._salt: bytes | None = None

    def audit(self, logged: list[str] | None, listed: Listed | None) -> ExperimentReport:
        document, found, replay = self._document, self._findings, self._replay
        try:
            self._look(logged)
            replay.check_latest()
            check_receipts(self._subject, replay.steps.ended)
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
        )

    def _look(self, logged: list[str] | None) -> None:
        document, found, replay = self._document, self._findings, self._replay
        if document.test:
            found.warn("the experiment is marked as a test: no people, and laxer rules")
        replay.follow()
        if document.log is None:
            found.warn("the experiment has no log: nobody can tell whether all are told the same")
            found.leave_out("log, witnesses, proofs: the experiment names none")
        else:
            if logged is not None and document.digest not in logged:
                found.fault("directory", "the experiment is shown, and does not stand in the directory of experiments")
            check = LogCheck(self._subject, document.log)
            signed = check.newest()
            for _ in range(_LOOKS):
                if signed is None or signed.checkpoint.size <= len(replay.entries):
                    break
                # The log has grown since the documents were read.
                replay.follow()
            self._log_size = check.check(replay, signed)
            self._committed_at = check.committed_at
        self._check_salt()

    def _check_salt(self) -> None:
        windows = self._replay.closed_at
        first = windows[1] - 1000 * self._document.windows.length_s if 1 in windows else None
        check = SaltCheck(self._subject, beacons=self._beacons)
        salt = check.check(committed_at=self._committed_at, first_opening=first)
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
    hits = sum(row[i] for i, row in enumerate(last.cells))
    of = sum(map(sum, last.cells))
    said = (accuracy.get("hits"), accuracy.get("of")) if isinstance(accuracy, dict) else (hits, of)
    return bool(cells == [list(row) for row in last.cells]) and said == (hits, of)
