"""The two parts that a round opened, derived again by whoever reads its opening (docs/protocol.md §29, §31).

The entry relay's part was drawn over what it received, the mixing relay's over the entry relay's batch; both counts
name these roots. Every capsule of both parts must be under the mixing relay's root, and what they count is taken off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from secvm.crypto.sealing.bulk_sealing import BulkSealer
from secvm.crypto.sealing.kem import X25519PublicKey
from secvm.crypto.sealing.layers import EPHEMERAL_BYTES, INNER_BYTES, seal_inner, seal_outer
from secvm.crypto.sealing.part_streams import seals
from secvm.errors import LocalProtocolError
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.relays.batches.counts import EntryCount
from secvm.protocol.relays.batches.label import capsule_digest
from secvm.protocol.relays.cover.parts import CoverPart, derive_part, seal_part
from secvm.protocol.relays.cover.reveals import EntryReveal, MixReveal
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import Opening

#: Whose part it is.
Role = Literal["entry", "mix"]


@dataclass(frozen=True, slots=True, repr=False)
class OpenedPart:
    """One relay's part of a round, drawn again."""

    role: Role
    part: CoverPart
    manifest: RelayedManifest

    @classmethod
    def of(
        cls, role: Role, document: ExperimentDocument, manifest: RelayedManifest, count: EntryCount, seed: bytes
    ) -> OpenedPart:
        """From the seed that the relay showed; ``count`` is the entry relay's, which names both roots."""
        return cls.over(role, document, manifest, count.received if role == "entry" else count.root, seed)

    @classmethod
    def over(
        cls, role: Role, document: ExperimentDocument, manifest: RelayedManifest, root: bytes, seed: bytes
    ) -> OpenedPart:
        """Drawn over an incoming batch of this root."""
        part = derive_part(
            document.experiment,
            experiment_id=document.experiment_id,
            round_number=manifest.round_number,
            label=manifest.label,
            root=root,
            seed=seed,
        )
        return cls(role, part, manifest)

    def inner_digests(self, sealer: BulkSealer | None = None) -> Iterator[bytes]:
        """Digests of all its inner capsules, in the order of the part."""
        key = X25519PublicKey(self.manifest.count_key)
        for block in seal_part(self.part, count_key=key, sealer=sealer):
            for at in range(0, len(block.inner), INNER_BYTES):
                yield capsule_digest(block.inner[at : at + INNER_BYTES])

    def capsules(self, index: int) -> tuple[bytes, bytes | None]:
        """Inner and outer capsule of one package; the mixing relay's cover has no outer one."""
        if not 0 <= index < self.part.size:
            raise LocalProtocolError(f"a part of {self.part.size} packages has none with the number {index}")
        secrets = seals(self.part.key, index, 1)
        label, package = self.manifest.label, self.part.packages(index, 1)
        inner = seal_inner(X25519PublicKey(self.manifest.count_key), label, secrets[:EPHEMERAL_BYTES], package)
        if self.role == "mix":
            return inner, None
        mix_key = self.manifest.mix_commitment.public_key
        return inner, seal_outer(mix_key, label, secrets[EPHEMERAL_BYTES:], inner)

    def __repr__(self) -> str:
        return f"OpenedPart({self.role}, round {self.manifest.round_number})"


def parts_of(
    document: ExperimentDocument, manifest: RelayedManifest, opening: Opening
) -> tuple[OpenedPart, OpenedPart]:
    """Both parts of an opened round, the entry relay's and the mixing relay's; ``judgement`` has judged the opening."""
    if opening.entry_count is None or opening.entry_reveal is None or opening.mix_reveal is None:
        raise LocalProtocolError(f"round {manifest.round_number} is unopened: there are no parts to draw")
    count = EntryCount.enclosed(opening.entry_count)
    entry, mix = EntryReveal.enclosed(opening.entry_reveal), MixReveal.enclosed(opening.mix_reveal)
    return (
        OpenedPart.of("entry", document, manifest, count, entry.seed),
        OpenedPart.of("mix", document, manifest, count, mix.seed),
    )
