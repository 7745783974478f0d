"""One part of a relay's cover, derived from its seed: packages in order, and counts per cell (§29, §31).

A relay derives its S parts when it adds cover. When one part is opened, everybody who has its seed derives it again and
gets the same packages in the same order: train cells as they are drawn, participation cells, test cells, and nulls up
to exactly D / S. A part with more than D / S packages is drawn again with the next attempt, never cut: a cut would
depend on the cells.

    part = derive_part(experiment, experiment_id=..., round_number=1, label=label, root=root, seed=seed)
    part.tally                          # what it adds to the counts of the round
    part.packages(0, 1000)              # 1,000 encoded packages of 32 bytes, side by side

``seal_part`` makes capsules of them, byte for byte as everybody derives them: package i is sealed with the 64 bytes
from 64 · i of the part's stream ``seals``, 32 for the inner seal and 32 for the outer one. The mixing relay seals the
inner layer alone, the entry relay both. Only the clusters are kept, never all packages.

``OpenedPart`` is one of the two parts that a round opened, derived again by whoever reads its opening. The entry
relay's part was drawn over what it received, the mixing relay's over the entry relay's batch; both counts name these
roots. Every capsule of both parts must be under the mixing relay's root, and what they count is taken off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from secvm.crypto.sealing.kem import X25519PublicKey
from secvm.crypto.sealing.layers import (
    EPHEMERAL_BYTES,
    INNER_BYTES,
    BulkSealer,
    inner_layer,
    outer_layer,
    seal_inner,
    seal_outer,
)
from secvm.crypto.sealing.part_streams import PartStream, part_key, seals
from secvm.errors import LocalProtocolError
from secvm.learning._kernels.dispatch import Kernels
from secvm.learning._kernels.reference import Clusters
from secvm.learning.aggregate.tally import Tally
from secvm.learning.drawn_part import DrawnPart, cover_of, draw_part, tally_of
from secvm.learning.experiment import Experiment
from secvm.protocol import codec
from secvm.protocol.codec import EXPERIMENT_ID_BYTES, ExperimentId
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.relays.batches import capsule_digest, cut
from secvm.protocol.relays.counts import EntryCount, EntryReveal, MixReveal
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import Opening
from secvm.protocol.version import MAX_ROUND, PROTOCOL_VERSION


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CoverPart:
    """One part, drawn. Its key is secret until the part is opened: it does not show itself when printed."""

    experiment: Experiment
    experiment_id: ExperimentId
    round_number: int
    #: The round's label, to which its capsules are bound.
    label: bytes
    #: What its streams are read with.
    key: bytes
    drawn: DrawnPart

    @property
    def attempt(self) -> int:
        """The first attempt that did not overflow."""
        return self.drawn.attempt

    @property
    def size(self) -> int:
        """D / S."""
        return cover_of(self.experiment).part_packages

    @property
    def named(self) -> int:
        """Packages that name a cell; all others are nulls."""
        return self.drawn.named

    @cached_property
    def counts(self) -> tuple[NDArray[np.int64], ...]:
        """Packages per cell, of train, participation and, where there are any, test cells."""
        return self.drawn.counts(cover_of(self.experiment))

    @property
    def tally(self) -> Tally:
        """What the part adds to the tally of its round; the test cohort's participation is not counted."""
        return tally_of(self.experiment, self.counts)

    def packages(self, first: int, count: int) -> bytes:
        """Packages ``first``, ``first`` + 1, … of the part as they travel, 32 bytes each, side by side."""
        if not 0 <= first <= first + count <= self.size:
            raise LocalProtocolError(f"packages {first} to {first + count} of a part of {self.size}")
        records = np.zeros(count, codec.RECORD)
        records["version"] = PROTOCOL_VERSION
        records["experiment"] = np.frombuffer(self.experiment_id, "<u8")
        records["round"] = self.round_number
        records["kind"] = codec.NULL
        start = 0
        for write, (cells, ends) in zip((self._train, self._participation, self._test), self._ends, strict=False):
            low, high = max(first, start), min(first + count, start + int(ends[-1]) if len(ends) else start)
            if low < high:
                # Package k of a kind belongs to the first cluster that ends after it.
                places = np.searchsorted(ends, np.arange(low - start, high - start), side="right")
                write(records[low - first : high - first], cells[places])
            start += int(ends[-1]) if len(ends) else 0
        return records.tobytes()

    @cached_property
    def _ends(self) -> list[Clusters]:
        """Of each kind the clusters' cells, and after how many packages of the kind each cluster ends."""
        return [(cells, np.cumsum(sizes)) for cells, sizes in self.drawn.clusters]

    def _train(self, records: NDArray[np.void], cells: NDArray[np.int64]) -> None:
        place, minus = np.divmod(cells, 2)
        records["kind"] = codec.TRAIN
        records["a"], records["b"] = np.divmod(place, self.experiment.n_bins + 1)
        records["c"] = 1 + minus

    def _participation(self, records: NDArray[np.void], cells: NDArray[np.int64]) -> None:
        cohort, label = np.divmod(cells, len(self.experiment.labels))
        records["kind"] = codec.PARTICIPATION
        records["a"], records["c"] = label, 1 + cohort

    def _test(self, records: NDArray[np.void], cells: NDArray[np.int64]) -> None:
        records["kind"] = codec.TEST
        records["a"], records["b"] = np.divmod(cells, len(self.experiment.labels))

    def __repr__(self) -> str:
        return "CoverPart(...)"


