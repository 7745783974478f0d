"""Taking cover off counts that nobody honest has published, and off counts that become negative."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from secvm.errors import ArithmeticRangeError, RemoteProtocolError
from secvm.learning.aggregate.direction import direction
from secvm.learning.aggregate.tally import Tally
from secvm.learning.label_models import LabelModels
from secvm.protocol.recompute import next_model
from tests.unit.protocol.helpers import covered_document


def test_repro_a_tally_of_more_devices_than_can_be_counted_is_refused_and_breaks_nothing() -> None:
    of = covered_document()
    cover = of.experiment.cover
    assert cover is not None
    huge = replace(
        of.experiment,
        cover=replace(cover, train=replace(cover.train, share=Fraction(1000), cap=12), train_share=Fraction(1, 10**40)),
    )
    tally = of.experiment.empty_tally()
    tally.participants[:] = 2**53 - 1
    with pytest.raises(ArithmeticRangeError):
        huge.step(huge.start(), tally)
    with pytest.raises(RemoteProtocolError):
        next_model(replace(of, experiment=huge), huge.start(), tally)


def test_repro_negative_counts_times_large_class_weights_do_not_wrap_around() -> None:
    tally = Tally.empty(n_models=1, n_bins=2, n_labels=2)
    tally = replace(
        tally,
        plus=np.array([[-(2**40), 1, 1]]),
        minus=np.array([[0, 0, 0]]),
        participants=np.array([3, 3]),
    )
    weights = (Fraction(1), Fraction(2**40))
    found = direction(
        tally,
        models=LabelModels(n_labels=2),
        class_weights=weights,
        factors=(Fraction(1), Fraction(1)),
        divisor=Fraction(1),
    )
    assert int(found.numerators[0, 0]) == -(2**80)
