"""What an attacker of the counts knows: the noise's law, which is public, and the target's bins or everybody else's.

Arrays of counts are ``[…, model, bin, sign]`` with sign 0 for minus; leading axes are plays that are looked at
together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm_lab.attacks.views import Knowledge


@dataclass(frozen=True, slots=True)
class CoverLaw:
    """The cover of the honest relay in one cell, NB(shape, p): everybody can read it off an experiment."""

    shape: float
    p: float

    @property
    def mean(self) -> float:
        return self.shape * self.p / (1 - self.p)

    @property
    def variance(self) -> float:
        return self.mean / (1 - self.p)


@dataclass(frozen=True, slots=True)
class KnownRest(Knowledge):
    """Everything but the target's label: its bins, what all others sent in each round, and the noise's law."""

    bins: tuple[int, ...]
    #: One array of counts a round.
    others: tuple[NDArray[np.int64], ...]
    #: Others' participation packages by label.
    others_by_label: tuple[int, int]
    #: None: no cover.
    cover: CoverLaw | None = None
    participation: CoverLaw | None = None


@dataclass(frozen=True, slots=True)
class KnownHabits(Knowledge):
    """Some bins of the target, how many people send with each sign, and which share of people has each bin."""

    bins: tuple[int, ...]
    #: Minus, plus.
    senders: tuple[int, int]
    #: One share a bin; the bias, which everybody has, is not among them.
    shares: NDArray[np.float64]
    cover: CoverLaw | None = None
    participation: CoverLaw | None = None


@dataclass(frozen=True, slots=True)
class KnownDictionary(Knowledge):
    """Words by their popularity, as everybody can count them, and the bin of each."""

    popularity: NDArray[np.float64]
    bins: NDArray[np.int64]
    cover: CoverLaw | None = None


@dataclass(frozen=True, slots=True)
class KnownPersons(Knowledge):
    """Bins and labels of persons of whom it is asked whether the model learnt from them; and models of one's own.

    The attacker has people of the same kind, and trains on them as the experiment does.
    """

    #: ``[person, bin]``, the bias last.
    vectors: NDArray[np.int64]
    #: 1 or -1.
    signs: NDArray[np.int64]
    #: The last weights of models that learnt from other people: ``[model, bin]``.
    shadows: NDArray[np.float64]
