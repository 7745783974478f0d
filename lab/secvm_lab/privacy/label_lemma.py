"""Lemma 3 of the paper, three times: as printed, without its floor, and with the largest probability there is.

Two worlds: in one all M participants of a sign send F packages each into random bins out of d; in the other one of them
is known. Whatever tally the server sees, its probabilities in the two worlds differ by at most the larger of the
largest point masses of two multinomials, of M·F and of (M-1)·F packages, to the power of the number of rounds.

That is tiny because every single tally is unlikely, **not** because the worlds are hard to tell apart: the label may be
plain to see all the same (docs/privacy.md). So it is computed here, and used nowhere as a claim.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from secvm.errors import BadInputError
from secvm.privacy.leakage import auc_of
from secvm_lab.privacy.label_leak import LabelGame, Leak, label_leak, total_variation_of
from secvm_lab.privacy.logarithms import MAX_SIZE, check_size, ln_factorial, many_digits
from secvm_lab.privacy.probability import ProbabilityBound


def lemma3_printed(participants: int, features: int, bins: int, rounds: int = 1) -> ProbabilityBound:
    """As printed, with ⌊MF/d⌋! to the power of d. The floor makes it jump, and it may be above one."""
    return _larger_world(lambda total: with_floor(total, bins), participants, features, bins, rounds)


def lemma3_without_floor(participants: int, features: int, bins: int, rounds: int = 1) -> ProbabilityBound:
    """With Γ(MF/d + 1) to the power of d: smooth, and true because ln Γ is convex.

    With less than one package a bin the printed form is the tighter one: there it is the mode itself.
    """
    return _larger_world(lambda total: without_floor(total, bins), participants, features, bins, rounds)


def lemma3_exact(participants: int, features: int, bins: int, rounds: int = 1) -> ProbabilityBound:
    """With the largest probability that a tally can have."""
    return _larger_world(lambda total: mode(total, bins), participants, features, bins, rounds)


def paper_leak(*, participants: int, features: int, bins: int, rounds: int = 1) -> Leak:
    """The paper's two worlds: M people of one sign, all random, or one of them the known vector; no other counts.

    In Lemma 3 vectors are F draws *with* putting back, also more of them than bins. Then Σ_j (x_j - F/d)² has the mean
    F (1 - 1/d) against M F / d (1 - 1/d), so d'² = (d - 1) / (M - M/d) = d / M again, and each round adds as much.
    """
    if participants < 1 or features < 1 or bins < 2 or rounds < 1:
        raise BadInputError("the two worlds need a participant, a feature, two bins and a round at least")
    if features <= bins // 2:
        return label_leak(LabelGame(positive=participants, negative=None, bins=bins, features=features, rounds=rounds))
    squared = rounds * bins / participants
    return Leak(auc_of(squared), total_variation_of(squared), squared, squared)


def with_floor(total: int, bins: int) -> ProbabilityBound:
    """The printed p for so many packages: N! / (⌊N/d⌋!)^d / d^N."""
    return _over(total, bins, lambda: bins * ln_factorial(total // bins))


def without_floor(total: int, bins: int) -> ProbabilityBound:
    """N! / Γ(N/d + 1)^d / d^N."""
    return _over(total, bins, lambda: bins * ln_factorial(Fraction(total, bins)))


def mode(total: int, bins: int) -> ProbabilityBound:
    """The largest probability of a uniform multinomial: N packages spread as evenly as they can be.

    With N = q d + r it is N! / ((q!)^(d-r) ((q+1)!)^r d^N): moving a package from a fuller bin to an emptier one by at
    least two makes the denominator smaller.
    """

    def denominator() -> Decimal:
        each, more = divmod(total, bins)
        return (bins - more) * ln_factorial(each) + more * ln_factorial(each + 1)

    return _over(total, bins, denominator).capped()


def _over(total: int, bins: int, denominator: Callable[[], Decimal]) -> ProbabilityBound:
    check_size(total, "the number of packages")
    check_size(bins, "the number of bins")
    with many_digits():
        return ProbabilityBound.of_ln(ln_factorial(total) - denominator() - total * Decimal(bins).ln())


def _larger_world(
    mass: Callable[[int], ProbabilityBound], participants: int, features: int, bins: int, rounds: int
) -> ProbabilityBound:
    check_size(participants, "the number of participants of that sign", at_least=2)
    check_size(features, "the number of features of a person")
    check_size(bins, "the number of bins")
    check_size(rounds, "the number of rounds")
    if participants * features > MAX_SIZE:
        raise BadInputError("participants times features must not be above 10^18")
    return max(mass(participants * features), mass((participants - 1) * features)) ** rounds
