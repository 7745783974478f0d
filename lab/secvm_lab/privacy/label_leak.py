"""What public tallies give away of a label: the law d'² = q · bins · (1/V₊ + 1/V₋), and where it must be corrected.

The game. Somebody knows a person's binned vector x and asks for the label. A tally shows N⁺ and N⁻ of every bin. In the
one world the person is among the V₊ people who send +, in the other among the V₋ who send -; elsewhere somebody else
stands in its place. Everybody has F of the bins, bin j with probability p_j, and sends each unit with probability q.

The law. In the sign where the person is, bin j has q (x_j - p_j) packages more than expected, against a variance of
V q p_j (1 - q p_j). The best statistic weighs bins by shift over variance; then the squares add:

    d'² = Σ_j q² (x_j - p_j)² / (V q p_j (1 - q p_j)),      one such sum for + and one for -.

The mean of (x_j - p_j)² over people is p_j (1 - p_j): **every bin adds about q / V, popular or not**, whatever F is.
So d'² = q · bins · (1/V₊ + 1/V₋) on average over people, and the rank of somebody of one label above somebody of the
other is right with probability AUC = Φ(d'/√2); total variation, the most that any test of the two worlds can gain, is
2 Φ(d'/2) - 1.

The corrections, all in ``label_leak``:

 1. Skewed features: people differ. Who holds rare bins is found sooner; the mean of Φ is below the Φ of the mean.
 2. Small V q p_j: the normal law promises more than certainty. The exact binomial worlds are taken
    (``label_leakage.cell_information``), and what is plain outright (a bin of the person that nobody sent, where
    everything is sent) is kept apart from the rest.
 3. F not small against bins: x_j = 0 tells something too, and the variance is that of a binomial.
 4. Rounds: with independent backgrounds d'² adds up. With the *same people sending every round* the background does not
    average out, only thinning's dice do: q T becomes T q / (1 + (T - 1) q) for rare bins, never more than one round of
    everything. Senders change from round to round, so the truth lies between; who plans counts the rounds in full.
 5. Cover adds its variance to every cell. For what cover guarantees ask the accountant, not this law.

What it does not know: a coordinator that chooses weights, or knows the other people, does better than this attacker.

Planning by label leakage: the most rounds, the most bins, the fewest people, the thinning that an AUC allows.

Each answer changes one thing and leaves the rest of the game as it is. The AUC grows with rounds, with bins and with
the share of packages that is sent, and falls with people; so each is found by halving. ``None`` says that there is no
such number: nothing up to the limits here is enough, or nothing is too much.

Every answer is about *this* attacker. An AUC of .55 is a plan, no guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning.thinning import ALWAYS, Thinning
from secvm.privacy.leakage import (
    WANTED_AUC,
    auc_of,
    cell_information,
    d_squared_of,
    law,
    silence,
    variance_of_ratio,
)
from secvm_lab.privacy.popularity import PerBin, mean_over_people, popularity

#: Exact cells are computed for so many popularities; between them their logarithm is a straight enough line.
_EXACT_AT = 64
_EVERYTHING = Thinning()


def total_variation_of(d_squared: float) -> float:
    """The most by which a test of two normal worlds d' apart is right oftener in the one than wrong in the other."""
    return math.erf(math.sqrt(max(0.0, d_squared) / 8.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelGame:
    """What decides how well a label hides in a tally."""

    #: People who send with sign +, the person among them if it is one of them.
    positive: int
    #: People who send with sign -. None: the paper's two worlds, where only one sign is looked at.
    negative: int | None
    bins: int
    #: Different bins of a person, the bias not counted.
    features: int
    rounds: int
    thinning: Thinning = _EVERYTHING
    #: Exponent of the bins' popularity; 0: all alike.
    zipf: float = 0.0
    #: Variance that cover packages add to each (bin, sign) cell in each round.
    cover_variance: float = 0.0
    #: Whether the very same people send in every round. False: backgrounds are independent.
    same_people: bool = False

    def __post_init__(self) -> None:
        if self.positive < 1 or (self.negative is not None and self.negative < 1):
            raise BadInputError("each label needs at least one person who sends")
        if self.rounds < 1:
            raise BadInputError("the rounds must be at least one")
        if not 1 <= self.features <= self.bins:
            raise BadInputError("a person has at least one bin, and no more than there are")
        if not 0 <= self.cover_variance < math.inf:
            raise BadInputError("the variance of cover must be a number, not below 0")

    @property
    def q(self) -> float:
        """The probability with which a person sends a unit: the norm of F ones and the bias is √(F + 1)."""
        return int(self.thinning.keep53([self.features + 1])[0]) / ALWAYS

    @property
    def sides(self) -> tuple[int, ...]:
        """Senders of each sign that is looked at."""
        return (self.positive,) if self.negative is None else (self.positive, self.negative)


@dataclass(frozen=True, slots=True)
class Leak:
    """What an attacker of the label game gains, as a mean over people."""

    auc: float
    total_variation: float
    #: E d'² over people, with the corrections.
    d_squared: float
    #: What the law alone says, without them.
    law_d_squared: float

    @property
    def d_prime(self) -> float:
        return math.sqrt(self.d_squared)

    @property
    def law_auc(self) -> float:
        return auc_of(self.law_d_squared)


def label_leak(game: LabelGame) -> Leak:
    """AUC, total variation and d' of the label game, with all corrections of this module's docstring."""
    bins = popularity(bins=game.bins, features=game.features, exponent=game.zipf)
    told, silent = _summed(_information, game, bins.shares), _summed(_silence, game, bins.shares)
    # Being plain outright is a share 4 S of the information -8 ln E √r; the rest is nearly normal.
    without, having = told.without - 4 * silent.without, told.having - 4 * silent.having
    rest = PerBin(np.maximum(0.0, without), np.maximum(0.0, having))
    half = PerBin(silent.without / 2, silent.having / 2)
    return Leak(
        auc=mean_over_people(bins, rest, 1 / 2, silent),
        # With unequal labels the two worlds are not silent equally often; their geometric mean stands for both.
        total_variation=max(0.0, 2 * mean_over_people(bins, rest, 1 / 4, half) - 1),
        d_squared=told.mean(bins),
        law_d_squared=game.rounds * law(q=game.q, bins=game.bins, senders=game.sides),
    )


def _summed(of: Callable[..., NDArray[np.float64]], game: LabelGame, shares: NDArray[np.float64]) -> PerBin:
    """Over the signs that are looked at."""
    total = PerBin(np.zeros_like(shares), np.zeros_like(shares))
    for side in game.sides:
        total.without[:] += of(game, shares, side, has_it=False)
        total.having[:] += of(game, shares, side, has_it=True)
    return total


def _silence(game: LabelGame, shares: NDArray[np.float64], senders: int, *, has_it: bool) -> NDArray[np.float64]:
    """``silence`` over all rounds. Cover ends what is plain outright."""
    if game.cover_variance:
        return np.zeros_like(shares)
    return (1 if game.same_people else game.rounds) * silence(shares, senders, game.q, has_it=has_it)


def _information(game: LabelGame, shares: NDArray[np.float64], senders: int, *, has_it: bool) -> NDArray[np.float64]:
    """Of one bin of each group and one sign, over all rounds.

    1 / information is a variance in units of the shift. What cover, or the same people again, add to the variance adds
    here as well: exact where they add nothing, and the normal law where they are all there is.
    """
    exact = game.rounds * _exact(shares, senders, game.q, has_it=has_it)
    if not game.cover_variance and not game.same_people:
        return exact
    shift = (game.q * (has_it - shares)) ** 2
    below = shift + exact * _added_variance(game, shares, senders)
    return np.divide(exact * shift, below, out=np.zeros_like(exact), where=below > 0)


def _added_variance(game: LabelGame, shares: NDArray[np.float64], senders: int) -> NDArray[np.float64]:
    """Of the mean count over the rounds, beyond what it is without cover and with new people in every round."""
    added = np.full_like(shares, game.cover_variance / game.rounds)
    if game.same_people:
        added += senders * game.q**2 * shares * (1 - shares) * (1 - 1 / game.rounds)
    return added


def _exact(shares: NDArray[np.float64], senders: int, q: float, *, has_it: bool) -> NDArray[np.float64]:
    def at(share: float) -> float:
        return cell_information(senders=senders, theta=q * share, q=q, has_it=has_it)

    if len(shares) <= _EXACT_AT:
        return np.array([at(float(share)) for share in shares])
    logs = np.log(shares)
    grid = np.linspace(logs.min(), logs.max(), _EXACT_AT)
    # Relative to the normal law, which carries the whole range of sizes, the rest is a smooth factor.
    rough = np.array([_rough(math.exp(one), senders, q, has_it=has_it) for one in grid])
    found = np.array([at(math.exp(one)) for one in grid])
    factor = np.divide(found, rough, out=np.ones_like(found), where=rough > 0)
    result: NDArray[np.float64] = np.interp(logs, grid, factor) * np.array(
        [_rough(float(share), senders, q, has_it=has_it) for share in shares]
    )
    return result


def _rough(share: float, senders: int, q: float, *, has_it: bool) -> float:
    return variance_of_ratio(senders=senders, theta=q * share, q=q, has_it=has_it)


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
