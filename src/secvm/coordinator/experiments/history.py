"""What the store holds of each plain experiment, read and put together for the driver and for public documents.

A ``PlainHistory`` is one experiment as it stands now: its document, all its rounds with their manifests, what the
watchers saw. Documents, manifests and watchers never change once they are made, so they are kept between two readings;
everything else is asked of the store each time. ``relayed.relayed_history`` does the same for experiments with two
relays, on the same base.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

from secvm.coordinator.experiments.new_experiment import OwnSettings
from secvm.coordinator.experiments.status_document import LeakageMeter, Watchers
from secvm.coordinator.store.port import CoordinatorStore, Standing, StoredExperiment, StoredRound, find_blob
from secvm.crypto.signing import Envelope
from secvm.learning import aggregate
from secvm.learning.aggregate.convergence import Plateau
from secvm.learning.aggregate.descent import State
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.canonical import Fields, decode_document, encode_document
from secvm.protocol.documents.blobs import decode_state, decode_tally
from secvm.protocol.documents.ending import Ending, Why, make_ending
from secvm.protocol.documents.experiment import ExperimentDocument, HashedBins
from secvm.protocol.documents.manifest import MAX_MANIFEST_BYTES, LastRound, RoundManifest
from secvm.protocol.documents.recomputation import Model, first_model, model_of
from secvm.protocol.log.entries import Entry, EntryKind, experiment_entry
from secvm.protocol.relays.manifest import Instants, RelayedManifest
from secvm.protocol.relays.opening import RelayedEnding
from secvm.protocol.round_state import RoundEnd, RoundState
from secvm.protocol.version import RELAYED_EXPERIMENT_TYPE

LIVE = (RoundState.ANNOUNCED, RoundState.OPEN, RoundState.CLOSING)


@dataclass(frozen=True, slots=True)
class KnownRound:
    """One round of any experiment, as it is stored."""

    stored: StoredRound

    @property
    @abstractmethod
    def times(self) -> RoundManifest | Instants:
        """When it opens and closes."""

    @property
    @abstractmethod
    def documents(self) -> tuple[EntryKind, ...]:
        """What of it stands in a log."""

    @property
    @abstractmethod
    def entries(self) -> tuple[Entry, ...]:
        """Its entries in a log."""

    @property
    def reached(self) -> int:
        """The instant of its own that a round has reached, by its state."""
        times = self.times
        by_state = {RoundState.ANNOUNCED: 0, RoundState.OPEN: times.opens_at, RoundState.CLOSING: times.closes_at}
        return by_state.get(self.stored.state, times.accept_until)

    @property
    def is_live(self) -> bool:
        """Whether the round is announced and not concluded."""
        return self.stored.state in LIVE

    @property
    def place(self) -> tuple[str, int]:
        """The experiment's digest and the round's number, by which the store knows the round."""
        return self.stored.experiment, self.stored.number


@dataclass(frozen=True, slots=True)
class PlainRound(KnownRound):
    """One round of a plain experiment, with its manifest."""

    manifest: RoundManifest
    #: None: it runs, or was concluded before this was written down.
    end: RoundEnd | None = None
    documents: ClassVar = (EntryKind.MANIFEST,)

    @property
    def times(self) -> RoundManifest:
        return self.manifest

    @property
    def entries(self) -> tuple[Entry, ...]:
        return (self.manifest.log_entry,)


RoundT = TypeVar("RoundT", bound=KnownRound)


@dataclass(frozen=True, slots=True)
class ExperimentHistory(Generic[RoundT]):
    """One experiment as it stands: its document, its rounds, and what watchers saw of them."""

    #: What the name of its signed ending begins with.
    _version: ClassVar[str]

    stored: StoredExperiment
    document: ExperimentDocument
    rounds: tuple[RoundT, ...]
    watchers: Watchers
    _store: CoordinatorStore
    #: Its ending, and perhaps its last rounds, are not public yet, because too few witnesses have seen them.
    veiled: bool = False

    @property
    def live(self) -> RoundT | None:
        """The round that runs; None: there is none."""
        return self.rounds[-1] if self.rounds and self.rounds[-1].is_live else None

    @property
    def is_over(self) -> bool:
        """Whether no round will follow, the last one is concluded, and all of that may be shown."""
        return self.stored.standing in (Standing.STOPPED, Standing.FINISHED) and self.live is None and not self.veiled

    def state(self, digest: str) -> State:
        """The descent state of this digest."""
        return decode_state(self._store.blob(digest), digest=digest, experiment=self.document.experiment)

    def model(self, after: RoundT | None) -> Model:
        """The model after a round that is concluded; without one, the first."""
        if after is None:
            return first_model(self.document)
        digest = after.stored.next_state
        assert digest is not None, "a concluded round has a state that follows"
        return model_of(self.document, self.state(digest))

    def tally(self, concluded: RoundT) -> Tally | None:
        """The tally of a round, without relays' cover; None: it was abandoned, or runs."""
        digest = concluded.stored.tally
        if digest is None:
            return None
        return decode_tally(self._store.blob(digest), digest=digest, experiment=self.document.experiment)

    def watch(self, upto: int) -> bool:
        """Let the watchers see the rounds up to this number, which are concluded; whether it is time to stop."""
        for concluded in self.rounds[:upto]:
            if concluded.stored.number > self.watchers.seen:
                self.watchers.watch(concluded.stored.number, self.tally(concluded))
        return self.watchers.stop

    # ── in a log ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def kinds(self) -> list[EntryKind]:
        """Kinds of all documents that follow from what is stored, in their order in a log."""
        of_rounds = [kind for known in self.rounds for kind in known.documents]
        return [EntryKind.EXPERIMENT, *of_rounds, *([EntryKind.ENDING] if self.is_over else [])]

    def entries(self) -> list[Entry]:
        """The entries of these kinds."""
        of_rounds = [entry for known in self.rounds for entry in known.entries]
        ending = [self.ending().log_entry] if self.is_over else []
        return [experiment_entry(self.stored.digest), *of_rounds, *ending]

    @abstractmethod
    def ending(self) -> Ending | RelayedEnding:
        """What remains of an experiment that is over."""

    @property
    def ending_name(self) -> str:
        """Under which name the signed ending stands among the blobs: no digest of any."""
        return hashlib.sha256(f"secvm-{self._version}-signed-ending {self.stored.digest}".encode()).hexdigest()

    def kept_ending(self) -> bytes | None:
        """The ending as a driver has signed it; None where none has yet."""
        return find_blob(self._store, self.ending_name)

    def beacon_records(self) -> dict[int, bytes]:
        """Records of the beacons that the experiment names, as far as they are known."""
        named = self.document.binning.beacons if isinstance(self.document.binning, HashedBins) else ()
        return self._store.beacons(self.stored.digest) if named else {}


