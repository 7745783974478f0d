"""The sampler of cover, exact: integers and fractions, no rounding, no logarithm. Words are handed in.

Cover is a negative binomial of shape a and odds θ in each of C cells. That is a Poisson number of clusters, each in a
uniform cell, where clusters of size k come at the rate C a p^k / k, p = θ / (1 + θ). Summed over k the rate is
C a ln(1/(1-p)), irrational; so it is never summed. Instead, by Poisson thinning:

 1. *Candidates* come at the rate C a p^k for size k, together μ = C a θ, which is rational: draw Poisson(μ) of them.
 2. Each candidate's size is geometric, P(k) = (1-p) p^(k-1), k = 1, 2, …; it stays with chance 1/k.
    Those of size k that stay are Poisson(μ (1-p) p^(k-1) / k) = Poisson(C a p^k / k), independent for all k. ∎
 3. Each that stays takes a uniform cell and is repeated k times.

Poisson(μ) is what remains of Poisson(⌈μ⌉) when each point stays with chance μ/⌈μ⌉, and Poisson(⌈μ⌉) is a sum of
Poisson(1). Poisson(1) by rejection: propose k with chance 2^-(k+1), accept with chance 2^(k-1)/k! (at most 1); what is
accepted has chances in proportion to 1/k!. ∎ The size is found by inversion: size > i exactly if U < p^i. Every
comparison U < x is made digit by digit, in base 2^64, for as long as it is open (``below``), so it has the chance x,
not about x.

**What remains.** Given uniform words the law is exact for any mean, as long as words last. Let W be the words that a
draw takes, and look at E z^W for z = 1.1, per unit of ⌈μ⌉. A proposal takes 2 words (more with chance 2^-63) and is
accepted with chance e/4: a factor under z² (e/4) / (1 - z² (1 - e/4)) < 1.37. Each of its Poisson(1) points takes a
word to stay, words for its size with a chance of at most 1/4 of one more, and words for 1/k and for the cell that are
thrown away with a chance under 1/2: factors 1.1, 1.14, 1.23 and 1.23, together under 1.9. That is under 1.37 e^0.9 <
3.4 a unit, so P(W > 32 ⌈μ⌉) < 0.17^⌈μ⌉.

A relay's words are a keystream of 2^64 blocks and more (docs/protocol.md §29), and nothing of it is cut: tens of
millions of packages take some hundred millions of words, and the end is never near. The keystream is AES in counter
mode, whose blocks do not repeat. Among the 2^34 blocks of a mean of 2^30 uniform ones would, with a chance below 2^-60;
all else rests on AES being like a random permutation.

**First digits.** The sampler compares words with the base-2^64 digits of rationals, for as long as they are equal. Its
quick twin has the first digits alone (``CoverDigits``). A word equals a first digit with chance 2^-64; who has only
first digits knows every outcome but those, and hands the rest back.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import factorial

_BITS = 64
_WORD = 1 << _BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class CellLaw:
    """What is drawn at once: a negative binomial of this shape and these odds in each of so many cells."""

    cells: int
    shape: Fraction
    odds: Fraction

    @property
    def p(self) -> Fraction:
        """The negative binomial's p."""
        return Fraction(self.odds.numerator, self.odds.numerator + self.odds.denominator)

    @property
    def mean(self) -> Fraction:
        """μ: packages of all cells together, on average."""
        return self.cells * self.shape * self.odds


def draw_clusters(law: CellLaw, words: Iterator[int]) -> Iterator[tuple[int, int]]:
    """(cell, packages that name it) in the order they are drawn; a cell may come again."""
    p = law.p
    for _ in range(poisson(law.mean, words)):
        cluster = candidate(p, law.cells, words)
        if cluster is not None:
            yield cluster


def candidate(p: Fraction, cells: int, words: Iterator[int]) -> tuple[int, int] | None:
    """One candidate: its cell and size, or None where it does not stay."""
    size = geometric(p, words)
    return (uniform(cells, words), size) if uniform(size, words) == 0 else None


def below(numerator: int, denominator: int, words: Iterator[int]) -> bool:
    """Whether a uniform U in [0, 1) is below numerator/denominator: true with exactly this chance."""
    while 0 < numerator < denominator:
        digit, numerator = divmod(numerator << _BITS, denominator)
        word = next(words)
        if word != digit:
            return word < digit
    return numerator >= denominator


def uniform(n: int, words: Iterator[int]) -> int:
    """0 … n-1, each with chance 1/n: words of the last, incomplete run of n are thrown away."""
    if n == 1:
        return 0
    usable = _WORD - _WORD % n
    while (word := next(words)) >= usable:
        pass
    return word % n


def poisson(mean: Fraction, words: Iterator[int]) -> int:
    """Poisson of a rational mean."""
    units = -(-mean.numerator // mean.denominator)
    points = sum(poisson_of_one(words) for _ in range(units))
    return sum(below(mean.numerator, mean.denominator * units, words) for _ in range(points))


def poisson_of_one(words: Iterator[int]) -> int:
    """Poisson of mean 1."""
    while True:
        k = 0
        while (word := next(words)) == _WORD - 1:
            k += _BITS
        # Ones at the low end of the word: the first zero ends the run.
        k += (word ^ (word + 1)).bit_length() - 1
        if below(1 << k, 2 * factorial(k), words):
            return k


def geometric(p: Fraction, words: Iterator[int]) -> int:
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


_WORD_BITS = 64
#: A run of ones in one word is shorter than this, or the word is handed back.
_RUNS = 64
#: Sizes are looked up as long as p^i is above 2^-4; beyond, a geometric law starts anew.
_TABLE_BITS = 4


@dataclass(frozen=True, slots=True)
class CoverDigits:
    """One law of cover, as first digits. A chance of one takes no word and has no digit."""

    #: Poisson(1) so many times, and each of their points stays with a chance.
    units: int
    stay: int | None
    #: For a proposal of k = 0, 1, …: the chance 2^(k-1) / k! to be accepted.
    accept: tuple[int | None, ...]
    #: p^n … p^1, ascending.
    powers: tuple[int, ...]


def first_digits(*, mean: Fraction, p: Fraction) -> CoverDigits:
    """The digits of so many packages on average, in clusters of geometric sizes."""
    units = -(-mean.numerator // mean.denominator)
    return CoverDigits(
        units=units,
        stay=_digit(mean.numerator, mean.denominator * units),
        accept=tuple(_digit(1 << k, 2 * factorial(k)) for k in range(_RUNS)),
        powers=power_digits(p),
    )


def _digit(numerator: int, denominator: int) -> int | None:
    return None if numerator >= denominator else (numerator << _WORD_BITS) // denominator


@lru_cache(maxsize=16)
def power_digits(p: Fraction) -> tuple[int, ...]:
    """The first base-2^64 digits of p^n … p^1, ascending. Odds within bounds keep them all apart."""
    a, b = p.numerator, p.denominator
    digits: list[int] = []
    # p^i in units of 2^-192, rounded down i times: it may be less than the truth by up to i.
    power = (a << 3 * _WORD_BITS) // b
    while not digits or power >> 3 * _WORD_BITS - _TABLE_BITS:
        i = len(digits) + 1
        digit = power >> 2 * _WORD_BITS
        if (power + i) >> 2 * _WORD_BITS != digit:
            digit = (a**i << _WORD_BITS) // b**i
        digits.append(digit)
        power = power * a // b
    return tuple(digits[::-1])
