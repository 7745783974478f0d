"""RelayedChain: which rounds of an experiment with two relays a device believes, one after the other (§27, §31).

    manifest 1, opening 1, manifest 2, opening 2, …, ending         in this order, and in the log in this order

 1. Every manifest since the last one believed is signed, fits the document and the manifest before, and names its
    opening. Its count key and commitments were never seen in another round (``Seen``).
 2. Every opening is signed and of its round. Whether the round is *opened* is judged by all that needs no capsules.
 3. Every model since follows: where the round before was opened, from its net tally by the one rule for that
    (``recomputation``); else it is the same. The weights are the device's own.

``RelayedChain.check`` changes nothing; whoever calls ``believe`` has stored what it believes now, durably. That
everybody is shown the same is the log's part: ``Believing.documents`` have the lines that must stand in it.

What the coordinator *signed* and cannot explain is an ``InconsistentManifestError``; anything else is another
``RemoteProtocolError``, and is asked for again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from secvm.errors import InconsistentManifestError, LocalProtocolError, MalformedMessageError, StaleRoundError
from secvm.protocol.canonical import digest_of
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.faults import Inconsistency
from secvm.protocol.documents.recomputation import Model
from secvm.protocol.log.entries import Document, ModelNames
from secvm.protocol.relays.manifest import RelayedManifest, read_accepted, read_manifest
from secvm.protocol.relays.opening import (
    Opening,
    RelayedEnding,
    clients_of,
    following_faults,
    is_opened,
)
from secvm.protocol.trust.trusted_log import Checking

#: What must never come again, and in which round it came.
Seen = Mapping[bytes, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayedServed:
    """What a device has fetched for one look at an experiment. **Nothing in it is checked.**"""

    #: Envelopes of every manifest after the last one believed, in their order.
    manifests: tuple[bytes, ...] = ()
    #: Envelopes of openings by their round.
    openings: Mapping[int, bytes] = field(default_factory=dict)
    #: Bytes of net tallies by digest.
    tallies: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    ending: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayedTrust:
    """What a device keeps of what it believes."""

    #: Envelopes of the newest manifest, and of its opening where that is believed too.
    manifest: bytes | None = None
    opening: bytes | None = None
    #: The descent state of that manifest.
    state: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Ended:
    """How a round ended."""

    manifest: RelayedManifest
    opening: Opening
    #: Whether nothing is missing, and nothing in it is false.
    opened: bool


@dataclass(frozen=True, slots=True, eq=False)
class Believing:
    """What a device may believe from now on. Only ``RelayedChain.check`` makes one."""

    #: To be stored, durably, before anything is done with the rest.
    trust: RelayedTrust
    #: The newest manifest, whose model the next is.
    manifest: RelayedManifest | None
    opening: Opening | None
    model: Model
    #: New manifests, and how rounds ended of which nothing was believed yet.
    manifests: tuple[RelayedManifest, ...]
    ended: tuple[Ended, ...]
    ending: RelayedEnding | None
    #: Of which the log must hold exactly the lines, in their order.
    documents: tuple[Document, ...]
    steps: int


class RelayedChain:
    """One experiment's rounds, as this device believes them."""

    def __init__(
        self,
        document: ExperimentDocument,
        trust: RelayedTrust | None = None,
        *,
        seen: Seen | None = None,
        checking: Checking | None = None,
    ) -> None:
        """``seen``: ``RelayedManifest.bound`` of every round that was ever believed."""
        self._document = document
        self._checking = checking or Checking()
        self._seen: dict[bytes, int] = dict(seen or {})
        self.trust = trust or RelayedTrust(state=self._checking.first(document).state_bytes)
        envelope, opening = self.trust.manifest, self.trust.opening
        #: The newest manifest believed, and its opening where that is.
        self.last = None if envelope is None else read_accepted(envelope, document)
        self.opening = None if opening is None else document.read(Opening, opening)

    @property
    def next_round(self) -> int:
        """The first round of which nothing is believed yet."""
        return 1 if self.last is None else self.last.round_number + 1

    def newest(self) -> list[Document]:
        """The newest manifest believed, and its opening where that is."""
        kept = ((self.last, self.trust.manifest), (self.opening, self.trust.opening))
        return [
            Document(document.log_entry, envelope)
            for document, envelope in kept
            if document is not None and envelope is not None
        ]

    def model(self) -> Model:
        """The model of the newest manifest believed, from the state that is kept."""
        if self.last is None:
            return self._checking.first(self._document)
        return self._checking.model(self.trust.state, digest=self.last.state, document=self._document)

    def look(self, envelope: bytes) -> RelayedManifest | None:
        """What a manifest that was just fetched says, if it is newer than what is believed; None if it is that one.

        Raises
        ------
        StaleRoundError
            It is older.
        InconsistentManifestError
            It is another one for the round that is believed.
        RemoteProtocolError
            It is none.
        """
        document = self._document
        manifest = self._checking.once(
            "manifest", lambda: (document.digest, digest_of(envelope)), lambda: read_manifest(envelope, document)
        )
        if manifest.round_number >= self.next_round:
            return manifest
        if self.last is None or manifest.round_number < self.last.round_number:
            raise StaleRoundError(f"round {manifest.round_number} was served, and {self.next_round - 1} is believed")
        if manifest.digest != self.last.digest:
            sentence = f"there are two manifests for round {manifest.round_number}"
            raise InconsistentManifestError(sentence, evidence=(self.trust.manifest or b"", envelope))
        return None

    def check(self, served: RelayedServed) -> Believing:
        """All rules above, or an error; nothing changes here until ``believe``."""
        return self._checking.once("rounds", lambda: self._asked(served), lambda: self._check(served))

    def _asked(self, served: RelayedServed) -> tuple[object, ...]:
        """What ``check`` is asked: all that is believed and ever was, and all that was served."""
        trust = self.trust
        return (
            self._document.digest,
            *(None if data is None else digest_of(data) for data in (trust.manifest, trust.opening, trust.state)),
            frozenset(self._seen.items()),
            tuple(map(digest_of, served.manifests)),
            frozenset((number, digest_of(data)) for number, data in served.openings.items()),
            frozenset((name, digest_of(data)) for name, data in served.tallies.items()),
            None if served.ending is None else digest_of(served.ending),
        )

    def _check(self, served: RelayedServed) -> Believing:
        walk = _Walk(self, self._document, self._checking, served)
        for envelope in served.manifests:
            walk.add_manifest(envelope, self._seen)
        walk.add_opening(required=served.ending is not None)
        if served.ending is not None:
            walk.add_ending(served.ending)
        if not walk.documents:
            raise StaleRoundError("nothing newer was served than what is believed")
        return walk.result()

    def believe(self, believing: Believing) -> None:
        """From now on this is what is believed. Whoever calls this has stored it before."""
        number = 0 if believing.manifest is None else believing.manifest.round_number
        if number < self.next_round - 1:
            raise LocalProtocolError(f"round {number} would replace round {self.next_round - 1}, which is believed")
        self.trust, self.last, self.opening = believing.trust, believing.manifest, believing.opening
        for manifest in believing.manifests:
            self._seen |= dict.fromkeys(manifest.bound, manifest.round_number)


