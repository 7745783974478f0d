"""When each package is sent (docs/protocol.md §14).

 1. Every package of every kind draws its own time, uniform over the whole window, [opens_at, closes_at), in whole
    milliseconds. What the package says takes no part in it: with the same dice the times are the same.
 2. Packages are shuffled first, so that neither their numbers nor the order among equal times tells anything.
 3. Who is late (asleep, restarted) draws the overdue ones again, uniform over what is left. Sending them at once would
    be a burst that belongs to one person.

Dice are an iterator of uniform 64-bit words. A number below n is a word modulo n, where words from the last, incomplete
run of n are thrown away: exactly uniform, not nearly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from secvm.errors import LocalProtocolError

T = TypeVar("T")
WORD = 2**64


@dataclass(frozen=True, slots=True)
class Window:
    """The time in which a round's packages are sent, in milliseconds."""

    opens_at: int
    #: The first millisecond in which nothing may be sent any more.
    closes_at: int

    def __post_init__(self) -> None:
        if not 0 <= self.opens_at < self.closes_at:
            raise LocalProtocolError("a window opens before it closes")


def below(n: int, words: Iterator[int]) -> int:
    """A number from 0 to n - 1, each equally likely."""
    if not 1 <= n <= WORD:
        raise LocalProtocolError("dice draw from 1 to 2^64 numbers")
    whole_runs = WORD - WORD % n
    for word in words:
        if not 0 <= word < WORD:
            raise LocalProtocolError("a word of dice has 64 bits")
        if word < whole_runs:
            return word % n
    raise LocalProtocolError("the dice have run out")


def shuffle(items: Sequence[T], words: Iterator[int]) -> list[T]:
    """The same items in random order, every order equally likely (Fisher and Yates, from the last to the second)."""
    mixed = list(items)
    for last in range(len(mixed) - 1, 0, -1):
        chosen = below(last + 1, words)
        mixed[last], mixed[chosen] = mixed[chosen], mixed[last]
    return mixed


def spread(count: int, window: Window, words: Iterator[int]) -> list[int]:
    """So many times in the window, independent of each other and uniform."""
    length = window.closes_at - window.opens_at
    return [window.opens_at + below(length, words) for _ in range(count)]


def redraw(times: Sequence[int], window: Window, words: Iterator[int], *, now: int, grace: int = 0) -> list[int]:
    """The times, those overdue by more than ``grace`` milliseconds drawn anew over what is left of the window."""
    if now >= window.closes_at:
        raise LocalProtocolError("nothing is left of the window")
    left = Window(opens_at=max(now, window.opens_at), closes_at=window.closes_at)
    return [at if at + grace >= now else spread(1, left, words)[0] for at in times]
