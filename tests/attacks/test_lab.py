"""Attacks of the lab at a small size: each works without its defence, and not with it.

Seeds are fixed, so each test always says the same, but for the system's dice (A1). *False alarm* is the chance that a
fair implementation fails with another seed. That a test can fail is shown by the same attack without its defence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from secvm.lab.attacks import a01_weak_dice as weak_dice
from secvm.lab.attacks import a15_collusion as collusion
from secvm.lab.attacks import a20_dropping_relay as dropping
from secvm.lab.attacks.dice import words
from secvm.lab.attacks.hashing import bins_of_words, draw_words
from secvm.lab.attacks.registry import find
from secvm.lab.attacks.report import measure
from secvm.learning.individual.binning import HashBinning


class Small(NamedTuple):
    slug: str
    trials: int
    undefended_at_least: float
    defended_at_most: float
    #: Of the defended side, by the normal law where the value is an AUC; the other side fails with less than 1e-6.
    false_alarm: float


SMALL = (
    # 1,120 numbers of 52 bits: some 1e3 rows of three fit by chance, and each passes 40 sums with 2^-40.
    Small("weak-dice", 1, 0.99, 0.0, 1e-8),
    # A lie is caught for sure, or a check is missing: no chance in it.
    Small("different-weights", 4, 1.0, 0.0, 0.0),
    # Standard error .0083 with 60 rounds of 20 packages: .53 is 3.6 of them away.
    Small("short-deadline", 60, 0.95, 0.53, 2e-4),
    # The index has a standard deviation of .002 in a round, and a mean of twenty is compared with .01.
    Small("timing-clusters", 20, 0.8, 0.01, 1e-9),
    # Standard error .0129 with 1,000 rounds: .55 is 3.9 of them away.
    Small("sent-at-once", 1_000, 0.95, 0.55, 1e-4),
    # Ten dictionaries: the chance that a word stands alone in one of them is .064, in three of them 3e-5.
    Small("chosen-hash", 10, 0.99, 0.2, 3e-5),
    # Ties count half; standard error .009 with 1,000 devices of which a tenth is switched off: .54 is 4.4 of them away.
    Small("count-fingerprint", 10, 0.9, 0.54, 1e-5),
    Small("replay", 3, 1.0, 0.0, 0.0),
    # A package finds a partner of its own sender by chance with .017; 6,000 packages in clusters of a person.
    Small("logistic-gradient", 2, 0.99, 0.04, 1e-6),
    # A device finds two of its dropped capsules under the root with 2^-256.
    Small("dropping-relay", 6, 1.0, 0.0, 0.0),
)


@pytest.mark.parametrize("small", SMALL, ids=lambda small: small.slug)
def test_an_attack_works_without_its_defence_and_not_with_it(small: Small) -> None:
    row = measure(find(small.slug), trials=small.trials, seed=11)
    assert row.undefended.value >= small.undefended_at_least
    assert row.defended.value <= small.defended_at_most
    assert row.defended.detail.get("lies_believed", 0) == 0
    assert row.defended.detail.get("accepted_in_the_next_epoch", 0) == 0


def test_collusion_is_void_with_one_hop_and_chance_behind_an_honest_one_that_waits() -> None:
    """False alarm: 480 packages, .05 ± .01 by chance; .10 is 5 standard errors away, 3e-7."""
    row = measure(find("collusion"), trials=3, seed=11)
    assert row.undefended.value == 1
    assert row.defended.value <= 0.10
    assert not row.attack.built
    assert row.defended.curve is not None
    by_way = {point.place: point.value for point in row.defended.curve.points}
    assert list(by_way) == list(collusion.HOPS)
    # A second hop that does not wait gives everybody away by the time.
    assert by_way["2, at once"] > 0.9


def test_who_is_isolated_is_read_and_whoever_was_dropped_notices() -> None:
    defended = find("dropping-relay").measure(10, 11, defended=True)
    assert defended.detail["isolation_auc"] == 1
    assert defended.detail["share_of_drops_noticed"] == 1
    # Nobody counts on cover here: it is made for thousands.
    assert float(defended.detail["isolation_auc_with_cover"] or 0) > 0.9


def test_an_honest_relay_alarms_nobody() -> None:
    dice = np.random.default_rng(1)
    devices = [dropping.capsules(dice, 5) for _ in range(40)]
    shelf, root = dropping.received([digest for mine in devices for digest in mine])
    assert not any(dropping.notices(mine, shelf, root, words(dice)) for mine in devices)


def test_every_stream_of_the_weak_generator_passes_its_sums_and_strangers_do_not() -> None:
    """False alarm: a stranger passes with 2^-40."""
    assert len(weak_dice.zero_sums()) == 40
    dice = np.random.default_rng(2)
    for _ in range(20):
        drawn = weak_dice.math_random(*(int(word) for word in dice.integers(1, 2**63, size=2)))
        numbers = [next(drawn) for _ in range(5)]
        assert weak_dice.in_a_row(numbers[::2])
        assert not weak_dice.in_a_row([numbers[0], numbers[4], numbers[2]])


def test_the_labs_hash_is_the_devices_hash() -> None:
    some = draw_words(np.random.default_rng(3), 50)
    assert len(set(some)) == 50
    for bins in (2, 100, 2**20):
        binning = HashBinning(bins, b"salt")
        assert bins_of_words(some, salt=b"salt", bins=bins).tolist() == [binning.bins_of(word)[0] for word in some]
