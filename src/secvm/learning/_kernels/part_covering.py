"""The compiled twin of the sampler for one part of a relay's cover: words in, clusters out, in the order of the draw.

``cover_sampler`` is the specification. Here words are compared with first digits alone (``learning/cover_sampler.py``),
step by step: a *step* is one Poisson(1), one point that stays or not, or one candidate. A step whose words are not all
there yet begins anew when they are; a step in which a word equals a digit is *left open* and made by the sampler, from
the same words. So what comes out does not depend on how the words come in.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from secvm.learning._kernels.compiling import compiled, trailing_zeros
from secvm.learning._kernels.reference import Clusters, PartWords, TakeBytes
from secvm.learning.cover_sampler import CellLaw, below, candidate, first_digits, poisson_of_one

_ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
#: What a draw remembers: the next word, what is being drawn, how many steps of it are left, and what they came to.
_AT, _PHASE, _LEFT, _FOUND = range(4)
_POINTS, _STAYING, _CANDIDATES, _DONE = range(4)
#: Why the twin stopped.
_END, _WANTS_WORDS, _LEFT_OPEN = range(3)


@compiled
def _step_points(words, at, sure, accept):
    """(next place, k) of one Poisson(1); k is -1: words are wanted, -2: left open."""
    n = len(words)
    while True:
        if at == n:
            return at, -1
        word = words[at]
        at += 1
        if word == _ALL_ONES:
            return at, -2
        k = np.int64(trailing_zeros(~word))
        if sure[k]:
            return at, k
        if at == n:
            return at, -1
        word = words[at]
        at += 1
        if word == accept[k]:
            return at, -2
        if word < accept[k]:
            return at, k


@compiled
def _step_uniform(words, at, n_values):
    """(next place, 0 … n-1), or -1: words are wanted."""
    if n_values == 1:
        return at, np.int64(0)
    modulus = np.uint64(n_values)
    last_usable = _ALL_ONES - (_ALL_ONES % modulus + _ONE) % modulus
    while at < len(words):
        word = words[at]
        at += 1
        if word <= last_usable:
            return at, np.int64(word % modulus)
    return at, np.int64(-1)


@compiled
def _step_size(words, at, powers):
    """(next place, size); the size is -1: words are wanted, -2: left open."""
    n = len(powers)
    passed = 0
    while at < len(words):
        word = words[at]
        at += 1
        low, high = 0, n  # powers[:low] < word <= powers[high:]
        while low < high:
            middle = (low + high) >> 1
            if powers[middle] < word:
                low = middle + 1
            else:
                high = middle
        if low < n and powers[low] == word:
            return at, -2
        if low > 0:
            return at, passed + n - low + 1
        passed += n
    return at, -1


@compiled
def draw_on(words, state, sure, accept, stay, powers, n_cells, cells, sizes):
    """Draw for as long as there are words and nothing is open; ``state`` and the next clusters are written.

    ``stay`` is the first digit of staying. Returns why it stopped, and how many clusters were written: at most one for
    each word, and there must be room for them.
    """
    n = len(words)
    written = 0
    while state[_PHASE] == _POINTS and state[_LEFT] > 0:
        at, k = _step_points(words, state[_AT], sure, accept)
        if k < 0:
            return (_WANTS_WORDS if k == -1 else _LEFT_OPEN), written
        state[_AT] = at
        state[_FOUND] += k
        state[_LEFT] -= 1
    while state[_PHASE] == _STAYING and state[_LEFT] > 0:
        if state[_AT] == n:
            return _WANTS_WORDS, written
        word = words[state[_AT]]
        if word == stay:
            return _LEFT_OPEN, written
        state[_AT] += 1
        state[_FOUND] += word < stay
        state[_LEFT] -= 1
    while state[_PHASE] == _CANDIDATES and state[_LEFT] > 0:
        at, size = _step_size(words, state[_AT], powers)
        if size < 0:
            return (_WANTS_WORDS if size == -1 else _LEFT_OPEN), written
        at, falls = _step_uniform(words, at, size)
        cell = np.int64(0)
        if falls == 0:
            at, cell = _step_uniform(words, at, n_cells)
        if falls < 0 or cell < 0:
            return _WANTS_WORDS, written
        state[_AT] = at
        state[_LEFT] -= 1
        if falls == 0:
            cells[written], sizes[written] = cell, size
            written += 1
    return _END, written


def cover_clusters(law: CellLaw, take: TakeBytes, most: int) -> Clusters | None:
    """All clusters of a part; None where they are more than ``most`` packages. As in ``reference``."""
    mean = law.mean
    digits = first_digits(mean=mean, p=law.p)
    sure = np.array([digit is None for digit in digits.accept])
    accept = np.array([digit or 0 for digit in digits.accept], np.uint64)
    powers = np.array(digits.powers, np.uint64)
    stays = Fraction(mean, digits.units)
    words = PartWords(take)
    state = np.array([0, _POINTS, digits.units, 0], np.int64)
    clusters: list[Clusters] = []
    total = 0
    while state[_PHASE] != _DONE:
        cells, sizes = np.empty((2, len(words.block) + 1), np.int64)
        state[_AT] = words.at
        stopped, written = draw_on(
            words.block, state, sure, accept, np.uint64(digits.stay or 0), powers, law.cells, cells, sizes
        )
        words.at = int(state[_AT])
        new = [(cells[:written].copy(), sizes[:written].copy())]
        if stopped == _WANTS_WORDS:
            words.more()
        elif stopped == _LEFT_OPEN:
            new.append(_open_step(law, stays, words, state))
        else:
            _next_phase(state, all_stay=digits.stay is None)
        total += sum(int(named.sum()) for _, named in new)
        if total > most:
            return None
        clusters += new
    return np.concatenate([cells for cells, _ in clusters]), np.concatenate([sizes for _, sizes in clusters])


def _next_phase(state: NDArray[np.int64], *, all_stay: bool) -> None:
    """Points found become points that may stay, these become candidates, and then all is drawn."""
    phase = int(state[_PHASE])
    after = _CANDIDATES if phase == _POINTS and all_stay else phase + 1
    state[_PHASE], state[_LEFT], state[_FOUND] = after, state[_FOUND], 0


def _open_step(law: CellLaw, stays: Fraction, words: Iterator[int], state: NDArray[np.int64]) -> Clusters:
    """One step by the sampler."""
    state[_LEFT] -= 1
    named: tuple[int, int] | None = None
    if state[_PHASE] == _POINTS:
        state[_FOUND] += poisson_of_one(words)
    elif state[_PHASE] == _STAYING:
        state[_FOUND] += below(stays.numerator, stays.denominator, words)
    else:
        named = candidate(law.p, law.cells, words)
    pairs = [] if named is None else [named]
    return np.array([cell for cell, _ in pairs], np.int64), np.array([size for _, size in pairs], np.int64)
