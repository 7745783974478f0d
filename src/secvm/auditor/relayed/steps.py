"""The models of an experiment with two relays, computed from zero: what each document must name, and what it names."""

from __future__ import annotations

from secvm.auditor.files import blob_path
from secvm.auditor.findings import FaultKind
from secvm.auditor.subject import PublishedRound, Subject
from secvm.errors import RemoteProtocolError
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.canonical import digest_of
from secvm.protocol.documents.blobs import decode_state, decode_tally
from secvm.protocol.documents.recomputation import Model, first_model, model_of
from secvm.protocol.evidence.relayed import RelayedEvidence, RelayedKind
from secvm.protocol.relays.ending import RelayedEnding
from secvm.protocol.relays.judgement import clients_of
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.step import Stayed, after_opened

_MORE = 4096


class RelayedSteps:
    """One experiment's models."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        #: Steps that were taken again.
        self.count = 0
        #: What the next document must name; None: not known, because something is not served.
        self._expected: Model | None = first_model(subject.document)
        #: The one that the newest document names, as far as it follows.
        self.model: Model = self._expected
        #: The last round's state, before its step, and its tally, for evidence.
        self._started: bytes | None = None
        self._tally: bytes | None = None
        self._good_blobs: set[str] = set()

    def expect(self, told: RelayedManifest | RelayedEnding, envelope: bytes, before: PublishedRound | None) -> None:
        """Hold a document to the model that follows from the round before it."""
        number = None if before is None else before.number
        about = number if number is not None else (1 if isinstance(told, RelayedManifest) else None)
        if self._expected is not None and told.model != self._expected.names:
            what = FaultKind.FIRST_MODEL if before is None else FaultKind.STEP
            self._subject.fault(what, about, evidence=self._evidence(envelope, before))
        self._go_on_from(told)
        self._check_blobs(told, about)
        if about is not None:
            self._subject.findings.passed(about, "step", "blobs")

    def conclude(self, shown: PublishedRound, *, opened: bool) -> tuple[Tally | None, Stayed | None]:
        """What follows from a round: its net tally, where it is opened, and why it was not stepped."""
        opening, document = shown.opening, self._subject.document
        self._started, self._tally = self.model.state_bytes, None
        if opening is None or not opened or opening.tally is None:
            self._expected = None if opening is None else self.model
            return None, None
        net = self._net(shown.number, opening.tally)
        if net is None:
            self._expected = None
            return None, None
        after = after_opened(document, self.model.state, net, clients=clients_of(opening))
        self._expected = after.model
        self.count += after.stayed is None
        return net, after.stayed

    def _net(self, number: int, digest: str) -> Tally | None:
        document = self._subject.document
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

    def _go_on_from(self, told: RelayedManifest | RelayedEnding) -> None:
        """From what was signed, if it is served; else from what was computed: one lie is told once."""
        if self._expected is not None and told.model == self._expected.names:
            self.model = self._expected
            return
        document = self._subject.document
        most = 2 * len(self.model.state_bytes) + _MORE
        try:
            data = self._subject.files.get(blob_path(told.state), most=most)
            if data is not None:
                state = decode_state(data, digest=told.state, experiment=document.experiment)
                self.model = model_of(document, state)
        except RemoteProtocolError:
            pass

    def _check_blobs(self, told: RelayedManifest | RelayedEnding, number: int | None) -> None:
        """States and weights are served under their digests."""
        subject = self._subject
        if not subject.models:
            return
        model = self.model
        sizes = (len(model.state_bytes), len(model.training.to_bytes()), len(model.evaluation.to_bytes()))
        for digest, size in zip(told.model, sizes, strict=True):
            if digest in self._good_blobs:
                continue
            try:
                data = subject.files.get(blob_path(digest), most=2 * size + _MORE)
            except RemoteProtocolError:
                data = b""
            if data is None or digest_of(data) != digest:
                self._subject.fault(FaultKind.BLOBS, number, "not served" if data is None else "another digest")
            else:
                self._good_blobs.add(digest)
