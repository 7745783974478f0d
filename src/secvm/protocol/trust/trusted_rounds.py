"""TrustedRounds: which round this device believes next, and why. Nothing is believed in part, nothing is taken back.

The paper assumes that everybody gets the same, correctly updated model. Here each device checks it before the first
package leaves. The numbers are those of docs/protocol.md §22:

 1. The manifest was fetched, with the log's lines, before the window opens. (The session sees to that; it knows the
    time.)
 2. The checkpoint is of the coordinator's log, and the log signed it.
 3. A quorum of the experiment's witnesses has cosigned it lately, each counted once. Of an ending, at any time: nothing
    can come after it, so nobody renews it, and an old view of it hides nothing.
 4. The checkpoint has grown out of the last one believed: the device keeps the right edge of the tree, appends every
    line since, of whatever experiment, and comes to the same root.
 5. Of this experiment those lines are exactly the documents that were served, each once, in their order
    (``trusted_log``).
 6. Every manifest since is signed, and continues the one before: the chain of digests, windows, floors, pinned things
    (``manifest.accept``). Each tally fits into the relay's signed count (``plausibility``). Gateway keys stand
    in manifests and nowhere else.
 7. Every model since follows: from the device's own last state, or from zero in round 1, over every published tally.
    The weights with which it computes are its own, not the server's.

What fails is one of two things. What the server *signed* and cannot explain is ``CheatingError``: it carries evidence,
and the device never sends to this experiment again. Everything else (no proof, no quorum, bytes that are none) is
another ``RemoteProtocolError``: no package leaves, and the device asks again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, NoReturn

from secvm.crypto.signing import Envelope
from secvm.errors import (
    CheatingError,
    EquivocationError,
    InconsistentManifestError,
    LocalProtocolError,
    MalformedMessageError,
    StaleRoundError,
)
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.documents.blobs import encode_tally
from secvm.protocol.documents.ending import Ending, accept_ending
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import AcceptedManifest, RoundManifest, last_round
from secvm.protocol.documents.recomputation import Model, what_differs
from secvm.protocol.evidence.plain import Evidence, Kind, count_fault
from secvm.protocol.log.entries import Document
from secvm.protocol.log.policy import LogPolicy
from secvm.protocol.records import BESIDE, TypedRecord, long_bytes
from secvm.protocol.trust.trusted_log import Checking, SeenLog, TrustedLog
from secvm.protocol.version import TRUSTED_TYPE

_MAX_PART_BYTES = 2**21


@dataclass(frozen=True, slots=True)
class Served:
    """What a device has fetched for one look at an experiment. **Nothing in it is checked.**"""

    #: Envelopes of every manifest after the last one believed, in their order; the last is the newest.
    manifests: tuple[bytes, ...]
    #: The newest checkpoint.
    checkpoint: bytes
    #: All lines of the log after what was seen of it, up to that checkpoint.
    lines: tuple[bytes, ...] = field(repr=False)
    #: Bytes of the tallies that those documents name, by digest.
    tallies: Mapping[str, bytes] = field(repr=False)
    #: Envelope of the ending, where the experiment is over.
    ending: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted(TypedRecord):
    """What a device keeps of what it believes: enough to believe the next, and to convict whoever contradicts it.

    ``to_bytes`` writes all but the state, which is large and a blob of its own.
    """

    purpose: ClassVar[str] = TRUSTED_TYPE
    title: ClassVar[str] = "what is trusted"
    longest: ClassVar[int] = 2**23

    #: Envelope of the newest manifest believed; None before the first.
    manifest: Annotated[bytes, long_bytes(_MAX_PART_BYTES)] | None
    #: The log, of which it has read every line.
    log: Annotated[SeenLog, BESIDE]
    #: The descent state of that manifest.
    state: bytes = field(repr=False)

    @classmethod
    def from_parts(cls, header: bytes, state: bytes) -> Trusted:
        """From what was written by this device (``to_bytes``) and the state. Raises ``MalformedMessageError``."""
        return cls.from_bytes(header, state=state)


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """A round, or an ending, that this device may believe. Only ``TrustedRounds.check`` makes one."""

    #: The newest manifest; None where an experiment ended before its first round.
    accepted: AcceptedManifest | None
    ending: Ending | None
    #: The model that the device computed itself: that of the newest manifest, or what the ending leaves.
    model: Model
    #: To be stored, durably, before anything is done with the rest.
    trusted: Trusted
    #: So many steps were played again.
    steps: int


def tallies_named(documents: Sequence[RoundManifest | Ending]) -> list[str]:
    """Digests of the tallies that a device needs to follow these documents."""
    return [
        document.last.tally for document in documents if document.last is not None and document.last.tally is not None
    ]


class TrustedRounds:
    """One experiment's rounds, as this device believes them."""

    def __init__(
        self,
        document: ExperimentDocument,
        experiment: bytes,
        trusted: Trusted | None = None,
        *,
        policy: LogPolicy | None = None,
        checking: Checking | None = None,
    ) -> None:
        """``experiment`` is the document's envelope as it was served, for evidence.

        ``policy``: this device's own, on top of what the experiment says. ``checking``: one that many devices of a host
        share.

        Raises
        ------
        BadInputError
            The experiment has no log, or none whose witnesses can be enough for this device.
        """
        self._document, self._experiment = document, experiment
        self._checking = checking or Checking()
        if trusted is None:
            trusted = Trusted(manifest=None, log=SeenLog(), state=self._checking.first(document).state_bytes)
        self._trusted = trusted
        #: The log, as this device believes it.
        self.log = TrustedLog(
            document,
            experiment,
            policy=policy,
            checking=self._checking,
            seen=trusted.log,
            believed=self._believed_documents,
        )
        self._last = None if trusted.manifest is None else self._checking.accept(trusted.manifest, document=document)
        #: The newest manifest that was looked at and may not be believed yet. It is signed all the same.
        self._looked: AcceptedManifest | None = None

    @property
    def trusted(self) -> Trusted:
        """What is believed."""
        return self._trusted

    @property
    def last(self) -> AcceptedManifest | None:
        """The newest manifest believed."""
        return self._last

    @property
    def next_round(self) -> int:
        """The first round of which nothing is believed yet: manifests from here on are needed."""
        return 1 if self._last is None else self._last.manifest.round_number + 1

    def model(self) -> Model:
        """The model of the newest manifest believed, computed from the state that is kept."""
        if self._last is None:
            return self._checking.first(self._document)
        # Held to the manifest that names it: a disk may have changed it.
        named = self._last.manifest.state
        return self._checking.model(self._trusted.state, digest=named, document=self._document)

    # ── believing ────────────────────────────────────────────────────────────────────────────────────────────────────

    def look(self, envelope: bytes) -> RoundManifest | None:
        """What a manifest that was just fetched says, if it is newer than what is believed; None if it is that one.

        Its signature is checked, and nothing that needs more than itself: this tells what else must be fetched.

        Raises
        ------
        CheatingError
            It is a second manifest for the round that is believed, or for the one looked at last, or one that its
            experiment does not allow.
        StaleRoundError
            It is older.
        RemoteProtocolError
            It is none.
        """
        accepted = self._accept(envelope, self._last)
        if accepted is self._last:
            return None
        self._looked = accepted
        return accepted.manifest

    def check(self, served: Served, *, now: int) -> Checked:
        """All steps, or an error; see above. Nothing changes here until ``believe``.

        Raises
        ------
        CheatingError
            The server signed what cannot be; with evidence.
        StaleRoundError
            Nothing newer was served than what is believed; or the log has grown meanwhile: ask again.
        RemoteProtocolError
            Anything else that is not as it should be.
        """
        # (2), (3)
        self.log.check_quorum(served.checkpoint, now=now, over=served.ending is not None)
        # (6)
        chain, ending = self._accept_all(served)
        # (4), (5)
        documents = list(map(_document, chain))
        if ending is not None and served.ending is not None:
            documents.append(Document(ending.log_entry, served.ending))
        log = self.log.grow(served.checkpoint, served.lines, documents)
        # (7)
        state, model, steps = self._replay(served, chain, ending)
        newest = chain[-1] if chain else self._last
        trusted = Trusted(manifest=None if newest is None else newest.envelope, log=log, state=state)
        return Checked(newest, ending, model, trusted, steps)

    def believe(self, checked: Checked) -> None:
        """From now on this is what is believed. Whoever calls this has stored ``checked.trusted`` before."""
        if checked.trusted.log.frontier.size <= self.log.seen_size:
            raise LocalProtocolError("what is believed never goes back")
        self._trusted, self._last = checked.trusted, checked.accepted
        self.log.seen = checked.trusted.log

    def _believed_documents(self) -> list[Document]:
        return [] if self._last is None else [_document(self._last)]

    # ── the steps ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _accept_all(self, served: Served) -> tuple[list[AcceptedManifest], Ending | None]:
        """(6): each manifest held to the one before, without a gap, and the ending to the last."""
        chain: list[AcceptedManifest] = []
        last = self._last
        for data in served.manifests:
            accepted = self._accept(data, last)
            if accepted is last:
                raise StaleRoundError("there is no newer round than the one that is believed")
            if accepted.manifest.round_number != (1 if last is None else last.manifest.round_number + 1):
                raise MalformedMessageError("a manifest between the last one believed and the newest is missing")
            chain.append(accepted)
            last = accepted
        if served.ending is None:
            if not chain:
                raise StaleRoundError("nothing newer was served")
            return chain, None
        try:
            ending = accept_ending(served.ending, document=self._document, last=last)
        except InconsistentManifestError as fault:
            self._check_own(served.ending, Ending)
            self._convict(str(fault), kind=Kind.BAD_DOCUMENT, documents=fault.evidence)
        if ending.round_number != (0 if last is None else last.manifest.round_number):
            raise MalformedMessageError("a manifest between the last one believed and the ending is missing")
        return chain, ending

    def _accept(self, data: bytes, last: AcceptedManifest | None) -> AcceptedManifest:
        try:
            return self._compared(self._checking.accept(data, document=self._document, last=last))
        except EquivocationError as fault:
            self._convict(str(fault), kind=Kind.TWO_DOCUMENTS, documents=fault.evidence)
        except InconsistentManifestError as fault:
            self._check_own(data, RoundManifest)
            self._convict(str(fault), kind=Kind.BAD_DOCUMENT, documents=fault.evidence)

    def _compared(self, accepted: AcceptedManifest) -> AcceptedManifest:
        """What could not be believed, for want of a quorum, say, was signed: another one for its round convicts."""
        looked, manifest = self._looked, accepted.manifest
        same_round = looked is not None and looked.manifest.round_number == manifest.round_number
        if looked is not None and same_round and looked.manifest.digest != manifest.digest:
            raise EquivocationError(looked.envelope, accepted.envelope)
        return accepted

    def _check_own(self, data: bytes, kind: type[RoundManifest | Ending]) -> None:
        """A document of another experiment convicts nobody: its coordinator may run both, and anybody swap them."""
        if kind.from_bytes(Envelope.from_bytes(data).payload).experiment != self._document.digest:
            raise MalformedMessageError("a document of another experiment was served")

    def _replay(
        self, served: Served, chain: Sequence[AcceptedManifest], ending: Ending | None
    ) -> tuple[bytes, Model, int]:
        """(7): every model since. The newest manifest's state, the newest model, and how many steps there were."""
        before, kept, steps = self._last, self._trusted.state, 0
        model = self.model()
        for link in chain:
            model = self._next(served, model, before, link.manifest, link.envelope)
            steps += link.manifest.last is not None and link.manifest.last.tally is not None
            before, kept = link, model.state_bytes
        if ending is not None:
            assert served.ending is not None
            model = self._next(served, model, before, ending, served.ending)
            steps += ending.last is not None and ending.last.tally is not None
        return kept, model, steps

    def _next(
        self,
        served: Served,
        model: Model,
        before: AcceptedManifest | None,
        document: RoundManifest | Ending,
        envelope: bytes,
    ) -> Model:
        """The model that ``document`` must name, computed from that of the round before."""
        tally, started = self._tally(served, document, envelope, before), model.state_bytes
        documents = (envelope,) if before is None else (before.envelope, envelope)

        def convict(sentence: str) -> NoReturn:
            blobs = () if tally is None else (started, self._coded(tally))
            self._convict(sentence, kind=Kind.WRONG_STEP, documents=documents, blobs=blobs)

        try:
            if before is not None:
                model = self._checking.following(self._document, model, tally)
        except InconsistentManifestError as fault:
            convict(str(fault))
        differs = what_differs(document, model)
        if differs is not None:
            convict(f"the model does not follow: the server signed {differs}")
        return model

    def _tally(
        self, served: Served, document: RoundManifest | Ending, envelope: bytes, before: AcceptedManifest | None
    ) -> Tally | None:
        """The tally of the round before; none where that was abandoned, or nothing was before."""
        if before is None or document.last is None or document.last.tally is None:
            return None
        blob = served.tallies.get(document.last.tally)
        if blob is None:
            raise MalformedMessageError("a tally that is named was not served")
        tally = self._checking.tally(blob, digest=document.last.tally, document=self._document)
        counted = last_round(tally)
        if (counted.cells, counted.participants) != (document.last.cells, document.last.participants):
            self._convict(
                "the server signed counts beside a tally that has others",
                kind=Kind.WRONG_COUNTS,
                documents=(envelope,),
                blobs=(self._coded(tally),),
            )
        fault = count_fault(self._document, before.manifest, document.last, tally)
        if fault is not None:
            documents = (before.envelope, envelope)
            self._convict(fault, kind=Kind.WRONG_COUNTS, documents=documents, blobs=(self._coded(tally),))
        return tally

    def _coded(self, tally: Tally) -> bytes:
        """A tally for evidence, coded here: the server could mark a device by how it deflates what that one fetches."""
        return encode_tally(tally, self._document.experiment)

    def _convict(
        self,
        sentence: str,
        *,
        kind: Kind,
        documents: tuple[bytes, ...] = (),
        blobs: tuple[bytes, ...] = (),
    ) -> NoReturn:
        evidence = Evidence(kind=kind, experiment=self._experiment, documents=documents, blobs=blobs)
        raise CheatingError(sentence, evidence=evidence.to_bytes())


def _document(accepted: AcceptedManifest) -> Document:
    return Document(accepted.manifest.log_entry, accepted.envelope)
