"""What several tests of the learning core share: small tallies, small states, a round half to even of their own."""

from collections.abc import Iterable, Mapping
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from secvm.learning import aggregate
from secvm.learning.aggregate.tally import Tally
from secvm.learning.cover_law import Noise, RelayCover
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.individual.contribution import Individual, contribute
from secvm.learning.individual.dice import UnsafeSeededDice
from secvm.learning.package import Package
from secvm.learning.rows import BinnedRows
from secvm.learning.weights import Weights


def ints(*values: int) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def half_even(number: Fraction) -> int:
    """Round half to even, written out: floor, then look at what is left."""
    floor = number.numerator // number.denominator
    rest = number - floor
    return floor + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and floor % 2 == 1))


def small_tally(plus: list[list[int]], minus: list[list[int]], participants: list[int]) -> Tally:
    n = len(participants)
    return Tally(
        plus=np.array(plus, dtype=np.int64),
        minus=np.array(minus, dtype=np.int64),
        participants=np.array(participants, dtype=np.int64),
        cells=np.zeros((n, n), dtype=np.int64),
    )


def rows_of(people: Iterable[Iterable[int]], n_bins: int) -> BinnedRows:
    """People with these bins, one unit each; of a dict its values."""
    listed = [dict(sorted(dict(p if isinstance(p, Mapping) else dict.fromkeys(p, 1)).items())) for p in people]
    bins, values = (np.array([n for p in listed for n in numbers(p)], np.int32) for numbers in (dict.keys, dict.values))
    return BinnedRows(np.cumsum([0, *map(len, listed)], dtype=np.int64), bins, values, n_bins)


def relay_cover(
    *,
    bins: int,
    labels: int = 2,
    models: int = 1,
    shape: str = "15",
    train: str,
    here: str,
    tested: str = "1",
    parts: int,
    room: int,
    train_share: Fraction = Fraction(1),
) -> RelayCover:
    """Cover of two relays by the odds of train, participation and test cells; ``room``: packages of a part."""

    def noise(cells: int, odds: str) -> Noise:
        return Noise(cells=cells, shape=Fraction(shape), odds=Fraction(odds))

    return RelayCover(
        train=noise(2 * models * (bins + 1), train),
        participation=noise(2 * labels, here),
        test=None if labels == 1 else noise(labels**2, tested),
        parts=parts,
        packages=parts * room,
        train_share=train_share,
    )


def some_weights(
    rows: list[list[int]], *, unit: Fraction = Fraction(1), normalised: bool = False, first: bool = False
) -> Weights:
    return Weights(mantissas=np.array(rows, dtype=np.int32), unit=unit, normalised=normalised, first=first)


def one_round(experiment: Experiment, people: list[Individual], weights: Weights, round_number: int) -> Tally:
    """What the packages of these people add up to, the seeded dice of person i numbered i."""
    sent: list[Package] = []
    for i, person in enumerate(people):
        sent += contribute(
            person,
            experiment=experiment,
            training=weights,
            evaluation=weights,
            dice=UnsafeSeededDice(b"tests", i),
            round_number=round_number,
        )
    return aggregate.empty_tally(experiment).count(sent)


def person(values: dict[int, int], n_bins: int, label: int) -> Individual:
    return Individual(vector=BinnedVector(values=dict(sorted(values.items())), n_bins=n_bins), label=label)
