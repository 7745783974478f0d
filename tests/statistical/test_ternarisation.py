"""Entries of a network are sent without bias. Seeds are fixed; a false-alarm rate is the chance with which a fair
implementation would have failed had the seed been drawn once."""

import math

import numpy as np
import pytest

from secvm.lab.beyond.crowds import Crowd
from secvm.lab.beyond.network import Bounds, Question, Shape, quantised
from secvm.lab.beyond.on_device import entries
from secvm.learning.aggregate.tally import Tally
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.rows import BinnedRows

N = 20_000
SHAPE = Shape(3, 2)
BOUNDS = Bounds(words=1.0, hidden_biases=1.2, outputs=3.0, output_biases=2.0)
WEIGHTS = quantised(np.array([0.9, 0.2, -0.3, 0.7, 0.5, 0.4, 0.1, 0.2, -0.8, 0.6, 0.3]))
PERSON = {0: 1, 2: 2}


def counted(bounds: Bounds) -> Tally:
    """One round of N people who are all alike, but for their dice."""
    indptr = np.arange(N + 1, dtype=np.int64) * len(PERSON)
    bins = np.tile(np.array(list(PERSON), np.int32), N)
    values = np.tile(np.array(list(PERSON.values()), np.int32), N)
    rows = BinnedRows(indptr, bins, values, SHAPE.n_bins)
    labels = np.ones(N, dtype=np.int64)
    return Crowd(Question(SHAPE, bounds), rows, labels, seed=b"unbiased").tally(WEIGHTS, 1)[0]


def farthest(tally: Tally) -> float:
    """The largest distance of C times the mean package from its entry, in standard deviations, over all parameters."""
    question = Question(SHAPE, BOUNDS)
    meant = np.zeros(SHAPE.n_parameters)
    for entry in entries(question, WEIGHTS, BinnedVector(PERSON, SHAPE.n_bins), 1):
        assert not entry.clipped
        meant[entry.parameter] = entry.value
    scale = BOUNDS.per_parameter(SHAPE)
    chance = np.abs(meant) / scale
    net = (tally.plus - tally.minus)[0]
    assert not net[meant == 0].any()
    deviation = np.sqrt(np.maximum(chance * (1 - chance), 1e-300) * N)
    return float(np.max(np.abs(net - np.sign(meant) * chance * N)[meant != 0] / deviation[meant != 0]))


#: Two-sided normal quantile of 1e-6, widened for eleven parameters (Bonferroni), and half a count.
LIMIT = math.sqrt(4.892**2 + 2 * math.log(SHAPE.n_parameters)) + 0.02


def test_c_times_the_mean_package_is_the_entry() -> None:
    """False-alarm rate 1e-6 for all parameters together."""
    assert farthest(counted(BOUNDS)) < LIMIT


@pytest.mark.parametrize(
    "told",
    [
        pytest.param(Bounds(0.9, 1.08, 2.7, 1.8), id="a tenth too often"),
        pytest.param(Bounds(2.0, 1.2, 3.0, 2.0), id="one layer half as often"),
        pytest.param(Bounds(1e-3, 1e-3, 1e-3, 1e-3), id="signs alone"),
    ],
)
def test_a_biased_device_is_seen(told: Bounds) -> None:
    """A device that throws its coins for other bounds than the coordinator multiplies with."""
    assert farthest(counted(told)) > LIMIT
