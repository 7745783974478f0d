"""RelayedManifest: the statement that defines a round with two relays; the same bytes for everyone (§27).

Its digest is the round's **label**: route, name of the batch, and part of both seals. It carries the count key with the
hash of its seed, the key that fetches are sealed to, and both relays' commitments. ``manifest_faults`` says what of it
contradicts the experiment or the round before; devices and relays refuse a manifest with any. What was seen in *any*
other round (a count key, a commitment, other bytes for the same round) only somebody with a memory can tell: ``bound``
is what to remember.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Annotated, ClassVar, Self

from secvm.crypto.sealing.kem import X25519, X25519PublicKey
from secvm.crypto.sealing.oblivious import decode_key_configurations, leaves_no_choice
from secvm.crypto.signing import Envelope
from secvm.errors import BadSignatureError, InconsistentManifestError, MalformedMessageError
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.faults import Inconsistency
from secvm.protocol.log.entries import EntryKind, ModelRecord
from secvm.protocol.records import BESIDE, Digest, Hash, Record, long_bytes, whole
from secvm.protocol.relays.batches import label_of
from secvm.protocol.relays.commitments import EntryCommitment, MixCommitment, SealingKey
from secvm.protocol.relays.statements import enveloped
from secvm.protocol.schedule import Window
from secvm.protocol.version import RELAYED_MANIFEST_TYPE

MAX_MANIFEST_BYTES = 4096
#: Enough for one configuration of any KEM; what else stands there is a fault of the manifest and evidence.
_MAX_FETCH_KEYS = 2**11


@dataclass(frozen=True)
class Instants(Record):
    """When what of a round happens, in milliseconds and in this order."""

    opens_at: Annotated[int, whole(0)]
    closes_at: Annotated[int, whole(0)]
    #: Submissions are taken until then.
    accept_until: Annotated[int, whole(0)]
    #: The entry relay hands on.
    batch_by: Annotated[int, whole(0)]
    #: The mixing relay hands on.
    mix_by: Annotated[int, whole(0)]
    #: Both relays have opened a part.
    reveal_by: Annotated[int, whole(0)]
    #: The opening is in the log, or the round is unopened.
    open_by: Annotated[int, whole(0)]

    @classmethod
    def planned(cls, document: ExperimentDocument, opens_at: int) -> Instants:
        """As the experiment says for a round that opens then."""
        windows = document.relay_times
        lengths = (windows.batch_s, windows.mix_s, windows.reveal_s, windows.open_s)
        instants = [opens_at]
        for seconds in (document.windows.length_s, document.windows.grace_s, *lengths):
            instants.append(instants[-1] + 1000 * seconds)
        return cls(*instants)


@dataclass(frozen=True, kw_only=True)
class RelayedManifest(ModelRecord):
    """One round of one experiment."""

    purpose: ClassVar[str] = RELAYED_MANIFEST_TYPE
    title: ClassVar[str] = "the manifest"
    longest: ClassVar[int] = MAX_MANIFEST_BYTES
    entry_kind: ClassVar[EntryKind] = EntryKind.MANIFEST

    #: Digest of the manifest of the round before, and of that round's opening; None in round 1.
    previous: Digest | None
    opening: Digest | None
    #: They stand beside the other fields.
    instants: Annotated[Instants, BESIDE]
    #: pk_C, for which inner capsules are sealed, and SHA-256 of the seed that it grows from.
    count_key: SealingKey
    count_seed_hash: Hash
    #: Key configurations (§18.4), exactly one: to this key fetches are sealed once the manifest is believed.
    fetch_keys: Annotated[bytes, long_bytes(_MAX_FETCH_KEYS)]
    #: Envelopes of the relays' commitments.
    mix: Annotated[bytes, enveloped(MixCommitment)]
    entry: Annotated[bytes, enveloped(EntryCommitment)]

    @property
    def window(self) -> Window:
        """When devices send."""
        return Window(opens_at=self.instants.opens_at, closes_at=self.instants.closes_at)

    @cached_property
    def label(self) -> bytes:
        """The same in bytes: what relays and seals call the round."""
        return label_of(self.data)

    @cached_property
    def mix_commitment(self) -> MixCommitment:
        """What the mixing relay is bound to; **its signature is not checked here**."""
        return MixCommitment.enclosed(self.mix)

    @cached_property
    def entry_commitment(self) -> EntryCommitment:
        """What the entry relay is bound to; **its signature is not checked here**."""
        return EntryCommitment.enclosed(self.entry)

    @property
    def public_count_key(self) -> X25519PublicKey:
        """pk_C, to seal for."""
        return X25519PublicKey(self.count_key)

    @property
    def bound(self) -> frozenset[bytes]:
        """What must never come again in another round: hash of the count seed, key, roots of the parts, nonce."""
        mix, entry = self.mix_commitment, self.entry_commitment
        return frozenset({self.count_seed_hash, self.count_key, mix.key, mix.parts, entry.parts, entry.nonce})

    def _check_whole(self) -> None:
        times = astuple(self.instants)
        if any(first > second for first, second in pairwise(times)) or times[0] == times[1]:
            raise MalformedMessageError("a manifest's instants do not follow each other, from opens_at to open_by")
        if len({self.round_number == 1, self.previous is None, self.opening is None}) != 1:
            raise MalformedMessageError("round 1 follows nothing, and every other round follows one and its opening")

    @classmethod
    @lru_cache(maxsize=64)
    def from_bytes(cls, data: bytes) -> Self:
        """The manifest of canonical bytes, complete in itself; nothing is checked against anything else."""
        return super().from_bytes(data)


def manifest_faults(
    manifest: RelayedManifest, document: ExperimentDocument, before: RelayedManifest | None = None
) -> tuple[Inconsistency, ...]:
    """All that contradicts the experiment, or the last manifest that was accepted."""
    stated, planned = manifest.instants, Instants.planned(document, manifest.instants.opens_at)
    follows = before is not None and manifest.round_number == before.round_number + 1
    checks = {
        Inconsistency.OTHER_EXPERIMENT: manifest.experiment == document.digest,
        Inconsistency.TOO_MANY_ROUNDS: manifest.round_number <= document.rounds,
        Inconsistency.WINDOW_LENGTH: stated.closes_at == planned.closes_at,
        Inconsistency.GRACE: stated.accept_until - stated.closes_at == planned.accept_until - planned.closes_at,
        Inconsistency.RELAY_TIMES: _lengths(stated) == _lengths(planned),
        Inconsistency.BEFORE_START: stated.opens_at >= document.windows.first_opening,
        # Nothing can be told of the round before until its mixing relay has handed on.
        Inconsistency.OVERLAP: before is None or stated.opens_at >= before.instants.mix_by,
        Inconsistency.BROKEN_CHAIN: not follows or (before is not None and manifest.previous == before.digest),
        Inconsistency.MIX_COMMITMENT: _is_of(manifest, MixCommitment, manifest.mix, document),
        Inconsistency.ENTRY_COMMITMENT: _is_of(manifest, EntryCommitment, manifest.entry, document),
        Inconsistency.FETCH_KEYS: _is_fetch_key(manifest, before),
        Inconsistency.USED_BEFORE: before is None or not manifest.bound & before.bound,
    }
    return tuple(fault for fault, holds in checks.items() if not holds)


def read_manifest(data: bytes, document: ExperimentDocument, before: RelayedManifest | None = None) -> RelayedManifest:
    """The manifest in an envelope, if enough coordinator keys signed it and nothing contradicts it.

    Raises
    ------
    MalformedMessageError, BadSignatureError
        Not a manifest that this experiment's keys signed.
    InconsistentManifestError
        Signed, but not what the experiment or the round before allow.
    """
    manifest = document.read(RelayedManifest, data)
    faults = manifest_faults(manifest, document, before)
    if faults:
        raise InconsistentManifestError(faults[0].value, evidence=(data,))
    return manifest


def read_accepted(envelope: bytes, document: ExperimentDocument) -> RelayedManifest:
    """The manifest in an envelope, whose signatures were checked when it was believed."""
    manifest = RelayedManifest.from_bytes(Envelope.from_bytes(envelope).payload)
    if manifest.experiment != document.digest:
        raise MalformedMessageError("the session's manifest is of another experiment")
    return manifest


def _lengths(instants: Instants) -> list[int]:
    return [second - first for first, second in pairwise(astuple(instants)[2:])]


def _is_fetch_key(manifest: RelayedManifest, before: RelayedManifest | None) -> bool:
    """Whether there is one key for fetches, and it is none that opens packages: count seeds are published."""
    if not leaves_no_choice(manifest.fetch_keys, X25519):
        return False
    others = manifest.bound | (before.bound if before is not None else frozenset())
    try:
        return all(
            configuration.public_key.to_bytes() not in others
            for configuration in decode_key_configurations(manifest.fetch_keys)
        )
    except MalformedMessageError:
        return False


def _is_of(
    manifest: RelayedManifest,
    kind: type[MixCommitment | EntryCommitment],
    envelope: bytes,
    document: ExperimentDocument,
) -> bool:
    """Whether the relay of this role signed the commitment, for this round, with a key of tokens where it has some."""
    relay = document.mix_relay if kind is MixCommitment else document.entry_relay
    try:
        commitment = kind.read(envelope, relay.key)
    except (MalformedMessageError, BadSignatureError):
        return False
    if isinstance(commitment, EntryCommitment) and (commitment.tokens is not None) != document.tokens:
        return False
    return (commitment.experiment, commitment.round_number) == (manifest.experiment, manifest.round_number)
