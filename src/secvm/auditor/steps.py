"""How rounds ended: each step taken again from its published tally, and counts held to what is signed beside them.

"Step follows from the published tally" is the best verdict there is. It does not say that the tally is true: whether
packages were invented, within what budget and relays allow, nobody sees from here.
"""

from __future__ import annotations

from collections.abc import Iterator

from secvm.auditor.files import blob_path
from secvm.auditor.findings import FaultKind
from secvm.auditor.subject import PublishedRound, SignedDocument, Subject
from secvm.errors import InconsistentManifestError, RemoteProtocolError
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.canonical import digest_of
from secvm.protocol.documents.blobs import decode_state, decode_tally
from secvm.protocol.documents.ending import Ending
from secvm.protocol.documents.manifest import LastRound, RelayCount, RoundManifest, last_round, read_relay_count
from secvm.protocol.documents.recomputation import (
    Model,
    Stayed,
    after_opened,
    first_model,
    model_of,
    next_model,
    what_differs,
)
from secvm.protocol.evidence.plain import Kind
from secvm.protocol.evidence.plausibility import violations
from secvm.protocol.evidence.relayed import RelayedEvidence, RelayedKind
from secvm.protocol.log.checkpoints import MAX_AHEAD_S
from secvm.protocol.log.entries import ModelNames
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import RelayedEnding, clients_of

FOLLOWS = "step follows from the published tally"
ABANDONED = "abandoned: state unchanged"

#: So many rounds' ends are kept, to compare them with what people are told.
_MOST_KEPT = 4096


class ModelReplay:
    """The models of one experiment, computed from zero; what both kinds of experiments share."""

    def __init__(self, subject: Subject) -> None:
        self._subject, self._document = subject, subject.document
        #: Steps that were taken again.
        self.count = 0
        #: The model that the newest document names, as far as it follows.
        self.model: Model = first_model(subject.document)
        self._good_blobs: set[str] = set()

    def _go_on_from(self, state_digest: str) -> None:
        """Go on from the state that was signed, if it is served; else from what was computed: one lie is told once."""
        try:
            data = self._subject.files.get(blob_path(state_digest), most=_most(self.model.state_bytes))
            if data is not None:
                state = decode_state(data, digest=state_digest, experiment=self._document.experiment)
                self.model = model_of(self._document, state)
        except RemoteProtocolError:
            pass

    def _bad_blobs(self, names: ModelNames) -> Iterator[tuple[str, str]]:
        """Of state and weights: which are not served under the digests that were signed, and what is served instead."""
        if not self._subject.models:
            return
        words = ("state", "training weights", "evaluation weights")
        for word, digest, part in zip(words, names, self.model.blobs, strict=True):
            if digest in self._good_blobs:
                continue
            try:
                data = self._subject.files.get(blob_path(digest), most=_most(part))
            except RemoteProtocolError:
                data = b""
            if data is None or digest_of(data) != digest:
                yield word, "not served" if data is None else "another digest"
            else:
                self._good_blobs.add(digest)


def _most(computed: bytes) -> int:
    """The most bytes that are read of what should be as long as this."""
    return 2 * len(computed) + 4096


