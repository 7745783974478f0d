"""RelayedManifest: the statement that defines a round with two relays; the same bytes for everyone (§27).

Its digest is the round's **label**: route, name of the batch, and part of both seals. It carries the count key with the
hash of its seed, the key that fetches are sealed to, and both relays' commitments. ``manifest_faults`` says what of it
contradicts the experiment or the round before; devices and relays refuse a manifest with any. What was seen in *any*
other round (a count key, a commitment, other bytes for the same round) only somebody with a memory can tell: ``bound``
is what to remember.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

from secvm.crypto.sealing.kem import X25519, X25519PublicKey
from secvm.crypto.sealing.oblivious import decode_key_configurations, leaves_no_choice
from secvm.crypto.signing import SigningKey, sign, verify
from secvm.errors import (
    BadSignatureError,
    InconsistentManifestError,
    LocalProtocolError,
    MalformedMessageError,
)
from secvm.protocol.canonical import Fields, base64_text, decode_document, digest_of, encode_document
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.inconsistency import Inconsistency
from secvm.protocol.relays.batches.label import label_of
from secvm.protocol.relays.cover.commitments import EntryCommitment, MixCommitment
from secvm.protocol.relays.statements import ENVELOPE_BYTES, taken_bytes
from secvm.protocol.schedule import Window
from secvm.protocol.version import MAX_ROUND, RELAYED_MANIFEST_TYPE

MAX_MANIFEST_BYTES = 4096
_MAX_COMMITMENT = MixCommitment.longest + ENVELOPE_BYTES
#: Enough for one configuration of any KEM; what else stands there is a fault of the manifest and evidence.
_MAX_FETCH_KEYS = 2**11
_INSTANTS = ("opens_at", "closes_at", "accept_until", "batch_by", "mix_by", "reveal_by", "open_by")


@dataclass(frozen=True, kw_only=True)
class Instants:
    """When what of a round happens, in milliseconds."""

    opens_at: int
    closes_at: int
    #: Submissions are taken until then.
    accept_until: int
    #: The entry relay hands on.
    batch_by: int
    #: The mixing relay hands on.
    mix_by: int
    #: Both relays have opened a part.
    reveal_by: int
    #: The opening is in the log, or the round is unopened.
    open_by: int

    @classmethod
    def planned(cls, document: ExperimentDocument, opens_at: int) -> Instants:
        """As the experiment says for a round that opens then."""
        windows = document.relay_times
        lengths = (windows.batch_s, windows.mix_s, windows.reveal_s, windows.open_s)
        found = [opens_at]
        for seconds in (document.windows.length_s, document.windows.grace_s, *lengths):
            found.append(found[-1] + 1000 * seconds)
        return cls(**dict(zip(_INSTANTS, found, strict=True)))


@dataclass(frozen=True, kw_only=True)
class RelayedManifest:
    """One round of one experiment."""

    #: Digest of the experiment.
    experiment: str
    round_number: int
    #: Digest of the manifest of the round before, and of that round's opening; None in round 1.
    previous: str | None
    opening: str | None
    instants: Instants
    #: Digests of the descent state and of the weights that follow from it.
    state: str
    training_weights: str
    evaluation_weights: str
    #: pk_C, for which inner capsules are sealed, and SHA-256 of the seed that it grows from.
    count_key: bytes
    count_seed_hash: bytes
    #: Key configurations (§18.4), exactly one: to this key fetches are sealed once the manifest is believed.
    fetch_keys: bytes
    #: Envelopes of the relays' commitments.
    mix: bytes
    entry: bytes

    @property
    def window(self) -> Window:
        """When devices send."""
        return Window(opens_at=self.instants.opens_at, closes_at=self.instants.closes_at)

    @cached_property
    def data(self) -> bytes:
        """The canonical bytes. What a reader would refuse cannot be written either."""
        data = encode_document(self._content())
        try:
            RelayedManifest.from_bytes(data)
        except MalformedMessageError as fault:
            raise LocalProtocolError(f"this manifest cannot be published: {fault}") from None
        return data

    @cached_property
    def digest(self) -> str:
        """What the next manifest and the log call this one."""
        return digest_of(self.data)

    @cached_property
    def label(self) -> bytes:
        """The same in bytes: what relays and seals call the round."""
        return label_of(self.data)

    @property
    def model(self) -> tuple[str, str, str]:
        """What devices train: it stays where a round is not stepped."""
        return self.state, self.training_weights, self.evaluation_weights

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

    def signed(self, keys: Iterable[SigningKey]) -> bytes:
        """In its envelope, as it is served."""
        return sign(self.data, purpose=RELAYED_MANIFEST_TYPE, keys=keys)

    @staticmethod
    @lru_cache(maxsize=64)
    def from_bytes(data: bytes) -> RelayedManifest:
        """The manifest of canonical bytes, complete in itself; nothing is checked against anything else."""
        fields = Fields(decode_document(data, max_bytes=MAX_MANIFEST_BYTES), "the manifest")
        fields.constant("type", RELAYED_MANIFEST_TYPE)
        instants = {name: fields.integer(name, 0) for name in _INSTANTS}
        manifest = RelayedManifest(
            experiment=fields.digest("experiment"),
            round_number=fields.integer("round", 1, MAX_ROUND),
            previous=None if fields.is_null("previous") else fields.digest("previous"),
            opening=None if fields.is_null("opening") else fields.digest("opening"),
            instants=Instants(**instants),
            state=fields.digest("state"),
            training_weights=fields.digest("training_weights"),
            evaluation_weights=fields.digest("evaluation_weights"),
            count_key=X25519PublicKey(taken_bytes(fields, "count_key")).to_bytes(),
            count_seed_hash=taken_bytes(fields, "count_seed_hash"),
            fetch_keys=fields.base64("fetch_keys", longest=_MAX_FETCH_KEYS),
            mix=fields.base64("mix", longest=_MAX_COMMITMENT),
            entry=fields.base64("entry", longest=_MAX_COMMITMENT),
        )
        fields.done()
        _ = manifest.mix_commitment, manifest.entry_commitment  # refuses what are none
        times = list(instants.values())
        if any(first > second for first, second in pairwise(times)) or times[0] == times[1]:
            raise MalformedMessageError("a manifest's instants do not follow each other, from opens_at to open_by")
        if len({manifest.round_number == 1, manifest.previous is None, manifest.opening is None}) != 1:
            raise MalformedMessageError("round 1 follows nothing, and every other round follows one and its opening")
        return manifest

    def _content(self) -> dict[str, Any]:
        return {
            **{name: getattr(self.instants, name) for name in _INSTANTS},
            "count_key": self.count_key.hex(),
            "count_seed_hash": self.count_seed_hash.hex(),
            "entry": base64_text(self.entry),
            "evaluation_weights": self.evaluation_weights,
            "experiment": self.experiment,
            "fetch_keys": base64_text(self.fetch_keys),
            "mix": base64_text(self.mix),
            "opening": self.opening,
            "previous": self.previous,
            "round": self.round_number,
            "state": self.state,
            "training_weights": self.training_weights,
            "type": RELAYED_MANIFEST_TYPE,
        }


def manifest_faults(
    manifest: RelayedManifest, document: ExperimentDocument, before: RelayedManifest | None = None
) -> tuple[Inconsistency, ...]:
    """All that contradicts the experiment, or the last manifest that was accepted."""
    told, planned = manifest.instants, Instants.planned(document, manifest.instants.opens_at)
    follows = before is not None and manifest.round_number == before.round_number + 1
    checks = {
        Inconsistency.OTHER_EXPERIMENT: manifest.experiment == document.digest,
        Inconsistency.TOO_MANY_ROUNDS: manifest.round_number <= document.rounds,
        Inconsistency.WINDOW_LENGTH: told.closes_at == planned.closes_at,
        Inconsistency.GRACE: told.accept_until - told.closes_at == planned.accept_until - planned.closes_at,
        Inconsistency.RELAY_TIMES: _lengths(told) == _lengths(planned),
        Inconsistency.BEFORE_START: told.opens_at >= document.windows.first_opening,
        # Nothing can be told of the round before until its mixing relay has handed on.
        Inconsistency.OVERLAP: before is None or told.opens_at >= before.instants.mix_by,
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
    keys, threshold = document.coordinator_keys, document.threshold
    manifest = RelayedManifest.from_bytes(verify(data, purpose=RELAYED_MANIFEST_TYPE, keys=keys, threshold=threshold))
    faults = manifest_faults(manifest, document, before)
    if faults:
        raise InconsistentManifestError(faults[0].value, evidence=(data,))
    return manifest


def _lengths(instants: Instants) -> list[int]:
    times = [getattr(instants, name) for name in _INSTANTS[2:]]
    return [second - first for first, second in pairwise(times)]


def _is_fetch_key(manifest: RelayedManifest, before: RelayedManifest | None) -> bool:
    """Whether there is one key for fetches, and it is none that opens packages: count seeds are published."""
    if not leaves_no_choice(manifest.fetch_keys, X25519):
        return False
    others = manifest.bound | (before.bound if before is not None else frozenset())
    try:
        return all(one.public_key.to_bytes() not in others for one in decode_key_configurations(manifest.fetch_keys))
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
        found = kind.read(envelope, relay.key)
    except (MalformedMessageError, BadSignatureError):
        return False
    if isinstance(found, EntryCommitment) and (found.tokens is not None) != document.tokens:
        return False
    return (found.experiment, found.round_number) == (manifest.experiment, manifest.round_number)