@dataclass(frozen=True, slots=True)
class PlainHistory(ExperimentHistory[PlainRound]):
    """One plain experiment as it stands."""

    _version: ClassVar = "v1"

    def seen(self, kinds: Sequence[EntryKind]) -> PlainHistory | None:
        """The history as far as these of its documents may be shown; None: nothing of it."""
        if not kinds or EntryKind.ENDING in kinds or self.document.log is None:
            return self if kinds else None
        # That it is finished is told by its ending; that its operator has stopped it may be known at once.
        standing = Standing.RUNNING if self.stored.standing is Standing.FINISHED else self.stored.standing
        rounds = self.rounds[: kinds.count(EntryKind.MANIFEST)]
        return replace(self, stored=replace(self.stored, standing=standing), rounds=rounds, veiled=True)

    def how_it_ended(self, known: PlainRound) -> LastRound:
        """What the next manifest, or the ending, tells of a concluded round."""
        data = self._store.blob(_ended_name(*known.place))
        return LastRound.from_fields(Fields(decode_document(data, max_bytes=MAX_MANIFEST_BYTES), "the end of a round"))

    def ending(self) -> Ending:
        before = self.rounds[-1] if self.rounds else None
        return make_ending(
            self.document,
            why=Why.FINISHED if self.stored.standing is Standing.FINISHED else Why.STOPPED,
            model=self.model(before).names,
            before=None if before is None else before.manifest,
            last=None if before is None else self.how_it_ended(before),
        )

    def step(self, state_digest: str, tally: Tally) -> Model:
        """The model that follows from a tally."""
        state = aggregate.step(self.document.experiment, self.state(state_digest), tally)
        return model_of(self.document, state)

    def public_state(self, known: PlainRound) -> str:
        """Where a round stands, as everybody may know: how it ended is told together with its counts."""
        state = known.stored.state if known.is_live else RoundState.CLOSING
        # Of all rounds but the newest it is told; asked of each of many rounds.
        if self.is_over or known.stored.number < self.rounds[-1].stored.number:
            state = RoundState.ABANDONED if known.stored.tally is None else RoundState.PUBLISHED
        return str(state.value)


