"""One part of a relay's cover, derived from its seed: packages in order, and counts per cell (docs/protocol.md §29).

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
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from secvm.crypto.sealing.bulk_sealing import BulkSealer
from secvm.crypto.sealing.kem import X25519PublicKey
from secvm.crypto.sealing.layers import EPHEMERAL_BYTES, inner_layer, outer_layer
from secvm.crypto.sealing.part_streams import PartStream, part_key, seals
from secvm.errors import LocalProtocolError
from secvm.learning._kernels.dispatch import Kernels
from secvm.learning._kernels.part_words import Clusters
from secvm.learning.aggregate.tally import Tally
from secvm.learning.drawn_part import DrawnPart, cover_of, draw_part, tally_of
from secvm.learning.experiment import Experiment
from secvm.protocol.codec import EXPERIMENT_ID_BYTES, ExperimentId
from secvm.protocol.version import MAX_ROUND, PROTOCOL_VERSION

#: As ``codec`` writes packages; tests hold the two equal.
_RECORD: Final = np.dtype(
    [
        ("version", "u1"),
        ("kind", "u1"),
        ("experiment", "V16"),
        ("round", "<u4"),
        ("a", "<u2"),
        ("b", "<u4"),
        ("c", "u1"),
        ("rest", "V3"),
    ]
)
_TRAIN, _TEST, _PARTICIPATION, _NULL = 1, 2, 3, 4


class CoverPart:
    """One part, drawn. Its key is secret until the part is opened: it does not show itself when printed."""

    def __init__(
        self,
        experiment: Experiment,
        *,
        experiment_id: ExperimentId,
        round_number: int,
        label: bytes,
        key: bytes,
        drawn: DrawnPart,
    ) -> None:
        self._experiment = experiment
        self._experiment_id = experiment_id
        self._round_number = round_number
        self._drawn = drawn
        #: The round's label, to which its capsules are bound.
        self.label = label
        #: What its streams are read with.
        self.key = key
        #: The first attempt that did not overflow.
        self.attempt = drawn.attempt
        #: D / S.
        self.size = cover_of(experiment).part_packages

    @property
    def named(self) -> int:
        """Packages that name a cell; all others are nulls."""
        return self._drawn.named

    @cached_property
    def counts(self) -> tuple[NDArray[np.int64], ...]:
        """Packages per cell, of train, participation and, where there are any, test cells."""
        return self._drawn.counts(cover_of(self._experiment))

    @property
    def tally(self) -> Tally:
        """What the part adds to the tally of its round; the test cohort's participation is not counted."""
        return tally_of(self._experiment, self.counts)

    def packages(self, first: int, count: int) -> bytes:
        """Packages ``first``, ``first`` + 1, … of the part as they travel, 32 bytes each, side by side."""
        if not 0 <= first <= first + count <= self.size:
            raise LocalProtocolError(f"packages {first} to {first + count} of a part of {self.size}")
        records = np.zeros(count, _RECORD)
        records["version"] = PROTOCOL_VERSION
        records["experiment"] = np.void(self._experiment_id)
        records["round"] = self._round_number
        records["kind"] = _NULL
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
        return [(cells, np.cumsum(sizes)) for cells, sizes in self._drawn.clusters]

    def _train(self, records: NDArray[np.void], cells: NDArray[np.int64]) -> None:
        place, minus = np.divmod(cells, 2)
        records["kind"] = _TRAIN
        records["a"], records["b"] = np.divmod(place, self._experiment.n_bins + 1)
        records["c"] = 1 + minus

    def _participation(self, records: NDArray[np.void], cells: NDArray[np.int64]) -> None:
        cohort, label = np.divmod(cells, len(self._experiment.labels))
        records["kind"] = _PARTICIPATION
        records["a"], records["c"] = label, 1 + cohort

    def _test(self, records: NDArray[np.void], cells: NDArray[np.int64]) -> None:
        records["kind"] = _TEST
        records["a"], records["b"] = np.divmod(cells, len(self._experiment.labels))

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
        experiment,
        experiment_id=experiment_id,
        round_number=round_number,
        label=label,
        key=part_key(seed, label=label, root=root, attempt=drawn.attempt),
        drawn=drawn,
    )


def part_counts(
    experiment: Experiment, *, label: bytes, root: bytes, seed: bytes, kernel: Kernels | None = None
) -> tuple[NDArray[np.int64], ...]:
    """Packages per cell of each kind that this part adds, without making a package."""
    nobody = ExperimentId(bytes(EXPERIMENT_ID_BYTES))
    part = derive_part(
        experiment, experiment_id=nobody, round_number=1, label=label, root=root, seed=seed, kernel=kernel
    )
    return part.counts


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
