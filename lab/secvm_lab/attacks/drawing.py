"""What worlds draw: dice, and small made-up people whose labels a random weight vector half explains.

For worlds alone: a guess never sees any of it. Dice are seeded, so that a figure can be had again; the system's own are
for devices (``participant.dice``). Where a defence *is* the system's randomness, the attack takes it from the system,
and its figure moves a little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import TypeVar

import numpy as np

from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.individual.contribution import Individual
from secvm.learning.losses import Loss
from secvm.learning.weights import Weights
from secvm.protocol.schedule import shuffle
from secvm_lab.attacks.views import CoordinatorView, Opened, RoundSeen

#: Weights are whole multiples of it.
UNIT = Fraction(1, 2**16)
W = TypeVar("W")
#: Words drawn in one go.
_BATCH = 4096


def generator(seed: int, attack: int, *, defended: bool) -> np.random.Generator:
    """Dice for one measurement: others for each attack, without and with its defence."""
    return np.random.default_rng((seed, attack, int(defended)))


def words(dice: np.random.Generator) -> Iterator[int]:
    """Uniform 64-bit words, as ``protocol.schedule`` takes them."""
    while True:
        yield from dice.integers(2**64, size=_BATCH, dtype=np.uint64).tolist()


def draw_weights(dice: np.random.Generator, n_bins: int, *, size: float) -> Weights:
    """Weights of one model, normal with this deviation; the bias is 0."""
    values = np.append(dice.normal(scale=size, size=n_bins), 0.0)
    return Weights(np.rint(values / float(UNIT)).astype(np.int32)[None, :], UNIT)


def draw_person(dice: np.random.Generator, n_bins: int, features: int) -> Individual:
    """Somebody with so many different bins, popular ones more often (Zipf's law), and a label by a coin."""
    clocks = dice.exponential(size=n_bins) * np.arange(1, n_bins + 1)
    bins = np.sort(np.argpartition(clocks, features - 1)[:features])
    return Individual(vector=BinnedVector({int(b): 1 for b in bins}, n_bins), label=int(dice.integers(2)))


def plain_experiment(n_bins: int, *, loss: str = "hinge", budget: int | None = None) -> Experiment:
    """Two labels, Pegasos, no cover."""
    return Experiment(n_bins=n_bins, labels=("no", "yes"), rule=Pegasos(), loss=Loss(loss), budget=budget)


def mixed_round(sent: Iterable[tuple[Opened, W]], drawn: Iterator[int]) -> tuple[CoordinatorView, list[W]]:
    """A round of these packages in an order that tells nothing, and what is known of each of them."""
    order = shuffle(list(sent), drawn)
    return CoordinatorView((RoundSeen(packages=tuple(package for package, _ in order)),)), [whose for _, whose in order]


def draw_size(dice: np.random.Generator, most: int) -> int:
    """How many features somebody has: a few have many."""
    return int(min(most, 3 + dice.lognormal(mean=2.5, sigma=0.8)))
