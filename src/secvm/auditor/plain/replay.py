"""The rounds, replayed from zero: every document held to the one before it, and how each round ended (``steps``).

It shares its rules with devices (``protocol.manifest``, ``.ending``, ``.recompute``), but it does not stop where they
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
from secvm.auditor.plain.steps import Steps
from secvm.auditor.subject import Shown, Subject
from secvm.crypto.signing import verify
from secvm.errors import RemoteProtocolError
from secvm.protocol.canonical import digest_of
from secvm.protocol.documents.ending import Ending, ending_faults
from secvm.protocol.documents.inconsistency import Inconsistency
from secvm.protocol.documents.manifest import RoundManifest, manifest_faults
from secvm.protocol.evidence.logged_documents import entry_of
from secvm.protocol.evidence.plain import Kind
from secvm.protocol.log.entries import Entry, experiment_entry
from secvm.protocol.version import ENDING_TYPE, MANIFEST_TYPE

RUNNING = "not over: how it ended is not published yet"
UNSEEN = "not shown"

_MOST_KEPT_BYTES = 2**25

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


class Replay:
    """One experiment's documents, in their order. ``follow`` reads what there is, and can be called again."""

    def __init__(self, subject: Subject, *, on_round: Callable[[], None] = lambda: None) -> None:
        self._subject, self._on_round = subject, on_round
        self._document, self._findings = subject.document, subject.findings
        #: What the log should hold, as the documents say: the experiment, round t at t, the ending; None where a
        #: document is not shown.
        self.entries: list[Entry | None] = [experiment_entry(subject.document.digest)]
        #: The newest documents by their place in ``entries``, for evidence; and when each round's window closed.
        self.shown: dict[int, Shown] = {}
        self.closed_at: dict[int, int] = {}
        self.verdicts: dict[int, str] = {}
        self.ending: Ending | None = None
        self.steps = Steps(subject)
        self._zone = self._find_zone()
        self._kept_bytes = 0
        self._before: Shown | None = None
        self._latest: Shown | None = None
        self._looked_again = False
        #: Gateway keys, and the round that each was first seen in.
        self._keys: dict[str, int] = {}

    @property
    def last_round(self) -> int:
        """The newest round that is shown."""
        return len(self.entries) - 1 - (self.ending is not None)

    def shown_entries(self) -> list[Entry]:
        """What the log should hold, of the documents that are shown."""
        return [entry for entry in self.entries if entry is not None]

    def envelope_of(self, entry: Entry) -> bytes | None:
        """The document of an entry, for evidence; None where it is not kept."""
        shown = self.shown.get(self.entries.index(entry))
        return None if shown is None else shown.envelope

    def _keep(self, place: int, shown: Shown) -> None:
        """Keep a document; of very many large ones, the newest."""
        self.shown[place] = shown
        self._kept_bytes += len(shown.envelope)
        while self._kept_bytes > _MOST_KEPT_BYTES:
            oldest = next(iter(self.shown))
            self._kept_bytes -= len(self.shown.pop(oldest).envelope)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def follow(self) -> None:
        """Read and judge every document that is shown and was not read before."""
        if self.ending is not None:
            return
        newest = self._newest()
        number = self.last_round + 1
        while number <= self._document.rounds:
            data = self._subject.read("signed", experiment_path(self._document.digest, "manifest", number), number)
            if data is None and number > newest:
                break
            shown = None if data is None else self._read(data, number)
            if data is None and not self._findings.has_failed(number, "signed"):
                self._findings.fault("chain", "its manifest is not served, and later ones are", round_number=number)
            self._take(number, shown)
            self._on_round()
            number += 1
        self._read_ending()

    def _newest(self) -> int:
        """The number of the newest manifest, as ``latest`` tells; 0 where there is none."""
        path = experiment_path(self._document.digest, "manifest", "latest")
        data = self._subject.read("chain", path, None)
        if data is None:
            return 0
        shown = self._read(data, None)
        if shown is None or not isinstance(shown.told, RoundManifest):
            return 0
        self._latest = shown
        return min(shown.told.round_number, self._document.rounds)

    def check_latest(self) -> None:
        """That ``manifest/latest`` is one of the numbered ones."""
        if self.last_round and self._latest is None:
            self._findings.fault("chain", "the newest manifest is not served under manifest/latest")
        if self._latest is None:
            return
        if self._latest.told.round_number < self.last_round:
            # It was read first, and a round may have been added since.
            self._newest()
        number = self._latest.told.round_number
        if not self.last_round <= number <= self._document.rounds:
            sentence = f"manifest/latest is of round {number}, and round {self.last_round} is the newest that is shown"
            self._findings.fault("chain", sentence)
        same = self.shown.get(number)
        if same is None or same.told.digest == self._latest.told.digest:
            return
        self._findings.fault(
            "chain",
            "manifest/latest is another manifest than the one under its number: there are two for one round",
            round_number=number,
            evidence=self._subject.evidence(Kind.TWO_DOCUMENTS, documents=(same.envelope, self._latest.envelope)),
        )

    def _read(self, data: bytes, number: int | None) -> Shown | None:
        """The manifest in an envelope, signed; None, and a fault, for anything else."""
        document = self._document
        try:
            keys = document.coordinator_keys
            payload = verify(data, purpose=MANIFEST_TYPE, keys=keys, threshold=document.threshold)
            manifest = RoundManifest.from_bytes(payload)
        except RemoteProtocolError as fault:
            what = "manifest/latest" if number is None else "its manifest"
            self._findings.fault("signed", f"{what} cannot be believed: {fault}", round_number=number)
            return None
        if number is not None and manifest.round_number != number:
            sentence = f"under its address stands the manifest of round {manifest.round_number}"
            self._findings.fault("chain", sentence, round_number=number)
            return None
        return Shown(manifest, data)

    def _take(self, number: int, shown: Shown | None) -> None:
        """Judge a manifest, and how the round before it ended."""
        if shown is None:
            self.entries.append(None)
            self.verdicts[number] = UNSEEN
            self._before = None
            return
        manifest = shown.told
        assert isinstance(manifest, RoundManifest)
        self._judge_manifest(number, manifest, shown)
        self._conclude(number - 1, shown)
        self.verdicts[number] = RUNNING
        self.entries.append(entry_of(manifest))
        self.closed_at[number] = manifest.closes_at
        self._keep(number, shown)
        self._before = shown

    def _read_ending(self) -> None:
        document, number = self._document, self.last_round
        data = self._subject.read("ending", experiment_path(document.digest, "ending"), None)
        if data is None:
            return
        try:
            keys = document.coordinator_keys
            payload = verify(data, purpose=ENDING_TYPE, keys=keys, threshold=document.threshold)
            ending = Ending.from_bytes(payload)
        except RemoteProtocolError as fault:
            self._findings.fault("ending", f"the ending cannot be believed: {fault}")
            return
        shown = Shown(ending, data)
        before = self._before
        if ending.round_number > number and not self._looked_again:
            # A round may have been shown, and ended, since its manifest was not there.
            self._looked_again = True
            self.follow()
            return
        if ending.round_number != number:
            sentence = f"the ending is after round {ending.round_number}, and there are manifests up to round {number}"
            later = (
                None
                if before is None
                else self._subject.evidence(Kind.TWO_DOCUMENTS, documents=(data, before.envelope))
            )
            self._findings.fault("ending", sentence, evidence=later)
        told_before = None if before is None else before.manifest
        for wrong in ending_faults(ending, document, told_before):
            about = number if wrong in _OF_THE_ROUND_BEFORE else None
            check = _CHECKS[wrong] if about is not None else "ending"
            documents = (data,) if before is None else (before.envelope, data)
            evidence = self._subject.evidence(Kind.BAD_DOCUMENT, documents=documents)
            self._findings.fault(check, f"of the ending, {wrong.value}", round_number=about, evidence=evidence)
        if ending.round_number == number:
            self._conclude(number, shown)
        self.ending = ending
        self.entries.append(entry_of(ending))
        self._keep(len(self.entries) - 1, shown)

    def _conclude(self, number: int, after: Shown) -> None:
        verdict = self.steps.conclude(number, self._before, after)
        if verdict is not None:
            self.verdicts[number] = verdict

    # ── a manifest by itself, and after the one before ───────────────────────────────────────────────────────────────

    def _judge_manifest(self, number: int, manifest: RoundManifest, shown: Shown) -> None:
        found, document, before = self._findings, self._document, self._before
        told_before = None if before is None else before.manifest
        documents = (shown.envelope,) if before is None else (before.envelope, shown.envelope)
        for wrong in manifest_faults(manifest, document, told_before):
            about = number - 1 if wrong in _OF_THE_ROUND_BEFORE else number
            evidence = self._subject.evidence(Kind.BAD_DOCUMENT, documents=documents)
            sentence = wrong.value if about == number else f"the manifest after it was signed, and {wrong.value}"
            found.fault(_CHECKS.get(wrong, "chain"), sentence, round_number=about, evidence=evidence)
        self._judge_hours(number, manifest)
        used = self._keys.setdefault(digest_of(manifest.gateway_keys), number)
        if used != number:
            sentence = f"its gateway key is that of round {used}: keys are for one round"
            found.fault("gateway_key", sentence, round_number=number)
        found.passed(number, "signed", "window", "quota", "gateway_key")
        if before is not None or number == 1:
            found.passed(number, "chain")

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
