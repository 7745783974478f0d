"""Made-up people's words: 300 each, as of the titles of pages they have read, leaning a little by their label.

Synthetic: nobody has read these pages. The laws are those of the people at Twitter's shape (``paper.twitter_law``):
words follow Zipf and Mandelbrot, come in pairs, and each pair leans towards one side by a normal draw. A person has a
label, and a *side* that is its label's, or with probability ``label_noise`` the other's; it follows the leans in a
share of its words that is its own, uniform between ``weakest`` and 1. Nobody's words depend on the hour.

Everybody has the same number of different words, as in the paper's online experiment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm_lab.online.population.dice import LabDice, threshold
from secvm_lab.paper.twitter import law as twitter_law

#: BLAKE2b personalisation of the words' dice.
_TAG = b"secvm-lab-titles"
_STRENGTH_BITS = 16
#: Far beyond this every word of a pair is one label's alone, and nothing changes any more.
_MOST_SIGNAL = 100
#: People at a time: 8,192 of 300 words are ten megabytes of words.
CHUNK = 8_192


@dataclass(frozen=True, slots=True)
class TitleWords:
    """What the generator is asked for."""

    per_person: int = 300
    vocabulary: int = 2**20
    exponent: float = 1.06
    #: Mandelbrot's shift; 2.7 is the classic value for text.
    shift: float = 2.7
    #: Standard deviation of a word's lean. The larger, the easier the labels are told apart.
    signal: float = 0.5
    #: Share of its words in which the least typical person follows the leans; the most typical follows all.
    weakest: float = 0.0
    #: Share of people who read like the other label.
    label_noise: float = 0.1

    def __post_init__(self) -> None:
        if not 1 <= self.per_person <= self.vocabulary // 4 or self.vocabulary % 2:
            raise BadInputError("people have at least one word, and at most a quarter of an even vocabulary")
        if not 2 <= self.vocabulary <= twitter_law.MAX_VOCABULARY or not (self.exponent > 0 and self.shift > 0):
            raise BadInputError("the vocabulary, its exponent or its shift is out of range")
        if not (0 <= self.label_noise <= 1 and 0 <= self.weakest <= 1 and 0 <= self.signal <= _MOST_SIGNAL):
            raise BadInputError(f"label noise and weakest lie between 0 and 1, the signal between 0 and {_MOST_SIGNAL}")

    def chunks(
        self, labels: NDArray[np.int64], seed: int, *, threads: int = 1
    ) -> Iterator[tuple[int, NDArray[np.int32]]]:
        """(first device, people x words): the words of devices 0, 1, 2, … with these labels, some thousand at a time.

        A device is a function of the seed, its number and its label: neither chunks nor threads show.
        """
        # Slow to import, and compiled.
        from secvm_lab._kernels.twitter_words import draw_words  # noqa: PLC0415

        digest = hashlib.blake2b(seed.to_bytes(32, "little"), digest_size=32, person=_TAG).digest()
        word_key, lean_key = np.frombuffer(digest, "<u8").astype(np.uint64).reshape(2, 2)
        edges = twitter_law.word_edges(self.vocabulary, self.exponent, self.shift)
        leans = twitter_law.leans(self.signal)
        turned, strong = LabDice(seed, "side"), LabDice(seed, "strength")
        # Half full at most: a set that is fuller is searched for long.
        table_bits = (2 * self.per_person).bit_length()
        with ThreadPoolExecutor(threads) as pool:
            for first in range(0, len(labels), CHUNK):
                some = labels[first : first + CHUNK]
                devices = np.arange(first, first + len(some), dtype=np.int64)
                sides = (some ^ (turned.throw(devices) < threshold(self.label_noise))).astype(np.int8)
                shares = self.weakest + (1 - self.weakest) * strong.uniform(devices)
                strengths = np.rint(shares * 2**_STRENGTH_BITS).astype(np.int64)
                indptr = np.arange(len(some) + 1, dtype=np.int64) * self.per_person
                words = np.empty(len(some) * self.per_person, np.int32)
                tables: tuple[Any, ...] = (edges, leans, word_key, lean_key, first, sides, strengths, indptr)
                cuts = np.linspace(0, len(some), min(threads, len(some)) + 1).astype(np.int64).tolist()

                def draw(ends: tuple[int, int], tables: Any = tables, words: Any = words) -> int:
                    return int(draw_words(*tables, *ends, table_bits, words))

                if any(stuck >= 0 for stuck in pool.map(draw, pairwise(cuts))):
                    raise BadInputError("a person did not find so many different words: a larger vocabulary has them")
                yield first, words.reshape(len(some), self.per_person)
