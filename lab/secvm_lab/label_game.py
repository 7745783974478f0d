"""The label game, played with dice: what ``secvm_lab.privacy.label_leak`` computes, measured.

For each of some *targets* a vector is drawn as people's are. Then both worlds are played several times over: the target
among the senders of +, and among those of -. Everybody else is new in every play and (unless ``same_people``) in every
round. The attacker knows the target's vector, the popularity of bins, how many send with each sign, and the tallies;
its score is the logarithm of the likelihood ratio of the two worlds, the best there is for independent bins.

Other people are drawn bin by bin, which makes counts binomial; with ``crowd=True`` each of them is drawn as a whole, F
different bins by weight, and thinned by itself: slower, and nothing of the planner's approximations is in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm_lab.privacy.label_leak import LabelGame
from secvm_lab.privacy.popularity import popularity

#: The logarithm of a likelihood ratio that is zero: this world is impossible.
_IMPOSSIBLE = -1e6


@dataclass(frozen=True, slots=True)
class Played:
    """Means over targets, and their standard errors."""

    auc: float
    auc_error: float
    total_variation: float
    total_variation_error: float
    #: All targets ranked against each other, not each against itself.
    pooled_auc: float


def play(game: LabelGame, *, targets: int, plays: int, seed: int, crowd: bool = False) -> Played:
    """Play both worlds ``plays`` times for each target."""
    table = _Table(game, np.random.default_rng(seed), crowd=crowd)
    ours, theirs = np.empty((targets, plays)), np.empty((targets, plays))
    for target in range(targets):
        vector = table.person()
        ours[target] = table.scores(vector, world=0, plays=plays)
        theirs[target] = table.scores(vector, world=1, plays=plays)
    aucs = np.array([ranked(a, b) for a, b in zip(ours, theirs, strict=True)])
    gains = _above_zero(ours) - _above_zero(theirs)
    return Played(
        auc=float(aucs.mean()),
        auc_error=float(aucs.std(ddof=1)) / math.sqrt(targets),
        total_variation=float(gains.mean()),
        total_variation_error=float(gains.std(ddof=1)) / math.sqrt(targets),
        pooled_auc=ranked(ours.ravel(), theirs.ravel()),
    )


def ranked(these: NDArray[np.float64], those: NDArray[np.float64]) -> float:
    """The chance that one of these is above one of those, a tie being half a chance."""
    ordered = np.sort(those)
    below = np.searchsorted(ordered, these, side="left") + np.searchsorted(ordered, these, side="right")
    return float(below.mean()) / (2 * len(ordered))


def _above_zero(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """How often each target is taken for the first world's; nothing learnt is half a chance."""
    result: NDArray[np.float64] = ((scores > 0) + (scores == 0) / 2).mean(axis=1)
    return result


class _Table:
    """Draws people and counts, and scores them."""

    def __init__(self, game: LabelGame, dice: np.random.Generator, *, crowd: bool) -> None:
        self._game, self._dice, self._crowd = game, dice, crowd
        groups = popularity(bins=game.bins, features=game.features, exponent=game.zipf)
        self._shares = np.repeat(groups.shares, groups.sizes.astype(np.int64))
        self._weights = np.arange(1, game.bins + 1) ** -game.zipf

    def person(self) -> NDArray[np.bool_]:
        """F different bins by weight: the first F of exponential clocks."""
        clocks = self._dice.exponential(size=self._game.bins) / self._weights
        vector = np.zeros(self._game.bins, dtype=np.bool_)
        vector[np.argpartition(clocks, self._game.features - 1)[: self._game.features]] = True
        return vector

    def scores(self, vector: NDArray[np.bool_], *, world: int, plays: int) -> NDArray[np.float64]:
        """Log-likelihood ratios of the first world to the second, summed over rounds and signs.

        With one sign only (the paper's two worlds) somebody else has the target's place in the second.
        """
        total = np.zeros(plays)
        for side, senders in enumerate(self._game.sides):
            there = side == world
            others = self._others(senders - there, plays) if self._game.same_people else None
            summed = np.zeros((plays, self._game.bins)) if self._game.same_people else None
            for _ in range(self._game.rounds):
                counts = self._counts(senders - there, plays, others) + there * self._thinned(vector, plays)
                if summed is not None:
                    summed += counts / self._game.rounds
                else:
                    total += (1 - 2 * side) * self._log_ratio(counts, vector, senders)
            if summed is not None:
                total += (1 - 2 * side) * self._linear(summed, vector, senders)
        return total

    def _thinned(self, vector: NDArray[np.bool_], plays: int) -> NDArray[np.int64]:
        return (self._dice.random((plays, len(vector))) < self._game.q * vector).astype(np.int64)

    def _others(self, people: int, plays: int) -> NDArray[np.int64]:
        """How many of so many new people have each bin, for every play."""
        if not self._crowd:
            return self._dice.binomial(people, self._shares, size=(plays, len(self._shares)))
        found = np.zeros((plays, self._game.bins), dtype=np.int64)
        for play in range(plays):
            clocks = self._dice.exponential(size=(people, self._game.bins)) / self._weights
            held = np.argpartition(clocks, self._game.features - 1, axis=1)[:, : self._game.features]
            found[play] = np.bincount(held.ravel(), minlength=self._game.bins)
        return found

    def _counts(self, people: int, plays: int, others: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """What everybody but the target sends in one round."""
        if others is None and not self._crowd:
            # Thinning a binomial leaves a binomial: one draw instead of two.
            counts = self._dice.binomial(people, self._game.q * self._shares, size=(plays, self._game.bins))
        else:
            held = self._others(people, plays) if others is None else others
            counts = self._dice.binomial(held, self._game.q) if self._game.q < 1 else held
        if self._game.cover_variance:
            # Any infinitely divisible noise would do; Poisson's variance is its mean, which the attacker subtracts.
            counts = counts + self._dice.poisson(self._game.cover_variance, size=counts.shape)
        return counts

    def _log_ratio(self, counts: NDArray[np.int64], vector: NDArray[np.bool_], senders: int) -> NDArray[np.float64]:
        if self._game.cover_variance:
            return self._linear(counts - self._game.cover_variance, vector, senders)
        theta = self._game.q * self._shares
        slope = (self._game.q * vector - theta) / np.maximum(senders * theta * (1 - theta), 1e-300)
        ratio = 1 + (counts - senders * theta) * np.where(theta < 1 - 1e-9, slope, 0.0)
        logs = np.full(ratio.shape, _IMPOSSIBLE)
        np.log(ratio, out=logs, where=ratio > 1e-12)
        result: NDArray[np.float64] = logs.sum(axis=1)
        return result

    def _linear(self, counts: NDArray[Any], vector: NDArray[np.bool_], senders: int) -> NDArray[np.float64]:
        """The normal law's score, shift over variance: for rounds that depend on each other, or noisy ones."""
        q, shares, rounds = self._game.q, self._shares, self._game.rounds
        people, dice = senders * q * q * shares * (1 - shares), senders * q * (1 - q) * shares
        dice = dice + self._game.cover_variance
        variance = people + dice / rounds if self._game.same_people else people + dice
        shift = q * (vector - shares)
        weight = np.divide(shift, variance, out=np.zeros_like(shift), where=variance > 1e-12)
        result: NDArray[np.float64] = (counts - senders * q * shares - shift / 2) @ weight
        return result
