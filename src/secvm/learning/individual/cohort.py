"""Train or test, drawn once per experiment (the paper: train with p = .7)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning._kernels import vectorised
from secvm.learning.individual.dice import DRAW_BITS, Dice, Purpose, dice_keys
from secvm.learning.package import Cohort


def draw_cohort(train_share: Fraction, dice: Dice) -> Cohort:
    """Train with probability ``train_share``, to 53 bits."""
    word = dice.words(Purpose.COHORT, 0, 0, 1)[0] >> (64 - DRAW_BITS)
    return Cohort.TRAIN if word * train_share.denominator < train_share.numerator << DRAW_BITS else Cohort.TEST


def draw_cohorts(train_share: Fraction, seed: bytes, participants: NDArray[np.int64]) -> NDArray[np.bool_]:
    """True for those who train: ``draw_cohort`` of many participants' seeded dice, side by side."""
    words = vectorised.dice_words(dice_keys(seed, participants, Purpose.COHORT), 0, 0, 0) >> np.uint64(64 - DRAW_BITS)
    # word · denominator < numerator · 2^53, for a whole word, is word < ceil(numerator · 2^53 / denominator).
    edge = -(-(train_share.numerator << DRAW_BITS) // train_share.denominator)
    return np.asarray(words < np.uint64(edge), dtype=np.bool_)


def hold_out(n: int, test_share: Fraction, seed: bytes, *, name: str = "the share held out") -> NDArray[np.bool_]:
    """True for train, offline: exactly the share of people, those whose seeded dice throw the smallest words, test.

    ``name`` is what the person who asked calls the share.
    """
    if not 0 < test_share < 1:
        raise BadInputError(f"{name} must lie between 0 and 1")
    n_test = round(test_share * n)
    if not 0 < n_test < n:
        raise BadInputError(f"{name} leaves nobody to train or nobody to test")
    keys = dice_keys(seed, np.arange(n, dtype=np.int64), Purpose.COHORT)
    order = np.argsort(vectorised.dice_words(keys, 0, 0, 0), kind="stable")
    train = np.ones(n, dtype=np.bool_)
    train[order[:n_test]] = False
    return train
