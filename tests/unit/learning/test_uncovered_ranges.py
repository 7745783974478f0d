"""Counts that become negative when cover is taken off."""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from secvm.learning.aggregate.direction import direction_of
from secvm.learning.aggregate.tally import Tally
from secvm.learning.label_models import LabelModels


def test_repro_negative_counts_times_large_class_weights_do_not_wrap_around() -> None:
    tally = Tally.empty(n_models=1, n_bins=2, n_labels=2)
    tally = replace(
        tally,
        plus=np.array([[-(2**40), 1, 1]]),
        minus=np.array([[0, 0, 0]]),
        participants=np.array([3, 3]),
    )
    weights = (Fraction(1), Fraction(2**40))
    found = direction_of(
        tally,
        models=LabelModels(n_labels=2),
        class_weights=weights,
        factors=(Fraction(1), Fraction(1)),
        divisor=Fraction(1),
    )
    assert int(found.numerators[0, 0]) == -(2**80)
