"""The sampler of cover, written a second time from docs/protocol.md §29: chances as fractions, digit by digit."""

from collections.abc import Iterator
from fractions import Fraction
from math import ceil, factorial


def below(chance: Fraction, stream: Iterator[int]) -> bool:
    while 0 < chance < 1:
        digit, chance = int(chance * 2**64), chance * 2**64 % 1
        word = next(stream)
        if word != digit:
            return word < digit
    return chance >= 1


def uniform(n: int, stream: Iterator[int]) -> int:
    if n == 1:
        return 0
    while True:
        word = next(stream)
        if word < 2**64 // n * n:
            return word % n


def poisson_of_one(stream: Iterator[int]) -> int:
    while True:
        k = 0
        while True:
            ones = f"{next(stream):064b}"[::-1].find("0")
            k += 64 if ones < 0 else ones
            if ones >= 0:
                break
        if below(Fraction(2**k, 2 * factorial(k)), stream):
            return k


def size_of(p: Fraction, stream: Iterator[int]) -> int:
    """One comparison after the other, all of the same U, as long as p^i is above 2^-4; then anew."""
    table = next(n for n in range(1, 10**6) if p ** (n + 1) < Fraction(1, 16)) if p >= Fraction(1, 4) else 1
    passed = 0
    while True:
        word = next(stream)
        above = sum(int(p**i * 2**64) > word for i in range(1, table + 1))
        undecided = [i for i in range(1, table + 1) if int(p**i * 2**64) == word]
        for i in undecided:
            above += below(p**i * 2**64 % 1, stream)
        if above < table:
            return passed + above + 1
        passed += above


def named_by(stream: Iterator[int], cells: int, shape: Fraction, odds: Fraction) -> list[int]:
    """All cells that a stream of words names, in order."""
    mean = cells * shape * odds
    points = sum(poisson_of_one(stream) for _ in range(ceil(mean)))
    found: list[int] = []
    for _ in range(sum(below(mean / ceil(mean), stream) for _ in range(points))):
        size = size_of(odds / (1 + odds), stream)
        if uniform(size, stream) == 0:
            found += [uniform(cells, stream)] * size
    return found
