"""The smallest odds of a cover's negative binomial that keep (ε, δ): the accountant, turned round."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

from secvm.errors import BadExperimentError
from secvm.learning.cover_law import MAX_ODDS
from secvm.privacy.accounting.accountant import Adjacency, Sight, delta_of

#: Odds are planned in these parts of one: of train cells, and of the others, whose odds may be small.
STEPS, FINE_STEPS = 64, 4096


def smallest_odds(
    everybody: Iterable[Callable[[float], tuple[Sight, ...]]], epsilon: float, delta: float, *, steps: int = STEPS
) -> Fraction:
    """The smallest odds, in so many parts of one, whose noise keeps (ε, δ) under zero-out, as far as halving finds it.

    Each person says what it shows, given p.
    """

    def keeps(odds: int, cases: list[Callable[[float], tuple[Sight, ...]]]) -> bool:
        p = odds / (odds + steps)
        return all(delta_of(case(p), epsilon, Adjacency.ZERO_OUT) <= delta for case in cases)

    everyone = list(everybody)
    # Halving looks at both ends; then everybody is looked at, and who is not kept joins.
    cases = [everyone[0], everyone[-1]]
    low, high = 0, 1
    while True:
        while not keeps(high, cases):
            low, high = high, 2 * high
            if high > MAX_ODDS * steps:
                raise BadExperimentError("no cover that anybody could send keeps this ε and δ")
        while high - low > max(1, high // 512):
            middle = (low + high) // 2
            low, high = (low, middle) if keeps(middle, cases) else (middle, high)
        missed = [case for case in everyone if not keeps(high, [case])]
        if not missed:
            return Fraction(high, steps)
        cases += missed
        low, high = high, high + 1
