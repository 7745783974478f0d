"""Train or test, drawn once per experiment (the paper: train with p = .7)."""

from __future__ import annotations

from fractions import Fraction

from secvm.learning.individual.dice import DRAW_BITS, Dice, Purpose
from secvm.learning.package import Cohort


def draw_cohort(train_share: Fraction, dice: Dice) -> Cohort:
    """Train with probability ``train_share``, to 53 bits."""
    word = dice.words(Purpose.COHORT, 0, 0, 1)[0] >> (64 - DRAW_BITS)
    return Cohort.TRAIN if word * train_share.denominator < train_share.numerator << DRAW_BITS else Cohort.TEST