class Steps(ModelReplay):
    """The steps of an experiment with one relay."""

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        #: How each round ended, as the document after it tells.
        self.ended: dict[int, LastRound] = {}
        self._before: SignedDocument | None = None

    def conclude(self, number: int, before: SignedDocument | None, after: SignedDocument) -> str | None:
        """Round ``number`` ended as the document after it says; 0: nothing was before. The verdict comes back.

        ``before``: the round's own manifest; None where it is not shown.
        """
        findings, signed = self._subject.findings, after.content
        if number == 0:
            first = 1 if isinstance(signed, RoundManifest) else None
            self._expect(first, after, first_model(self._document), ())
            self._check_blobs(first, signed)
            return None
        self._before = before
        if signed.last is not None:
            self.ended[number] = signed.last
            self.ended.pop(number - _MOST_KEPT, None)
        counted, blob = self._counted(number, after)
        started = None if before is None else before.manifest
        if started is not None and self._subject.now + 1000 * MAX_AHEAD_S < started.accept_until:
            findings.fault("window", "how it ended was published before its window was over", round_number=number)
        abandoned = signed.last is not None and signed.last.tally is None
        if before is None:
            findings.leave_out(f"the step of round {number}: its manifest is not shown")
            self._go_on_from(signed.state)
        elif abandoned or counted is not None:
            self._step(number, after, counted, blob)
        else:
            self._go_on_from(signed.state)
        if abandoned:
            findings.passed(number, "floor", "counts")
        self._check_blobs(number, signed)
        fault = findings.first_fault(number)
        follows = ABANDONED if abandoned else FOLLOWS
        return follows if fault is None else f"at fault: {fault.sentence}"

    def _counted(self, number: int, after: SignedDocument) -> tuple[Tally | None, bytes | None]:
        """The tally that a document names, held to what the document says beside it."""
        findings, last = self._subject.findings, after.content.last
        if last is None:
            return None, None
        count = self._relay_count(number, last)
        if last.tally is None:
            return None, None
        most = self._document.most_tally_bytes
        blob = self._subject.read("step", blob_path(last.tally), number, most=most)
        if blob is None:
            if not findings.has_failed(number, "step"):
                findings.fault("step", "its tally is named and not served", round_number=number)
            return None, None
        try:
            tally = decode_tally(blob, digest=last.tally, experiment=self._document.experiment)
        except RemoteProtocolError as fault:
            findings.fault("step", f"its tally cannot be read: {fault}", round_number=number)
            return None, None
        counted = last_round(tally)
        if (counted.cells, counted.participants) != (last.cells, last.participants):
            evidence = self._subject.evidence(Kind.WRONG_COUNTS, documents=(after.envelope,), blobs=(blob,))
            sentence = "counts were signed beside a tally that has others"
            findings.fault("counts", sentence, round_number=number, evidence=evidence)
        findings.passed(number, "counts", "floor")
        self._judge_plausible(number, tally, count)
        return tally, blob

    def _relay_count(self, number: int, last: LastRound) -> RelayCount | None:
        """What a relay has signed of the round, if that can be believed."""
        findings, document = self._subject.findings, self._document
        if last.relay_count is None:
            if document.relays and last.tally is not None:
                findings.leave_out("tallies against relays' counts, where a round is told without one")
            return None
        try:
            count = read_relay_count(last.relay_count, document)
        except RemoteProtocolError as fault:
            sentence = f"the relay's count beside it cannot be believed: {fault}"
            findings.fault("relay_count", sentence, round_number=number)
            return None
        findings.passed(number, "relay_count")
        return count

    def _judge_plausible(self, number: int, tally: Tally, count: RelayCount | None) -> None:
        """Whether so many people can have sent so much."""
        findings, document = self._subject.findings, self._document
        if len(document.relays) > 1:
            findings.leave_out("tallies against relays' counts: there are several relays, and each round tells one's")
        manifest = None if self._before is None else self._before.manifest
        opened_at = None if manifest is None else manifest.opens_at
        for violation in violations(document, tally, count, opened_at=opened_at):
            sentence = violation.sentence[:1].lower() + violation.sentence[1:].rstrip(".")
            if violation.whatever_people_send:
                findings.fault("plausible", sentence, round_number=number)
            else:
                # One client who is two people, or a device of its own making, brings this about as well.
                findings.doubt("plausible", sentence, round_number=number)
        if count is not None and len(document.relays) == 1:
            findings.passed(number, "plausible")

    def _step(self, number: int, after: SignedDocument, tally: Tally | None, blob: bytes | None) -> None:
        before, state = self._before, self.model.state
        assert before is not None
        try:
            model = next_model(self._document, state, tally)
        except InconsistentManifestError as fault:
            blobs = () if blob is None else (state.to_bytes(), blob)
            evidence = self._subject.evidence(Kind.WRONG_STEP, documents=(before.envelope, after.envelope), blobs=blobs)
            self._subject.findings.fault(
                "step", f"a model was signed although {fault}", round_number=number, evidence=evidence
            )
            self._go_on_from(after.content.state)
            return
        self.count += tally is not None
        self._expect(number, after, model, () if blob is None else (blob,))

    def _expect(self, number: int | None, after: SignedDocument, model: Model, tally: tuple[bytes, ...]) -> None:
        """The model that a document must name; what it names instead is a fault, and the audit goes on from that."""
        differs, started = what_differs(after.content, model), self.model.state
        self.model = model
        if differs is None:
            if number is not None and (after.content.last is not None or isinstance(after.content, Ending)):
                self._subject.findings.passed(number, "step")
            return
        before = self._before
        documents = (after.envelope,) if before is None else (before.envelope, after.envelope)
        blobs = (started.to_bytes(), *tally) if tally else ()
        evidence = self._subject.evidence(Kind.WRONG_STEP, documents=documents, blobs=blobs)
        if after.content.last is None:
            sentence = f"the first model is not zero: what was signed is {differs}"
        else:
            sentence = f"the model after it does not follow: what was signed is {differs}"
        check = "step" if number is not None else "ending"
        self._subject.findings.fault(check, sentence, round_number=number, evidence=evidence)
        self._go_on_from(after.content.state)

    # ── blobs ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _check_blobs(self, number: int | None, signed: RoundManifest | Ending) -> None:
        """States and weights are served under their digests."""
        whose = "from which it starts" if signed.last is None else "after it"
        for word, wrong in self._bad_blobs(signed.model):
            if wrong == "not served":
                sentence = f"not served: the {word} {whose}"
            else:
                sentence = f"what is served as the {word} {whose} has another digest"
            self._subject.findings.fault("blobs", sentence, round_number=number)
        if self._subject.models and number is not None and signed.last is not None:
            self._subject.findings.passed(number, "blobs")


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
