"""One experiment's entries of the log, held to what the coordinator shows: each document once, in order, no other.

The experiment's own checkpoint is the one that its witnesses cosigned, and lately; it is a beginning of the one tree
that the auditor has made from all lines (``whole_log``).

``check_policy`` holds it to the auditor's own policy: which logs may be named, and whose cosignatures are enough
(c2sp.org/tlog-policy). That quorum comes on top of the experiment's own. How old a cosignature may be is the
experiment's to say, and checked with its log; a policy says nothing of it.
"""

from __future__ import annotations

from itertools import pairwise

from secvm.auditor.files import MOST_LOG_BYTES, experiment_path
from secvm.auditor.subject import History, Subject
from secvm.auditor.whole_log import WholeLog, check_witnesses
from secvm.errors import BadInputError, BadSignatureError, MalformedMessageError, RemoteProtocolError
from secvm.protocol.evidence.plain import Evidence, Kind
from secvm.protocol.log.checkpoints import MAX_AHEAD_S, SignedCheckpoint, check_enough, read_checkpoint
from secvm.protocol.log.entries import Entry, EntryKind, Placed, contradict, follows
from secvm.protocol.log.policy import LogPolicy, LogTerms, quorum_of
from secvm.protocol.log.proofs import LogProof
from secvm.protocol.trust.salt import committed_at

#: How often the log may grow while it is read.
_LOOKS = 4


class LogCheck:
    """Holds the entries of one experiment in the log to its documents."""

    def __init__(self, subject: Subject, terms: LogTerms, whole: WholeLog) -> None:
        self._subject, self._terms, self._whole = subject, terms, whole
        self._document, self._findings = subject.document, subject.findings
        self._files, self._read_at = subject.files, subject.now
        #: So much of the log was there before the documents were read: those of all these entries are shown.
        self._before: int | None = None
        #: When a quorum had cosigned the experiment.
        self.committed_at: int | None = None

    def look(self) -> None:
        """Before documents are read that ``follow`` does not read again."""
        signed, _ = self._newest()
        self._before = 0 if signed is None or self._whole.meet(signed) else signed.checkpoint.size

    def check(self, history: History) -> int | None:
        """Hold the log to the documents; how many entries it has, if that can be believed."""
        signed, own = self._read(history)
        if signed is not None:
            self._check_entries(history, own, signed)
        self._check_first()
        return None if signed is None else signed.checkpoint.size

    def _check_entries(self, history: History, own: list[Placed], signed: SignedCheckpoint) -> None:
        over = any(placed.entry.kind is EntryKind.ENDING for placed in own)
        check_witnesses(
            self._findings, signed, self._terms, now=self._read_at, snapshot=self._subject.snapshot, over=over
        )
        self._check_order(own, signed)
        self._check_documents(history, own, signed)
        self._check_proofs(history)

    # ── the newest checkpoint, and the entries under it ──────────────────────────────────────────────────────────────

    def _read(self, history: History) -> tuple[SignedCheckpoint | None, list[Placed]]:
        """The newest checkpoint, if it can be believed, and what it holds of this experiment."""
        signed, own = None, list[Placed]()
        for _ in range(_LOOKS):
            signed, fault = self._newest()
            if signed is None:
                self._findings.fault("log", fault)
                return None, []
            fault = self._whole.meet(signed)
            if fault:
                self._findings.fault("log", f"the newest checkpoint {fault}", evidence=self._fork(signed))
                return None, []
            history.follow()
            own = self._whole.of(self._document.digest, signed.checkpoint.size)
            if {placed.entry.key for placed in own} == set(_shown(history)):
                break
            # Something was logged, or shown, while the other was read.
        return signed, own

    def _newest(self) -> tuple[SignedCheckpoint | None, str]:
        try:
            data = self._files.get(experiment_path(self._document.digest, "checkpoint"), most=MOST_LOG_BYTES)
            self._read_at = self._subject.now
            if data is None:
                return None, "the experiment names a log, and its checkpoint is not served"
            return read_checkpoint(data, log=self._terms.log_key), ""
        except RemoteProtocolError as fault:
            return None, f"the checkpoint cannot be believed: {fault}"

    def _fork(self, signed: SignedCheckpoint) -> Evidence | None:
        other = self._whole.fork(signed)
        if other is None:
            return None
        return self._subject.evidence(Kind.FORKED_LOG, checkpoints=(other.data, signed.data))

    # ── entries ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _check_order(self, own: list[Placed], signed: SignedCheckpoint) -> None:
        """Each once, in the order that an experiment's entries have."""
        before: Entry | None = None
        for placed in own:
            if not follows(before, placed.entry, openings=self._document.experiment.cover is not None):
                sentence = f"the log's entry {placed.index}, {_name(placed.entry)}, cannot stand where it does"
                number = placed.entry.round_number
                self._findings.fault("log" if number is None else "logged", sentence, round_number=number)
            before = placed.entry
        for first, second in pairwise(own):
            if contradict(first, second):
                entries = (self._whole.proof(first, signed), self._whole.proof(second, signed))
                evidence = self._subject.evidence(Kind.TWO_ENTRIES, entries=entries)
                sentence = f"the log's entries {first.index} and {second.index} cannot both stand there"
                self._findings.fault("log", sentence, evidence=evidence)

    def _check_documents(self, history: History, own: list[Placed], signed: SignedCheckpoint) -> None:
        """What is shown is what is logged."""
        logged: dict[object, Placed] = {}
        for placed in own:
            logged.setdefault(placed.entry.key, placed)
        shown = _shown(history)
        for key, entry in shown.items():
            number, logged_entry = entry.round_number, logged.get(key)
            check = {EntryKind.EXPERIMENT: "log", EntryKind.ENDING: "ending"}.get(entry.kind, "logged")
            if logged_entry is None:
                sentence = f"{_name(entry)} is shown, and not in the log"
                self._findings.fault(check, sentence, round_number=number)
            elif logged_entry.entry != entry:
                sentence = f"{_name(entry)} that is shown is another than the one in the log"
                envelope, evidence = history.envelope_of(entry), None
                if envelope is not None:
                    evidence = self._subject.evidence(
                        Kind.NOT_IN_LOG,
                        documents=(envelope,),
                        entries=(self._whole.proof(logged_entry, signed),),
                    )
                self._findings.fault(check, sentence, round_number=number, evidence=evidence)
        for key, placed in logged.items():
            if key not in shown and (self._before is None or placed.index < self._before):
                self._findings.fault("log", f"the log holds {_name(placed.entry)}, and its document is not shown")

    # ── proofs ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _check_proofs(self, history: History) -> None:
        """The proof files of rounds, which relays are given."""
        for entry in history.shown_entries():
            number = entry.round_number
            if entry.kind is EntryKind.MANIFEST and number is not None and self._check_proof(history, number, entry):
                self._findings.passed(number, "logged")

    def _check_proof(self, history: History, number: int, entry: Entry) -> bool:
        try:
            data = self._files.get(experiment_path(self._document.digest, "proof", number), most=MOST_LOG_BYTES)
            if data is None:
                raise MalformedMessageError("it is not served")
            signed = LogProof.from_bytes(data).check(entry.to_bytes(), log=self._terms.log_key)
            times = sorted(signed.times(self._terms.witness_keys).values())
            if len(times) < self._terms.quorum:
                raise BadSignatureError("too few witnesses have cosigned its checkpoint")
        except RemoteProtocolError as fault:
            self._findings.fault("logged", f"its proof proves nothing: {fault}", round_number=number)
            return False
        why = self._whole.meet(signed)
        if why:
            sentence = f"the checkpoint of its proof {why}"
            self._findings.fault("logged", sentence, round_number=number, evidence=self._fork(signed))
            return False
        self._judge_times(history, number, 1000 * times[self._terms.quorum - 1])
        return True

    def _judge_times(self, history: History, number: int, cosigned_at: int) -> None:
        """A manifest tells how the round before it ended, so nobody can have seen it before that one closed."""
        closed_at = history.closed_at.get(number - 1)
        if closed_at is not None and cosigned_at + 1000 * MAX_AHEAD_S < closed_at:
            sentence = f"witnesses cosigned what follows round {number - 1} before its window had closed"
            self._findings.warn(sentence + ": either their clocks are wrong, or it was known how it would end")

    # ── the first checkpoint ─────────────────────────────────────────────────────────────────────────────────────────

    def _check_first(self) -> None:
        try:
            first = self._files.get(experiment_path(self._document.digest, "first"), most=MOST_LOG_BYTES)
            if first is None:
                raise MalformedMessageError("it is not served")
            self.committed_at = committed_at(self._document, first)
            signed = read_checkpoint(LogProof.from_bytes(first).checkpoint, log=self._terms.log_key)
        except RemoteProtocolError as fault:
            self._findings.fault("first", f"the first checkpoint does not prove when the experiment was fixed: {fault}")
            return
        why = self._whole.meet(signed)
        if why:
            self._findings.fault("first", f"the first checkpoint {why}", evidence=self._fork(signed))


