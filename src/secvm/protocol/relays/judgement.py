"""Judging an opening: whether a round counts as opened, by all that needs no capsules (docs/protocol.md §31).

A round is opened when nothing is missing from its opening and nothing in it is false. ``opening_faults`` is total: it
takes any opening that can be read, and says all that is wrong. What is left to an auditor needs the capsules: that they
are under the mixing relay's root, that the opened parts are among them, and that they give the tally and the shards.
"""

from __future__ import annotations

import hashlib
from typing import TypeVar

from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.signing import VerifyKey
from secvm.errors import BadSignatureError, MalformedMessageError
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.faults import Inconsistency, OpeningFault
from secvm.protocol.relays.batches.counts import EntryCount, MixCount
from secvm.protocol.relays.cover.reveals import EntryReveal, MixReveal
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import Opening
from secvm.protocol.relays.statements import Statement

S = TypeVar("S", bound=Statement)


def opening_faults(
    opening: Opening, manifest: RelayedManifest, document: ExperimentDocument
) -> tuple[OpeningFault, ...]:
    """All that is not true of what the opening holds; what is missing is not looked at. The manifest was accepted."""
    label, cover = manifest.label, document.relay_cover
    entry_key, mix_key = document.entry_relay.key, document.mix_relay.key
    faults: set[OpeningFault] = set()
    if (opening.experiment, opening.round_number, opening.label) != (document.digest, manifest.round_number, label):
        faults.add(OpeningFault.OTHER_ROUND)
    entry_count = _read(EntryCount, opening.entry_count, entry_key)
    mix_count = _read(MixCount, opening.mix_count, mix_key)
    entry_reveal = _read(EntryReveal, opening.entry_reveal, entry_key)
    mix_reveal = _read(MixReveal, opening.mix_reveal, mix_key)
    # A statement that is there and is not its relay's is a fault; one that is not there is only missing.
    for fault, data, read in (
        (OpeningFault.ENTRY_COUNT, opening.entry_count, entry_count),
        (OpeningFault.MIX_COUNT, opening.mix_count, mix_count),
        (OpeningFault.ENTRY_REVEAL, opening.entry_reveal, entry_reveal),
        (OpeningFault.MIX_REVEAL, opening.mix_reveal, mix_reveal),
    ):
        if data is not None and (read is None or read.label != label):
            faults.add(fault)
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


def _read(kind: type[S], envelope: bytes | None, key: VerifyKey) -> S | None:
    if envelope is None:
        return None
    try:
        return kind.read(envelope, key)
    except (MalformedMessageError, BadSignatureError):
        return None


def _seed_faults(seed: bytes, manifest: RelayedManifest) -> set[OpeningFault]:
    if hashlib.sha256(seed).digest() != manifest.count_seed_hash:
        return {OpeningFault.COUNT_SEED}
    if X25519PrivateKey.derive(seed).public_key.to_bytes() != manifest.count_key:
        return {OpeningFault.COUNT_KEY}
    return set()
