"""Likelihoods of counts, exact: what a count says of one unit more or less.

A cell holds cover, NB(shape, p), and units of people who are not known, Bin(people, share). Under the law L of both, a
count of k speaks for one unit more by ln L(k-1)/L(k). Independent cells add. That is the best test there is where all
but the unit is known (Neyman and Pearson), and it needs no approximation.

What an attacker of the counts knows: the noise's law, which is public, and the target's bins or everybody else's.

Arrays of counts are ``[…, model, bin, sign]`` with sign 0 for minus; leading axes are plays that are looked at
together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from secvm.privacy.accounting.cover_loss import log_masses
from secvm_lab.attacks.views import CoordinatorView, Knowledge


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


Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

#: The logarithm of a likelihood ratio that is zero or infinite; sums of it stay finite.
CERTAIN = 1e6
#: Outcomes of a binomial beyond so many standard deviations are left out.
_DEVIATIONS = 12.0


@lru_cache(maxsize=4096)
def unit_table(cover: CoverLaw | None, people: int = 0, share: float = 0.0) -> Floats:
    """For a count k = 0, 1, … the logarithm of the likelihood ratio of one unit more to none."""
    law = cell_law(cover, people, share)
    with np.errstate(divide="ignore"):
        logs = np.log(np.concatenate([[0.0], law, [0.0]]))
    with np.errstate(invalid="ignore"):
        table = np.clip(logs[:-1] - logs[1:], -CERTAIN, CERTAIN)
    found: Floats = np.nan_to_num(table, nan=0.0)
    return found


@lru_cache(maxsize=4096)
def cell_law(cover: CoverLaw | None, people: int, share: float) -> Floats:
    """P(count = 0), P(1), … of a cell without the target's unit."""
    noise = np.ones(1) if cover is None else np.exp(log_masses(cover.shape, cover.p))
    low, crowd = _binomial(people, share)
    # Terms are positive: nothing cancels, and tails are as good as the middle.
    law: Floats = np.concatenate([np.zeros(low), np.convolve(noise, crowd)])
    return law


def look(table: Floats, counts: Counts) -> Floats:
    """What counts say; beyond both ends of the table as its ends do."""
    found: Floats = table[np.clip(counts, 0, len(table) - 1)]
    return found


def look_once(table: Floats, count: int) -> float:
    """What one count says."""
    return float(table[min(max(count, 0), len(table) - 1)])


def place_tables(cover: CoverLaw | None, senders: int, bins: NDArray[np.bool_], shares: Floats) -> Floats:
    """For every bin and count, what speaks for the target being one of so many senders instead of somebody else.

    With the target the bin holds its unit (or none) and those of senders - 1 others; without, those of ``senders``.
    Tables are as long as the longest, and their ends go on.
    """
    rows = []
    for has, share in zip(bins.tolist(), shares.tolist(), strict=True):
        there = np.concatenate([np.zeros(int(has)), cell_law(cover, senders - 1, share)])
        absent = cell_law(cover, senders, share)
        size = max(len(there), len(absent))
        with np.errstate(divide="ignore", invalid="ignore"):
            row = np.log(np.pad(there, (0, size - len(there)))) - np.log(np.pad(absent, (0, size - len(absent))))
        rows.append(np.clip(np.nan_to_num(row, nan=0.0, posinf=CERTAIN, neginf=-CERTAIN), -CERTAIN, CERTAIN))
    longest = max(map(len, rows))
    return np.array([np.pad(row, (0, longest - len(row)), mode="edge") for row in rows])


def look_rows(tables: Floats, counts: Counts) -> Floats:
    """What counts ``[…, bin]`` say, each by its bin's table; summed over bins."""
    places = np.clip(counts, 0, tables.shape[1] - 1)
    found: Floats = tables[np.arange(len(tables)), places].sum(axis=-1)
    return found


def label_ratio(view: CoordinatorView, knowing: KnownRest) -> Floats:
    """How much all rounds speak for the second label where all else is known; the target sends under either label."""
    table, here = unit_table(knowing.cover), unit_table(knowing.participation)
    places = [*knowing.bins, -1]
    total: Floats = np.zeros(())
    for seen, others in zip(view.rounds, knowing.others, strict=True):
        told = look(table, (seen.counts - others)[..., 0, :, :][..., places, :]).sum(axis=-2)
        label = look(here, seen.participants - np.array(knowing.others_by_label))
        total = total + told[..., 1] - told[..., 0] + label[..., 1] - label[..., 0]
    return total


def _binomial(people: int, share: float) -> tuple[int, Floats]:
    """The smallest outcome that is written down, and the chances from there on."""
    if people == 0 or share <= 0.0:
        return 0, np.ones(1)
    if share >= 1.0:
        return people, np.ones(1)
    half = _DEVIATIONS * math.sqrt(people * share * (1 - share)) + _DEVIATIONS
    low, high = max(0, math.floor(people * share - half)), min(people, math.ceil(people * share + half))
    first = math.lgamma(people + 1) - math.lgamma(low + 1) - math.lgamma(people - low + 1)
    first += low * math.log(share) + (people - low) * math.log1p(-share)
    k = np.arange(low + 1, high + 1)
    steps = np.log(people - k + 1) - np.log(k) + math.log(share) - math.log1p(-share)
    return low, np.exp(first + np.concatenate([[0.0], np.cumsum(steps)]))
