"""``audit_files``: all that can be seen from outside, from a coordinator's public files alone.

 1. The log, whole: signed, one tree; experiments that were logged and never run.
 2. Of each experiment: a quorum of its witnesses has cosigned the log, lately; it holds exactly what is shown.
 3. Its salt: from public randomness that nobody knew when the experiment was logged, or not.
 4. Its rounds, from zero: documents, windows, floors, keys, counts, every step from its published tally.
 5. What it tells people in numbers (``status``) is what it signed.

Everything is looked at, whatever was found before. The time comes in: an audit of a copy is as old as the copy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from secvm.auditor.files import (
    MOST_DOCUMENT_BYTES,
    MOST_JSON_BYTES,
    ListEntry,
    PublicFiles,
    choose_experiments,
    experiment_path,
    is_digest,
    listed_experiments,
)
from secvm.auditor.findings import EnoughError, Findings
from secvm.auditor.log_check import check_policy, log_check
from secvm.auditor.relayed.recounter import Recounter
from secvm.auditor.relayed.replay import RelayedReplay
from secvm.auditor.replay import Replay
from secvm.auditor.report import ExperimentReport, Report, RoundFacts, RoundReport
from secvm.auditor.salt_check import UNKNOWN, CheckedSalt, SaltCheck
from secvm.auditor.subject import Subject
from secvm.auditor.whole_log import WholeLog
from secvm.crypto.beacons.sources import BeaconSource
from secvm.errors import ArithmeticRangeError, BadInputError, RemoteProtocolError
from secvm.learning import aggregate
from secvm.protocol.documents.experiment import ExperimentDocument, read_published
from secvm.protocol.documents.manifest import LastRound
from secvm.protocol.log.policy import LogPolicy
from secvm.protocol.relays.cover_parts import Role

#: A million bins in eight models. Larger ones are replayed when the auditor says so.
MOST_TALLY_BYTES = 2**28
_STATE_IN_TALLIES = 4

#: Called with an experiment's digest, rounds read and rounds planned, as an audit goes on.
OnRound = Callable[[str, int, int], None]


def audit_files(
    files: PublicFiles,
    *,
    now: int | Callable[[], int],
    experiment: str | None = None,
    beacons: BeaconSource | None = None,
    policy: LogPolicy | None = None,
    snapshot: bool = False,
    models: bool = True,
    capsules: bool = True,
    doors: Callable[[str], PublicFiles] | None = None,
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
    policy
        Which logs and witnesses the auditor knows; None: those that experiments name.
    snapshot
        The files are a copy of some time ago: an old checkpoint is no fault.
    models
        Also fetch states and weights, which follow from the tallies, and hold them to their digests.
    capsules
        Of experiments with two relays: also look at capsules, where they are public.
    doors
        Of these: asks a relay's own door, by the relay's URL; None asks none.
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
            "there is no coordinator here: it lists no experiments",
            next_step="Is this a relay's URL, or is a path missing?",
        )
    listed = listed or {}
    chosen = choose_experiments(listed, experiment)
    reports: dict[str, ExperimentReport] = {}
    never_run: dict[str, str] = {}
    try:
        published = _published(files, general, listed, chosen)
        for document, _ in published.values():
            _check_size(document, most_tally_bytes)
        log = _log(files, general, [document for document, _ in published.values()])
        if log is not None:
            log.read(now=time(), snapshot=snapshot)
        for digest, (document, envelope) in published.items():
            relayed = document.experiment.cover is not None
            subject = Subject(
                document=document,
                envelope=envelope,
                files=files,
                findings=Findings(digest),
                time=time,
                snapshot=snapshot,
                models=models,
                capsules=capsules,
                doors=_doors(document, doors) if relayed else {},
            )
            if policy is not None:
                check_policy(subject, policy)
            on_this = partial(_report_round, on_round, document)
            with Recounter() as recounter:
                replay = (
                    RelayedReplay(subject, recounter=recounter, on_round=on_this)
                    if relayed
                    else Replay(subject, on_round=on_this)
                )
                listed_as = listed.get(digest)
                reports[digest] = audit_experiment(subject, replay, log=log, listed=listed_as, beacons=beacons)
        if log is not None:
            never_run = _never_run(files, general, log.experiments(), listed, reports)
    except EnoughError:
        general.leave_out("the rest: so much is wrong that the audit stopped")
    if not reports and not general.faults:
        raise BadInputError("there is no experiment to audit here")
    return Report(tuple(reports.values()), general, never_run)


def _doors(document: ExperimentDocument, open_door: Callable[[str], PublicFiles] | None) -> dict[Role, PublicFiles]:
    if open_door is None:
        return {}
    return {"entry": open_door(document.entry_relay.url), "mix": open_door(document.mix_relay.url)}


def _report_round(on_round: OnRound, document: ExperimentDocument, number: int) -> None:
    on_round(document.digest, number, document.rounds)


def _check_size(document: ExperimentDocument, most: int) -> None:
    """Before anything of that size is made: whoever wrote the experiment may want to fill the memory."""
    # A state of the usual rules is at most a few times as large; one that averages over many rounds is larger.
    size = max(document.tally_bytes, document.state_bytes // _STATE_IN_TALLIES)
    if size > most:
        raise BadInputError(
            f"a tally of the experiment {document.digest[:16]} has {-(-size // 2**20)} MiB, more than may be read here",
            next_step="Say --largest-tally to read larger ones.",
        )


def _published(
    files: PublicFiles, general: Findings, listed: Mapping[str, ListEntry], chosen: list[str]
) -> dict[str, tuple[ExperimentDocument, bytes]]:
    """Documents and envelopes of the chosen experiments, those that are served and of their digests."""
    published = {}
    for digest in chosen:
        if digest not in listed:
            general.warn("the experiment is not in the coordinator's list")
        try:
            envelope = files.get(experiment_path(digest), most=MOST_DOCUMENT_BYTES)
            if envelope is None:
                general.fault("list", f"the document of the experiment {digest[:16]} is not served")
            else:
                published[digest] = (read_published(envelope, digest=digest), envelope)
        except RemoteProtocolError as fault:
            general.fault("list", f"the document of the experiment {digest[:16]} cannot be believed: {fault}")
    return published


def _log(files: PublicFiles, general: Findings, documents: list[ExperimentDocument]) -> WholeLog | None:
    """The coordinator's log: it has one, that of its newest experiment's terms."""
    newest = next((document.log for document in reversed(documents) if document.log is not None), None)
    return None if newest is None else WholeLog(newest, files, general)


def _is_served(files: PublicFiles, path: str) -> bool:
    try:
        return files.get(path, most=MOST_DOCUMENT_BYTES) is not None
    except RemoteProtocolError:
        return True


def _never_run(
    files: PublicFiles,
    general: Findings,
    logged: Mapping[str, bool],
    listed: Mapping[str, ListEntry],
    reports: Mapping[str, ExperimentReport],
) -> dict[str, str]:
    """Experiments of the log that had no round, and why each is named. One without a log of its own may have some."""
    never_run = {}
    for digest, has_round in logged.items():
        if has_round:
            without = False
        elif digest in reports:
            without = not reports[digest].rounds
        else:
            without = not _is_served(files, experiment_path(digest, "manifest", 1))
        if without:
            never_run[digest] = "logged, and without a round so far" if digest in listed else "logged, and not listed"
    if never_run:
        general.warn(
            f"{len(never_run)} of {len(logged)} experiments in the log have no round:"
            " whoever logs many can run the one whose salt pleases"
        )
    return never_run


# ── one experiment: all checks in their order, whatever each of them finds ───────────────────────────────────────────


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
    rounds = tuple(_round_report(subject, *verdict) for verdict in replay.verdicts())
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