class _Walk:
    """One look: document after document, from what is believed on."""

    def __init__(
        self, chain: RelayedChain, document: ExperimentDocument, checking: Checking, served: RelayedServed
    ) -> None:
        self._document, self._checking, self._served = document, checking, served
        self._last, self._opening = chain.last, chain.opening
        self._envelope, self._opening_envelope = chain.trust.manifest, chain.trust.opening
        self._model, self._state = chain.model(), chain.trust.state
        self._manifests: list[RelayedManifest] = []
        self._ended: list[Ended] = []
        self._ending: RelayedEnding | None = None
        self._steps = 0
        self.documents: list[Document] = []

    def add_manifest(self, envelope: bytes, seen: Seen) -> None:
        """The next manifest."""
        document, before = self._document, self._last
        self.add_opening(required=before is not None)
        manifest = read_manifest(envelope, document, before)
        if manifest.round_number != (1 if before is None else before.round_number + 1):
            raise MalformedMessageError(f"the manifest before that of round {manifest.round_number} is missing")
        known = {**seen, **{value: earlier.round_number for earlier in self._manifests for value in earlier.bound}}
        if any(value in known for value in manifest.bound):
            raise InconsistentManifestError(Inconsistency.USED_BEFORE.value, evidence=(envelope,))
        if before is not None and self._opening is not None:
            faults = following_faults(manifest, before, self._opening, document)
            if faults:
                raise InconsistentManifestError(faults[0].value, evidence=(self._envelope or b"", envelope))
            self._step(before, self._opening)
        self._compare(manifest.model, f"the manifest of round {manifest.round_number}", envelope)
        self._last, self._envelope, self._state = manifest, envelope, self._model.state_bytes
        self._opening = self._opening_envelope = None
        self._manifests.append(manifest)
        self.documents.append(Document(manifest.log_entry, envelope))

    def add_opening(self, *, required: bool) -> None:
        """The opening of the last manifest, unless it is believed already."""
        manifest, document = self._last, self._document
        if self._opening is not None or manifest is None:
            return
        envelope = self._served.openings.get(manifest.round_number)
        if envelope is None:
            if required:
                raise MalformedMessageError(f"the opening of round {manifest.round_number} was not served")
            return
        opening = document.read(Opening, envelope)
        names = (opening.experiment, opening.round_number, opening.label)
        if names != (document.digest, manifest.round_number, manifest.label):
            raise MalformedMessageError(f"another opening was served than that of round {manifest.round_number}")
        self._opening, self._opening_envelope = opening, envelope
        self._ended.append(Ended(manifest, opening, is_opened(opening, manifest, document)))
        self.documents.append(Document(opening.log_entry, envelope))

    def add_ending(self, envelope: bytes) -> None:
        """The last of all."""
        ending, last, opening = self._document.read(RelayedEnding, envelope), self._last, self._opening
        names = (None, None) if last is None or opening is None else (last.digest, opening.digest)
        number = 0 if last is None else last.round_number
        if (ending.experiment, ending.round_number) != (self._document.digest, number):
            raise MalformedMessageError(f"the ending is of round {ending.round_number}, and {number} is the last known")
        if (ending.manifest, ending.opening) != names:
            raise InconsistentManifestError(Inconsistency.OTHER_ROUND.value, evidence=(envelope,))
        if last is not None and opening is not None:
            self._step(last, opening)
        self._compare(ending.model, "the ending", envelope)
        self._ending = ending
        self.documents.append(Document(ending.log_entry, envelope))

    def _step(self, manifest: RelayedManifest, opening: Opening) -> None:
        """The model after a round: §31, *the step*."""
        document = self._document
        if not is_opened(opening, manifest, document) or opening.tally is None:
            return
        blob = self._served.tallies.get(opening.tally)
        if blob is None:
            raise MalformedMessageError(f"the net tally of round {manifest.round_number} was not served")
        net = self._checking.tally(blob, digest=opening.tally, document=document)
        after = self._checking.after_opened(document, self._model, net, clients=clients_of(opening))
        self._model = after.model
        self._steps += after.stayed is None

    def _compare(self, named: ModelNames, where: str, envelope: bytes) -> None:
        if named != self._model.names:
            sentence = f"the model does not follow: {where} names another than its rounds come to"
            raise InconsistentManifestError(sentence, evidence=(envelope,))

    def result(self) -> Believing:
        """All of it."""
        trust = RelayedTrust(manifest=self._envelope, opening=self._opening_envelope, state=self._state)
        return Believing(
            trust,
            self._last,
            self._opening,
            self._model,
            tuple(self._manifests),
            tuple(self._ended),
            self._ending,
            tuple(self.documents),
            self._steps,
        )
