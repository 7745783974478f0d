"""Cheating relays are seen as often as is promised, at small numbers and at those of ten thousand people.

Each comparison fails by chance with probability at most 1e-6: rounds are independent given their own chances, and by
Hoeffding's inequality the number seen is then within sqrt(n ln(2 / 1e-6) / 2) of its mean; 16 comparisons share it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from secvm.errors import BadInputError
from secvm_lab.attacks.relayed import caught_relays
from secvm_lab.attacks.relayed.caught_relays import Caught, RelayedRound, by_content, every_cheat, false_parts
from secvm_lab.attacks.relayed.counts import FLAGSHIP
from tests.effort import scaled
from tests.seeds import FALSE_ALARM, seed_for

ROUNDS = scaled(2_000, 10_000)
CHEATS = 16


COVER = replace(FLAGSHIP.cover, train=replace(FLAGSHIP.cover.train, cells=2 * 41), packages=9 * 2_500)
#: Forty words and a thousand devices; and ten thousand people of a hundred words in a thousand bins at ε = 1.
WORLDS = {
    "small": RelayedRound(cover=COVER, devices=1_000, budget=13, in_mean_cell=60, in_fullest_cell=500),
    "flagship": FLAGSHIP,
}


def too_far(found: Caught) -> bool:
    slack = math.sqrt(found.rounds * math.log(2 * CHEATS / FALSE_ALARM) / 2)
    below = found.seen < found.promised * found.rounds - slack
    return below or (not found.at_least and found.seen > found.promised * found.rounds + slack)


@pytest.mark.parametrize("world", WORLDS)
def test_cheats_are_seen_as_often_as_is_promised(world: str) -> None:
    found = every_cheat(np.random.default_rng(seed_for(f"caught {world}")), ROUNDS, WORLDS[world])
    assert len(found) == CHEATS
    for one in found:
        low, high = one.interval
        assert low <= one.share <= high
        assert not too_far(one), one


def test_the_fullest_cell_hides_more_than_the_mean_one() -> None:
    dice = np.random.default_rng(seed_for("fullest"))
    mean, fullest = (by_content(dice, ROUNDS, WORLDS["flagship"], 50, fullest=full) for full in (False, True))
    assert mean.promised > 2 * fullest.promised
    assert mean.seen > fullest.seen


@pytest.mark.parametrize("world", WORLDS)
def test_who_adds_no_cover_or_falsifies_some_of_every_part_is_always_seen(world: str) -> None:
    dice = np.random.default_rng(seed_for("always"))
    assert caught_relays.no_cover(dice, ROUNDS, WORLDS[world]).seen == ROUNDS
    assert false_parts(dice, ROUNDS, WORLDS[world], Fraction(1, 100), spread=True).seen == ROUNDS
    everything = caught_relays.dropping_entry(dice, ROUNDS, WORLDS[world], WORLDS[world].budget)
    assert everything.seen == ROUNDS


@pytest.mark.parametrize("world", WORLDS)
def test_who_touches_nothing_is_never_accused(world: str) -> None:
    dice, one = np.random.default_rng(seed_for("honest")), WORLDS[world]
    honest = [
        caught_relays.blind_replacement(dice, ROUNDS, one, 0),
        by_content(dice, ROUNDS, one, 0),
        caught_relays.dropping_entry(dice, ROUNDS, one, 0),
        false_parts(dice, ROUNDS, one, Fraction(0)),
    ]
    assert [found.seen for found in honest] == [0, 0, 0, 0]
    assert [found.promised for found in honest] == [0, 0, 0, 0]


def test_a_cheat_that_is_seen_less_often_than_promised_would_be_noticed() -> None:
    """The comparison can fail: a tenth less than promised is too far."""
    found = false_parts(np.random.default_rng(seed_for("can fail")), ROUNDS, WORLDS["small"], Fraction(1, 2))
    assert not too_far(found)
    assert too_far(Caught(found.cheat, found.rounds, int(0.4 * found.rounds), found.promised, at_least=True))


def test_cells_hold_at_most_one_package_of_a_device() -> None:
    with pytest.raises(BadInputError, match="at most one package"):
        RelayedRound(cover=WORLDS["small"].cover, devices=10, budget=13, in_mean_cell=5, in_fullest_cell=11)
