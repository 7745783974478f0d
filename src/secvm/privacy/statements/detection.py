"""How surely a relay that does not hand on what it should is seen: chances, for one round.

After a round one of the S parts of each relay's cover is opened, drawn by nobody. So

- **a relay that falsifies its own cover** is seen if a part it touched is opened: with a share f of its cover falsified
  that is at least max(f, 1/S) (``false_cover``);
- **who drops blindly**, or replaces, m of the n₁ capsules of the entry relay's batch (the mixing relay, with the
  coordinator too) hits none of the D/S in the opened part with at most (1 - t)^m, t = D / (S n₁) (``dropped_blindly``);
- **who drops by content**, m packages of one cell, hits the opened part's packages in that cell. Their number varies:
  of s cover packages in a cell each lies in the opened part with the chance W, the same W for all of them, of the law
  Beta(a, (S-1) a), a the shape of one part. So j cover packages all lie in other parts with the chance

      f(j) = Π_i<j ((S-1) a + i) / (S a + i),

  and of m packages out of s and so many people's j are cover by a hypergeometric law (``dropped_in_cell``). It is less
  than 1 - (1 - t)^m with the mean share t: now and then a cell has no package in the opened part at all, and then
  whatever is taken from it is not seen;
- **an entry relay that drops** k of a device's B capsules drops its canary with k / B, and that device sees it
  (``canary``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from secvm.errors import BadInputError
from secvm.learning.cover_law import Noise
from secvm.privacy.accounting.accountant import keep_patience
from secvm.privacy.accounting.cover_loss import least
from secvm.privacy.accounting.reals import dot, exp, expm1, log, log1p, total

#: So many capsules are reckoned with as fractions.
_EXACT = 4096


@dataclass(frozen=True, slots=True)
class CellCount:
    """What the mixing relay is handed of one cell: people's packages, and the entry relay's cover."""

    people: int
    cover: int

    def __post_init__(self) -> None:
        if self.people < 0 or self.cover < 0:
            raise BadInputError(f"{self.people} packages and {self.cover} of cover in a cell: neither is negative")

    @property
    def packages(self) -> int:
        return self.people + self.cover


def typical_cell(noise: Noise, parts: int, people: float) -> CellCount:
    """A cell with so many people's packages, and the mean of one relay's S parts."""
    return CellCount(math.ceil(people), round(noise.mean * parts / (parts - 1)))


def false_cover(share: Fraction, parts: int) -> Fraction:
    """The least chance that a relay is seen that falsifies this share of its cover."""
    if not 0 <= share <= 1:
        raise BadInputError(f"a share of {share} of a relay's cover: it lies from 0 to 1")
    return Fraction(0) if share == 0 else max(share, Fraction(1, parts))


def canary(dropped: int, budget: int) -> Fraction:
    """The chance that a device's canary is among so many of its B capsules."""
    if not 0 <= dropped <= budget:
        raise BadInputError(f"{dropped} of {budget} capsules of a device: there are not so many")
    return Fraction(dropped, budget)


def dropped_blindly(dropped: int, *, part: int, batch: int) -> float:
    """The least chance that of so many capsules, taken without a look, one is of the opened part."""
    return -expm1(dropped * log1p(-part / batch))


def blindly_for(chance: Fraction, *, part: int, batch: int) -> int:
    """The fewest capsules that are not dropped blindly without being seen with this chance.

    Exactly so up to ``_EXACT``; beyond, at most a billionth of them too many.
    """
    needed = log1p(-float(chance)) / log1p(-part / batch)
    if needed > _EXACT:
        return math.ceil(needed * (1 + 1e-9))
    left, number = Fraction(batch - part, batch), max(0, math.floor(needed) - 1)
    while left**number > 1 - chance:
        number += 1
    return number


def dropped_in_cell(dropped: int, cell: CellCount, *, shape: Fraction, parts: int) -> float:
    """The chance that of so many packages of one cell, or all of them, one is of the opened part.

    ``shape`` is a: what one part adds to the shape of the cell.
    """
    keep_patience()
    people, cover = cell.people, cell.cover
    dropped = min(dropped, cell.packages)
    least, most = max(0, dropped - people), min(dropped, cover)
    j = np.arange(least, most, dtype=np.float64)
    # Chances of one more cover package among the dropped, over those of j: all but a common factor of their law.
    ratios = log(cover - j) - log(j + 1) + log(dropped - j) - log(people - dropped + j + 1)
    weights = np.concatenate([[0.0], np.cumsum(ratios)])
    weights = exp(weights - weights.max())
    a = float(shape)
    missed = np.concatenate([[0.0], np.cumsum(log1p(-a / (parts * a + np.arange(most, dtype=np.float64))))])
    return min(1.0, max(0.0, 1 - dot(weights, exp(missed[least:])) / total(weights)))


def in_cell_for(chance: float, cell: CellCount, *, shape: Fraction, parts: int) -> int | None:
    """The fewest packages of one cell that are dropped and seen with this chance; None: not even all of them."""

    def seen(dropped: int) -> float:
        return dropped_in_cell(dropped, cell, shape=shape, parts=parts)

    if seen(cell.packages) < chance:
        return None
    return least(lambda dropped: seen(dropped) >= chance, cell.packages)
