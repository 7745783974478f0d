"""Made-up people: those whose words follow Zipf and Mandelbrot, and those with a browser history.

**Zipf**: people whose words follow Zipf and Mandelbrot, with a label that leans their choice of words.

Word r (from 0) has weight (r + shift)^-exponent. Each word leans towards one side by a normal draw times ``signal``; a
person of side c picks words with weight times exp(c · lean). A share ``label_noise`` of the labels is then turned
over, so no model can be right about more than 1 - label_noise of them. Every person has ``words_per_person``
distinct words.

A small signal is the *weak-signal* case of the two-cycle: popular words say nearly nothing, and there are many of them.

**Titles**: people with a browser history, page titles and hosts, and a label that leans what they read. A *world* is
drawn from a seed: made-up words, topics, and hosts. A topic has words and hosts of its own, and a *lean*: it draws one
label more than the other. A person has a label and, per topic, an interest: the topic's popularity, tilted by its lean
times the person's own *pull* (normal around plus or minus ``strength``), times a taste of the person's own. Every page
is of one topic; its title mixes words of the topic with words that everybody uses, both by Zipf. Features are cut out
of the pages by the same code that cuts a real history (``participant.sources``).

Person i of a seed is the same person however many are asked for: people who train and any number of further ones who
test come from one distribution, and never twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from secvm.participant.sources.pages import Page, features_of


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


_ONSETS = ("b", "br", "d", "f", "gl", "h", "k", "kr", "l", "m", "n", "p", "pl", "r", "s", "st", "t", "tr", "v", "z")
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ou")
_CODAS = ("", "", "n", "r", "l", "s", "t", "nd", "k")
#: A top-level domain that will never be anybody's (RFC 2606).
_ENDING = ".example"


@dataclass(frozen=True, slots=True, repr=False)
class Reader:
    """A person who read pages. Made up, and yet it does not print itself: habits are kept."""

    label: str
    pages: tuple[Page, ...]

    def features(self) -> dict[str, int]:
        """Words of titles and hosts, as a device gets them out of a history."""
        return features_of(self.pages, titles=True, hosts=True, local=False)

    def __repr__(self) -> str:
        return "Reader(...)"


@dataclass(frozen=True)
class TitlePeople:
    """What the generator is asked for."""

    seed: int = 0
    labels: tuple[str, str] = ("north", "south")
    #: Share of people with the first label.
    first_share: float = 0.6
    #: How far the labels pull people apart, in standard deviations of the pull. The normal integral of it is about the
    #: best accuracy anybody could reach.
    strength: float = 1.3
    topics: int = 24
    words_per_topic: int = 60
    hosts_per_topic: int = 4
    common_words: int = 1_500
    common_hosts: int = 20
    fewest_pages: int = 8
    most_pages: int = 16
    #: Share of a title's words that belong to its topic.
    on_topic: float = 0.65
    #: How strongly a topic's lean moves the interest of a person of pull one.
    tilt: float = 1.5
    #: Standard deviation of a person's own taste, on the logarithm of interest.
    taste: float = 0.5
    #: Mandelbrot shift of the topics: the smaller, the more a few topics are read by all.
    topic_shift: float = 5.0

    def people(self, count: int, *, first: int = 0) -> Iterator[Reader]:
        """The people of numbers ``first`` to ``first + count - 1``."""
        return (self.person(number) for number in range(first, first + count))

    def person(self, number: int) -> Reader:
        """Person ``number`` of this seed."""
        world = self._world
        rng = np.random.default_rng([self.seed, 1, number])
        side = 0 if rng.random() < self.first_share else 1
        pull = rng.normal(self.strength if side == 0 else -self.strength)
        interest = world.popularity * np.exp(self.tilt * pull * world.lean + rng.normal(0.0, self.taste, self.topics))
        n_pages = int(rng.integers(self.fewest_pages, self.most_pages + 1))
        topics = _draw(np.cumsum(interest), rng.random(n_pages))
        lengths = rng.integers(3, 8, n_pages)
        ends = np.cumsum(lengths)
        topic_of_word = np.repeat(topics, lengths)
        on_topic = rng.random(ends[-1]) < self.on_topic
        own = topic_of_word * self.words_per_topic + _draw(world.topic_words, rng.random(ends[-1]))
        common = _draw(world.common_words, rng.random(ends[-1]))
        chosen = np.where(on_topic, self.common_words + own, common).tolist()
        at_home = rng.random(n_pages) < self.on_topic
        own_host = topics * self.hosts_per_topic + _draw(world.topic_hosts, rng.random(n_pages))
        hosts = np.where(at_home, self.common_hosts + own_host, _draw(world.common_hosts, rng.random(n_pages))).tolist()
        words, names = world.words, world.hosts
        starts = [0, *ends.tolist()]
        pages = tuple(
            (
                f"https://{names[hosts[i]]}/{i}",
                " ".join([words[w] for w in chosen[starts[i] : starts[i + 1]]]).capitalize(),
            )
            for i in range(n_pages)
        )
        return Reader(label=self.labels[side], pages=pages)

    @cached_property
    def _world(self) -> _World:
        rng = np.random.default_rng([self.seed, 0])
        n_words = self.common_words + self.topics * self.words_per_topic
        n_hosts = self.common_hosts + self.topics * self.hosts_per_topic
        names = _names(rng, n_words + n_hosts)
        # Half of the topics lean to one side, half to the other, some more than others.
        lean = np.linspace(-1.0, 1.0, self.topics)
        return _World(
            words=names[:n_words],
            hosts=[name + _ENDING for name in names[n_words:]],
            lean=rng.permutation(lean),
            popularity=rng.permutation(_zipf(self.topics, shift=self.topic_shift)),
            topic_words=np.cumsum(_zipf(self.words_per_topic, shift=2.7)),
            topic_hosts=np.cumsum(_zipf(self.hosts_per_topic, shift=1.0)),
            common_words=np.cumsum(_zipf(self.common_words, shift=2.7)),
            common_hosts=np.cumsum(_zipf(self.common_hosts, shift=1.0)),
        )


@dataclass(frozen=True)
class _World:
    """What all people of a seed share. The last four are cumulative weights."""

    words: list[str]
    hosts: list[str]
    lean: NDArray[np.float64]
    popularity: NDArray[np.float64]
    topic_words: NDArray[np.float64]
    topic_hosts: NDArray[np.float64]
    common_words: NDArray[np.float64]
    common_hosts: NDArray[np.float64]


def _zipf(n: int, *, shift: float) -> NDArray[np.float64]:
    return np.asarray(1.0 / (np.arange(n) + shift), dtype=np.float64)


def _draw(cumulative: NDArray[np.float64], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    """Places drawn by cumulative weights that need not end at one."""
    found = np.searchsorted(cumulative, uniform * cumulative[-1], side="right")
    return np.asarray(np.minimum(found, len(cumulative) - 1), dtype=np.int64)


def _names(rng: np.random.Generator, count: int) -> list[str]:
    """So many different made-up words, the shorter ones first as in real speech."""
    found: dict[str, None] = {}
    while len(found) < count:
        syllables = 1 + len(found) * 3 // count
        parts = [
            _ONSETS[rng.integers(len(_ONSETS))]
            + _VOWELS[rng.integers(len(_VOWELS))]
            + _CODAS[rng.integers(len(_CODAS))]
            for _ in range(syllables)
        ]
        found["".join(parts)] = None
    return list(found)
