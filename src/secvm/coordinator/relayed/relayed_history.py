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
from typing import ClassVar

from secvm.coordinator.experiments.history import LIVE, ExperimentHistory, HistoryReader, KnownRound
from secvm.coordinator.store.port import CoordinatorStore, Standing, StoredRound
from secvm.crypto.signing import Envelope
from secvm.errors import MalformedMessageError
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.canonical import Fields, decode_document, encode_document
from secvm.protocol.documents.faults import Missing, OpeningFault
from secvm.protocol.documents.recomputation import After, Stayed, after_opened
from secvm.protocol.log.entries import Entry, EntryKind
from secvm.protocol.relays.manifest import Instants, RelayedManifest
from secvm.protocol.relays.opening import Opening, RelayedEnding
from secvm.protocol.relays.shards import DAY_MS
from secvm.protocol.round_state import RoundEnd, RoundState

_MAX_BYTES = 2**12
_MAX_REASONS = 32

MISSING_BATCH, OTHER_BATCH = "missing-batch", "batch-not-as-announced"
ENTRY_PART, MIX_PART = "entry-part-not-in-batch", "mix-part-not-in-batch"
ONE_PART = "both-parts-are-one"
#: Opened, and not stepped. Where one word says all, it is that of the end.
STAYED = {
    Stayed.FLOOR: RoundEnd.TOO_FEW_SENT.word,
    Stayed.UNEXPLAINED: RoundEnd.BEYOND_COVER.word,
    Stayed.NOBODY: RoundEnd.NOBODY_LEFT.word,
    Stayed.RANGE: RoundEnd.OUT_OF_RANGE.word,
}
TOO_LATE, RESTARTED = RoundEnd.NOT_IN_TIME.word, RoundEnd.RESTARTED.word
_ENDS = {reason: RoundEnd.of(reason) for reason in (*STAYED.values(), TOO_LATE)}
#: Together: the mixing relay has not said a word.
_NOTHING = {MISSING_BATCH, "missing-mix-count"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFigures:
    """The figures of one round."""

    #: Inner capsules of the batch; of these packages, nulls included, and junk. Zero where nothing was counted.
    capsules: int = 0
    packages: int = 0
    junk: int = 0
    #: Whether a new model followed.
    stepped: bool = False
    #: Why it is unopened, or not stepped.
    reasons: tuple[str, ...] = ()

    @property
    def end(self) -> RoundEnd:
        """The reasons in one word: what is false weighs most, then that the coordinator was away itself."""
        if self.stepped:
            return RoundEnd.COUNTED
        known = {reason for reason in self.reasons if reason.startswith("missing-")} | {*_ENDS, RESTARTED}
        if not known.issuperset(self.reasons):
            return RoundEnd.FALSE_STATEMENT
        if RESTARTED in self.reasons:
            return RoundEnd.RESTARTED
        silent = RoundEnd.NOTHING_CAME if _NOTHING.issubset(self.reasons) else RoundEnd.RELAY_SILENT
        return next((_ENDS[reason] for reason in self.reasons if reason in _ENDS), silent)

    def to_bytes(self) -> bytes:
        """The figures as they are kept."""
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
        figures = cls(
            capsules=fields.integer("capsules", 0),
            packages=fields.integer("packages", 0),
            junk=fields.integer("junk", 0),
            stepped=fields.flag("stepped"),
            reasons=tuple(str(reason) for reason in reasons),
        )
        fields.done()
        return figures


def missing_names(missing: Iterable[Missing]) -> list[str]:
    """What is missing from an opening, as logs name it; that the seed is not published is no reason but its effect."""
    return [f"missing-{_name(what)}" for what in missing if what is not Missing.SEED]


def fault_names(faults: Iterable[OpeningFault]) -> list[str]:
    """What is false in an opening, as logs name it."""
    return [f"false-{_name(fault)}" for fault in faults]


def _name(known: Missing | OpeningFault) -> str:
    return known.name.lower().replace("_", "-")


@dataclass(frozen=True, slots=True)
class RelayedRound(KnownRound):
    """One round with two relays, its manifest, and how it ended."""

    manifest: RelayedManifest
    #: The signed opening, once the round is concluded.
    envelope: bytes | None = None
    opening: Opening | None = None
    figures: RoundFigures | None = None

    @property
    def times(self) -> Instants:
        return self.manifest.instants

    @property
    def documents(self) -> tuple[EntryKind, ...]:
        return (EntryKind.MANIFEST,) if self.opening is None else (EntryKind.MANIFEST, EntryKind.OPENING)

    @property
    def entries(self) -> tuple[Entry, ...]:
        manifest = (self.manifest.log_entry,)
        return manifest if self.opening is None else (*manifest, self.opening.log_entry)

    @property
    def is_opened(self) -> bool:
        """Whether it is concluded, and its opening complete."""
        return self.opening is not None and self.opening.is_opened

    def kept_until(self, days: int) -> int | None:
        """Until when the shards of an opened round are public; None: it runs, or is unopened."""
        return self.manifest.instants.open_by + days * DAY_MS if self.is_opened else None


@dataclass(frozen=True, slots=True)
class RelayedHistory(ExperimentHistory[RelayedRound]):
    """One experiment with two relays as it stands now."""

    _version: ClassVar = "v2"

    def after(self, known: RelayedRound, net: Tally, *, clients: int) -> After:
        """What an opened round makes of the model that it began with."""
        return after_opened(self.document, self.state(known.manifest.state), net, clients=clients)

    def ending(self) -> RelayedEnding:
        last = self.rounds[-1] if self.rounds else None
        state, training, evaluation = self.model(last).names
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


class RelayedHistories(HistoryReader[RelayedManifest]):
    """Reads the experiments of a store that have two relays' cover."""

    _relayed, _kind = True, RelayedManifest

    def __init__(self, store: CoordinatorStore) -> None:
        super().__init__(store)
        self._concluded: dict[tuple[str, int, RoundState], RelayedRound] = {}

    def read(self) -> list[RelayedHistory]:
        """All experiments with two relays, in the order they were added."""
        return list(self._read())

    def find(self, label: bytes) -> tuple[RelayedHistory, RelayedRound] | None:
        """The round of this label, and its experiment."""
        named = ((history, known) for history in self._read() for known in history.rounds)
        return next(((history, known) for history, known in named if known.manifest.label == label), None)

    def _read(self) -> Iterator[RelayedHistory]:
        for stored in self._store.experiments():
            document = self._document(stored)
            if document is not None:
                rounds = tuple(self._round(known) for known in self._store.rounds(stored.digest))
                yield RelayedHistory(stored, document, rounds, self._watchers[stored.digest], self._store)

    def _round(self, stored: StoredRound) -> RelayedRound:
        key = (stored.experiment, stored.number, stored.state)
        if key in self._concluded:
            return self._concluded[key]
        place, manifest = key[:2], self._manifest(stored)
        if stored.state in LIVE:
            return RelayedRound(stored, manifest)
        envelope = self._store.blob(opening_name(*place))
        opening = Opening.from_bytes(Envelope.from_bytes(envelope).payload)
        figures = RoundFigures.from_bytes(self._store.blob(figures_name(*place)))
        self._concluded[key] = RelayedRound(stored, manifest, envelope, opening, figures)
        return self._concluded[key]


def opening_name(digest: str, number: int) -> str:
    """Under which name the signed opening of a round stands among the blobs."""
    return hashlib.sha256(f"secvm-v2-signed-opening {digest} {number}".encode()).hexdigest()


def figures_name(digest: str, number: int) -> str:
    """Under which name a round's figures stand among the blobs."""
    return hashlib.sha256(f"secvm-v2-figures {digest} {number}".encode()).hexdigest()
