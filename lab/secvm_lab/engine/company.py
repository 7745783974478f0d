"""Company: which models travel on which lane, and when they part.

Models with the same train people and the same way from violators to sums begin on one lane. Each round every different
threshold on a lane is asked; the violators of a lower threshold are among those of a higher one, so models whose
thresholds are neighbours part where their violators differ. The part with the first model keeps the lane. The others
get new ones, as far as there is room; where there is none they are *put off*, to be trained another time.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from secvm_lab.engine.people import Bits, take_bits

PUT_OFF = -1


class Company:
    """The lane of each model."""

    def __init__(self, origins: Sequence[Hashable]) -> None:
        """Models of the same origin begin together."""
        numbers: dict[Hashable, int] = {}
        self.lane_of = [numbers.setdefault(origin, len(numbers)) for origin in origins]
        self.n_lanes = len(numbers)
        #: Rounds that each model had of a lane which another one leads.
        self.shared_rounds = [0] * len(self.lane_of)

    @property
    def leaders(self) -> list[int]:
        """The first model of each lane."""
        return [self.lane_of.index(lane) for lane in range(self.n_lanes)]

    @property
    def active(self) -> list[int]:
        """Models that have a lane."""
        return [model for model, lane in enumerate(self.lane_of) if lane != PUT_OFF]

    def rungs(self, lowers: Sequence[int]) -> tuple[list[int], NDArray[np.int64], list[int]]:
        """Thresholds side by side, so that all of them can be asked at once.

        Args:
            lowers: the threshold of each model.

        Returns
        -------
            each model's rung; rungs x lanes, the thresholds; the lanes of each rung, as bits.
        """
        per_lane: list[list[int]] = [[] for _ in range(self.n_lanes)]
        for model in self.active:
            per_lane[self.lane_of[model]].append(lowers[model])
        ladders = [sorted(set(lane)) for lane in per_lane]
        height = max(len(ladder) for ladder in ladders)
        table = np.array([[ladder[min(r, len(ladder) - 1)] for ladder in ladders] for r in range(height)], np.int64)
        bits = [sum(1 << k for k, ladder in enumerate(ladders) if len(ladder) > r) for r in range(height)]
        rung_of = [ladders[lane].index(lowers[m]) if lane != PUT_OFF else 0 for m, lane in enumerate(self.lane_of)]
        return rung_of, table, bits

    def part(self, violates: Sequence[Bits], rung_of: Sequence[int], room: int) -> tuple[list[int], Bits]:
        """Part those whose violators differ.

        Args:
            violates: for each rung the bits of violators.
            room: lanes there can be.

        Returns
        -------
            for each lane from now on the one it was; and the violators of each.
        """
        if len(violates) == 1:
            return list(range(self.n_lanes)), violates[0]
        # A bit where a rung's violators differ from those of the rung below.
        differ = [0] + [int(np.bitwise_or.reduce(a ^ b)) for a, b in zip(violates[1:], violates[:-1], strict=True)]
        parts: dict[tuple[int, int], int] = {}
        sources = list(range(self.n_lanes))
        rungs = [0] * self.n_lanes
        taken: set[int] = set()
        for model in self.active:
            lane = self.lane_of[model]
            steps = sum(differ[r] >> lane & 1 for r in range(1, rung_of[model] + 1))
            if (lane, steps) not in parts:
                if lane not in taken:
                    taken.add(lane)
                    parts[lane, steps] = lane
                    rungs[lane] = rung_of[model]
                elif len(sources) < room:
                    parts[lane, steps] = len(sources)
                    sources.append(lane)
                    rungs.append(rung_of[model])
                else:
                    parts[lane, steps] = PUT_OFF
            self.lane_of[model] = parts[lane, steps]
        self.n_lanes = len(sources)
        now = np.zeros_like(violates[0])
        for lane, (source, rung) in enumerate(zip(sources, rungs, strict=True)):
            now |= take_bits(violates[rung], [source]) << np.uint16(lane)
        return sources, now

    def count_round(self) -> None:
        """A round is over."""
        leaders = set(self.leaders)
        for model in self.active:
            self.shared_rounds[model] += model not in leaders
