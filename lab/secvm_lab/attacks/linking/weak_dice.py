"""A1: package numbers and delays from a generator that can be undone.

The client of 2018 drew a package's number and its delay from ``Math.random()``, one after the other. Browsers of that
time made it with xorshift128+, of which one half of the state is shown, and every bit of that is a sum (modulo 2) of
128 unknown bits. So:

 1. of a package's number and its delay the upper bits of the device's *next* number follow;
 2. three numbers in a row are 156 sums of 116 bits: 40 sums of them are always zero. Strangers pass that once in 2^40.

(V8 hands its numbers out in blocks of 64, the last first: that changes which of two neighbours is the first, and not
that they are linked. It is left out here.)

With the defence numbers and delays are the operating system's. (Packages of ours have no numbers at all; here they
keep them, so that the dice alone are compared.)
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from secvm.participant.dice import system_words
from secvm.protocol.schedule import Window, spread
from secvm_lab.attacks.attack import Advance, Attack, Measurement, goal
from secvm_lab.attacks.drawing import generator, mixed_round, words
from secvm_lab.attacks.statistics import wilson
from secvm_lab.attacks.views import CoordinatorView, KnownWindow, Opened

DEVICES, PACKAGES = 40, 28
WINDOW = Window(opens_at=0, closes_at=600_000)
#: What network and devices add to a delay at most, in milliseconds.
LATE = 30
#: ``Math.random()`` shows so many bits of the state's first half.
SHOWN = 52
_MASK = 2**64 - 1
#: Of a delay, which comes late, so many upper bits are taken.
_COARSE = 12

Number = int
Link = tuple[int, int]


def guess(view: CoordinatorView, knowing: KnownWindow) -> frozenset[Link]:
    """Pairs of packages, by their places in the first round, of which the second is the first one's next."""
    packages = view.rounds[0].packages
    by_top: defaultdict[int, list[int]] = defaultdict(list)
    for place, package in enumerate(packages):
        by_top[(package.serial or 0) >> (SHOWN - _COARSE)].append(place)
    following = [
        [other for top in next_tops(package, knowing) for other in by_top[top] if other != place]
        for place, package in enumerate(packages)
    ]
    links: set[Link] = set()
    for first, seconds in enumerate(following):
        for second in seconds:
            for third in following[second]:
                if in_a_row([packages[i].serial or 0 for i in (first, second, third)]):
                    links |= {(first, second), (second, third)}
    return frozenset(links)


def next_tops(package: Opened, knowing: KnownWindow) -> set[int]:
    """The upper bits that the device's next number can have, by the upper bits of this one's delay."""
    shown = (package.serial or 0) << (64 - SHOWN)
    mixed = shown ^ (shown << 23) & _MASK
    mixed ^= mixed >> 17
    delay = (package.arrived_at or 0) - knowing.opens_at
    length = knowing.closes_at - knowing.opens_at
    scale = 2**_COARSE
    first, last = max(0, delay - knowing.late) * scale // length, min(length - 1, delay + 1) * scale // length
    return {(mixed >> (64 - _COARSE)) ^ top for top in range(first, last + 1)}


def in_a_row(numbers: list[Number]) -> bool:
    """Whether a generator can have given these three, with one draw between two of them."""
    joined = numbers[0] | numbers[1] << SHOWN | numbers[2] << 2 * SHOWN
    return all((joined & check).bit_count() % 2 == 0 for check in zero_sums())


