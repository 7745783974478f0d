"""One opening, judged: which statements are false, whose each is, and whether the round counts as opened.

A false statement of a relay is that relay's fault. The coordinator's fault is to hold what no relay signed, to publish
a seed that is not the count key's, and to call a round opened that is not.
"""

from __future__ import annotations

from secvm.auditor.findings import FaultKind
from secvm.auditor.subject import PublishedRound, Subject
from secvm.protocol.documents.faults import OpeningFault
from secvm.protocol.evidence.relayed import RelayedEvidence, RelayedKind, Who
from secvm.protocol.relays.batches.counts import MixCount
from secvm.protocol.relays.cover.reveals import EntryReveal, MixReveal
from secvm.protocol.relays.judgement import opening_faults
from secvm.protocol.relays.opening import Opening

_FORGED = {OpeningFault.ENTRY_COUNT, OpeningFault.MIX_COUNT, OpeningFault.ENTRY_REVEAL, OpeningFault.MIX_REVEAL}
_BOUND = {OpeningFault.NONCE, OpeningFault.PART, OpeningFault.ENTRY_SEED, OpeningFault.MIX_SEED}
_DISAGREE = {OpeningFault.OTHER_ENTRY_COUNT, OpeningFault.OTHER_ENTRY_REVEAL}
_SEED = {OpeningFault.COUNT_SEED, OpeningFault.COUNT_KEY}


class OpeningCheck:
    """Judges the openings of one experiment's rounds."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def is_opened(self, published: PublishedRound) -> bool:
        """Whether the round counts as opened; all that is false in its opening is told."""
        opening, subject, number = published.opening, self._subject, published.number
        if opening is None:
            return False
        faults = set(opening_faults(opening, published.manifest, subject.document))
        known = False
        for fault in OpeningFault:
            if fault in faults & _FORGED:
                subject.fault(FaultKind.FORGED_STATEMENT, number, fault.value, evidence=self._bad_opening(published))
                known = True
            if fault in faults & _SEED:
                subject.fault(FaultKind.SEED, number, fault.value, evidence=self._bad_opening(published))
                known = True
            if fault in faults & _DISAGREE:
                subject.fault(FaultKind.COUNTS_DISAGREE, number, fault.value)
        if not faults & _FORGED:
            self._judge_counts(published, opening, faults)
            self._judge_reveals(published, opening, faults)
        if faults and opening.is_opened and not known:
            detail = next(fault.value for fault in OpeningFault if fault in faults)
            subject.fault(FaultKind.FALSE_OPENING, number, detail, evidence=self._bad_opening(published))
        subject.findings.passed(number, "statements", "counts", "reveals", "opened")
        return opening.is_opened and not faults

    def _judge_counts(self, published: PublishedRound, opening: Opening, faults: set[OpeningFault]) -> None:
        entry, mix = opening.entry_count, opening.mix_count
        of = {"documents": (published.manifest_envelope,)}
        if OpeningFault.ENTRY_EQUATION in faults and entry is not None:
            evidence = self._subject.relayed_evidence(RelayedKind.FALSE_COUNT, statements=(entry,), **of)
            self._subject.fault(FaultKind.ENTRY_EQUATION, published.number, evidence=evidence)
        after_this = OpeningFault.OTHER_ENTRY_COUNT not in faults
        if OpeningFault.MIX_EQUATION in faults and after_this and entry is not None and mix is not None:
            evidence = self._subject.relayed_evidence(RelayedKind.FALSE_COUNT, statements=(entry, mix), **of)
            self._subject.fault(FaultKind.MIX_EQUATION, published.number, evidence=evidence)

    def _judge_reveals(self, published: PublishedRound, opening: Opening, faults: set[OpeningFault]) -> None:
        """Each reveal by itself: what it answers, and what its relay was bound to."""
        entry, mix, count = opening.entry_reveal, opening.mix_reveal, opening.mix_count
        if OpeningFault.OTHER_MIX_COUNT in faults and count is not None:
            self._judge_answered(published, opening, count)
        if not faults & (_BOUND | {OpeningFault.OTHER_MIX_COUNT}):
            return
        for what, statements in (
            (FaultKind.ENTRY_REVEAL, (entry,)),
            (FaultKind.MIX_REVEAL, (entry, mix)),
        ):
            given = tuple(one for one in statements if one is not None)
            if len(given) != len(statements):
                continue
            evidence = self._subject.relayed_evidence(
                RelayedKind.FALSE_REVEAL, documents=(published.manifest_envelope,), statements=given
            )
            if self._subject.convicted(evidence) is what.who:
                self._subject.fault(what, published.number, evidence=evidence)

    def _judge_answered(self, published: PublishedRound, opening: Opening, count: bytes) -> None:
        """A reveal that answers another count than the published one: where both are signed, there are two."""
        answers = []
        if opening.entry_reveal is not None:
            answers.append(EntryReveal.enclosed(opening.entry_reveal).mix_count)
        if opening.mix_reveal is not None:
            answers.append(MixReveal.enclosed(opening.mix_reveal).mix_count)
        first = MixCount.enclosed(count).data
        for answered in answers:
            if MixCount.enclosed(answered).data == first:
                continue
            evidence = self._subject.relayed_evidence(RelayedKind.TWO_STATEMENTS, statements=(count, answered))
            if self._subject.convicted(evidence) is Who.MIX:
                self._subject.fault(
                    FaultKind.TWO_STATEMENTS_OF_MIX, published.number, "a reveal answers the other", evidence=evidence
                )

    def _bad_opening(self, published: PublishedRound) -> RelayedEvidence:
        return self._subject.relayed_evidence(RelayedKind.BAD_DOCUMENT, documents=published.envelopes)