def newest_instant(histories: Sequence[ExperimentHistory[Any]]) -> int | None:
    """The newest instant that a round is known to have lived through; None without experiments."""
    if not histories:
        return None
    return max((known.reached for history in histories for known in history.rounds), default=0)


def live_rounds(histories: Iterable[PlainHistory]) -> list[PlainRound]:
    """The rounds of all these experiments that run."""
    return [history.live for history in histories if history.live is not None]


ManifestT = TypeVar("ManifestT", RoundManifest, RelayedManifest)


class HistoryReader(Generic[ManifestT]):
    """Reads documents of experiments of one kind. What never changes is read once."""

    #: Whether it reads experiments with two relays' cover, or the others.
    _relayed: bool
    _kind: type[ManifestT]

    def __init__(self, store: CoordinatorStore) -> None:
        self._store = store
        #: None: an experiment of the other kind.
        self._documents: dict[str, ExperimentDocument | None] = {}
        self._watchers: dict[str, Watchers] = {}
        self._manifests: dict[tuple[str, int], ManifestT] = {}

    def _document(self, stored: StoredExperiment) -> ExperimentDocument | None:
        digest = stored.digest
        if digest not in self._documents:
            document = stored.document
            mine = (document.kind == RELAYED_EXPERIMENT_TYPE) is self._relayed
            self._documents[digest] = document if mine else None
            early = OwnSettings.model_validate_json(stored.settings).early_stopping
            self._watchers[digest] = Watchers(
                document.experiment,
                leakage=None if self._relayed or not mine else LeakageMeter(document),
                plateau=None if early is None else Plateau(patience=early.patience, at_least=early.at_least),
            )
        return self._documents[digest]

    def _manifest(self, stored: StoredRound) -> ManifestT:
        place = (stored.experiment, stored.number)
        if place not in self._manifests:
            # Our own signature, out of our own store: it needs no second look.
            self._manifests[place] = self._kind.from_bytes(Envelope.from_bytes(stored.envelope).payload)
        return self._manifests[place]


class PlainHistories(HistoryReader[RoundManifest]):
    """Reads the plain experiments of a store."""

    _relayed, _kind = False, RoundManifest

    def __init__(self, store: CoordinatorStore) -> None:
        super().__init__(store)
        #: Experiments that are over: nothing of them changes any more.
        self._closed: dict[str, PlainHistory] = {}
        self._ends: dict[tuple[str, int], RoundEnd | None] = {}

    def read(self) -> list[PlainHistory]:
        """All experiments without relays' cover, in the order they were added."""
        return list(self._read())

    def _read(self) -> Iterator[PlainHistory]:
        for stored in self._store.experiments():
            digest, document = stored.digest, self._document(stored)
            if document is None:
                continue
            if digest not in self._closed:
                rounds = tuple(
                    PlainRound(known, self._manifest(known), self._end(known)) for known in self._store.rounds(digest)
                )
                history = PlainHistory(stored, document, rounds, self._watchers[digest], self._store)
                if not history.is_over or any(known.stored.state is RoundState.TALLIED for known in rounds):
                    yield history
                    continue
                self._closed[digest] = history
            yield self._closed[digest]

    def _end(self, stored: StoredRound) -> RoundEnd | None:
        if stored.state is not RoundState.ABANDONED:
            return None if stored.tally is None else RoundEnd.COUNTED
        place = (stored.experiment, stored.number)
        if place not in self._ends:
            word = find_blob(self._store, _end_name(*place))
            self._ends[place] = None if word is None else RoundEnd.of(word.decode())
        return self._ends[place]


def ended(known: PlainRound, last: LastRound, end: RoundEnd) -> dict[str, bytes]:
    """How a round ended, to be stored with its conclusion: the epoch is scrubbed before the next manifest may come.

    It stands among the blobs, under names that are no digest of any, and no signed document names them.
    """
    return {_ended_name(*known.place): encode_document(last.to_content()), _end_name(*known.place): end.word.encode()}


def _ended_name(digest: str, number: int) -> str:
    return hashlib.sha256(f"secvm-v1-ended {digest} {number}".encode()).hexdigest()


def _end_name(digest: str, number: int) -> str:
    return hashlib.sha256(f"secvm-v1-end {digest} {number}".encode()).hexdigest()
