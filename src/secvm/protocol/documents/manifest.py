"""RoundManifest: the statement that defines a round; the same bytes for everyone.

Everything a server could vary per device is inside. A manifest's digest is SHA-256 of its canonical bytes, without the
envelope: another signature does not make another manifest. ``accept`` decides what a device believes before there is a
log to ask. A manifest is accepted when

 1. enough of the experiment's coordinator keys signed it,
 2. it is canonical and complete,
 3. it is of this experiment, and its round is one of the experiment's T,
 4. its round is newer than the last accepted one, or it is that same manifest, byte for byte,
 5. its window is as long as the experiment says, takes late ones as long as it says, and opens neither before the
    experiment starts nor before the round before is closed for good,
 6. it continues the last accepted one, if that is the round before: names its digest, and tells how it ended; round 1
    continues nothing,
 7. its gateway keys are one key, of the experiment's KEM and with one pair of algorithms: where there were several, a
    device would take the first that its machine has, and whoever holds the keys could tell machines apart,
 8. a round that was counted has the relay's count where the experiment has exactly one relay; and a count, where
    there is one, is signed by a relay of the experiment.

Two different manifests for one round are an attack, and are reported as one, with both as evidence. Over a gap (rounds
this device missed) step 6 cannot see. That the state follows from the tallies is not checked here; that everybody gets
the same is what the log (``protocol.log``) is for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from secvm.crypto.sealing.oblivious import leaves_no_choice
from secvm.crypto.signing import SigningKey, sign, verify
from secvm.errors import (
    EquivocationError,
    InconsistentManifestError,
    LocalProtocolError,
    MalformedMessageError,
    StaleRoundError,
)
from secvm.learning.aggregate.tally import Tally
from secvm.learning.label_models import MAX_MODELS
from secvm.protocol.documents.blobs import tally_digest
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.faults import Inconsistency
from secvm.protocol.log.entries import EntryKind, ModelNames, ModelRecord
from secvm.protocol.records import Digest, FieldKind, Record, TypedRecord, listed, long_bytes, whole
from secvm.protocol.schedule import Window
from secvm.protocol.version import MANIFEST_TYPE, RELAY_COUNT_TYPE

MAX_MANIFEST_BYTES = 2**20
#: An OHTTP key configuration has 45 bytes; a hybrid one about 1.3 kB.
MAX_KEY_BYTES = 2**13
MAX_QUOTA = 2**20
_COUNTS = FieldKind(lambda taken, field: taken.counts(field, longest=MAX_MODELS), list)


@dataclass(frozen=True, slots=True)
class RelayCount(TypedRecord):
    """What a relay says it saw in one slot: the most that a coordinator can have counted honestly."""

    purpose: ClassVar[str] = RELAY_COUNT_TYPE
    title: ClassVar[str] = "the relay's count"
    longest: ClassVar[int] = 1024

    #: When the slot begins, and with it the windows of its rounds: no other slot has that instant.
    opens_at: Annotated[int, whole(0)]
    #: Distinct clients.
    clients: Annotated[int, whole(0)]
    #: Distinct capsules.
    capsules: Annotated[int, whole(0)]

    def signed(self, key: SigningKey) -> bytes:
        """In its envelope."""
        return sign(self.to_bytes(), purpose=RELAY_COUNT_TYPE, keys=[key])


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRound(Record):
    """How round t - 1 ended. Of an abandoned round nothing is told: a tally of few is a tally of someone."""

    #: Digest of its tally; None: it was abandoned.
    tally: Digest | None
    #: Train participants per label; empty: abandoned.
    participants: Annotated[tuple[int, ...], _COUNTS] = ()
    #: Test counts, a row per true label; empty: abandoned.
    cells: Annotated[tuple[tuple[int, ...], ...], listed(_COUNTS, longest=MAX_MODELS)] = ()
    #: The relay's signed count, as an envelope; None where no relay counts.
    relay_count: Annotated[bytes, long_bytes(MAX_KEY_BYTES)] | None = None

    def _check_whole(self) -> None:
        n = len(self.participants)
        if len(self.cells) != n or any(len(row) != n for row in self.cells) or (self.tally is None) != (n == 0):
            raise MalformedMessageError("participants and test counts of the round before do not fit together")

    @property
    def counts(self) -> Tally:
        """What is told of people, as a tally without a bin: for scores, and for taking cover off."""
        counted = Tally.empty(n_models=1, n_bins=1, n_labels=max(1, len(self.participants)))
        if self.participants:
            counted.participants[:] = self.participants
            counted.cells[:] = self.cells
        return counted


@dataclass(frozen=True, kw_only=True)
class RoundManifest(ModelRecord):
    """One round of one experiment."""

    purpose: ClassVar[str] = MANIFEST_TYPE
    title: ClassVar[str] = "the manifest"
    longest: ClassVar[int] = MAX_MANIFEST_BYTES
    reserved: ClassVar[tuple[str, ...]] = ("log",)
    entry_kind: ClassVar[EntryKind] = EntryKind.MANIFEST

    #: Digest of the manifest of the round before; None in round 1.
    previous: Digest | None
    #: Milliseconds, absolute: a number of seconds left would differ between two honest fetches.
    opens_at: Annotated[int, whole(0)]
    closes_at: Annotated[int, whole(0)]
    accept_until: Annotated[int, whole(0)]
    #: How the round before ended; None in round 1.
    last: LastRound | None
    #: The gateway's one OHTTP key configuration, as bytes.
    gateway_keys: Annotated[bytes, long_bytes(MAX_KEY_BYTES)]
    #: Distinct capsules that one participant may send.
    quota: Annotated[int, whole(1, MAX_QUOTA)]

    @property
    def window(self) -> Window:
        """When packages are sent."""
        return Window(opens_at=self.opens_at, closes_at=self.closes_at)

    def _check_whole(self) -> None:
        if not self.opens_at < self.closes_at <= self.accept_until:
            raise MalformedMessageError("a manifest's window does not open, close and end in this order")
        if len({self.round_number == 1, self.previous is None, self.last is None}) != 1:
            raise MalformedMessageError("round 1 follows nothing, and every other round follows one")


def last_round(tally: Tally | None, *, relay_count: bytes | None = None) -> LastRound:
    """What a manifest tells of the round before; without a tally, that it was abandoned."""
    if tally is None:
        return LastRound(tally=None, relay_count=relay_count)
    return LastRound(
        tally=tally_digest(tally),
        participants=tuple(tally.participants.tolist()),
        cells=tuple(tuple(row) for row in tally.cells.tolist()),
        relay_count=relay_count,
    )


def make_manifest(
    document: ExperimentDocument,
    *,
    opens_at: int,
    model: ModelNames,
    gateway_keys: bytes,
    before: RoundManifest | None = None,
    last: LastRound | None = None,
    quota: int | None = None,
) -> RoundManifest:
    """The manifest of the next round: round 1, or the one after ``before``, which ended as ``last`` says."""
    closes_at = opens_at + 1000 * document.windows.length_s
    state, training_weights, evaluation_weights = model
    manifest = RoundManifest(
        experiment=document.digest,
        round_number=1 if before is None else before.round_number + 1,
        previous=None if before is None else before.digest,
        opens_at=opens_at,
        closes_at=closes_at,
        accept_until=closes_at + 1000 * document.windows.grace_s,
        state=state,
        training_weights=training_weights,
        evaluation_weights=evaluation_weights,
        last=last,
        gateway_keys=gateway_keys,
        quota=document.budget if quota is None else quota,
    )
    faults = manifest_faults(manifest, document, before)
    if faults:
        raise LocalProtocolError(f"this manifest would not be accepted: {faults[0].value}")
    _ = manifest.data  # refuses what cannot be read again
    return manifest


# ── what a device believes ───────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class AcceptedManifest:
    """A manifest that ``accept`` has checked; nobody else makes one."""

    manifest: RoundManifest
    #: As it was served, signatures included: the evidence, should another one turn up.
    envelope: bytes


def accept(data: bytes, *, document: ExperimentDocument, last: AcceptedManifest | None = None) -> AcceptedManifest:
    """The manifest in this envelope, checked against the experiment and the last one accepted; see the module.

    Raises
    ------
    MalformedMessageError, BadSignatureError
        Not a manifest that this experiment's keys signed.
    StaleRoundError
        Older than the last accepted one.
    InconsistentManifestError
        Signed, but not what the experiment or the rounds before allow.
    EquivocationError
        A second manifest for the round of the last accepted one.
    """
    # (1), (2)
    manifest = document.read(RoundManifest, data)
    # (4) first where it concerns the same experiment: a second manifest is an attack, whatever else is wrong with it.
    if last is not None and manifest.experiment == last.manifest.experiment:
        if manifest.round_number == last.manifest.round_number:
            if manifest.digest != last.manifest.digest:
                raise EquivocationError(last.envelope, data)
            return last
        if manifest.round_number < last.manifest.round_number:
            raise StaleRoundError
    # (3), (5), (6), (7)
    before = None if last is None else last.manifest
    check_consistent(manifest_faults(manifest, document, before), manifest.last, data, document=document, last=last)
    return AcceptedManifest(manifest=manifest, envelope=data)


def check_consistent(
    faults: tuple[Inconsistency, ...],
    ended: LastRound | None,
    data: bytes,
    *,
    document: ExperimentDocument,
    last: AcceptedManifest | None,
) -> None:
    """That a manifest or an ending, signed in ``data``, has no faults, and that a relay signed the count that it tells.

    Raises ``InconsistentManifestError`` with the evidence, or as ``read_relay_count``.
    """
    if faults:
        raise InconsistentManifestError(faults[0].value, evidence=(data,) if last is None else (last.envelope, data))
    if ended is not None and ended.relay_count is not None:
        read_relay_count(ended.relay_count, document)


def read_relay_count(data: bytes, document: ExperimentDocument) -> RelayCount:
    """A relay's count, if a relay of the experiment signed it."""
    if not document.relays:
        raise MalformedMessageError("a relay's count in an experiment without relays")
    keys = [relay.key for relay in document.relays]
    return RelayCount.from_bytes(verify(data, purpose=RELAY_COUNT_TYPE, keys=keys))


