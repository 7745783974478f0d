"""Books: what the store holds of each experiment, read and put together for the driver.

A ``Book`` is one experiment as it stands now: its document, all its rounds with their manifests, what the watchers saw.
Documents, manifests and watchers never change once they are made, so they are kept between two readings; everything
else is asked of the store each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from secvm.coordinator.experiments.new_experiment import OwnSettings
from secvm.coordinator.experiments.status_document import LeakageMeter, Watchers
from secvm.coordinator.store.port import CoordinatorStore, Standing, StoredExperiment, StoredRound
from secvm.crypto.signing import Envelope
from secvm.learning import aggregate
from secvm.learning.aggregate.convergence import Plateau
from secvm.learning.aggregate.descent import State
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.canonical import Fields, decode_document, digest_of, encode_document
from secvm.protocol.documents.blobs import decode_state, decode_tally
from secvm.protocol.documents.experiment import ExperimentDocument, HashedBins
from secvm.protocol.documents.manifest import MAX_MANIFEST_BYTES, LastRound, RoundManifest
from secvm.protocol.round_state import RoundState
from secvm.protocol.version import RELAYED_EXPERIMENT_TYPE

_LIVE = (RoundState.ANNOUNCED, RoundState.OPEN, RoundState.CLOSING)


class Model(NamedTuple):
    """A state and the weights that follow from it, as blobs."""

    state: bytes
    training: bytes
    evaluation: bytes


def model_of(document: ExperimentDocument, state: State) -> Model:
    """The blobs of a state."""
    training = aggregate.training_weights(document.experiment, state)
    evaluation = aggregate.evaluation_weights(document.experiment, state)
    return Model(state.to_bytes(), training.to_bytes(), evaluation.to_bytes())


def first_blobs(document: ExperimentDocument) -> dict[str, bytes]:
    """What an experiment starts from."""
    return {digest_of(data): data for data in model_of(document, aggregate.start(document.experiment))}


@dataclass(frozen=True, slots=True)
class LiveRound:
    """One round as it is stored, and its manifest."""

    stored: StoredRound
    manifest: RoundManifest

    @property
    def is_live(self) -> bool:
        """Whether it is announced and not concluded."""
        return self.stored.state in _LIVE


@dataclass(frozen=True, slots=True)
class Book:
    """One experiment as it stands."""

    stored: StoredExperiment
    document: ExperimentDocument
    rounds: tuple[LiveRound, ...]
    watchers: Watchers
    _store: CoordinatorStore
    #: Its ending, and perhaps its last rounds, are not public yet, because too few witnesses have seen them.
    veiled: bool = False

    @property
    def live(self) -> tuple[LiveRound, ...]:
        """Rounds that run; there is at most one."""
        return tuple(one for one in self.rounds if one.is_live)

    @property
    def is_over(self) -> bool:
        """Whether there will be no round any more, and the last one is concluded."""
        return self.stored.standing in (Standing.STOPPED, Standing.FINISHED) and not self.live and not self.veiled

    @property
    def told(self) -> tuple[LiveRound, ...]:
        """Rounds whose end a public document tells."""
        return self.rounds if self.is_over else self.rounds[:-1]

    def step(self, state_digest: str, tally: Tally) -> Model:
        """The model that follows from a tally."""
        experiment = self.document.experiment
        state = decode_state(self._store.blob(state_digest), digest=state_digest, experiment=experiment)
        return model_of(self.document, aggregate.step(experiment, state, tally))

    def model(self, after: LiveRound | None) -> Model:
        """The model after a round that is concluded; without one, the first."""
        experiment = self.document.experiment
        if after is None:
            return model_of(self.document, aggregate.start(experiment))
        digest = after.stored.next_state
        assert digest is not None
        return model_of(self.document, decode_state(self._store.blob(digest), digest=digest, experiment=experiment))

    def watch(self) -> bool:
        """Let the watchers see all rounds, which are concluded; whether it is time to stop."""
        self._watch(self.rounds)
        return self.watchers.stop

    def watch_told(self) -> None:
        """Let the watchers see all rounds whose end is public."""
        self._watch(self.told)

    def _watch(self, rounds: tuple[LiveRound, ...]) -> None:
        for one in rounds:
            if one.stored.number > self.watchers.seen:
                self.watchers.watch(one.stored.number, self._tally(one.stored.tally))

    def public_state(self, one: LiveRound) -> str:
        """Where a round stands, as everybody may know: how it ended is told together with its counts."""
        state = one.stored.state if one.is_live else RoundState.CLOSING
        # All but the newest are; asked of each of many rounds.
        if self.is_over or one.stored.number < self.rounds[-1].stored.number:
            state = RoundState.ABANDONED if one.stored.tally is None else RoundState.PUBLISHED
        return str(state.value)

    def beacon_records(self) -> dict[int, bytes]:
        """Records of the beacons that it names, as far as they are known."""
        named = self.document.binning.beacons if isinstance(self.document.binning, HashedBins) else ()
        return self._store.beacons(self.stored.digest) if named else {}

    def _tally(self, digest: str | None) -> Tally | None:
        if digest is None:
            return None
        return decode_tally(self._store.blob(digest), digest=digest, experiment=self.document.experiment)


class Books:
    """Reads the store."""

    def __init__(self, store: CoordinatorStore) -> None:
        self._store = store
        self._documents: dict[str, ExperimentDocument] = {}
        self._watchers: dict[str, Watchers] = {}
        self._manifests: dict[tuple[str, int], RoundManifest] = {}
        #: Those that are over: nothing of them changes any more.
        self._closed: dict[str, Book] = {}
        #: Those with two relays, which have books of their own (``coordinator.relayed``).
        self._elsewhere: set[str] = set()

    def read(self) -> list[Book]:
        """All experiments without relays' cover, in the order they were added."""
        return list(self._read())

    def _read(self) -> Iterator[Book]:
        for stored in self._store.experiments():
            digest = stored.digest
            if digest in self._closed:
                yield self._closed[digest]
                continue
            if digest in self._elsewhere:
                continue
            if digest not in self._documents:
                document = ExperimentDocument.from_bytes(Envelope.from_bytes(stored.envelope).payload)
                if document.kind == RELAYED_EXPERIMENT_TYPE:
                    self._elsewhere.add(digest)
                    continue
                self._documents[digest] = document
                own = OwnSettings.model_validate_json(stored.settings)
                self._watchers[digest] = Watchers(
                    self._documents[digest].experiment,
                    leakage=LeakageMeter(self._documents[digest]),
                    plateau=None
                    if own.early_stopping is None
                    else Plateau(patience=own.early_stopping.patience, at_least=own.early_stopping.at_least),
                )
            rounds = tuple(LiveRound(one, self._manifest(one)) for one in self._store.rounds(digest))
            book = Book(stored, self._documents[digest], rounds, self._watchers[digest], self._store)
            if book.is_over and all(one.stored.state is not RoundState.TALLIED for one in rounds):
                self._closed[digest] = book
            yield book

    def _manifest(self, stored: StoredRound) -> RoundManifest:
        place = (stored.experiment, stored.number)
        if place not in self._manifests:
            # Our own signature, out of our own store: it needs no second look.
            self._manifests[place] = RoundManifest.from_bytes(Envelope.from_bytes(stored.envelope).payload)
        return self._manifests[place]

    # ── how a round ended ────────────────────────────────────────────────────────────────────────────────────────────

    def ended(self, digest: str, number: int, last: LastRound) -> dict[str, bytes]:
        """How a round ended, to be stored with its conclusion: the epoch is scrubbed before the next manifest may come.

        It stands among the blobs, under a name that is no digest of any, and no public document names it.
        """
        return {_ended_name(digest, number): encode_document(last.to_content())}

    def how_it_ended(self, one: LiveRound) -> LastRound:
        """What the next manifest, or the ending, tells of a concluded round."""
        data = self._store.blob(_ended_name(one.stored.experiment, one.stored.number))
        return LastRound.from_fields(Fields(decode_document(data, max_bytes=MAX_MANIFEST_BYTES), "the end of a round"))

    def kept_ending(self, digest: str) -> bytes | None:
        """The ending of an experiment as a driver has signed it; None where none has yet."""
        try:
            return self._store.blob(ending_name(digest))
        except KeyError:
            return None


def ending_name(digest: str) -> str:
    """Under which name the signed ending of an experiment stands among the blobs: as above, no digest of any."""
    return hashlib.sha256(f"secvm-v1-signed-ending {digest}".encode()).hexdigest()


def _ended_name(digest: str, number: int) -> str:
    return hashlib.sha256(f"secvm-v1-ended {digest} {number}".encode()).hexdigest()
