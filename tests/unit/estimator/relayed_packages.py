"""A deployment with two relays, without network and seals: people's packages, and those of the relays' parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from secvm.estimator.round_cover import CoverOrigins
from secvm.learning._kernels.dispatch import kernels
from secvm.learning.aggregate.descent import State
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.codec import ExperimentId, decode
from secvm.protocol.relays.cover_parts import derive_part
from tests.unit.estimator.packages import PackagePath


@dataclass
class RelayedPath(PackagePath):
    """Every person's packages, and those of all parts but the opened ones, decoded one by one."""

    origins: CoverOrigins

    def tally(self, state: State, number: int, here: Sequence[int]) -> Tally:
        """The net tally of a round."""
        total = super().tally(state, number, here)
        origin = self.origins(number)
        for root, seeds in zip(origin.roots, origin.seeds, strict=True):
            for part, seed in enumerate(seeds):
                if part == origin.opened:
                    continue
                drawn = derive_part(
                    self.experiment,
                    experiment_id=ExperimentId(bytes(16)),
                    round_number=number,
                    label=origin.label,
                    root=root,
                    seed=seed,
                    kernel=kernels("reference"),
                )
                data = drawn.packages(0, drawn.size)
                total = total.count(decode(data[at : at + 32]).package for at in range(0, len(data), 32))
        return total
