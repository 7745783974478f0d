"""Attacks of the lab at a small size: each works without its defence, and not with it.

Seeds are the run's. Fails by chance with probability at most 1e-6 a test: what is allowed with the defence stands
beside the law that it follows from. Without the defence every attack is six standard errors and more above what it must
reach, which shows that the test can fail.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import pytest

from secvm_lab.attacks.attack import measure
from secvm_lab.attacks.linking import traffic, weak_dice
from secvm_lab.attacks.registry import find
from tests.deep.statistical.bounds import counts
from tests.seeds import FALSE_ALARM, seed_for


class Small(NamedTuple):
    slug: str
    trials: int
    undefended_at_least: float
    defended_at_most: float


#: The normal law leaves 1e-6 beyond so many standard errors.
BEYOND = NormalDist().inv_cdf(1 - FALSE_ALARM)
SMALL = (
    # 1,120 numbers of 52 bits: some 1e3 rows of three fit by chance, and each passes 40 sums with 2^-40: 1e-8.
    Small("weak-dice", 1, 0.99, 0.0),
    # A lie is caught for sure, or a check is missing: no chance in it.
    Small("different-weights", 4, 1.0, 0.0),
    # An AUC with a standard error of .0085: 60 rounds of 20 packages.
    Small("short-deadline", 60, 0.95, 0.5 + BEYOND * 0.0085),
    # The index has a standard deviation of .002 in a round, and a mean of twenty is compared with .01: 22 of its own.
    Small("timing-clusters", 20, 0.8, 0.01),
    # An AUC with a standard error of .0129: 1,000 rounds.
    Small("sent-at-once", 1_000, 0.95, 0.5 + BEYOND * 0.0129),
    # Ten dictionaries: the chance that a word stands alone in one is .0067, so that four of ten do with 4e-7.
    Small("chosen-hash", 10, 0.99, 0.3),
    # Ties count half, and make an AUC's standard error smaller than .0104: 1,000 devices, a tenth is switched off.
    Small("count-fingerprint", 10, 0.9, 0.5 + BEYOND * 0.0104),
    Small("replay", 3, 1.0, 0.0),
    # A package finds a partner of its own sender by chance with .019 ± .003.
    Small("logistic-gradient", 2, 0.99, 0.04),
)


@pytest.mark.parametrize("small", SMALL, ids=lambda small: small.slug)
def test_an_attack_works_without_its_defence_and_not_with_it(small: Small) -> None:
    row = measure(find(small.slug), trials=small.trials, seed=seed_for(small.slug))
    assert row.undefended.value >= small.undefended_at_least
    assert row.defended.value <= small.defended_at_most
    assert row.defended.detail.get("lies_believed", 0) == 0
    assert row.defended.detail.get("accepted_in_the_next_epoch", 0) == 0


def test_collusion_is_void_with_one_hop_and_chance_behind_an_honest_one_that_waits() -> None:
    """Of 480 packages each is named by chance with .05: exact binomial."""
    row = measure(find("collusion"), trials=3, seed=seed_for("collusion"))
    assert row.undefended.value == 1
    assert counts(round(480 * row.defended.value), 480, 0.05, FALSE_ALARM) < 1
    assert row.attack.built
    assert row.defended.curve is not None
    by_way = {point.place: point.value for point in row.defended.curve.points}
    assert list(by_way) == list(traffic.HOPS)
    # A second hop that does not wait gives everybody away by the time.
    assert by_way["2, at once"] > 0.9


def test_every_stream_of_the_weak_generator_passes_its_sums_and_strangers_do_not() -> None:
    """A stranger passes with 2^-40."""
    assert len(weak_dice.zero_sums()) == 40
    dice = np.random.default_rng(seed_for("weak generator"))
    for _ in range(20):
        drawn = weak_dice.math_random(*(int(word) for word in dice.integers(1, 2**63, size=2)))
        numbers = [next(drawn) for _ in range(5)]
        assert weak_dice.in_a_row(numbers[::2])
        assert not weak_dice.in_a_row([numbers[0], numbers[4], numbers[2]])
