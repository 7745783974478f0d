"""Who shares a bin in the dictionary: Lemmas 1 and 2 of the paper, as printed and tight.

m features are hashed into n bins, each feature independently and uniformly. Three events:

 - p₁: some feature is alone in its bin;
 - p₂: one of k given (sensitive) features is alone in its bin;
 - 1 - p₃: some feature shares its bin with fewer than k - 1 others.

The tight forms (docs/privacy.md derives them):

 - p₁, p₂: inclusion and exclusion over the features that are alone, which stops where the next term no longer counts.
 - p₃: loads of bins are binomial and negatively associated, so that with q = P(load < k)
   1 - (1 - q)^n ≤ P(some load < k) ≤ n q. Empty bins harm no feature: they are taken out.

These say how many words of a dictionary share a bin. How well a word hides in traffic is another question
(``bin_posterior``).
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from secvm.errors import BadInputError
from secvm_lab.privacy.logarithms import (
    Side,
    check_size,
    ln_binomial,
    ln_falling,
    ln_load_range,
    ln_ratio_power,
    many_digits,
)
from secvm_lab.privacy.probability import Bracket, ProbabilityBound

#: Up to so many features every placement is counted.
COUNT_UP_TO = 64
#: Inclusion and exclusion is summed while as many features as this are expected to be alone: its terms grow to e^that,
#: and cancel. Beyond, some feature is alone with a probability that differs from one by less than 1e-20 or so.
_SUM_UP_TO = 50
_MAX_TERMS = 2_000
_NEGLIGIBLE = Decimal("1e-60")
#: Relative error of a term: its logarithm is below 1e22 and has seventy digits.
_LOST = Decimal("1e-46")
#: Differences below this have lost too many digits to take their logarithm.
_TOO_SMALL = Decimal("1e-10")


# ── as printed ───────────────────────────────────────────────────────────────────────────────────────────────────────


def printed_p1(m: int, n: int) -> ProbabilityBound:
    """Lemma 1 (a): m ((n-1)/n)^(m-1). May be above one."""
    return printed_p2(m, n, m)


def printed_p2(m: int, n: int, k: int) -> ProbabilityBound:
    """Lemma 1 (b): k ((n-1)/n)^(m-1). May be above one."""
    _check(m, n)
    _check_sensitive(m, k)
    with many_digits():
        alone = ln_ratio_power(n - 1, n, m - 1)
        return ProbabilityBound.of_ln(None if alone is None or k == 0 else alone + Decimal(k).ln())


def printed_one_minus_p3(m: int, n: int, k: int) -> ProbabilityBound:
    """Lemma 2: C(m, k-1) (n-1)^(m-k+1) / n^(m-1) · (m-k+2)/(m-nk+n+1) for k ≤ m/n. May be above one.

    Beyond, the paper says p₃ = 0. That is false (m = 4, n = 2, k = 3: all in one bin, p₃ = 1/8); what follows from it,
    1 - p₃ ≤ 1, is true.
    """
    _check(m, n)
    check_size(k, "the smallest load")
    if k * n > m:
        return ProbabilityBound(0.0)
    with many_digits():
        stay = ln_ratio_power(n - 1, 1, m - k + 1)
        if stay is None:
            return ProbabilityBound(-math.inf)
        series = Decimal(m - k + 2).ln() - Decimal(m - n * k + n + 1).ln()
        return ProbabilityBound.of_ln(ln_binomial(m, k - 1) + stay - (m - 1) * Decimal(n).ln() + series)


# ── tight ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def p1(m: int, n: int) -> Bracket:
    """Some feature is alone in its bin."""
    return p2(m, n, m)


def p2(m: int, n: int, k: int) -> Bracket:
    """One of k given features is alone in its bin."""
    _check(m, n)
    _check_sensitive(m, k)
    if k == 0 or (n == 1 and m > 1):
        return Bracket.exactly(0)
    with many_digits():
        first = _expected(m, n, k, 1)
        assert first is not None
        # B₁² / (B₁ + 2 B₂) ≤ P ≤ B₁, the first by Cauchy and Schwarz on the number of features that are alone.
        second = _expected(m, n, k, 2)
        pairs = Decimal(0) if second is None else 2 * (second - first).exp()
        low = ProbabilityBound.of_ln(min(first - (1 + pairs).ln(), Decimal(0)), Side.LOWER)
        high = ProbabilityBound.of_ln(first).capped()
        if first.exp() <= _SUM_UP_TO:
            summed_low, summed_high = _inclusion_exclusion(m, n, k, first)
            low, high = max(low, summed_low), min(high, summed_high)
    return Bracket(low, high)


def one_minus_p3(m: int, n: int, k: int) -> Bracket:
    """Some feature shares its bin with fewer than k - 1 others."""
    _check(m, n)
    check_size(k, "the smallest load")
    if k == 1:
        return Bracket.exactly(0)
    if k > m:
        return Bracket.exactly(1)
    if k == 2:
        return p1(m, n)
    if m <= COUNT_UP_TO:
        return Bracket.exactly(1 - count_p3(m, n, k))
    with many_digits():
        some = ln_load_range(m, n, 1, k - 1)
        if some is None:
            return Bracket.exactly(0)
        high = ProbabilityBound.of_ln(some[1] + Decimal(n).ln()).capped()
        few = ln_load_range(m, n, 0, k - 1)
        assert few is not None
        return Bracket(max(_low_by_pairs(n, some[0], few[1]), _low_by_association(m, n, few[0])), high)


def count_p3(m: int, n: int, k: int) -> Fraction:
    """p₃ exactly, for few features: placements without a load of 1 to k - 1, over all placements.

    Placements are the coefficients of (1 + Σ_{l ≥ k} x^l/l!)^n, times m!; the power is taken by squaring, in integers.
    """
    _check(m, n)
    if m > COUNT_UP_TO:
        raise BadInputError(f"placements are counted for at most {COUNT_UP_TO} features")
    base = [int(load == 0 or load >= k) for load in range(m + 1)]
    result = [1] + [0] * m
    power = n
    while power:
        if power & 1:
            result = _convolve(result, base)
        power >>= 1
        if power:
            base = _convolve(base, base)
    return Fraction(result[m], n**m)


# ── inside ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _convolve(one: list[int], other: list[int]) -> list[int]:
    """Ways to place 0, 1, 2, … features into two groups of bins, from the ways of each group."""
    return [sum(math.comb(m, i) * one[i] * other[m - i] for i in range(m + 1)) for m in range(len(one))]


def _expected(m: int, n: int, k: int, j: int) -> Decimal | None:
    """Logarithm of B_j: how many sets of j of the k features are expected to be alone, each feature in its bin."""
    if j > min(k, n):
        return None
    others = ln_ratio_power(n - j, n, m - j)
    return None if others is None else ln_binomial(k, j) + ln_falling(n, j) - j * Decimal(n).ln() + others


def _inclusion_exclusion(m: int, n: int, k: int, first: Decimal) -> tuple[ProbabilityBound, ProbabilityBound]:
    """B₁ - B₂ + B₃ …: each partial sum is a bound, in turn from above and from below (Bonferroni)."""
    total = high = largest = Decimal(1)  # in units of B₁
    low = Decimal(0)
    for j in range(2, _MAX_TERMS):
        ln_term = _expected(m, n, k, j)
        if ln_term is None:  # nothing follows: the sum is the probability
            low = high = total
            break
        term = (ln_term - first).exp()
        largest = max(largest, term)
        if j % 2:
            total += term
            high = min(high, total)
        else:
            total -= term
            low = max(low, total)
        if term < _NEGLIGIBLE and j > 2:
            break
    # The largest term too is only as right as its digits, and the others cancel it.
    lost = largest * _LOST * _MAX_TERMS
    below = ProbabilityBound.of_ln(min(first + (low - lost).ln(), Decimal(0)) if low > lost else None, Side.LOWER)
    return below, ProbabilityBound.of_ln(min(first + (high + lost).ln(), Decimal(0)))


def _low_by_pairs(n: int, some: Decimal, few: Decimal) -> ProbabilityBound:
    """Bonferroni's n q' - C(n, 2) q²: two loads are below k together at most as often as if they were independent."""
    pairs = (Decimal(n - 1) / 2).ln() + 2 * few - some if n > 1 else None
    rest = 1 - (pairs.exp() if pairs is not None else Decimal(0))
    found = min(some + Decimal(n).ln() + rest.ln(), Decimal(0)) if rest > _TOO_SMALL else None
    return ProbabilityBound.of_ln(found, Side.LOWER)


def _low_by_association(m: int, n: int, few: Decimal) -> ProbabilityBound:
    """1 - (1 - q)^n, less the probability that a bin is empty."""
    all_many = (1 - min(few.exp(), Decimal(1))) ** n
    empty = ln_ratio_power(n - 1, n, m)
    found = 1 - all_many - (Decimal(0) if empty is None else n * empty.exp())
    return ProbabilityBound.of_ln(found.ln() if found > _TOO_SMALL else None, Side.LOWER)


def _check(m: int, n: int) -> None:
    check_size(m, "the number of features")
    check_size(n, "the number of bins")


def _check_sensitive(m: int, k: int) -> None:
    check_size(k, "the number of sensitive features", at_least=0)
    if k > m:
        raise BadInputError("there cannot be more sensitive features than features")
