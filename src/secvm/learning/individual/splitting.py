"""Update → unit packages: |x| packages of sign y sgn(x), thinned, within the budget, padded to a constant number.

The units of an update are numbered through its bins in ascending order, the bias last; the number is what the dice of
thinning are thrown for.
"""

from __future__ import annotations

from collections.abc import Sequence

from secvm.errors import BadInputError
from secvm.learning.individual.dice import DRAW_BITS, Dice, Purpose
from secvm.learning.individual.update import Update
from secvm.learning.package import NullPackage, Package, TrainPackage


def split(update: Update, model: int) -> list[TrainPackage]:
    """All unit packages of an update, in the order of their numbers."""
    packages: list[TrainPackage] = []
    for bin_index, value in update.values.items():
        package = TrainPackage(model=model, bin_index=bin_index, sign=1 if value > 0 else -1)
        packages.extend([package] * abs(value))
    return packages


def thin(
    packages: Sequence[TrainPackage], *, keep53: int, dice: Dice, round_number: int, model: int
) -> list[TrainPackage]:
    """Each package stays with probability keep53 / 2^53."""
    if keep53 == 1 << DRAW_BITS:
        return list(packages)
    words = dice.words(Purpose.THINNING, round_number, model, len(packages))
    return [p for p, word in zip(packages, words, strict=True) if word >> (64 - DRAW_BITS) < keep53]


def fit_budget(
    packages: Sequence[TrainPackage], *, budget: int | None, dice: Dice, round_number: int
) -> list[TrainPackage]:
    """At most ``budget`` packages: those with the smallest dice words stay, in their order.

    A person above the budget contributes less than its update: a bias of the model, and the reason to choose the
    features per person so that it does not happen.
    """
    if budget is None or len(packages) <= budget:
        return list(packages)
    words = dice.words(Purpose.BUDGET, round_number, 0, len(packages))
    chosen = sorted(range(len(packages)), key=lambda i: (words[i], i))[:budget]
    return [packages[i] for i in sorted(chosen)]


def pad(packages: Sequence[Package], budget: int) -> list[Package]:
    """Exactly ``budget`` packages, filled up with nulls."""
    if len(packages) > budget:
        raise BadInputError("there are more packages than the budget allows")
    return [*packages, *[NullPackage()] * (budget - len(packages))]
