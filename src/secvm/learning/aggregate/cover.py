"""Cover in a net tally: what is taken off it, and which counts it cannot explain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from secvm.learning.aggregate.tally import Tally
from secvm.learning.cover_law import RelayCover


def means(cover: RelayCover, like: Tally) -> Tally:
    """What is taken off each cell of a net tally, as a tally of this shape (docs/protocol.md §31)."""
    train = np.full_like(like.plus, cover.train.known_mean)
    return replace(
        like,
        plus=train,
        minus=train,
        participants=np.full_like(like.participants, cover.participation.known_mean),
        cells=np.full_like(like.cells, 0 if cover.test is None else cover.test.known_mean),
    )


def uncovered(cover: RelayCover | None, tally: Tally) -> Tally:
    """A *net* tally, from which both opened parts are off already, without the mean of all other parts.

    Whole numbers. Counts of train cells may be negative: noise is. Numbers of people are not. Without cover the tally
    stays as it is.
    """
    if cover is None:
        return tally
    known = means(cover, tally)
    return replace(
        tally,
        plus=tally.plus - known.plus,
        minus=tally.minus - known.minus,
        participants=np.maximum(tally.participants - known.participants, 0),
        cells=np.maximum(tally.cells - known.cells, 0),
    )


def explains(cover: RelayCover, tally: Tally, devices: int) -> bool:
    """Whether no cell of a net tally is above ``RelayCover.most_in_a_cell``."""
    train, participation, *test = cover.most_in_a_cell(devices)
    highest = [(tally.plus, train), (tally.minus, train), (tally.participants, participation)]
    highest += [(tally.cells, most) for most in test]
    return all(int(counts.max(initial=0)) <= most for counts, most in highest)
