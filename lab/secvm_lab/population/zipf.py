"""People whose words follow Zipf and Mandelbrot, with a label that leans their choice of words.

Word r (from 0) has weight (r + shift)^-exponent. Each word leans towards one side by a normal draw times ``signal``; a
person of side c picks words with weight times exp(c · lean). A share ``label_noise`` of the labels is then turned
over, so no model can be right about more than 1 - label_noise of them. Every person has ``words_per_person``
distinct words.

A small signal is the *weak-signal* case of the two-cycle: popular words say nearly nothing, and there are many of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ZipfPeople:
    """What the generator is asked for."""

    n_people: int = 17_000
    words_per_person: int = 1_260
    vocabulary: int = 200_000
    exponent: float = 1.05
    #: Mandelbrot's shift; 2.7 is the classic value for text.
    shift: float = 2.7
    #: Standard deviation of a word's lean.
    signal: float = 0.3
    label_noise: float = 0.2

    def generate(self, seed: int) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
        """Word numbers, people x words_per_person (each row distinct), and labels 0 or 1."""
        rng = np.random.default_rng(seed)
        weights = (np.arange(self.vocabulary) + self.shift) ** -self.exponent
        lean = rng.normal(0.0, self.signal, self.vocabulary)
        sides = rng.integers(0, 2, self.n_people)
        words = np.empty((self.n_people, self.words_per_person), dtype=np.int32)
        for side in (0, 1):
            tilted = weights * np.exp((2 * side - 1) * lean)
            cumulative = np.cumsum(tilted / tilted.sum())
            for i in np.flatnonzero(sides == side):
                words[i] = self._distinct(cumulative, rng)
        labels = np.where(rng.random(self.n_people) < self.label_noise, 1 - sides, sides)
        return words, labels.astype(np.int8)

    def _distinct(self, cumulative: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int32]:
        """The first so many different words of an endless text."""
        found = np.zeros(0, dtype=np.int64)
        while len(found) < self.words_per_person:
            text = np.searchsorted(cumulative, rng.random(3 * self.words_per_person))
            found = np.concatenate([found, np.minimum(text, self.vocabulary - 1)])
            _, first = np.unique(found, return_index=True)
            found = found[np.sort(first)]
        return found[: self.words_per_person].astype(np.int32)
