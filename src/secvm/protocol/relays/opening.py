"""Openings and endings: how a round ended, and an experiment, in the coordinator's envelope (docs/protocol.md §31).

An opening holds both counts and both reveals as the relays signed them, the seed of the count key, the digest of the
net tally and the root of the shards. A round of which anything is missing is *unopened*: then seed, tally and shards
are null. After the last round there is no next manifest. The ending names the last round's manifest and opening, and
the state and weights that follow from them; devices predict with these.

A round is opened when nothing is missing from its opening and nothing in it is false. ``opening_faults`` is total: it
takes any opening that can be read, and says all that is wrong. What is left to an auditor needs the capsules: that they
are under the mixing relay's root, that the opened parts are among them, and that they give the tally and the shards.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar, Literal, Self, TypeVar

from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.signing import VerifyKey
from secvm.errors import BadSignatureError, MalformedMessageError
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.faults import Inconsistency, Missing, OpeningFault
from secvm.protocol.log.entries import CoordinatorRecord, EntryKind, ModelRecord
from secvm.protocol.records import Digest, Hash, whole, words
from secvm.protocol.relays.counts import EntryCount, EntryReveal, MixCount, MixReveal
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.statements import enveloped
from secvm.protocol.version import MAX_ROUND, OPENING_TYPE, RELAYED_ENDING_TYPE

MAX_OPENING_BYTES = 2**14


@dataclass(frozen=True, kw_only=True)
class Opening(CoordinatorRecord):
    """The end of one round."""

    purpose: ClassVar[str] = OPENING_TYPE
    title: ClassVar[str] = "the opening"
    longest: ClassVar[int] = MAX_OPENING_BYTES
    entry_kind: ClassVar[EntryKind] = EntryKind.OPENING

    label: Hash
    #: Envelopes, as the relays signed them; None where there is none.
    entry_count: Annotated[bytes, enveloped(EntryCount)] | None = None
    mix_count: Annotated[bytes, enveloped(MixCount)] | None = None
    entry_reveal: Annotated[bytes, enveloped(EntryReveal)] | None = None
    mix_reveal: Annotated[bytes, enveloped(MixReveal)] | None = None
    #: From which the count key grows; None where the round is unopened, as the next two.
    count_seed: Hash | None = None
    #: Digest of the net tally.
    tally: Digest | None = None
    #: Root of the shards.
    shards: Hash | None = None

    @property
    def missing(self) -> tuple[Missing, ...]:
        """All that is not there, in the order in which it should have come."""
        parts = {
            Missing.ENTRY_COUNT: self.entry_count,
            Missing.MIX_COUNT: self.mix_count,
            Missing.ENTRY_REVEAL: self.entry_reveal,
            Missing.MIX_REVEAL: self.mix_reveal,
            Missing.SEED: self.count_seed,
        }
        return tuple(what for what, data in parts.items() if data is None)

    @property
    def is_opened(self) -> bool:
        """Whether all is there. Whether it is true as well is another question (``opening_faults``)."""
        return not self.missing

    def _check_whole(self) -> None:
        parts = (self.count_seed, self.tally, self.shards)
        if {part is not None for part in parts} != {self.is_opened}:
            raise MalformedMessageError("seed, tally and shards stand in an opening exactly where nothing is missing")

    @classmethod
    @lru_cache(maxsize=64)
    def from_bytes(cls, data: bytes) -> Self:
        """The opening of canonical bytes; what it holds is well formed, and **no signature in it is checked**."""
        return super().from_bytes(data)


#: All T rounds, or nothing more is learnt; or its operator stopped it.
Why = Literal["finished", "stopped"]


@dataclass(frozen=True, kw_only=True)
class RelayedEnding(ModelRecord):
    """The end of one experiment."""

    purpose: ClassVar[str] = RELAYED_ENDING_TYPE
    title: ClassVar[str] = "the ending"
    longest: ClassVar[int] = 4096
    entry_kind: ClassVar[EntryKind] = EntryKind.ENDING

    #: The last round; 0 where there was none, and then the next two are None.
    round_number: Annotated[int, whole(0, MAX_ROUND, name="round")]
    manifest: Digest | None
    opening: Digest | None
    why: Annotated[Why, words("finished", "stopped")]

    def _check_whole(self) -> None:
        if len({self.round_number == 0, self.manifest is None, self.opening is None}) != 1:
            raise MalformedMessageError("an ending names the last round with its manifest and its opening, or no round")


S = TypeVar("S", EntryCount, MixCount, EntryReveal, MixReveal)


def opening_faults(
    opening: Opening, manifest: RelayedManifest, document: ExperimentDocument
) -> tuple[OpeningFault, ...]:
    """All that is not true of what the opening holds; what is missing is not looked at. The manifest was accepted."""
    label, cover = manifest.label, document.relay_cover
    faults: set[OpeningFault] = set()
    if (opening.experiment, opening.round_number, opening.label) != (document.digest, manifest.round_number, label):
        faults.add(OpeningFault.OTHER_ROUND)

    def read(kind: type[S], envelope: bytes | None, key: VerifyKey, fault: OpeningFault) -> S | None:
        """A statement that is there and is not its relay's is a fault; one that is not there is only missing."""
        try:
            statement = None if envelope is None else kind.read(envelope, key)
        except (MalformedMessageError, BadSignatureError):
            statement = None
        if envelope is not None and (statement is None or statement.label != label):
            faults.add(fault)
        return statement

    entry_key, mix_key = document.entry_relay.key, document.mix_relay.key
    entry_count = read(EntryCount, opening.entry_count, entry_key, OpeningFault.ENTRY_COUNT)
    mix_count = read(MixCount, opening.mix_count, mix_key, OpeningFault.MIX_COUNT)
    entry_reveal = read(EntryReveal, opening.entry_reveal, entry_key, OpeningFault.ENTRY_REVEAL)
    mix_reveal = read(MixReveal, opening.mix_reveal, mix_key, OpeningFault.MIX_REVEAL)
    if entry_count is not None and not entry_count.adds_up(budget=document.budget, packages=cover.packages):
        faults.add(OpeningFault.ENTRY_EQUATION)
    if entry_count is not None and mix_count is not None:
        if mix_count.entry_count != entry_count.digest:
            faults.add(OpeningFault.OTHER_ENTRY_COUNT)
        if not mix_count.adds_up(entry_count, packages=cover.packages):
            faults.add(OpeningFault.MIX_EQUATION)
    if mix_count is not None and entry_reveal is not None:
        faults |= entry_reveal.faults(
            label=label, commitment=manifest.entry_commitment, mix_count=mix_count.digest, parts=cover.parts
        )
    if mix_count is not None and entry_reveal is not None and mix_reveal is not None:
        faults |= mix_reveal.faults(
            label=label,
            commitment=manifest.mix_commitment,
            entry_reveal=entry_reveal,
            mix_count=mix_count.digest,
            parts=cover.parts,
        )
    if opening.count_seed is not None:
        faults |= _seed_faults(opening.count_seed, manifest)
    return tuple(fault for fault in OpeningFault if fault in faults)