def log_check(subject: Subject, whole: WholeLog | None) -> LogCheck | None:
    """The check of an experiment in its coordinator's log; None where there is none, which is said."""
    terms, findings = subject.document.log, subject.findings
    if terms is None:
        findings.warn("the experiment has no log: nobody can tell whether all are told the same")
        findings.leave_out("log, witnesses, proofs: the experiment names none")
        return None
    if whole is None or terms.log_key != whole.key:
        findings.fault("log", "the experiment names another log than the coordinator's newest experiment")
        return None
    return LogCheck(subject, terms, whole)


def _shown(history: History) -> dict[object, Entry]:
    return {entry.key: entry for entry in history.shown_entries()}


def _name(entry: Entry) -> str:
    return f"the {entry.kind.value}" + ("" if entry.round_number is None else f" of round {entry.round_number}")


def check_policy(subject: Subject, policy: LogPolicy) -> None:
    """That an experiment's log and the cosignatures under its newest checkpoint are enough for this policy."""
    terms, findings = subject.document.log, subject.findings
    if terms is None:
        findings.fault("log", "the policy cannot be met: the experiment names no log")
        return
    try:
        quorum = quorum_of(terms, policy)
    except BadInputError as fault:
        findings.fault("log", f"the policy cannot be met: {fault}")
        return
    path = experiment_path(subject.document.digest, "checkpoint")
    data = subject.read("log", path, None, most=MOST_LOG_BYTES)
    try:
        # One that is not there, or no checkpoint, is told of with the log.
        if data is not None:
            signed = read_checkpoint(data, log=terms.log_key)
            counting = [key for key in terms.witness_keys if key.key in quorum.keys]
            check_enough(signed.times(counting), quorum, now=subject.now, freshness_s=None)
    except RemoteProtocolError as fault:
        findings.fault("log", f"the policy is not met: {fault}")
