"""What the store holds of experiments with two relays: documents, rounds, openings and figures.

A round is stored as every other (``StoredRound``): *tallied* says here that it was opened, *abandoned* that it was not.
Its signed opening and its figures stand among the blobs, written in the transaction that concludes the round, under
names that are no digest of any blob. ``RoundFigures`` are numbers and reasons for operators and readers; devices and
auditors go by the opening. A reason is a short name: what was missing, what was false, or which opened part was not in
the batch. It accuses nobody.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from secvm.coordinator.experiments.history import Model, model_of
from secvm.coordinator.experiments.new_experiment import OwnSettings
from secvm.coordinator.experiments.status_document import Watchers
from secvm.coordinator.store.port import CoordinatorStore, Standing, StoredExperiment, StoredRound
from secvm.crypto.signing import Envelope
from secvm.errors import MalformedMessageError
from secvm.learning import aggregate
from secvm.learning.aggregate.convergence import Plateau
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.canonical import Fields, decode_document, encode_document
from secvm.protocol.documents.blobs import decode_state, decode_tally
from secvm.protocol.documents.experiment import ExperimentDocument, HashedBins
from secvm.protocol.documents.faults import Missing, OpeningFault
from secvm.protocol.documents.recomputation import After, Stayed, after_opened
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import Opening, RelayedEnding
from secvm.protocol.round_state import RoundState
from secvm.protocol.version import RELAYED_EXPERIMENT_TYPE

_MAX_BYTES = 2**12
_MAX_REASONS = 32

MISSING_BATCH, OTHER_BATCH = "missing-batch", "batch-not-as-announced"
ENTRY_PART, MIX_PART = "entry-part-not-in-batch", "mix-part-not-in-batch"
ONE_PART = "both-parts-are-one"
TOO_LATE = "not-counted-in-time"
#: Opened, and not stepped.
STAYED = {
    Stayed.FLOOR: "below-floor",
    Stayed.UNEXPLAINED: "count-beyond-cover",
    Stayed.NOBODY: "nobody-left-without-cover",
    Stayed.RANGE: "step-out-of-range",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFigures:
    """Of one round."""

    #: Inner capsules of the batch; of these packages, nulls included, and junk. Zero where nothing was counted.
    capsules: int = 0
    packages: int = 0
    junk: int = 0
    #: Whether a new model followed.
    stepped: bool = False
    #: Why it is unopened, or not stepped.
    reasons: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """As it is kept."""
        return encode_document(
            {
                "capsules": self.capsules,
                "junk": self.junk,
                "packages": self.packages,
                "reasons": list(self.reasons),
                "stepped": self.stepped,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> RoundFigures:
        """The figures of these bytes. Raises ``MalformedMessageError`` and nothing else."""
        fields = Fields(decode_document(data, max_bytes=_MAX_BYTES), "the figures of a round")
        reasons = fields.items("reasons", longest=_MAX_REASONS)
        if not all(isinstance(reason, str) for reason in reasons):
            raise MalformedMessageError("a reason is a short name")
        found = cls(
            capsules=fields.integer("capsules", 0),
            packages=fields.integer("packages", 0),
            junk=fields.integer("junk", 0),
            stepped=fields.flag("stepped"),
            reasons=tuple(str(reason) for reason in reasons),
        )
        fields.done()
        return found


def missing_names(missing: Iterable[Missing]) -> list[str]:
    """What is missing from an opening, as logs name it; that the seed is not published is no reason but its effect."""
    return [f"missing-{_name(what)}" for what in missing if what is not Missing.SEED]


def fault_names(faults: Iterable[OpeningFault]) -> list[str]:
    """What is false in an opening, as logs name it."""
    return [f"false-{_name(fault)}" for fault in faults]


def _name(one: Missing | OpeningFault) -> str:
    return one.name.lower().replace("_", "-")


_LIVE = (RoundState.ANNOUNCED, RoundState.OPEN, RoundState.CLOSING)


@dataclass(frozen=True, slots=True)
class KeptRound:
    """One round, its manifest, and how it ended."""

    stored: StoredRound
    manifest: RelayedManifest
    #: The signed opening, once the round is concluded.
    envelope: bytes | None = None
    opening: Opening | None = None
    figures: RoundFigures | None = None

    @property
    def is_live(self) -> bool:
        """Whether it is announced and not concluded."""
        return self.stored.state in _LIVE

    @property
    def is_opened(self) -> bool:
        """Whether it is concluded, and its opening complete."""
        return self.opening is not None and self.opening.is_opened

    @property
    def place(self) -> tuple[str, int]:
        """By which the store knows its batch."""
        return self.stored.experiment, self.stored.number


@dataclass(frozen=True, slots=True)
class RelayedBook:
    """One experiment as it stands now."""

    stored: StoredExperiment
    document: ExperimentDocument
    rounds: tuple[KeptRound, ...]
    watchers: Watchers
    _store: CoordinatorStore

    @property
    def live(self) -> KeptRound | None:
        """The round that runs; None: there is none."""
        return self.rounds[-1] if self.rounds and self.rounds[-1].is_live else None

    @property
    def is_over(self) -> bool:
        """Whether there will be no round any more, and the last one is concluded."""
        return self.stored.standing in (Standing.STOPPED, Standing.FINISHED) and self.live is None

    def model(self, after: KeptRound | None) -> Model:
        """The model after a round that is concluded; without one, the first."""
        experiment = self.document.experiment
        if after is None:
            return model_of(self.document, aggregate.start(experiment))
        digest = after.stored.next_state
        assert digest is not None, "a concluded round has a state that follows"
        return model_of(self.document, decode_state(self._store.blob(digest), digest=digest, experiment=experiment))

    def after(self, one: KeptRound, net: Tally, *, clients: int) -> After:
        """What an opened round makes of the model that it began with."""
        experiment, digest = self.document.experiment, one.manifest.state
        state = decode_state(self._store.blob(digest), digest=digest, experiment=experiment)
        return after_opened(self.document, state, net, clients=clients)

    def tally(self, one: KeptRound) -> Tally | None:
        """The net tally of a round; None: it was not opened, or runs."""
        digest = one.stored.tally
        if digest is None:
            return None
        return decode_tally(self._store.blob(digest), digest=digest, experiment=self.document.experiment)

    def watch(self, upto: int) -> bool:
        """Let the watchers see the rounds up to this number, which are concluded; whether it is time to stop."""
        for one in self.rounds[:upto]:
            if one.stored.number > self.watchers.seen:
                self.watchers.watch(one.stored.number, self.tally(one))
        return self.watchers.stop

    def beacon_records(self) -> dict[int, bytes]:
        """Records of the beacons that it names, as far as they are known."""
        named = self.document.binning.beacons if isinstance(self.document.binning, HashedBins) else ()
        return self._store.beacons(self.stored.digest) if named else {}

    def ending(self) -> RelayedEnding:
        """What remains of an experiment that is over."""
        last = self.rounds[-1] if self.rounds else None
        model = self.model(last)
        state, training, evaluation = (hashlib.sha256(data).hexdigest() for data in model)
        return RelayedEnding(
            experiment=self.stored.digest,
            round_number=0 if last is None else last.stored.number,
            manifest=None if last is None else last.manifest.digest,
            opening=None if last is None or last.opening is None else last.opening.digest,
            state=state,
            training_weights=training,
            evaluation_weights=evaluation,
            why="finished" if self.stored.standing is Standing.FINISHED else "stopped",
        )

    def kept_ending(self) -> bytes | None:
        """The ending as a driver has signed it; None where none has yet."""
        return _blob(self._store, ending_name(self.stored.digest))


class RelayedBooks:
    """Reads the store. What never changes is read once."""

    def __init__(self, store: CoordinatorStore) -> None:
        self._store = store
        #: None: an experiment of another kind.
        self._documents: dict[str, ExperimentDocument | None] = {}
        self._watchers: dict[str, Watchers] = {}
        self._concluded: dict[tuple[str, int, RoundState], KeptRound] = {}
        self._manifests: dict[tuple[str, int], RelayedManifest] = {}

    def read(self) -> list[RelayedBook]:
        """All experiments with two relays, in the order they were added."""
        return list(self._read())

    def find(self, label: bytes) -> tuple[RelayedBook, KeptRound] | None:
        """The round of this label, and its experiment."""
        named = ((book, one) for book in self._read() for one in book.rounds)
        return next(((book, one) for book, one in named if one.manifest.label == label), None)

    def _read(self) -> Iterator[RelayedBook]:
        for stored in self._store.experiments():
            document = self._document(stored)
            if document is not None:
                rounds = tuple(self._round(one) for one in self._store.rounds(stored.digest))
                yield RelayedBook(stored, document, rounds, self._watchers[stored.digest], self._store)

    def _document(self, stored: StoredExperiment) -> ExperimentDocument | None:
        digest = stored.digest
        if digest not in self._documents:
            document = ExperimentDocument.from_bytes(Envelope.from_bytes(stored.envelope).payload)
            relayed = document.kind == RELAYED_EXPERIMENT_TYPE
            self._documents[digest] = document if relayed else None
            early = OwnSettings.model_validate_json(stored.settings).early_stopping
            plateau = None if early is None else Plateau(patience=early.patience, at_least=early.at_least)
            self._watchers[digest] = Watchers(document.experiment, plateau=plateau)
        return self._documents[digest]

    def _round(self, stored: StoredRound) -> KeptRound:
        key = (stored.experiment, stored.number, stored.state)
        if key in self._concluded:
            return self._concluded[key]
        place = key[:2]
        if place not in self._manifests:
            # Our own signature, out of our own store: it needs no second look.
            self._manifests[place] = RelayedManifest.from_bytes(Envelope.from_bytes(stored.envelope).payload)
        if stored.state in _LIVE:
            return KeptRound(stored, self._manifests[place])
        envelope = self._store.blob(opening_name(*place))
        opening = Opening.from_bytes(Envelope.from_bytes(envelope).payload)
        figures = RoundFigures.from_bytes(self._store.blob(figures_name(*place)))
        self._concluded[key] = KeptRound(stored, self._manifests[place], envelope, opening, figures)
        return self._concluded[key]


def opening_name(digest: str, number: int) -> str:
    """Under which name the signed opening of a round stands among the blobs."""
    return hashlib.sha256(f"secvm-v2-signed-opening {digest} {number}".encode()).hexdigest()


def figures_name(digest: str, number: int) -> str:
    """Under which name a round's figures stand among the blobs."""
    return hashlib.sha256(f"secvm-v2-figures {digest} {number}".encode()).hexdigest()


def ending_name(digest: str) -> str:
    """Under which name the signed ending of an experiment stands among the blobs."""
    return hashlib.sha256(f"secvm-v2-signed-ending {digest}".encode()).hexdigest()


def _blob(store: CoordinatorStore, name: str) -> bytes | None:
    try:
        return store.blob(name)
    except KeyError:
        return None