def is_opened(opening: Opening, manifest: RelayedManifest, document: ExperimentDocument) -> bool:
    """Whether the round counts as opened, as far as can be told without its capsules."""
    return opening.is_opened and not opening_faults(opening, manifest, document)


def clients_of(opening: Opening) -> int:
    """M: submissions of an opened round. Zero where no count is there."""
    return 0 if opening.entry_count is None else EntryCount.enclosed(opening.entry_count).clients


def following_faults(
    manifest: RelayedManifest, before: RelayedManifest, opening: Opening, document: ExperimentDocument
) -> tuple[Inconsistency, ...]:
    """What contradicts the opening of the round before; both manifests were accepted, and the opening read.

    State and weights stay where the round was not opened, or had fewer submissions than the floor.
    """
    steps = is_opened(opening, before, document) and clients_of(opening) >= document.floor
    checks = {
        Inconsistency.OTHER_OPENING: manifest.opening == opening.digest and opening.label == before.label,
        Inconsistency.UNOPENED_STEP: steps or manifest.model == before.model,
    }
    return tuple(fault for fault, holds in checks.items() if not holds)


def _seed_faults(seed: bytes, manifest: RelayedManifest) -> set[OpeningFault]:
    if hashlib.sha256(seed).digest() != manifest.count_seed_hash:
        return {OpeningFault.COUNT_SEED}
    if X25519PrivateKey.derive(seed).public_key.to_bytes() != manifest.count_key:
        return {OpeningFault.COUNT_KEY}
    return set()
