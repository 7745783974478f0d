"""The rounds, replayed from zero: every document held to the one before it, every step taken again from its tally.

It shares its rules with devices (``protocol.manifest``, ``.ending``, ``.recompute``), but it does not stop where they
do: all faults are collected. After a fault it goes on from what was *signed*, as far as that is served, so that each
round is judged by itself and one lie is told once.

How a round ended stands in the document after it. So round t's verdict comes with the manifest of t + 1, or with the
ending; "step follows from the published tally" is the best there is, and it does not say that the tally is true.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from secvm.auditor.files import MOST_DOCUMENT_BYTES, PublicFiles, blob_path, experiment_path
from secvm.auditor.findings import Findings
from secvm.crypto.signing import verify
from secvm.errors import InconsistentManifestError, RemoteProtocolError
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.blobs import decode_state, decode_tally
from secvm.protocol.checkpoints import MAX_AHEAD_S
from secvm.protocol.documents import digest_of
from secvm.protocol.ending import Ending, ending_faults
from secvm.protocol.evidence import Evidence, Kind, entry_of
from secvm.protocol.experiment_document import ExperimentDocument
from secvm.protocol.log import LogEntry, experiment_entry
from secvm.protocol.manifest import RoundManifest, last_round, manifest_faults, read_relay_count
from secvm.protocol.recompute import Model, first_model, model_of, names_in, next_model, what_differs
from secvm.protocol.version import ENDING_TYPE, MANIFEST_TYPE

FOLLOWS = "step follows from the published tally"
ABANDONED = "abandoned: state unchanged"
RUNNING = "not over: how it ended is not published yet"
UNSEEN = "not shown"

_MOST_KEPT_BYTES = 2**25

#: Which check a sentence of ``manifest_faults`` belongs to; any other is about the chain.
_CHECKS = {
    "its window has another length": "window",
    "it takes late packages longer or shorter": "window",
    "it opens before the experiment starts": "window",
    "it opens before the round before is closed": "window",
    "its quota is below the budget": "quota",
    "its counts are of other labels": "counts",
    "its round was below the floor and not abandoned": "floor",
    "an abandoned round changed the state": "step",
}
#: These are told by a document of the round before it.
_OF_THE_ROUND_BEFORE = {
    "its counts are of other labels",
    "its round was below the floor and not abandoned",
    "an abandoned round changed the state",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """A document that its coordinator signed, in its place."""

    told: RoundManifest | Ending
    #: As it was served.
    envelope: bytes


class Replay:
    """One experiment's documents, in their order. ``follow`` reads what there is, and can be called again."""

    def __init__(
        self,
        document: ExperimentDocument,
        envelope: bytes,
        files: PublicFiles,
        findings: Findings,
        *,
        now: int,
        models: bool = True,
        on_round: Callable[[], None] = lambda: None,
    ) -> None:
        """``models``: also fetch states and weights, which follow from the tallies, and hold them to their names."""
        self._document, self._envelope = document, envelope
        self._files, self._findings = files, findings
        self._now, self._models, self._on_round = now, models, on_round
        self._zone = self._find_zone()
        #: Entry t of the log, as the documents say; None where a document is not shown.
        self.entries: list[LogEntry | None] = [experiment_entry(document.digest)]
        #: The newest documents by their place in the log, for evidence; and when each round's window closed.
        self.shown: dict[int, Shown] = {}
        self.closed_at: dict[int, int] = {}
        self._kept_bytes = 0
        self.verdicts: dict[int, str] = {}
        self.steps = 0
        self.ending: Ending | None = None
        self._before: Shown | None = None
        self._model: Model = first_model(document)
        self._latest: Shown | None = None
        self._looked_again = False
        self._keys: dict[str, int] = {}
        self._good_blobs: set[str] = set()

    @property
    def last_round(self) -> int:
        """The newest round that is shown."""
        return len(self.entries) - 1 - (self.ending is not None)

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
            data = self._file("signed", experiment_path(self._document.digest, "manifest", number), number)
            if data is None and number > newest:
                break
            shown = None if data is None else self._read(data, number)
            if data is None:
                self._findings.fault("chain", "its manifest is not served, and later ones are", round_number=number)
            self._take(number, shown)
            self._on_round()
            number += 1
        self._read_ending()

    def _newest(self) -> int:
        """The number of the newest manifest, as ``latest`` tells; 0 where there is none."""
        path = experiment_path(self._document.digest, "manifest", "latest")
        data = self._file("chain", path, None)
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
        number = self._latest.told.round_number
        same = self.shown.get(number)
        if same is None or same.told.digest == self._latest.told.digest:
            return
        self._findings.fault(
            "chain",
            "manifest/latest is another manifest than the one under its number: there are two for one round",
            round_number=number,
            evidence=self._evidence(Kind.TWO_DOCUMENTS, documents=(same.envelope, self._latest.envelope)),
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
        data = self._file("ending", experiment_path(document.digest, "ending"), None)
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
            later = None if before is None else self._evidence(Kind.TWO_DOCUMENTS, documents=(data, before.envelope))
            self._findings.fault("ending", sentence, evidence=later)
        told_before = before.told if before is not None and isinstance(before.told, RoundManifest) else None
        for sentence in ending_faults(ending, document, told_before):
            about = number if sentence in _OF_THE_ROUND_BEFORE else None
            check = _CHECKS[sentence] if about is not None else "ending"
            documents = (data,) if before is None else (before.envelope, data)
            evidence = self._evidence(Kind.BAD_DOCUMENT, documents=documents)
            self._findings.fault(check, f"of the ending, {sentence}", round_number=about, evidence=evidence)
        if ending.round_number == number:
            self._conclude(number, shown)
        self.ending = ending
        self.entries.append(entry_of(ending))
        self._keep(len(self.entries) - 1, shown)

    # ── a manifest by itself, and after the one before ───────────────────────────────────────────────────────────────

    def _judge_manifest(self, number: int, manifest: RoundManifest, shown: Shown) -> None:
        found, document, before = self._findings, self._document, self._before
        told_before = before.told if before is not None and isinstance(before.told, RoundManifest) else None
        documents = (shown.envelope,) if before is None else (before.envelope, shown.envelope)
        for sentence in manifest_faults(manifest, document, told_before):
            about = number - 1 if sentence in _OF_THE_ROUND_BEFORE else number
            evidence = self._evidence(Kind.BAD_DOCUMENT, documents=documents)
            sentence_about = sentence if about == number else f"the manifest after it was signed, and {sentence}"
            found.fault(_CHECKS.get(sentence, "chain"), sentence_about, round_number=about, evidence=evidence)
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

    # ── how a round ended ────────────────────────────────────────────────────────────────────────────────────────────

    def _conclude(self, number: int, after: Shown) -> None:
        """Round ``number`` ended as the document after it says; 0: nothing was before."""
        found, told = self._findings, after.told
        if number == 0:
            first = 1 if isinstance(told, RoundManifest) else None
            self._expect(first, after, first_model(self._document), ())
            self._check_blobs(first, told)
            return
        before = self._before
        counted, blob = self._counted(number, after)
        if before is not None:
            assert isinstance(before.told, RoundManifest)
            if self._now + 1000 * MAX_AHEAD_S < before.told.accept_until:
                sentence = "how it ended was published before its window was over"
                found.fault("window", sentence, round_number=number)
        abandoned = told.last is not None and told.last.tally is None
        if before is None:
            found.leave_out(f"the step of round {number}: its manifest is not shown")
            self._go_on_from(told)
        elif abandoned or counted is not None:
            self._step(number, after, counted, blob)
        else:
            self._go_on_from(told)
        if abandoned:
            found.passed(number, "floor", "counts")
        self._check_blobs(number, told)
        fault = found.first_fault(number)
        follows = ABANDONED if abandoned else FOLLOWS
        self.verdicts[number] = follows if fault is None else f"at fault: {fault.sentence}"

    def _counted(self, number: int, after: Shown) -> tuple[Tally | None, bytes | None]:
        """The tally that a document names, held to what the document says beside it."""
        found, last = self._findings, after.told.last
        if last is None:
            return None, None
        self._judge_relay_count(number, after)
        if last.tally is None:
            return None, None
        most = tally_bytes(self._document) + 4096
        blob = self._file("step", blob_path(last.tally), number, most=most)
        if blob is None:
            found.fault("step", "its tally is named and not served", round_number=number)
            return None, None
        try:
            tally = decode_tally(blob, digest=last.tally, experiment=self._document.experiment)
        except RemoteProtocolError as fault:
            found.fault("step", f"its tally cannot be read: {fault}", round_number=number)
            return None, None
        counted = last_round(tally)
        if (counted.cells, counted.participants) != (last.cells, last.participants):
            evidence = self._evidence(Kind.WRONG_COUNTS, documents=(after.envelope,), blobs=(blob,))
            sentence = "counts were signed beside a tally that has others"
            found.fault("counts", sentence, round_number=number, evidence=evidence)
        found.passed(number, "counts", "floor")
        self._judge_plausible(number, after.told, tally)
        return tally, blob

    def _judge_relay_count(self, number: int, after: Shown) -> None:
        last = after.told.last
        if last is None or last.relay_count is None:
            return
        try:
            read_relay_count(last.relay_count, self._document)
        except RemoteProtocolError as fault:
            sentence = f"the relay's count beside it cannot be believed: {fault}"
            self._findings.fault("relay_count", sentence, round_number=number)
        self._findings.passed(number, "relay_count")

    def _judge_plausible(self, number: int, told: RoundManifest | Ending, tally: Tally) -> None:
        """Whether so many people can have sent so much."""

    def _step(self, number: int, after: Shown, tally: Tally | None, blob: bytes | None) -> None:
        before, state = self._before, self._model.state
        assert before is not None
        try:
            model = next_model(self._document, state, tally)
        except InconsistentManifestError as fault:
            blobs = () if blob is None else (state.to_bytes(), blob)
            evidence = self._evidence(Kind.WRONG_STEP, documents=(before.envelope, after.envelope), blobs=blobs)
            self._findings.fault("step", f"a model was signed although {fault}", round_number=number, evidence=evidence)
            self._go_on_from(after.told)
            return
        self.steps += tally is not None
        self._expect(number, after, model, () if blob is None else (blob,))

    def _expect(self, number: int | None, after: Shown, model: Model, tally: tuple[bytes, ...]) -> None:
        """The model that a document must name; what it names instead is a fault, and the audit goes on from that."""
        differs, started = what_differs(after.told, model), self._model.state
        self._model = model
        if differs is None:
            if number is not None and (after.told.last is not None or isinstance(after.told, Ending)):
                self._findings.passed(number, "step")
            return
        before = self._before
        documents = (after.envelope,) if before is None else (before.envelope, after.envelope)
        blobs = (started.to_bytes(), *tally) if tally else ()
        evidence = self._evidence(Kind.WRONG_STEP, documents=documents, blobs=blobs)
        if after.told.last is None:
            sentence = f"the first model is not zero: {differs} was signed"
        else:
            sentence = f"the model after it does not follow: {differs} was signed"
        check = "step" if number is not None else "ending"
        self._findings.fault(check, sentence, round_number=number, evidence=evidence)
        self._go_on_from(after.told)

    def _go_on_from(self, told: RoundManifest | Ending) -> None:
        """From what was signed, if it is served; else from what was computed."""
        most = 2 * len(self._model.state.to_bytes()) + 4096
        try:
            data = self._files.get(blob_path(told.state), most=most)
            if data is not None:
                state = decode_state(data, digest=told.state, experiment=self._document.experiment)
                self._model = model_of(self._document, state)
        except RemoteProtocolError:
            pass

    # ── blobs ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _check_blobs(self, number: int | None, told: RoundManifest | Ending) -> None:
        """States and weights are served under their digests."""
        if not self._models:
            return
        parts = (self._model.state, self._model.training, self._model.evaluation)
        words = ("state", "training weights", "evaluation weights")
        for word, digest, part in zip(words, names_in(told), parts, strict=True):
            if digest in self._good_blobs:
                continue
            data = self._file("blobs", blob_path(digest), number, most=2 * len(part.to_bytes()) + 4096)
            whose = "from which it starts" if told.last is None else "after it"
            if data is None:
                self._findings.fault("blobs", f"not served: the {word} {whose}", round_number=number)
            elif digest_of(data) != digest:
                sentence = f"what is served as the {word} {whose} has another digest"
                self._findings.fault("blobs", sentence, round_number=number)
            else:
                self._good_blobs.add(digest)
        if number is not None and told.last is not None:
            self._findings.passed(number, "blobs")

    def _file(
        self, check: str, path: str, number: int | None, *, most: int = MOST_DOCUMENT_BYTES
    ) -> bytes | None:
        try:
            return self._files.get(path, most=most)
        except RemoteProtocolError as fault:
            self._findings.fault(check, f"{path} cannot be read: {fault}", round_number=number)
            return None

    def _evidence(
        self, kind: Kind, *, documents: tuple[bytes, ...], blobs: tuple[bytes, ...] = ()
    ) -> Evidence:
        return Evidence(kind=kind, experiment=self._envelope, documents=documents, blobs=blobs)


def tally_bytes(document: ExperimentDocument) -> int:
    """How many bytes the counts of this experiment's tallies have; told without making one."""
    experiment = document.experiment
    labels, models = len(experiment.labels), experiment.models.n_models
    return 8 * (2 * models * (experiment.n_bins + 1) + labels + labels * labels)
