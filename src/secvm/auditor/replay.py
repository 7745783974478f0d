"""The rounds, replayed from zero: every document held to the one before it, and how each round ended (``steps``).

It shares its rules with devices (``protocol.documents``), but it does not stop where they
do: all faults are collected. After a fault it goes on from what was *signed*, as far as that is served, so that each
round is judged by itself and one lie is told once.

How a round ended stands in the document after it. So round t's verdict comes with the manifest of t + 1, or with the
ending.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable
from datetime import datetime

from secvm.auditor.files import experiment_path
from secvm.auditor.steps import Steps
from secvm.auditor.subject import History, SignedDocument, Subject
from secvm.errors import RemoteProtocolError
from secvm.protocol.canonical import digest_of
from secvm.protocol.documents.ending import Ending, ending_faults
from secvm.protocol.documents.faults import Inconsistency
from secvm.protocol.documents.manifest import RoundManifest, manifest_faults
from secvm.protocol.evidence.plain import Kind

RUNNING = "not over: how it ended is not published yet"
UNSEEN = "not shown"

#: Which check an inconsistency of a manifest belongs to; any other is about the chain.
_CHECKS = {
    Inconsistency.WINDOW_LENGTH: "window",
    Inconsistency.GRACE: "window",
    Inconsistency.BEFORE_START: "window",
    Inconsistency.OVERLAP: "window",
    Inconsistency.QUOTA: "quota",
    Inconsistency.GATEWAY_KEYS: "gateway_key",
    Inconsistency.OTHER_LABELS: "counts",
    Inconsistency.BELOW_FLOOR: "floor",
    Inconsistency.ABANDONED_STEP: "step",
    Inconsistency.NO_COUNT: "relay_count",
}
#: These are told by a document of the round before it.
_OF_THE_ROUND_BEFORE = {
    Inconsistency.OTHER_LABELS,
    Inconsistency.BELOW_FLOOR,
    Inconsistency.ABANDONED_STEP,
    Inconsistency.NO_COUNT,
}


class Replay(History):
    """One experiment's documents, in their order. ``follow`` reads what there is, and can be called again."""

    def __init__(self, subject: Subject, *, on_round: Callable[[int], None] = lambda _: None) -> None:
        super().__init__(subject)
        self._on_round = on_round
        self._verdicts: dict[int, str] = {}
        self._ending: Ending | None = None
        self.steps = Steps(subject)
        self._zone = self._find_zone()
        self._before: SignedDocument | None = None
        self._latest: tuple[RoundManifest, bytes] | None = None
        self._looked_again = False
        #: Gateway keys, and the round that each was first seen in.
        self._keys: dict[str, int] = {}

    @property
    def last_round(self) -> int:
        """The newest round that is shown."""
        return max(self._verdicts, default=0)

    @property
    def standing(self) -> str | None:
        """How the experiment ended; None: it is running."""
        return None if self._ending is None else self._ending.why.value

    def verdicts(self) -> list[tuple[int, str, None]]:
        """The verdict on each round, in their order."""
        return [(number, verdict, None) for number, verdict in self._verdicts.items()]

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def follow(self) -> None:
        """Read and judge every document that is shown and was not read before."""
        if self._ending is not None:
            return
        newest = self._newest()
        number = self.last_round + 1
        while number <= self._document.rounds:
            data = self._subject.read("signed", experiment_path(self._document.digest, "manifest", number), number)
            if data is None and number > newest:
                break
            manifest = None if data is None else self._read(data, number)
            if data is None and not self._findings.has_failed(number, "signed"):
                self._findings.fault("chain", "its manifest is not served, and later ones are", round_number=number)
            self._take(number, manifest, data)
            self._on_round(number)
            number += 1
        self._read_ending()

    def _newest(self) -> int:
        """The number of the newest manifest, as ``latest`` tells; 0 where there is none."""
        path = experiment_path(self._document.digest, "manifest", "latest")
        data = self._subject.read("chain", path, None)
        manifest = None if data is None else self._read(data, None)
        if data is None or manifest is None:
            return 0
        self._latest = manifest, data
        return min(manifest.round_number, self._document.rounds)

    def check_latest(self) -> None:
        """Check that ``manifest/latest`` is one of the numbered ones."""
        if self._latest is None:
            if self.last_round:
                self._findings.fault("chain", "the newest manifest is not served under manifest/latest")
            return
        if self._latest[0].round_number < self.last_round:
            # It was read first, and a round may have been added since.
            self._newest()
        latest, envelope = self._latest
        number = latest.round_number
        if not self.last_round <= number <= self._document.rounds:
            sentence = f"manifest/latest is of round {number}, and round {self.last_round} is the newest that is shown"
            self._findings.fault("chain", sentence)
        other = self._other_than(latest)
        if other is not None:
            sentence = "manifest/latest is another manifest than the one under its number: there are two for one round"
            evidence = self._subject.evidence(Kind.TWO_DOCUMENTS, documents=(other, envelope))
            self._findings.fault("chain", sentence, round_number=number, evidence=evidence)

    def _read(self, data: bytes, number: int | None) -> RoundManifest | None:
        """The manifest in an envelope, signed; None, and a fault, for anything else."""
        try:
            manifest = self._document.read(RoundManifest, data)
        except RemoteProtocolError as fault:
            what = "manifest/latest" if number is None else "its manifest"
            self._findings.fault("signed", f"{what} cannot be believed: {fault}", round_number=number)
            return None
        if number is not None and manifest.round_number != number:
            sentence = f"under its address stands the manifest of round {manifest.round_number}"
            self._findings.fault("chain", sentence, round_number=number)
            return None
        return manifest

    def _take(self, number: int, manifest: RoundManifest | None, envelope: bytes | None) -> None:
        """Judge a manifest, and how the round before it ended."""
        if manifest is None or envelope is None:
            self._verdicts[number] = UNSEEN
            self._before = None
            return
        signed = SignedDocument(manifest, envelope)
        self._judge_manifest(number, manifest, envelope)
        self._conclude(number - 1, signed)
        self._verdicts[number] = RUNNING
        self.closed_at[number] = manifest.closes_at
        if number == 1:
            self.first_opening = manifest.opens_at
        self._keep(manifest, envelope)
        self._before = signed

    def _read_ending(self) -> None:
        document, number = self._document, self.last_round
        data = self._subject.read("ending", experiment_path(document.digest, "ending"), None)
        if data is None:
            return
        try:
            ending = document.read(Ending, data)
        except RemoteProtocolError as fault:
            self._findings.fault("ending", f"the ending cannot be believed: {fault}")
            return
        before = self._before
        if ending.round_number > number and not self._looked_again:
            # A round may have been shown, and ended, since its manifest was not there.
            self._looked_again = True
            self.follow()
            return
        if ending.round_number != number:
            sentence = f"the ending is after round {ending.round_number}, and there are manifests up to round {number}"
            both = () if before is None else (data, before.envelope)
            evidence = self._subject.evidence(Kind.TWO_DOCUMENTS, documents=both)
            self._findings.fault("ending", sentence, evidence=evidence)
        documents = (data,) if before is None else (before.envelope, data)
        for wrong in ending_faults(ending, document, None if before is None else before.manifest):
            about = number if wrong in _OF_THE_ROUND_BEFORE else None
            check = _CHECKS[wrong] if about is not None else "ending"
            evidence = self._subject.evidence(Kind.BAD_DOCUMENT, documents=documents)
            self._findings.fault(check, f"of the ending, {wrong.value}", round_number=about, evidence=evidence)
        if ending.round_number == number:
            self._conclude(number, SignedDocument(ending, data))
        self._ending = ending
        self._keep(ending, data)

    def _conclude(self, number: int, after: SignedDocument) -> None:
        verdict = self.steps.conclude(number, self._before, after)
        if verdict is not None:
            self._verdicts[number] = verdict

    # ── a manifest by itself, and after the one before ───────────────────────────────────────────────────────────────

    def _judge_manifest(self, number: int, manifest: RoundManifest, envelope: bytes) -> None:
        findings, before = self._findings, self._before
        documents = (envelope,) if before is None else (before.envelope, envelope)
        for wrong in manifest_faults(manifest, self._document, None if before is None else before.manifest):
            about = number - 1 if wrong in _OF_THE_ROUND_BEFORE else number
            evidence = self._subject.evidence(Kind.BAD_DOCUMENT, documents=documents)
            sentence = wrong.value if about == number else f"the manifest after it was signed, and {wrong.value}"
            findings.fault(_CHECKS.get(wrong, "chain"), sentence, round_number=about, evidence=evidence)
        self._judge_hours(number, manifest)
        used = self._keys.setdefault(digest_of(manifest.gateway_keys), number)
        if used != number:
            sentence = f"its gateway key is that of round {used}: keys are for one round"
            findings.fault("gateway_key", sentence, round_number=number)
        findings.passed(number, "signed", "window", "quota", "gateway_key")
        if before is not None or number == 1:
            findings.passed(number, "chain")

    def _judge_hours(self, number: int, manifest: RoundManifest) -> None:
        if self._zone is None:
            return
        try:
            offset = datetime.fromtimestamp(manifest.opens_at // 1000, self._zone).utcoffset()
        except (ValueError, OverflowError, OSError):
            self._findings.fault("hours", "its window opens at a time that no calendar has", round_number=number)
            return
        assert offset is not None
        if not self._document.windows.open_at_hour(manifest.opens_at, offset_s=int(offset.total_seconds())):
            sentence = "its window opens outside the hours of the day that the experiment names"
            self._findings.fault("hours", sentence, round_number=number)
        self._findings.passed(number, "hours")

    def _find_zone(self) -> zoneinfo.ZoneInfo | None:
        try:
            return zoneinfo.ZoneInfo(self._document.windows.time_zone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            self._findings.leave_out("hours of the day: the experiment's time zone is not known on this machine")
            return None
