"""The rounds of an experiment with two relays, replayed from zero: documents, openings, models, capsules, doors.

All faults are collected. After a wrong model it goes on from what was *signed*, as far as that is served, so that each
round is judged by itself and one lie is told once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from secvm.auditor.files import experiment_path
from secvm.auditor.findings import FaultKind
from secvm.auditor.relayed.capsules import CapsuleCheck
from secvm.auditor.relayed.recounter import Recounter
from secvm.auditor.relayed.statements import RelayDoors, is_opened
from secvm.auditor.report import RoundFacts, chances_of
from secvm.auditor.steps import RelayedSteps
from secvm.auditor.subject import History, PublishedRound, Subject
from secvm.errors import MalformedMessageError, RemoteProtocolError
from secvm.protocol.documents.faults import Inconsistency
from secvm.protocol.evidence.examination import read_relayed_document
from secvm.protocol.evidence.relayed import RelayedKind
from secvm.protocol.log.entries import Entry
from secvm.protocol.relays.counts import EntryCount, EntryReveal, MixCount
from secvm.protocol.relays.manifest import RelayedManifest, manifest_faults
from secvm.protocol.relays.opening import Opening, RelayedEnding

D = TypeVar("D", RelayedManifest, Opening, RelayedEnding)

RUNNING, OPENED, UNOPENED = "running", "opened", "unopened"
_VERDICTS = {
    OPENED: "step follows",
    UNOPENED: "unopened; nothing changed",
    RUNNING: "not over: how it ended is not published yet",
}
_UNREADABLE: dict[type, FaultKind] = {
    RelayedManifest: FaultKind.MANIFEST_UNREADABLE,
    Opening: FaultKind.OPENING_UNREADABLE,
    RelayedEnding: FaultKind.ENDING,
}
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


class RelayedReplay(History):
    """One experiment's rounds, in their order."""

    def __init__(
        self,
        subject: Subject,
        *,
        recounter: Recounter,
        on_round: Callable[[int], None] = lambda _: None,
    ) -> None:
        super().__init__(subject)
        self._recounter, self._on_round = recounter, on_round
        #: Of every round that is shown or missing, from 1 on.
        self._facts: dict[int, RoundFacts] = {}
        self._ending: RelayedEnding | None = None
        self.steps = RelayedSteps(subject)
        self._doors = RelayDoors(subject)
        self.capsules = CapsuleCheck(subject, self._doors)
        self._before: PublishedRound | None = None
        self._latest: tuple[RelayedManifest, bytes] | None = None
        #: What is bound to one round, and the first manifest that it was seen in.
        self._bound: dict[bytes, Entry] = {}
        self._followed = False

    @property
    def last_round(self) -> int:
        """The newest round that is shown."""
        return max(self._facts, default=0)

    @property
    def standing(self) -> str | None:
        """How the experiment ended; None: it is running."""
        return None if self._ending is None else self._ending.why

    def verdicts(self) -> list[tuple[int, str, RoundFacts]]:
        """The verdict on each round, in their order, with its numbers."""
        return [(number, _VERDICTS[facts.ended], facts) for number, facts in self._facts.items()]

    def follow(self) -> None:
        """Read and judge everything that is shown, once."""
        if self._followed:
            return
        self._followed = True
        self._latest = self._read("manifest", "latest", RelayedManifest, None)
        newest = 0 if self._latest is None else self._latest[0].round_number
        for number in range(1, self._document.rounds + 1):
            signed = self._read("manifest", number, RelayedManifest, number)
            if signed is None and number > newest and not self._findings.has_failed(number, "signed"):
                break
            self._take(number, None if signed is None else PublishedRound(*signed))
            self._on_round(number)
        self._read_ending()

    def check_latest(self) -> None:
        """Check that ``manifest/latest`` is the one under its number."""
        if self._latest is None:
            return
        latest, envelope = self._latest
        other = self._other_than(latest)
        if other is not None:
            evidence = self._subject.relayed_evidence(RelayedKind.TWO_DOCUMENTS, documents=(other, envelope))
            detail = "manifest/latest is another manifest for the same round"
            self._subject.fault(FaultKind.BROKEN_CHAIN, latest.round_number, detail, evidence=evidence)

    # ── documents ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self, what: str, name: object, kind: type[D], number: int | None) -> tuple[D, bytes] | None:
        """A document of a kind that the coordinator signed; None where there is none, or a fault was noted."""
        path = experiment_path(self._document.digest, what, *([] if name is None else [name]))
        try:
            data = self._subject.files.get(path, most=2**16)
            if data is None:
                return None
            document = read_relayed_document(data, self._document)
            if not isinstance(document, kind) or (number is not None and document.round_number != number):
                raise MalformedMessageError("it is another document")
        except RemoteProtocolError as fault:
            self._subject.fault(_UNREADABLE[kind], number, str(fault))
            return None
        if name != "latest":
            self._keep(document, data)
        return document, data

    def _take(self, number: int, published: PublishedRound | None) -> None:
        """A manifest, and how its round ended."""
        before = self._before
        if published is None:
            if not self._findings.has_failed(number, "signed"):
                self._subject.fault(FaultKind.MANIFEST_NOT_SHOWN, number)
            self._before = None
            self._facts[number] = RoundFacts(ended=UNOPENED, missing=("its manifest is not shown",))
            return
        self.closed_at[number] = published.manifest.instants.closes_at
        self._judge_manifest(published, before)
        if before is not None or number == 1:
            self.steps.expect(published.manifest, published.manifest_envelope, before)
        opening = self._read("opening", number, Opening, number)
        if opening is not None:
            published = replace(published, opening=opening[0], opening_envelope=opening[1])
        self._conclude(published)
        self._before = published

    def _judge_manifest(self, published: PublishedRound, before: PublishedRound | None) -> None:
        manifest, number = published.manifest, published.number
        documents = (*(() if before is None else (before.manifest_envelope,)), published.manifest_envelope)
        evidence = self._subject.relayed_evidence(RelayedKind.BAD_DOCUMENT, documents=documents)
        for wrong in manifest_faults(manifest, self._document, None if before is None else before.manifest):
            if wrong is Inconsistency.USED_BEFORE:
                continue
            what = FaultKind.WINDOW if wrong in _WINDOW else FaultKind.COMMITMENT if wrong in _COMMITMENTS else None
            self._subject.fault(what or FaultKind.BROKEN_CHAIN, number, wrong.value, evidence=evidence)
        entry = manifest.log_entry
        used = {self._bound.setdefault(secret, entry) for secret in manifest.bound} - {entry}
        for earlier in sorted(used, key=lambda first: first.rank):
            kept = self.envelope_of(earlier)
            proof = None
            if kept is not None:
                pair = (kept, published.manifest_envelope)
                proof = self._subject.relayed_evidence(RelayedKind.BAD_DOCUMENT, documents=pair)
            self._subject.fault(FaultKind.USED_BEFORE, number, f"first in round {earlier.round_number}", evidence=proof)
        if before is not None:
            self._judge_named(before, manifest.opening, published.manifest_envelope)
        if self.first_opening is None:
            self.first_opening = manifest.instants.opens_at
        self._findings.passed(number, "signed", "window", "commitments", *(["chain"] if before or number == 1 else []))

    def _judge_named(self, before: PublishedRound, named: str | None, envelope: bytes) -> None:
        """The opening of the round before, as the document after it names it."""
        if before.opening is None:
            if not self._findings.has_failed(before.number, "opened"):
                self._subject.fault(FaultKind.OPENING_NOT_SHOWN, before.number)
        elif before.opening.digest != named:
            documents = (*before.envelopes, envelope)
            evidence = self._subject.relayed_evidence(RelayedKind.BAD_DOCUMENT, documents=documents)
            self._subject.fault(FaultKind.OTHER_OPENING, before.number, evidence=evidence)

    # ── how a round ended ────────────────────────────────────────────────────────────────────────────────────────────

    def _conclude(self, published: PublishedRound) -> None:
        opening, now, instants = published.opening, self._subject.now, published.manifest.instants
        opened = is_opened(self._subject, published)
        if opened and now + _AHEAD_MS < instants.mix_by:
            self._subject.fault(FaultKind.WINDOW, published.number, "it was opened before its mixing relay hands on")
        net, stayed = self.steps.conclude(published, opened=opened)
        if now >= instants.batch_by:
            self._doors.check(published)
        if opened:
            self.capsules.check(published, net, self._recounter)
        missing: tuple[str, ...] = ()
        if opening is not None:
            missing = tuple(lack.value for lack in opening.missing)
        elif now >= instants.open_by:
            missing = ("no opening was published by its time",)
            self._findings.warn(
                f"round {published.number}: no opening was published by its time; it counts as unopened"
            )
        ended = OPENED if opened else RUNNING if opening is None and not missing else UNOPENED
        count, mix, reveal = self._numbers(opening)
        self._facts[published.number] = RoundFacts(
            ended=ended,
            missing=missing,
            clients=None if count is None else count.clients,
            entry_capsules=None if count is None else count.capsules,
            mix_capsules=None if mix is None else mix.capsules,
            refused=None if mix is None else mix.refused,
            part=None if reveal is None else reveal.part,
            stayed=None if stayed is None else stayed.value,
            recounted=self.capsules.recounted.get(published.number),
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
        signed, before = self._read("ending", None, RelayedEnding, None), self._before
        if signed is None:
            return
        ending, envelope = self._ending, _ = signed
        if ending.round_number != self.last_round:
            proof = None
            if before is not None:
                pair = (envelope, before.manifest_envelope)
                proof = self._subject.relayed_evidence(RelayedKind.TWO_DOCUMENTS, documents=pair)
            detail = f"it is after round {ending.round_number}, and there are manifests up to {self.last_round}"
            self._subject.fault(FaultKind.ENDING, None, detail, evidence=proof)
            return
        if before is not None:
            if ending.manifest != before.manifest.digest:
                documents = (*before.envelopes, envelope)
                evidence = self._subject.relayed_evidence(RelayedKind.BAD_DOCUMENT, documents=documents)
                self._subject.fault(FaultKind.ENDING, None, "it names another last manifest", evidence=evidence)
            self._judge_named(before, ending.opening, envelope)
        if before is not None or ending.round_number == 0:
            self.steps.expect(ending, envelope, before)
