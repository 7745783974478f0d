"""One device's cover packages of a round, drawn exactly: integers and fractions, no rounding, no logarithm.

The share of a device is a negative binomial of shape a and odds θ in each of C cells (``learning/cover_noise.py``).
That is a Poisson number of clusters, each in a uniform cell, where clusters of size k come at the rate C a p^k / k.
Summed over k the rate is C a ln(1/(1-p)), irrational; so it is never summed. Instead, by Poisson thinning:

 1. *Candidates* come at the rate C a p^k for size k, together μ = C a θ, which is rational: draw Poisson(μ) of them.
 2. Each candidate's size is geometric, P(k) = (1-p) p^(k-1), k = 1, 2, …; it stays with chance 1/k.
    Those of size k that stay are Poisson(μ (1-p) p^(k-1) / k) = Poisson(C a p^k / k), independent for all k. ∎
 3. Each that stays takes a uniform cell and is repeated k times.
 4. Cut to ``cap``: the first ones stay. The cut sees the cover alone, never the person's data.

Poisson(μ) is what remains of Poisson(⌈μ⌉) when each point stays with chance μ/⌈μ⌉, and Poisson(⌈μ⌉) is a sum of
Poisson(1). Poisson(1) by rejection: propose k with chance 2^-(k+1), accept with chance 2^(k-1)/k! (at most 1); what is
accepted has chances in proportion to 1/k!. ∎ The size is found by inversion: size > i exactly if U < p^i. Every
comparison U < x is made digit by digit, in base 2^64, for as long as it is open (``below``), so it has the chance x,
not about x.

**What remains.** Given uniform words the law is exact but for one thing: words end, though not before 2^22 of them. Let
W be the words that a round takes, and look at E z^W for z = 1.1, per unit of ⌈μ⌉. A proposal takes 2 words (more with
chance 2^-63) and is accepted with chance e/4: a factor under z² (e/4) / (1 - z² (1 - e/4)) < 1.37. Each of its
Poisson(1) points takes a word to stay, words for its size with a chance of at most 1/4 of one more, and words for 1/k
and for the cell that are thrown away with a chance under 1/2: factors 1.1, 1.14, 1.23 and 1.23, together under 1.9.
That is under 1.37 e^0.9 < 3.4 a unit. With ⌈μ⌉ ≤ 2^16 units P(W > 2^22) < 3.4^(2^16) / 1.1^(2^22) < 2^-400000; then
``OutOfDiceError`` is raised, whatever the person's data. The accountant charges 2^-60 for every device and round.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from fractions import Fraction
from math import factorial
from typing import TYPE_CHECKING, Literal

from secvm.errors import ArithmeticRangeError
from secvm.learning.cover_digits import power_digits
from secvm.learning.cover_noise import CoverNoise
from secvm.learning.individual.dice import Dice, Purpose
from secvm.learning.package import Cohort, Package, ParticipationPackage, TestPackage, TrainPackage

if TYPE_CHECKING:  # what an experiment takes off its counts is the other side's business
    from secvm.learning.cover import Cover

_BITS = 64
_WORD = 1 << _BITS
#: Blocks of words double from the first size to the last: most devices need few.
_FIRST_WORDS, _MOST_WORDS = 1 << 8, 1 << 12
#: Seeded dice have 12 bits for the model, which cover, drawn for all models at once, uses to number its blocks.
_BLOCKS = 1 << 12


class OutOfDiceError(ArithmeticRangeError):
    """A round's dice ran out while cover was drawn, which happens with a chance below 2^-60."""