def derive_part(
    experiment: Experiment,
    *,
    experiment_id: ExperimentId,
    round_number: int,
    label: bytes,
    root: bytes,
    seed: bytes,
    kernel: Kernels | None = None,
) -> CoverPart:
    """The part of this seed over the incoming batch of this root; whoever derives it gets the same."""
    cover = cover_of(experiment)
    if len(experiment_id) != EXPERIMENT_ID_BYTES or not 1 <= round_number <= MAX_ROUND:
        raise LocalProtocolError(f"no experiment has such an id, or a round {round_number}")
    drawn = draw_part(
        cover,
        lambda attempt, name: PartStream(part_key(seed, label=label, root=root, attempt=attempt), name).take,
        kernel,
    )
    return CoverPart(
        experiment=experiment,
        experiment_id=experiment_id,
        round_number=round_number,
        label=label,
        key=part_key(seed, label=label, root=root, attempt=drawn.attempt),
        drawn=drawn,
    )


#: Packages that are made at once.
BLOCK = 1 << 14


@dataclass(frozen=True, slots=True)
class SealedBlock:
    """Some capsules of a part, side by side, in the order of the part."""

    #: 80 bytes each.
    inner: bytes
    #: 128 bytes each; empty where only the inner layer was asked for.
    outer: bytes


def seal_part(
    part: CoverPart,
    *,
    count_key: X25519PublicKey,
    mix_key: X25519PublicKey | None = None,
    sealer: BulkSealer | None = None,
    block: int = BLOCK,
) -> Iterator[SealedBlock]:
    """All capsules of a part; ``count_key`` is pk_C, ``mix_key`` pk_X where the outer layer is wanted too."""
    if block < 1:
        raise LocalProtocolError(f"blocks of {block} packages")
    sealer = BulkSealer() if sealer is None else sealer
    for first in range(0, part.size, block):
        count = min(block, part.size - first)
        secrets = np.frombuffer(seals(part.key, first, count), np.uint8).reshape(count, 2, EPHEMERAL_BYTES)
        inner = sealer.seal(inner_layer(part.label), count_key, secrets[:, 0].tobytes(), part.packages(first, count))
        outer = b""
        if mix_key is not None:
            outer = sealer.seal(outer_layer(part.label), mix_key, secrets[:, 1].tobytes(), inner)
        yield SealedBlock(inner, outer)


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
            yield from map(capsule_digest, cut(block.inner, INNER_BYTES))

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
    """Both parts of an opened round, the entry relay's and the mixing relay's; the opening was judged."""
    if opening.entry_count is None or opening.entry_reveal is None or opening.mix_reveal is None:
        raise LocalProtocolError(f"round {manifest.round_number} is unopened: there are no parts to draw")
    count = EntryCount.enclosed(opening.entry_count)
    entry, mix = EntryReveal.enclosed(opening.entry_reveal), MixReveal.enclosed(opening.mix_reveal)
    return (
        OpenedPart.of("entry", document, manifest, count, entry.seed),
        OpenedPart.of("mix", document, manifest, count, mix.seed),
    )
