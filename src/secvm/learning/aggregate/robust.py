"""Robust rounds: how far a few devices can move a model, bounded from public tallies alone.

Nobody sees who sent a package, so nothing here looks for culprits. Two options, each the same for everybody, exact, and
part of the one step from tally to model:

**Clipping.** The net count of a bin is at most c times what chance alone would give it. With A, B the integer weights
of the two sides (class weights and the loss's factors; mostly both 1), P = A² N⁺, M = B² N⁻, and V the variance of
cover in a cell:

    |A N⁺ - B N⁻|  ≤  floor( c √( min(P + M, 4 min(P, M) + 8 (A² + B²)) + (A² + B²) V ) )

What is above is cut off the sign that has more. Where a model has settled, both signs of every bin are about even, and
honest bins pass. Before that they are cut too, in the right direction, and come back round after round: the price is
measured (``secvm attack run poisoning``). The smaller count decides the limit: beyond three times the other sign,
further units of one sign buy nothing at all. Sides of very different sizes need class weights that make them even, or
clipping holds the model back for many rounds.

**Trimming.** The direction of a round is, bin by bin, the median of the last k rounds' (k odd, zeros before the first).
Fewer than (k + 1) / 2 bad rounds among k do not take a bin beyond what good rounds said. The price is a delay of
(k - 1) / 2 rounds.

What they do not do: very many bins, each pushed a little, look like other people. There the quota counts, and how large
a budget is beside what honest people say (docs/threat-model.md, "Poisoning").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.learning.aggregate.direction import Direction
from secvm.learning.aggregate.tally import Tally
from secvm.learning.arithmetic import FIXED_BITS, power_of_two, to_fixed
from secvm.learning.experiment import Robust

#: Of the limit: so many times the smaller count, and so many units on top, speak for a bin.
_OTHER_SIGN, _ON_TOP = 4, 8
#: Products below this leave room in 64 bits for what is added to them.
_ROOM = 1 << 61


def remembered_at_start(robust: Robust, n_models: int, n_bins: int) -> dict[str, NDArray[Any]]:
    """The vectors of ``robust.names`` before round 1."""
    return {name: np.zeros((n_models, n_bins + 1), dtype=np.int64) for name in robust.names}


def clipped(robust: Robust, tally: Tally, sides: Sequence[tuple[int, int]], variance: Fraction = Fraction(0)) -> Tally:
    """The tally with every bin's net within its limit. ``sides``: A and B of each model; ``variance``: V."""
    if robust.clip is None:
        return tally
    plus, minus = tally.plus.copy(), tally.minus.copy()
    for model, (up, down) in enumerate(sides):
        ours, theirs = tally.plus[model], tally.minus[model]
        limit = _limits(ours, theirs, up, down, robust.clip, variance)
        plus[model] = _cut(ours, theirs, up, down, limit)
        minus[model] = _cut(theirs, ours, down, up, limit)
    return replace(tally, plus=plus, minus=minus)


def trimmed(
    robust: Robust, direction: Direction, recent: dict[str, NDArray[Any]]
) -> tuple[Direction, dict[str, NDArray[Any]]]:
    """The median direction, in units of 2^-32, and what is to be remembered for the next round."""
    if robust.trim == 1:
        return direction, {}
    now = np.stack([to_fixed(row, by) for row, by in zip(direction.numerators, direction.scales, strict=True)])
    rounds = [now, *(recent[name] for name in robust.names)]
    middle = np.sort(np.stack(rounds), axis=0)[robust.trim // 2]
    taken = replace(direction, numerators=middle, scales=(power_of_two(-FIXED_BITS),) * len(middle))
    return taken, dict(zip(robust.names, rounds[:-1], strict=True))


def _limits(
    plus: NDArray[np.int64], minus: NDArray[np.int64], up: int, down: int, clip: Fraction, variance: Fraction
) -> NDArray[Any]:
    """The limit of every bin's net, as above; under cover a count below zero counts as none."""
    p, q = (clip * clip).as_integer_ratio()
    both = up * up + down * down
    noise = math.floor(both * variance)
    above, below = np.maximum(plus, 0), np.maximum(minus, 0)
    largest = (_OTHER_SIGN * both * int(max(above.max(), below.max())) + _ON_TOP * both + noise) * p
    fits = largest < _ROOM and q < _ROOM
    if not fits:  # rare: class weights with long denominators. Python's integers have no range to leave.
        above, below = above.astype(object), below.astype(object)
    above, below = above * (up * up), below * (down * down)
    vouched = np.minimum(above + below, _OTHER_SIGN * np.minimum(above, below) + _ON_TOP * both)
    inside = (vouched + noise) * p // q
    return _roots(inside) if fits else np.array([math.isqrt(x) for x in inside.tolist()], dtype=object)


def _roots(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Integer square roots: a float's, put right by at most one."""
    root = np.sqrt(values.astype(np.float64)).astype(np.int64)
    root -= root * root > values
    root += (root + 1) * (root + 1) <= values
    return root


def _cut(
    ours: NDArray[np.int64], theirs: NDArray[np.int64], weight: int, other: int, limit: NDArray[Any]
) -> NDArray[np.int64]:
    """Our counts, so many at most that weight · ours - other · theirs ≤ limit."""
    if weight == 0:
        return ours
    if limit.dtype == np.int64 and other * int(np.abs(theirs).max()) < _ROOM and weight < _ROOM:
        return np.minimum(ours, (limit + theirs * other) // weight)
    most = [(int(a) + b * other) // weight for a, b in zip(limit.tolist(), theirs.tolist(), strict=True)]
    return np.array([min(a, b) for a, b in zip(ours.tolist(), most, strict=True)], dtype=np.int64)
