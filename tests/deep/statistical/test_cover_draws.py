"""The draws that cover is made of have their laws.

Seeds are the run's. Every statistic is in units of its limit (``bounds``), which a right sampler exceeds with
probability at most 1e-6, for every number of draws.
"""

import math
import random
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from secvm.learning import cover_sampler
from tests.deep.statistical.bounds import against
from tests.seeds import FALSE_ALARM, seed_for

N = 2_000


def words(purpose: str) -> Iterator[int]:
    dice = random.Random(seed_for(purpose))
    while True:
        yield dice.getrandbits(64)


def test_poisson_has_its_law() -> None:
    """Fails by chance with probability at most 1e-6: exact binomial counts, a third of it for each mean."""
    for mean in (Fraction(1), Fraction(2, 7), Fraction(31, 10)):
        source = words(f"poisson {mean}")
        found = Counter(cover_sampler.poisson(mean, source) for _ in range(5 * N))
        law: NDArray[np.float64] = np.exp([k * math.log(mean) - float(mean) - math.lgamma(k + 1) for k in range(40)])
        assert against(found, law, FALSE_ALARM / 3) < 1, mean


def test_sizes_have_their_law() -> None:
    """Fails by chance with probability at most 1e-6: exact binomial counts, a third of it for each of three odds, whose
    tables end after 2, 12 and 181 powers."""
    for p in (Fraction(1, 3), Fraction(4, 5), Fraction(65, 66)):
        source = words(f"sizes {p}")
        found = Counter(cover_sampler.geometric(p, source) - 1 for _ in range(5 * N))
        law = np.asarray(float(1 - p) * float(p) ** np.arange(2_000), dtype=np.float64)
        assert against(found, law, FALSE_ALARM / 3) < 1, p
