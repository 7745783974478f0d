"""Planning by label leakage: the most rounds, the most bins, the fewest people, the thinning that an AUC allows.

Each answer changes one thing and leaves the rest of the game as it is. The AUC grows with rounds, with bins and with
the share of packages that is sent, and falls with people; so each is found by halving. ``None`` says that there is no
such number: nothing up to the limits here is enough, or nothing is too much.

Every answer is about *this* attacker. An AUC of .55 is a plan, no guarantee.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from secvm.errors import BadInputError
from secvm.learning.thinning import Thinning
from secvm.privacy.leakage.label_leakage import WANTED_AUC, d_squared_of
from secvm_lab.privacy.label_leak import LabelGame, Leak, label_leak

#: Nobody plans beyond these.
MOST_ROUNDS = 1_000_000
MOST_BINS = 1_000_000_000
MOST_PEOPLE = 100_000_000_000
#: The least share that is looked for, in steps of itself.
_SHARES = 1_000_000
#: Answers are right to this part of themselves: closer than the law is.
_CLOSE = 1e-3


@dataclass(frozen=True, slots=True)
class LeakPlan:
    """What the game leaks as it is, and what would have to change, one thing at a time."""

    leak: Leak
    wanted_auc: float
    #: 0: not even one.
    most_rounds: int
    #: None: no limit below ``MOST_BINS``. 0: not even with as many bins as a person has features, and one more.
    most_bins: int | None
    #: None: not even with ``MOST_PEOPLE``.
    fewest_participants: int | None
    #: The largest share q of packages that may be sent; None: even a millionth is too much.
    most_q: Fraction | None


def split_by_label(participants: int, share: float) -> tuple[int, int]:
    """So many people of the one label and of the other, when this share has the first."""
    if participants < 2:
        raise BadInputError("two participants are the least that can have two labels")
    if not 0 < share < 1:
        raise BadInputError("the share of one label must lie between 0 and 1")
    positive = min(participants - 1, max(1, round(participants * share)))
    return positive, participants - positive


def plan(game: LabelGame, *, wanted_auc: float = WANTED_AUC) -> LeakPlan:
    """All answers for one game."""
    d_squared_of(wanted_auc)  # refuses what is no AUC
    if game.negative is None:
        raise BadInputError("a plan needs the people of both labels")
    return LeakPlan(
        leak=label_leak(game),
        wanted_auc=wanted_auc,
        most_rounds=most_rounds(game, wanted_auc),
        most_bins=most_bins(game, wanted_auc),
        fewest_participants=fewest_participants(game, wanted_auc),
        most_q=most_q(game, wanted_auc),
    )


def most_rounds(game: LabelGame, wanted_auc: float = WANTED_AUC) -> int:
    """The most rounds, all with independent backgrounds unless the game says otherwise."""
    return _largest(lambda rounds: _leaks_at_most(replace(game, rounds=rounds), wanted_auc), 1, MOST_ROUNDS) or 0


def most_bins(game: LabelGame, wanted_auc: float = WANTED_AUC) -> int | None:
    """The most bins, for people with as many features as before."""
    fits = _largest(lambda bins: _leaks_at_most(replace(game, bins=bins), wanted_auc), game.features + 1, MOST_BINS)
    return None if fits == MOST_BINS else fits or 0


def fewest_participants(game: LabelGame, wanted_auc: float = WANTED_AUC) -> int | None:
    """The fewest people of both labels together, in the same proportion."""
    assert game.negative is not None
    share = game.positive / (game.positive + game.negative)

    def leaks_too_much(participants: int) -> bool:
        positive, negative = split_by_label(participants, share)
        return not _leaks_at_most(replace(game, positive=positive, negative=negative), wanted_auc)

    too_few = _largest(leaks_too_much, 2, MOST_PEOPLE)
    if too_few is None:
        return 2
    return None if too_few == MOST_PEOPLE else too_few + 1


def most_q(game: LabelGame, wanted_auc: float = WANTED_AUC) -> Fraction | None:
    """The largest share q of packages that may be sent."""

    def fits(parts: int) -> bool:
        return _leaks_at_most(replace(game, thinning=Thinning(q=Fraction(parts, _SHARES))), wanted_auc)

    parts = _largest(fits, 1, _SHARES)
    return None if parts is None else Fraction(parts, _SHARES)


def _leaks_at_most(game: LabelGame, auc: float) -> bool:
    return label_leak(game).auc <= auc


def _largest(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    """The largest number from low to high for which it holds, if it does for all below; None: not even for low.

    Large ones are found to a thousandth of themselves, on the side where it holds.
    """
    if not holds(low):
        return None
    step = low
    while low + step < high and holds(low + step):
        low, step = low + step, 2 * step
    above = min(low + step, high)
    if above == high and holds(high):
        return high
    while above - low > max(1.0, _CLOSE * low):
        middle = (low + above) // 2
        low, above = (middle, above) if holds(middle) else (low, middle)
    return low
