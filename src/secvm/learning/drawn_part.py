"""One part of a relay's cover as it is drawn: clusters of every kind of cell, counts and tally (docs/protocol.md §29).

Streams of bytes are handed in, one for each kind and attempt. A part with more than D / S packages is drawn again with
the next attempt, never cut: a cut would depend on the cells. Relays make packages of the clusters
(``protocol.relays.cover.parts``); whoever trains offline needs the counts alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadExperimentError, LocalProtocolError
from secvm.learning._kernels.dispatch import Kernels, kernels
from secvm.learning._kernels.reference import Clusters, TakeBytes
from secvm.learning.aggregate.tally import Tally
from secvm.learning.cover_law import COHORTS, RelayCover
from secvm.learning.cover_sampler import CellLaw
from secvm.learning.experiment import Experiment

KindName = Literal["train", "participation", "test"]
#: The streams of kinds, in the order in which cells are numbered and drawn.
KINDS: Final[tuple[KindName, ...]] = ("train", "participation", "test")
#: An attempt and a kind → the stream that this kind is drawn from in this attempt.
Streams = Callable[[int, KindName], TakeBytes]
#: Attempts are numbered by four bytes.
_ATTEMPTS = 1 << 32


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DrawnPart:
    """One part. Secret until it is opened: it does not print itself."""

    #: The first attempt that did not overflow.
    attempt: int
    #: Cells and sizes, of train, participation and, where there are any, test cells.
    clusters: tuple[Clusters, ...]

    @property
    def named(self) -> int:
        """Packages that name a cell; all others are nulls."""
        return sum(int(sizes.sum()) for _, sizes in self.clusters)

    def counts(self, cover: RelayCover) -> tuple[NDArray[np.int64], ...]:
        """Packages per cell of each kind."""
        counts = []
        for (cells, sizes), noise in zip(self.clusters, cover.kinds, strict=True):
            count = np.zeros(noise.cells, np.int64)
            np.add.at(count, cells, sizes)
            counts.append(count)
        return tuple(counts)


def draw_part(cover: RelayCover, streams: Streams, kernel: Kernels | None = None) -> DrawnPart:
    """The part of these streams; whoever has them draws the same."""
    kernel = kernels() if kernel is None else kernel
    for attempt in range(_ATTEMPTS):
        clusters = _drawn(cover, streams, attempt, kernel)
        if clusters is not None:
            return DrawnPart(attempt, clusters)
    # The mean fits into a part (``RelayCover``), so about half of all attempts do at the very least.
    raise LocalProtocolError(f"{_ATTEMPTS} attempts at a part overflowed")


def tally_of(experiment: Experiment, counts: tuple[NDArray[np.int64], ...]) -> Tally:
    """Counts per cell of each kind as a tally; the test cohort's participation is not counted."""
    labels = len(experiment.labels)
    train, participation, *test = counts
    signs = train.reshape(experiment.models.n_models, experiment.n_bins + 1, 2)
    cells = test[0] if test else np.zeros(labels**2, np.int64)
    return Tally(
        plus=np.ascontiguousarray(signs[..., 0]),
        minus=np.ascontiguousarray(signs[..., 1]),
        participants=participation.reshape(COHORTS, labels)[0],
        cells=cells.reshape(labels, labels),
    )


def cover_of(experiment: Experiment) -> RelayCover:
    """The experiment's relays' cover; refuses one that has none."""
    if experiment.cover is None:
        raise BadExperimentError("this experiment has no relays' cover")
    return experiment.cover


def _drawn(cover: RelayCover, streams: Streams, attempt: int, kernel: Kernels) -> tuple[Clusters, ...] | None:
    """Clusters of every kind; None: the part overflows."""
    clusters: list[Clusters] = []
    room = cover.part_packages
    for name, noise in zip(KINDS, cover.kinds, strict=False):
        law = CellLaw(cells=noise.cells, shape=noise.part(cover.parts), odds=noise.odds)
        drawn = kernel.cover_clusters(law, streams(attempt, name), room)
        if drawn is None:
            return None
        room -= int(drawn[1].sum())
        clusters.append(drawn)
    return tuple(clusters)
