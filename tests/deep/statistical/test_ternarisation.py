"""Entries of a network are sent without bias.

Seeds are the run's. Fails by chance with probability at most 1e-6: exact binomial counts, Bonferroni over parameters.
"""

import numpy as np
import pytest

from secvm.learning.aggregate.tally import Tally
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.rows import BinnedRows
from secvm_lab.beyond.crowds import Crowd
from secvm_lab.beyond.network import Bounds, Question, Shape, quantised
from tests.deep.statistical.bounds import counts
from tests.rigs.network_device import entries
from tests.seeds import FALSE_ALARM, seed_bytes

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
    return Crowd(Question(SHAPE, bounds), rows, labels, seed=seed_bytes("unbiased")).tally(WEIGHTS, 1)[0]


def beside_the_limit(tally: Tally) -> float:
    """How far C times the mean package is from its entry, over all parameters, in units of the limit."""
    question = Question(SHAPE, BOUNDS)
    meant = np.zeros(SHAPE.n_parameters)
    for entry in entries(question, WEIGHTS, BinnedVector(PERSON, SHAPE.n_bins), 1):
        assert not entry.clipped
        meant[entry.parameter] = entry.value
    sent = np.where(meant > 0, tally.plus[0], tally.minus[0])
    assert (tally.plus[0] + tally.minus[0] == np.where(meant == 0, 0, sent)).all()
    return counts(sent, N, np.abs(meant) / BOUNDS.per_parameter(SHAPE), FALSE_ALARM)


def test_c_times_the_mean_package_is_the_entry() -> None:
    assert beside_the_limit(counted(BOUNDS)) < 1


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
    assert beside_the_limit(counted(told)) > 1
