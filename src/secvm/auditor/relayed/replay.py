"""The rounds of an experiment with two relays, replayed from zero: documents, openings, models, capsules, doors.

All faults are collected. After a wrong model it goes on from what was *signed*, as far as that is served, so that each
round is judged by itself and one lie is told once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from secvm.auditor.files import experiment_path
from secvm.auditor.relayed.capsules import CapsuleCheck
from secvm.auditor.relayed.openings import OpeningCheck
from secvm.auditor.relayed.recounting import Recounting
from secvm.auditor.relayed.relay_doors import Doors
from secvm.auditor.relayed.steps import RelayedSteps
from secvm.auditor.relayed.subject import RelayedSubject, ShownRound
from secvm.auditor.relayed_findings import Found
from secvm.auditor.round_facts import RoundFacts, chances_of
from secvm.errors import RemoteProtocolError
from secvm.protocol.documents.inconsistency import Inconsistency
from secvm.protocol.evidence.examination import Told, read_told
from secvm.protocol.evidence.logged_documents import entry_of
from secvm.protocol.evidence.relayed import RelayedKind
from secvm.protocol.log.entries import Entry, experiment_entry
from secvm.protocol.relays.batches.counts import EntryCount, MixCount
from secvm.protocol.relays.cover.reveals import EntryReveal
from secvm.protocol.relays.ending import RelayedEnding
from secvm.protocol.relays.manifest import RelayedManifest, manifest_faults
from secvm.protocol.relays.opening import Opening

RUNNING, OPENED, UNOPENED = "running", "opened", "unopened"
#: Rounds whose manifests are kept to prove that something is used a second time.
_MOST_KEPT = 4096
#: A server's clock may be so much ahead of ours.
_AHEAD_MS = 120_000
_WINDOW = {
    Inconsistency.WINDOW_LENGTH,
    Inconsistency.GRACE,
    Inconsistency.RELAY_TIMES,
    Inconsistency.BEFORE_START,
    Inconsistency.OVERLAP,
}
_COMMITMENTS = {Inconsistency.MIX_COMMITMENT, Inconsistency.ENTRY_COMMITMENT}


class RelayedReplay:
    """One experiment's rounds, in their order."""

    def __init__(
        self,
        subject: RelayedSubject,
        *,
        recounting: Recounting | None = None,
        on_round: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._subject, self._on_round = subject, on_round
        self._recounting = Recounting(processes=1) if recounting is None else recounting
        self._document, self._findings = subject.document, subject.subject.findings
        #: Of every round that is shown or missing, from 1 on.
        self.facts: dict[int, RoundFacts] = {}
        self.ending: RelayedEnding | None = None
        self.first_opening: int | None = None
        #: When the window of each round closed.
        self.closed_at: dict[int, int] = {}
        #: Documents that are shown, by their entries; of very many, the newest ones.
        self._shown: dict[Entry, bytes | None] = {experiment_entry(subject.document.digest): None}
        self._newest = deque[Entry]()
        self.steps = RelayedSteps(subject)
        self._openings = OpeningCheck(subject)
        self._doors = Doors(subject)
        self.capsules = CapsuleCheck(subject, self._doors)
        self._before: ShownRound | None = None
        #: What is bound to one round, and the first round that it was seen in.
        self._bound: dict[bytes, int] = {}
        self._followed = False
        self._kept: dict[int, bytes] = {}

    @property
    def last_round(self) -> int:
        """The newest round that is shown."""
        return max(self.facts, default=0)

    def shown_entries(self) -> list[Entry]:
        """What the log should hold, of the documents that are shown."""
        return list(self._shown)

    def envelope_of(self, entry: Entry) -> bytes | None:
        """The document of an entry, for evidence; None where it is not kept."""
        return self._shown.get(entry)

    def follow(self) -> None:
        """Read and judge everything that is shown, once."""
        if self._followed:
            return
        self._followed = True
        latest = self._read("manifest", "latest", RelayedManifest, None)
        newest = latest[0].round_number if latest is not None else 0
        for number in range(1, self._document.rounds + 1):
            shown = self._manifest(number)
            if shown is None and number > newest and not self._findings.has_failed(number, "signed"):
                break
            self._take(number, shown)
            self._on_round(number)
        if latest is not None:
            self._check_latest(*latest)
        self._read_ending()

    # ── documents ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self, what: str, name: object, kind: type[Told], number: int | None) -> tuple[Told, bytes] | None:
        """A document of a kind that the coordinator signed; None where there is none, or a fault was told."""
        unreadable = {Opening: Found.OPENING_UNREADABLE, RelayedEnding: Found.ENDING}
        path = experiment_path(self._document.digest, what, *([] if name is None else [name]))
        try:
            data = self._subject.subject.files.get(path, most=2**16)
            if data is None:
                return None
            told = read_told(data, self._document)
        except RemoteProtocolError as fault:
            self._subject.found(unreadable.get(kind, Found.MANIFEST_UNREADABLE), number, str(fault))
            return None
        if not isinstance(told, kind) or (number is not None and told.round_number != number):
            self._subject.found(unreadable.get(kind, Found.MANIFEST_UNREADABLE), number, "it is another document")
            return None
        if name != "latest":
            self._keep(entry_of(told), data)
        return told, data

    def _keep(self, entry: Entry, envelope: bytes) -> None:
        self._shown[entry] = envelope
        self._newest.append(entry)
        if len(self._newest) > 2 * _MOST_KEPT:
            self._shown[self._newest.popleft()] = None

    def _manifest(self, number: int) -> ShownRound | None:
        found = self._read("manifest", number, RelayedManifest, number)
        if found is None or not isinstance(found[0], RelayedManifest):
            return None
        return ShownRound(found[0], found[1])

    def _check_latest(self, told: Told, envelope: bytes) -> None:
        same = self._kept.get(told.round_number)
        if same is not None and read_told(same, self._document).data != told.data:
            evidence = self._subject.evidence(RelayedKind.TWO_DOCUMENTS, documents=(same, envelope))
            detail = "manifest/latest is another manifest for the same round"
            self._subject.found(Found.BROKEN_CHAIN, told.round_number, detail, evidence=evidence)

    def _take(self, number: int, shown: ShownRound | None) -> None:
        """A manifest, and how its round ended."""
        before = self._before
        if shown is None:
            if not self._findings.has_failed(number, "signed"):
                self._subject.found(Found.MANIFEST_NOT_SHOWN, number)
            self._before = None
            self.facts[number] = RoundFacts(ended=UNOPENED, missing=("its manifest is not shown",))
            return
        self.closed_at[number] = shown.manifest.instants.closes_at
        self._judge_manifest(shown, before)
        if before is not None or number == 1:
            self.steps.expect(shown.manifest, shown.manifest_envelope, before)
        found = self._read("opening", number, Opening, number)
        if found is not None and isinstance(found[0], Opening):
            shown = replace(shown, opening=found[0], opening_envelope=found[1])
        self._conclude(shown)
        self._before = shown

    def _judge_manifest(self, shown: ShownRound, before: ShownRound | None) -> None:
        manifest, number = shown.manifest, shown.number
        told_before = None if before is None else before.manifest
        documents = (*(() if before is None else (before.manifest_envelope,)), shown.manifest_envelope)
        evidence = self._subject.evidence(RelayedKind.BAD_DOCUMENT, documents=documents)
        for wrong in manifest_faults(manifest, self._document, told_before):
            if wrong is Inconsistency.USED_BEFORE:
                continue
            what = Found.WINDOW if wrong in _WINDOW else Found.COMMITMENT if wrong in _COMMITMENTS else None
            self._subject.found(what or Found.BROKEN_CHAIN, number, wrong.value, evidence=evidence)
        used = {self._bound.setdefault(one, number) for one in manifest.bound} - {number}
        for earlier in sorted(used):
            kept = self._kept.get(earlier)
            proof = None
            if kept is not None:
                pair = (kept, shown.manifest_envelope)
                proof = self._subject.evidence(RelayedKind.BAD_DOCUMENT, documents=pair)
            self._subject.found(Found.USED_BEFORE, number, f"first in round {earlier}", evidence=proof)
        if before is not None:
            self._judge_named(before, manifest.opening, shown.manifest_envelope)
        if self.first_opening is None:
            self.first_opening = manifest.instants.opens_at
        self._kept[number] = shown.manifest_envelope
        self._kept.pop(number - _MOST_KEPT, None)
        self._findings.passed(number, "signed", "window", "commitments", *(["chain"] if before or number == 1 else []))

    def _judge_named(self, before: ShownRound, named: str | None, envelope: bytes) -> None:
        """The opening of the round before, as the document after it names it."""
        if before.opening is None:
            if not self._findings.has_failed(before.number, "opened"):
                self._subject.found(Found.OPENING_NOT_SHOWN, before.number)
        elif before.opening.digest != named:
            documents = (*before.envelopes, envelope)
            evidence = self._subject.evidence(RelayedKind.BAD_DOCUMENT, documents=documents)
            self._subject.found(Found.OTHER_OPENING, before.number, evidence=evidence)

    # ── how a round ended ────────────────────────────────────────────────────────────────────────────────────────────

    def _conclude(self, shown: ShownRound) -> None:
        opening, now, instants = shown.opening, self._subject.subject.now, shown.manifest.instants
        opened = self._openings.is_opened(shown)
        if opened and now + _AHEAD_MS < instants.mix_by:
            self._subject.found(Found.WINDOW, shown.number, "it was opened before its mixing relay hands on")
        net, stayed = self.steps.conclude(shown, opened=opened)
        if now >= instants.batch_by:
            self._doors.check(shown)
        if opened:
            self.capsules.check(shown, net, self._recounting)
        missing: tuple[str, ...] = ()
        if opening is not None:
            missing = tuple(one.value for one in opening.missing)
        elif now >= instants.open_by:
            missing = ("no opening was published by its time",)
            self._findings.warn(f"round {shown.number}: no opening was published by its time; it counts as unopened")
        ended = OPENED if opened else RUNNING if opening is None and not missing else UNOPENED
        count, mix, reveal = self._numbers(opening)
        self.facts[shown.number] = RoundFacts(
            ended=ended,
            missing=missing,
            clients=None if count is None else count.clients,
            entry_capsules=None if count is None else count.capsules,
            mix_capsules=None if mix is None else mix.capsules,
            refused=None if mix is None else mix.refused,
            part=None if reveal is None else reveal.part,
            stayed=None if stayed is None else stayed.value,
            recounted=self.capsules.recounted.get(shown.number),
            chances=chances_of(self._document, capsules=count.capsules, net=net) if opened and count else None,
        )

    @staticmethod
    def _numbers(opening: Opening | None) -> tuple[EntryCount | None, MixCount | None, EntryReveal | None]:
        if opening is None:
            return None, None, None
        count = None if opening.entry_count is None else EntryCount.enclosed(opening.entry_count)
        mix = None if opening.mix_count is None else MixCount.enclosed(opening.mix_count)
        return count, mix, None if opening.entry_reveal is None else EntryReveal.enclosed(opening.entry_reveal)

    def _read_ending(self) -> None:
        found = self._read("ending", None, RelayedEnding, None)
        if found is None or not isinstance(found[0], RelayedEnding):
            return
        (ending, envelope), before = (found[0], found[1]), self._before
        self.ending = ending
        if ending.round_number != self.last_round:
            proof = None
            if before is not None:
                pair = (envelope, before.manifest_envelope)
                proof = self._subject.evidence(RelayedKind.TWO_DOCUMENTS, documents=pair)
            detail = f"it is after round {ending.round_number}, and there are manifests up to {self.last_round}"
            self._subject.found(Found.ENDING, None, detail, evidence=proof)
            return
        if before is not None:
            if ending.manifest != before.manifest.digest:
                documents = (*before.envelopes, envelope)
                evidence = self._subject.evidence(RelayedKind.BAD_DOCUMENT, documents=documents)
                self._subject.found(Found.ENDING, None, "it names another last manifest", evidence=evidence)
            self._judge_named(before, ending.opening, envelope)
        if before is not None or ending.round_number == 0:
            self.steps.expect(ending, envelope, before)
