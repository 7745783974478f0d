"""All outcomes of tiny rounds with relays' cover, written down: the truth to which an accountant is held.

Laws are arrays over the counts of a handful of cells. Nothing here knows of privacy losses, grids or transforms.
"""

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Law = NDArray[np.float64]


def negative_binomial(shape: float, p: float, length: int) -> Law:
    """P(X = k) for k below ``length``."""
    masses = [(1 - p) ** shape]
    for k in range(1, length):
        masses.append(masses[-1] * (k + shape - 1) / k * p)
    return np.array(masses)


def part_that_fits(laws: Sequence[tuple[float, float]], room: int) -> Law:
    """The law of one part over all cells, (shape, p) each, given that it holds at most ``room`` packages."""
    law = np.ones(())
    for shape, p in laws:
        law = np.multiply.outer(law, negative_binomial(shape, p, room + 1))
    fits = np.indices(law.shape).sum(axis=0) <= room
    law = np.where(fits, law, 0.0)
    found: Law = law / law.sum()
    return found


def added(law: Law, other: Law) -> Law:
    """The law of the sum of two independent vectors of counts."""
    found = np.zeros([a + b - 1 for a, b in zip(law.shape, other.shape, strict=True)])
    for place in np.argwhere(other > 0):
        where = tuple(slice(at, at + size) for at, size in zip(place, law.shape, strict=True))
        found[where] += other[tuple(place)] * law
    return found


def units(chances: Iterable[tuple[tuple[int, ...], float]], cells: int) -> Law:
    """The law of what a person sends: (counts of all cells, chance) each, none above 1."""
    law = np.zeros([2] * cells)
    for counts, chance in chances:
        law[counts] += chance
    return law


def independent_units(chance_of: Sequence[float]) -> Law:
    """A unit in each cell with its own chance."""
    found = []
    for counts in itertools.product((0, 1), repeat=len(chance_of)):
        chance = math.prod(q if sent else 1 - q for sent, q in zip(counts, chance_of, strict=True))
        found.append((counts, chance))
    return units(found, len(chance_of))


def losses(one: Law, other: Law) -> tuple[Law, Law]:
    """Outcomes by their ratio: (chances under one, chances under other), those with equal ratios together."""
    p, q = one.ravel(), other.ravel()
    seen = (p > 0) | (q > 0)
    p, q = p[seen], q[seen]
    ratio = np.round(p / (p + q), 12)
    _, group = np.unique(ratio, return_inverse=True)
    one_by_ratio: Law = np.bincount(group, weights=p).astype(np.float64)
    return one_by_ratio, np.bincount(group, weights=q).astype(np.float64)


def true_delta(one: Law, other: Law, epsilon: float, *, rounds: int = 1) -> float:
    """The larger δ(ε) of the two directions, over so many independent rounds."""
    p, q = losses(one, other)
    ps, qs = p, q
    for _ in range(rounds - 1):
        ps, qs = np.multiply.outer(ps, p).ravel(), np.multiply.outer(qs, q).ravel()
    factor = math.exp(epsilon)
    return float(max(np.maximum(ps - factor * qs, 0).sum(), np.maximum(qs - factor * ps, 0).sum()))
