"""Entries of a coordinator's log, as lines (docs/protocol.md §20.1): one log for all experiments, of either version.

    secvm-v2-experiment D            secvm-v2-manifest D T digest            secvm-v2-opening D T digest
    secvm-v2-ending D digest

D is the experiment's digest, T the round; the other digest is that of the document's payload. The document itself is
public under its own path.

The entries of one experiment have one order: the experiment, then for each round from 1 on its manifest and, in an
experiment with relays' cover, its opening; the ending last. ``follows`` says what may come next, and ``contradict``
whether two entries at two places break that order whatever stands between them.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from secvm.crypto.signing import SigningKey, sign
from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.log.checkpoints import check_written
from secvm.protocol.records import Digest, FixedRecord, RoundNumber
from secvm.protocol.version import MAX_ROUND

#: What every line begins with; one version for all of them.
PREFIX = "secvm-v2-"
#: A manifest's or an opening's line, the longest there are.
MAX_LINE_BYTES = 156
#: Whoever reads a whole log must come to its end: longer ones are refused, and another log needs another name.
MAX_LOG_ENTRIES = 2**20

_DIGEST = re.compile(r"[0-9a-f]{64}")
_ROUND = re.compile(r"[1-9][0-9]{0,6}")


class EntryKind(enum.Enum):
    """What an entry names."""

    EXPERIMENT = "experiment"
    MANIFEST = "manifest"
    OPENING = "opening"
    ENDING = "ending"


_OF_A_ROUND = (EntryKind.MANIFEST, EntryKind.OPENING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the log."""

    kind: EntryKind
    #: The experiment's digest.
    experiment: str
    #: Of manifests and openings; else None.
    round_number: int | None = None
    #: Of the document's payload; the experiment's own is ``experiment``, and this is None.
    digest: str | None = None

    @property
    def key(self) -> tuple[EntryKind, str, int | None]:
        """Of which there is one entry, ever."""
        return self.kind, self.experiment, self.round_number

    @property
    def rank(self) -> tuple[int, bool]:
        """Where it belongs among the entries of its experiment: they ascend."""
        rounds = {EntryKind.EXPERIMENT: 0, EntryKind.ENDING: MAX_ROUND + 1}
        return rounds.get(self.kind, self.round_number or 0), self.kind is EntryKind.OPENING

    def to_bytes(self) -> bytes:
        """The one spelling."""
        words = [PREFIX + self.kind.value, self.experiment]
        words += [str(word) for word in (self.round_number, self.digest) if word is not None]
        data = (" ".join(words) + "\n").encode()
        sentence = f"an entry of kind {self.kind.value} has other parts, or a digest that is none"
        return check_written(data, Entry.from_bytes, self, sentence)

    @classmethod
    def from_bytes(cls, data: bytes) -> Entry:
        """The entry of these bytes; anything but its one spelling is refused."""
        try:
            kind_text, experiment, *rest = data.decode("ascii").removesuffix("\n").split(" ")
            kind = EntryKind(kind_text.removeprefix(PREFIX))
        except ValueError:
            raise MalformedMessageError("this is no entry of a coordinator's log") from None
        round_number: int | None = None
        if kind in _OF_A_ROUND and rest and _ROUND.fullmatch(rest[0]):
            round_number = int(rest.pop(0))
        needed = 0 if kind is EntryKind.EXPERIMENT else 1
        rounds = (round_number is not None) == (kind in _OF_A_ROUND)
        digests = all(_DIGEST.fullmatch(word) for word in (experiment, *rest))
        whole = data.startswith(PREFIX.encode()) and data.endswith(b"\n") and kind_text == PREFIX + kind.value
        if not (rounds and digests and whole and len(rest) == needed) or (round_number or 1) > MAX_ROUND:
            raise MalformedMessageError("an entry of a coordinator's log has other parts than its kind")
        return cls(kind=kind, experiment=experiment, round_number=round_number, digest=rest[0] if rest else None)


@dataclass(frozen=True, slots=True)
class Placed:
    """An entry, and its index in the log."""

    index: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class Document:
    """A document that a coordinator signed, and the entry that it has in the log."""

    entry: Entry
    envelope: bytes


@dataclass(frozen=True, kw_only=True)
class CoordinatorRecord(FixedRecord):
    """A document that a coordinator signs, and that has a line in its log."""

    #: What that line calls it.
    entry_kind: ClassVar[EntryKind]

    #: Digest of the experiment.
    experiment: Digest
    round_number: RoundNumber

    @property
    def log_entry(self) -> Entry:
        """Its line in the log."""
        number = None if self.entry_kind is EntryKind.ENDING else self.round_number
        return Entry(kind=self.entry_kind, experiment=self.experiment, round_number=number, digest=self.digest)

    def signed(self, keys: Iterable[SigningKey]) -> bytes:
        """In its envelope, as it is served."""
        return sign(self.data, purpose=self.purpose, keys=keys)


#: Digests of state, training weights and evaluation weights.
ModelNames = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True)
class ModelRecord(CoordinatorRecord):
    """A document of a coordinator that names a model by digests."""

    #: The descent state, and the weights that follow from it.
    state: Digest
    training_weights: Digest
    evaluation_weights: Digest

    @property
    def model(self) -> ModelNames:
        """The three together: they stay where a round is not stepped."""
        return self.state, self.training_weights, self.evaluation_weights


def follows(before: Entry | None, entry: Entry, *, openings: bool) -> bool:
    """Whether ``entry`` is what comes next of its experiment after ``before``; None: it has no entry yet.

    ``openings``: of an experiment with relays' cover, in which every round has one.
    """
    if before is None:
        return entry.kind is EntryKind.EXPERIMENT
    if before.experiment != entry.experiment:
        raise LocalProtocolError("entries of two experiments have no order")
    number, opened = before.rank
    if before.kind is EntryKind.ENDING:
        return False
    if before.kind is EntryKind.MANIFEST and openings:
        return entry.kind is EntryKind.OPENING and entry.round_number == number
    if opened and not openings:
        return False
    next_manifest = entry.kind is EntryKind.MANIFEST and entry.round_number == number + 1
    return next_manifest or entry.kind is EntryKind.ENDING


def contradict(first: Placed, second: Placed) -> bool:
    """Whether no honest log has both: entries of one experiment ascend, and no place has two."""
    if first == second or first.entry.experiment != second.entry.experiment:
        return first != second and first.index == second.index
    low, high = sorted((first, second), key=lambda placed: placed.index)
    return low.index == high.index or not low.entry.rank < high.entry.rank


def experiment_entry(experiment: str) -> Entry:
    """An experiment is published."""
    return Entry(kind=EntryKind.EXPERIMENT, experiment=experiment)


def manifest_entry(experiment: str, round_number: int, digest: str) -> Entry:
    """A round begins."""
    return Entry(kind=EntryKind.MANIFEST, experiment=experiment, round_number=round_number, digest=digest)


def opening_entry(experiment: str, round_number: int, digest: str) -> Entry:
    """A round has ended."""
    return Entry(kind=EntryKind.OPENING, experiment=experiment, round_number=round_number, digest=digest)


def ending_entry(experiment: str, digest: str) -> Entry:
    """An experiment is over."""
    return Entry(kind=EntryKind.ENDING, experiment=experiment, digest=digest)
