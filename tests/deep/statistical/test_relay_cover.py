"""A relay's cover has its law: S - 1 parts add a negative binomial of the whole shape to each cell, whatever overflows.

A small world: 14 train cells, parts of some 20 packages. Every statistic is tried on samplers with a fault too.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.cover_law import Noise, RelayCover
from secvm.learning.experiment import Experiment
from secvm.protocol.codec import ExperimentId, decode
from secvm.protocol.relays.cover_parts import CoverPart, derive_part
from tests.deep.statistical.bounds import against, equal_counts
from tests.seeds import FALSE_ALARM, seed_bytes

N = 2_000
BINS, PARTS = 6, 5
#: Train cells have mean 6 and variance 24 with S - 1 parts; participation and test cells hardly anything.
TRAIN = Noise(cells=2 * (BINS + 1), shape=Fraction(2), odds=Fraction(3))
LITTLE = Fraction(1, 10**9)
ROOMY = RelayCover(
    train=TRAIN,
    participation=Noise(cells=4, shape=LITTLE, odds=Fraction(1)),
    test=Noise(cells=4, shape=LITTLE, odds=Fraction(1)),
    parts=PARTS,
    packages=PARTS * 1_000,
)
#: Room for little more than the mean of 21: about one part in three is drawn again.
TIGHT = replace(ROOMY, packages=PARTS * 24)
#: How one part is drawn: cover, seed of the round, number of the part → packages per train cell.
Sampler = Callable[[RelayCover, bytes, int], NDArray[np.int64]]


def derived(cover: RelayCover, round_seed: bytes, part: int) -> CoverPart:
    experiment = Experiment(n_bins=BINS, labels=("a", "b"), rule=Pegasos(), features_per_person=3, cover=cover)
    return derive_part(
        experiment,
        experiment_id=ExperimentId(bytes(16)),
        round_number=1,
        label=round_seed.ljust(32, b"\0"),
        root=bytes(32),
        seed=bytes([part]) * 32,
    )


# ── samplers: the right one, and some with a fault ───────────────────────────────────────────────────────────────────


def right(cover: RelayCover, round_seed: bytes, part: int) -> NDArray[np.int64]:
    return derived(cover, round_seed, part).counts[0]


def divided_by_all_parts(cover: RelayCover, round_seed: bytes, part: int) -> NDArray[np.int64]:
    """shape / S instead of shape / (S - 1): once a part is opened, a fifth of the noise is missing."""
    share = TRAIN.shape * Fraction(PARTS - 1, PARTS)
    return right(replace(cover, train=replace(TRAIN, shape=share)), round_seed, part)


def all_parts_alike(cover: RelayCover, round_seed: bytes, part: int) -> NDArray[np.int64]:
    """One seed for all parts: the mean is right, and the shape is a part's."""
    return right(cover, round_seed, 0)


def without_clusters(cover: RelayCover, round_seed: bytes, part: int) -> NDArray[np.int64]:
    """The right mean, but packages alone: Poisson noise."""
    dice = np.random.default_rng([*round_seed, part])
    return dice.poisson(float(TRAIN.part(PARTS) * TRAIN.odds), TRAIN.cells)


def cut_to_the_room(cover: RelayCover, round_seed: bytes, part: int) -> NDArray[np.int64]:
    """The first packages stay where there are too many, instead of another attempt."""
    whole = derived(replace(cover, packages=PARTS * 1_000), round_seed, part)
    data = whole.packages(0, min(whole.named, cover.part_packages))
    places = [decode(data[at : at + 32]).package for at in range(0, len(data), 32)]
    cells = [2 * one.bin_index + (one.sign < 0) for one in places]  # type: ignore[union-attr]
    return np.bincount(np.array(cells, dtype=np.int64), minlength=TRAIN.cells)


def last_cell_left_out(cover: RelayCover, round_seed: bytes, part: int) -> NDArray[np.int64]:
    found = right(cover, round_seed, part).copy()
    found[0] += found[-1]
    found[-1] = 0
    return found


# ── statistics, in units of their limits: above 1 is an alarm ────────────────────────────────────────────────────────


def rounds(purpose: str) -> list[bytes]:
    return [seed_bytes(f"relays' cover: {purpose}", i) for i in range(N)]


def parts_but_one(sampler: Sampler) -> float:
    """S - 1 parts together: each cell has the law of the whole shape. Cells and rounds are independent."""
    found: Counter[int] = Counter()
    for seed in rounds("parts"):
        found.update(sum(sampler(ROOMY, seed, part) for part in range(1, PARTS)).tolist())  # type: ignore[union-attr]
    law = stats.nbinom.pmf(np.arange(200), float(TRAIN.shape), float(1 - TRAIN.p))
    return against(found, law, FALSE_ALARM)


def totals_of_parts(sampler: Sampler) -> float:
    """All cells of S - 1 parts together: a negative binomial again, so mean and variance are right."""
    found = Counter(sum(int(sampler(ROOMY, seed, part).sum()) for part in range(1, PARTS)) for seed in rounds("totals"))
    law = stats.nbinom.pmf(np.arange(400), float(TRAIN.cells * TRAIN.shape), float(1 - TRAIN.p))
    return against(found, law, FALSE_ALARM)


def cells_are_alike(sampler: Sampler) -> float:
    """One of the named cells, drawn by lot among all packages of a part, is uniform."""
    lots, hits = np.random.default_rng(int.from_bytes(seed_bytes("lots"), "big")), np.zeros(TRAIN.cells, np.int64)
    for seed in rounds("alike"):
        counts = sampler(ROOMY, seed, 1)
        if counts.sum():
            hits[lots.choice(TRAIN.cells, p=counts / counts.sum())] += 1
    return equal_counts(hits, FALSE_ALARM)


def totals_that_fit(sampler: Sampler) -> float:
    """Where parts overflow, the number of named packages has the law of those that do not."""
    found = Counter(int(sampler(TIGHT, seed, 1).sum()) for seed in rounds("tight"))
    shape = float(TRAIN.cells * TRAIN.part(PARTS))
    law = stats.nbinom.pmf(np.arange(TIGHT.part_packages + 1), shape, float(1 - TRAIN.p))
    return against(found, law / law.sum(), FALSE_ALARM)


STATISTICS = (parts_but_one, totals_of_parts, cells_are_alike, totals_that_fit)
FAULTS: dict[Sampler, set[Callable[[Sampler], float]]] = {
    divided_by_all_parts: {parts_but_one, totals_of_parts},
    all_parts_alike: {parts_but_one, totals_of_parts},
    without_clusters: {parts_but_one, totals_of_parts},
    cut_to_the_room: {totals_that_fit},
    last_cell_left_out: {cells_are_alike},
}


@pytest.mark.parametrize("statistic", STATISTICS)
def test_relays_cover_passes(statistic: Callable[[Sampler], float]) -> None:
    """Fails by chance with probability at most 1e-6: each statistic has its own limit, see ``bounds``."""
    assert statistic(right) < 1


@pytest.mark.parametrize("fault", FAULTS)
def test_a_relay_with_a_fault_is_found_out(fault: Sampler) -> None:
    for statistic in FAULTS[fault]:
        assert statistic(fault) > 1, statistic