def draw_cover(cover: Cover, *, n_bins: int, n_labels: int, dice: Dice, round_number: int) -> list[Package]:
    """The cover packages of one device in one round. It takes no person: cover must not depend on one."""
    train = draw_cells(cover.train, Purpose.COVER, dice=dice, round_number=round_number)
    here = draw_cells(cover.participation, Purpose.COVER_PARTICIPATION, dice=dice, round_number=round_number)
    packages: list[Package] = [train_package(cell, n_bins) for cell in train]
    packages += [_participation_package(cell, n_labels) for cell in here]
    if cover.test is not None:
        tested = draw_cells(cover.test, Purpose.COVER_TEST, dice=dice, round_number=round_number)
        packages += [TestPackage(true_class=cell // n_labels, predicted_class=cell % n_labels) for cell in tested]
    return packages


def draw_cells(noise: CoverNoise, purpose: Purpose, *, dice: Dice, round_number: int) -> list[int]:
    """The cells that one device names in one round, each as often as a package names it."""
    words = _words(dice, purpose, round_number)
    cells: list[int] = []
    p = noise.p
    for _ in range(_poisson(noise.mean_packages, words)):
        size = _geometric(p, words)
        if _uniform(size, words) == 0:
            cells += [_uniform(noise.cells, words)] * size
    return cells[: noise.cap]


def train_package(cell: int, n_bins: int) -> TrainPackage:
    """Train cells are numbered model by model, bin by bin (the bias last), + before -."""
    place, minus = divmod(cell, 2)
    model, bin_index = divmod(place, n_bins + 1)
    sign: Literal[-1, 1] = -1 if minus else 1
    return TrainPackage(model=model, bin_index=bin_index, sign=sign)


def _participation_package(cell: int, n_labels: int) -> ParticipationPackage:
    cohort, label = divmod(cell, n_labels)
    return ParticipationPackage(cohort=Cohort.TEST if cohort else Cohort.TRAIN, class_index=label)


def _words(dice: Dice, purpose: Purpose, round_number: int) -> Iterator[int]:
    """A round's words for one kind of cover, a block at a time."""
    for block in range(_BLOCKS):
        size = min(_FIRST_WORDS << min(block, _BITS), _MOST_WORDS)
        yield from dice.words(purpose, round_number, block, size)
    raise OutOfDiceError


def below(numerator: int, denominator: int, words: Iterator[int]) -> bool:
    """Whether a uniform U in [0, 1) is below numerator/denominator: true with exactly this chance."""
    while 0 < numerator < denominator:
        digit, numerator = divmod(numerator << _BITS, denominator)
        word = next(words)
        if word != digit:
            return word < digit
    return numerator >= denominator


def _uniform(n: int, words: Iterator[int]) -> int:
    """0 … n-1, each with chance 1/n: words of the last, incomplete run of n are thrown away."""
    if n == 1:
        return 0
    usable = _WORD - _WORD % n
    while (word := next(words)) >= usable:
        pass
    return word % n


def _poisson(mean: Fraction, words: Iterator[int]) -> int:
    """Poisson of a rational mean."""
    units = -(-mean.numerator // mean.denominator)
    points = sum(_poisson_of_one(words) for _ in range(units))
    return sum(below(mean.numerator, mean.denominator * units, words) for _ in range(points))


def _poisson_of_one(words: Iterator[int]) -> int:
    while True:
        k = 0
        while (word := next(words)) == _WORD - 1:
            k += _BITS
        # Ones at the low end of the word: the first zero ends the run.
        k += (word ^ (word + 1)).bit_length() - 1
        if below(1 << k, 2 * factorial(k), words):
            return k


def _geometric(p: Fraction, words: Iterator[int]) -> int:
    """1, 2, …: k with chance (1-p) p^(k-1)."""
    ascending = power_digits(p)
    passed = 0
    while True:
        word = next(words)
        # Of p^1 … p^n, all whose first digit is above the word are above U; one whose digit equals it is undecided.
        above = len(ascending) - bisect_left(ascending, word)
        if above and ascending[-above] == word:
            power = p**above
            rest = (power.numerator << _BITS) % power.denominator
            above -= not below(rest, power.denominator, words)
        if above < len(ascending):
            return passed + above + 1
        passed += above