def manifest_faults(
    manifest: RoundManifest, document: ExperimentDocument, before: RoundManifest | None
) -> tuple[Inconsistency, ...]:
    """Steps 3, 5, 6 and 7, and of 8 what must be there: all that is wrong, in their order."""
    windows = document.windows
    follows = before is not None and manifest.round_number == before.round_number + 1
    checks = {
        # (3)
        Inconsistency.OTHER_EXPERIMENT: manifest.experiment == document.digest,
        Inconsistency.TOO_MANY_ROUNDS: manifest.round_number <= document.rounds,
        # (5)
        Inconsistency.WINDOW_LENGTH: manifest.closes_at - manifest.opens_at == 1000 * windows.length_s,
        Inconsistency.GRACE: manifest.accept_until - manifest.closes_at == 1000 * windows.grace_s,
        Inconsistency.BEFORE_START: manifest.opens_at >= windows.first_opening,
        Inconsistency.OVERLAP: before is None or manifest.opens_at >= before.accept_until,
        # (6)
        Inconsistency.BROKEN_CHAIN: not follows or (before is not None and manifest.previous == before.digest),
        Inconsistency.OTHER_LABELS: fits_labels(manifest.last, document),
        Inconsistency.ABANDONED_STEP: not follows
        or manifest.last is None
        or manifest.last.tally is not None
        or (before is not None and manifest.model == before.model),
        Inconsistency.BELOW_FLOOR: reaches_floor(manifest.last, document),
        Inconsistency.QUOTA: manifest.quota >= document.budget,
        # (7)
        Inconsistency.GATEWAY_KEYS: leaves_no_choice(manifest.gateway_keys, document.kem),
        # (8)
        Inconsistency.NO_COUNT: tells_count(manifest.last, document),
    }
    return tuple(fault for fault, holds in checks.items() if not holds)


def fits_labels(last: LastRound | None, document: ExperimentDocument) -> bool:
    """Whether the counts of a counted round are of the experiment's labels."""
    return last is None or last.tally is None or len(last.participants) == len(document.experiment.labels)


def reaches_floor(last: LastRound | None, document: ExperimentDocument) -> bool:
    """Whether a counted round had enough people."""
    return last is None or last.tally is None or document.reaches_floor(last.participants)


def tells_count(last: LastRound | None, document: ExperimentDocument) -> bool:
    """Whether a counted round has the relay's count, where the experiment has one relay.

    Left out, it would take with it all checks that compare something with it. A test may have no relay; of several,
    each counts a part, which bounds nothing.
    """
    return last is None or last.tally is None or last.relay_count is not None or len(document.relays) != 1
