"""Is it still learning? Two watchers over public counts alone.

**The two-cycle.** Full-batch Pegasos from zero can be caught in an orbit of period two at 50 % accuracy: in one round
all people of one side violate, in the next all of the other. The bias bin counts violators by sign, so the balance
(N⁺ - N⁻) / (N⁺ + N⁻) of its counts swings between +1 and -1. ``TwoCycle`` sees that swing. Near the end of a good run
a handful of violators may swing too; that is no orbit, so the side whose turn it is must also have at least half as
many violators as in the first round, when everybody violated.

**The plateau.** ``Plateau`` watches held-out test counts and stops when the mean accuracy of the last ``patience``
rounds is no longer above the best such mean before them, by more than noise; the round with the best running mean is
the one to keep.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadExperimentError
from secvm.learning.aggregate.tally import Tally

#: A balance beyond this, with the sign changing every round, is a swing. Ordinary training stays within about ±.5.
SWING = 0.8
#: Violators of the side whose turn it is, over those of the first round, from which on a swing counts.
CROWD = 0.5
#: So many swings in a row are an orbit. Every Pegasos run swings a few times when it starts.
SPELL = 8


@dataclass
class TwoCycle:
    """Feed it every round's tally; it keeps, per model, how long the balance has been swinging."""

    #: Finished and running spells of any model, as (first round, last round), both counted from 1.
    spells: list[tuple[int, int]] = field(default_factory=list)
    _round: int = 0
    _numbers: list[int] = field(default_factory=list)
    _everybody: tuple[list[int], list[int], int] | None = None
    _last: list[int] = field(default_factory=list)
    _run: list[int] = field(default_factory=list)

    def watch(self, tally: Tally, round_number: int | None = None) -> None:
        """Take note of one round. Abandoned rounds have no tally and are not watched, but their numbers are spent."""
        self._round = self._round + 1 if round_number is None else round_number
        # Counts from which the mean of cover was taken off may be negative.
        plus, minus = ([max(count, 0) for count in side[:, -1].tolist()] for side in (tally.plus, tally.minus))
        people = int(tally.participants.sum())
        if self._everybody is None:
            self._everybody = (plus, minus, people)
            self._last, self._run = [0] * len(plus), [0] * len(plus)
        all_plus, all_minus, all_people = self._everybody
        # Plain numbers: there are a few models, and sweeps watch hundreds of them.
        grown = people / all_people if all_people else 1.0
        for model, (up, down) in enumerate(zip(plus, minus, strict=True)):
            balance = (up - down) / (up + down) if up + down else 0.0
            of_first = up >= CROWD * grown * all_plus[model] if up > down else down >= CROWD * grown * all_minus[model]
            now = (1 if up > down else -1) if abs(balance) >= SWING and of_first else 0
            if now and now == -self._last[model]:
                self._run[model] += 1
            else:
                self._run[model] = 1 if now else 0
            self._last[model] = now
        self._numbers.append(self._round)
        longest = max(self._run)
        if longest >= SPELL:
            first = self._numbers[-longest]
            if self.spells and self.spells[-1][1] >= first:
                self.spells[-1] = (min(first, self.spells[-1][0]), self._round)
            else:
                self.spells.append((first, self._round))

    @property
    def caught(self) -> bool:
        """Whether the last round seen was part of an orbit."""
        return bool(self.spells) and self.spells[-1][1] == self._round


@dataclass
class Plateau:
    """A stopping rule on held-out counts."""

    #: Rounds in each of the means that are compared.
    patience: int = 10
    #: Never stop before this round: Pegasos may need a while to get going.
    at_least: int = 20
    _right: list[int] = field(default_factory=list)
    _of: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.patience < 2 or self.at_least < 1:
            raise BadExperimentError("patience must be at least 2 rounds, and stopping not before round 1")

    def watch(self, right: int, of: int) -> bool:
        """Take note of one round's held-out counts; True when it is time to stop."""
        self._right.append(right)
        self._of.append(of)
        rounds = len(self._right)
        if rounds < max(self.at_least, 2 * self.patience):
            return False
        means = self._means()
        # Only means over full runs of rounds compete: one lucky first round must not stop everything.
        best_before = max(means[self.patience - 1 : -self.patience])
        return means[-1] <= best_before + self._tolerance()

    def _tolerance(self) -> float:
        """A quarter of the standard error of one round's accuracy: less gain than that is not worth its rounds."""
        n = max(1, self._of[-1])
        p = self._right[-1] / n
        return 0.25 * float(np.sqrt(max(p * (1 - p), 1e-4) / n))

    def _means(self) -> list[float]:
        """Mean accuracy over each run of ``patience`` rounds (the first ones over what there is)."""
        accuracy = np.array(self._right, dtype=float) / np.maximum(1, np.array(self._of))
        totals = np.concatenate([[0.0], np.cumsum(accuracy)])
        ends = np.arange(1, len(accuracy) + 1)
        starts = np.maximum(0, ends - self.patience)
        return [float(m) for m in (totals[ends] - totals[starts]) / (ends - starts)]

    @property
    def best_round(self) -> int:
        """The round, counted from 1, whose mean over the three rounds around it is best; the first of equals."""
        return int(np.argmax(self._smoothed)) + 1

    @property
    def best_settled(self) -> int:
        """The best round before the newest, whose neighbour is not known yet; the first where there is no other."""
        return int(np.argmax(self._smoothed[:-1])) + 1 if len(self._right) > 1 else 1

    @property
    def _smoothed(self) -> NDArray[np.float64]:
        accuracy = np.array(self._right, dtype=float) / np.maximum(1, np.array(self._of))
        padded = np.concatenate([accuracy[:1], accuracy, accuracy[-1:]])
        return np.asarray(padded[:-2] + padded[1:-1] + padded[2:], dtype=np.float64)
