"""The models of an experiment with two relays, computed from zero: what each document must name, and what it names."""

from __future__ import annotations

from secvm.auditor.files import blob_path
from secvm.auditor.findings import FaultKind
from secvm.auditor.steps import ModelReplay
from secvm.auditor.subject import PublishedRound, Subject
from secvm.errors import RemoteProtocolError
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.documents.blobs import decode_tally
from secvm.protocol.documents.recomputation import Model, Stayed, after_opened
from secvm.protocol.evidence.relayed import RelayedEvidence, RelayedKind
from secvm.protocol.relays.judgement import clients_of
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import RelayedEnding


class RelayedSteps(ModelReplay):
    """The steps of an experiment with two relays."""

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        #: What the next document must name; None: not known, because something is not served.
        self._expected: Model | None = self.model
        #: The last round's state, before its step, and its tally, for evidence.
        self._started: bytes | None = None
        self._tally: bytes | None = None

    def expect(self, signed: RelayedManifest | RelayedEnding, envelope: bytes, before: PublishedRound | None) -> None:
        """Hold a document to the model that follows from the round before it."""
        number = None if before is None else before.number
        about = number if number is not None else (1 if isinstance(signed, RelayedManifest) else None)
        if self._expected is not None and signed.model != self._expected.names:
            what = FaultKind.FIRST_MODEL if before is None else FaultKind.STEP
            self._subject.fault(what, about, evidence=self._evidence(envelope, before))
        if self._expected is not None and signed.model == self._expected.names:
            self.model = self._expected
        else:
            self._go_on_from(signed.state)
        for _, wrong in self._bad_blobs(signed.model):
            self._subject.fault(FaultKind.BLOBS, about, wrong)
        if about is not None:
            self._subject.findings.passed(about, "step", "blobs")

    def conclude(self, published: PublishedRound, *, opened: bool) -> tuple[Tally | None, Stayed | None]:
        """What follows from a round: its net tally, where it is opened, and why it was not stepped."""
        opening, document = published.opening, self._document
        self._started, self._tally = self.model.state_bytes, None
        if opening is None or not opened or opening.tally is None:
            self._expected = None if opening is None else self.model
            return None, None
        net = self._net(published.number, opening.tally)
        if net is None:
            self._expected = None
            return None, None
        after = after_opened(document, self.model.state, net, clients=clients_of(opening))
        self._expected = after.model
        self.count += after.stayed is None
        return net, after.stayed

    def _net(self, number: int, digest: str) -> Tally | None:
        document = self._document
        try:
            data = self._subject.files.get(blob_path(digest), most=document.most_tally_bytes)
            if data is None:
                self._subject.fault(FaultKind.TALLY, number, "not served")
                return None
            tally = decode_tally(data, digest=digest, experiment=document.experiment)
        except RemoteProtocolError as fault:
            self._subject.fault(FaultKind.TALLY, number, str(fault))
            return None
        self._tally = data
        return tally

    def _evidence(self, envelope: bytes, before: PublishedRound | None) -> RelayedEvidence:
        if before is None:
            return self._subject.relayed_evidence(RelayedKind.WRONG_STEP, documents=(envelope,))
        documents = (*before.envelopes, envelope)
        if self._tally is None or self._started is None:
            return self._subject.relayed_evidence(RelayedKind.BAD_DOCUMENT, documents=documents[:3])
        blobs = (self._started, self._tally)
        return self._subject.relayed_evidence(RelayedKind.WRONG_STEP, documents=documents, blobs=blobs)