@cache
def zero_sums() -> tuple[int, ...]:
    """Masks over three numbers, side by side: of every stream an even number of the bits under each is set."""
    state = _Bits.start()
    rows: list[int] = []
    for draw in range(5):
        state = state.following()
        if draw % 2 == 0:
            rows += state.first[64 - SHOWN :]
    pivots: dict[int, tuple[int, int]] = {}
    found = []
    for place, start in enumerate(rows):
        row, mask = start, 1 << place
        while row and (pivot := row.bit_length()) in pivots:
            row, mask = row ^ pivots[pivot][0], mask ^ pivots[pivot][1]
        if row:
            pivots[row.bit_length()] = (row, mask)
        else:
            found.append(mask)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Bits:
    """The state as sums of its 128 first bits: of each bit, lowest first, a mask of those that are added."""

    first: list[int]
    second: list[int]

    @classmethod
    def start(cls) -> _Bits:
        return cls([1 << i for i in range(64)], [1 << (64 + i) for i in range(64)])

    def following(self) -> _Bits:
        old, new = self.first, self.second
        old = [a ^ b for a, b in zip(old, [0] * 23 + old[:-23], strict=True)]
        old = [a ^ b for a, b in zip(old, old[17:] + [0] * 17, strict=True)]
        turned = [a ^ b for a, b in zip(new, new[26:] + [0] * 26, strict=True)]
        return _Bits(new, [a ^ b for a, b in zip(old, turned, strict=True)])


# ── the world ────────────────────────────────────────────────────────────────────────────────────────────────────────


def math_random(first: int, second: int) -> Iterator[Number]:
    """What a browser of 2018 gives, as integers of 52 bits."""
    while True:
        old, new = first, second
        old ^= old << 23 & _MASK
        old ^= old >> 17
        first, second = new, old ^ new ^ new >> 26
        yield first >> (64 - SHOWN)


def stream(dice: np.random.Generator, *, defended: bool) -> list[tuple[Number, int]]:
    """Numbers and delays of one device's packages, in the order in which they were drawn."""
    if defended:
        system = system_words(os.urandom)
        return [(next(system) >> (64 - SHOWN), spread(1, WINDOW, system)[0]) for _ in range(PACKAGES)]
    drawn = math_random(*(int(word) | 1 for word in dice.integers(2**64, size=2, dtype=np.uint64)))
    length = WINDOW.closes_at - WINDOW.opens_at
    return [(next(drawn), next(drawn) * length >> SHOWN) for _ in range(PACKAGES)]


def play(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """A crowd in each trial; linked are pairs of packages that one device drew one after the other."""
    dice = generator(seed, 1, defended=defended)
    knowing = KnownWindow(WINDOW.opens_at, WINDOW.closes_at, LATE)
    linked = wrong = pairs = 0
    for _ in range(trials):
        sent = [
            (Opened("train", 0, 1.0, arrived_at=delay + int(dice.integers(LATE + 1)), serial=number), (who, place))
            for who in range(DEVICES)
            for place, (number, delay) in enumerate(stream(dice, defended=defended))
        ]
        view, places = mixed_round(sent, words(dice))
        links = guess(view, knowing)
        right = sum((places[a][0], places[a][1] + 1) == places[b] for a, b in links)
        linked, wrong, pairs = linked + right, wrong + len(links) - right, pairs + DEVICES * (PACKAGES - 1)
        advance(1)
    detail = {"pairs": pairs, "linked": linked, "wrongly_linked": wrong, "packages_of_a_device": PACKAGES}
    return Measurement(linked / pairs, wilson(linked, pairs), trials, detail)


ATTACK = Attack(
    number=1,
    title="weak dice",
    slug="weak-dice",
    needs="The coordinator, behind a relay that hands on each capsule when it comes (none of ours does: the lab stands"
    " in for one), and devices that draw with a browser's generator of 2018.",
    steps=(
        "From a package's number and delay compute the upper bits of the next number of the same device.",
        "Take those that fit, and keep rows of three that satisfy all 40 sums of the generator.",
    ),
    metric="share of pairs linked",
    chance=0.0,
    defence="The operating system's randomness for everything that could tell devices apart; and no numbers on"
    " packages.",
    remains="A device whose system has bad randomness.",
    goal=goal(undefended_at_least=0.99, defended_at_most=0.01),
    trials=10,
    quick_trials=2,
    guess=guess,
    play=play,
)
