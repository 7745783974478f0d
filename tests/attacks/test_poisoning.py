"""A16, small: fewer people, fewer bins; the whole of it is `secvm attack run poisoning`."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from secvm.lab.attacks.a16_poisoning import ATTACK, PLOTS, SPREADS, WITHOUT_QUOTA, Malice, cases, defence, guess, lost
from secvm.lab.attacks.poisoned import PoisonWorld, Sent, Size
from secvm.lab.attacks.views import ParticipantView, PublicView

SMALL = Size(people=2_000, test_people=2_000, bins=200, features=40, vocabulary=2_000, rounds=12)
DEFENCE = defence(SMALL.rounds)


def test_without_a_quota_a_hundredth_of_the_devices_ruins_a_model_and_with_quota_and_clipping_it_does_not() -> None:
    """Seeded. 2,000 people are tested: a standard error of about .01 for one accuracy, less for differences."""
    world = PoisonWorld(SMALL, seed=3)
    plots = ("bias", "ten bins", "adaptive, 100 bins")
    without = lost(world, SMALL.experiment, None, WITHOUT_QUOTA * SMALL.budget, plots)
    with_both = lost(world, SMALL.experiment, DEFENCE, SMALL.budget, plots)
    assert without.accuracy > 0.75
    assert min(without.by_plot.values()) > 0.2
    assert max(with_both.by_plot.values()) < 0.06
    assert abs(with_both.price) < 0.03


def test_quota_alone_is_not_enough_and_clipping_is_what_helps() -> None:
    world = PoisonWorld(SMALL, seed=4)
    without, clipped = (lost(world, SMALL.experiment, one, SMALL.budget, ("bias",)) for one in (None, DEFENCE))
    assert without.by_plot["bias"] > 0.1
    assert clipped.by_plot["bias"] < 0.04


@pytest.mark.parametrize("plot", PLOTS)
def test_every_plot_stays_within_what_the_relay_lets_through(plot: str) -> None:
    own = np.random.default_rng(1).integers(0, 9, (7, 2))
    seen = np.random.default_rng(2).integers(1, 90, (1, 7, 2))
    malice = Malice(plot, devices=3, own=own, spread=SPREADS.get(plot, 0))
    for public in (PublicView(), PublicView((seen,), (np.ones((1, 7)), -np.ones((1, 7))), (10,))):
        sent = guess(ParticipantView(public, budget=11), malice)
        assert sent.packages <= 3 * 10
        assert min(sent.units.min(), sent.participations.min()) >= 0


def test_a_world_counts_no_more_than_the_quota() -> None:
    world = PoisonWorld(Size(people=60, test_people=20, bins=20, features=5, vocabulary=50, rounds=1), seed=1)

    def greedy(view: ParticipantView) -> Sent:
        units = np.zeros((21, 2), dtype=np.int64)
        units[0, 0] = view.budget
        return Sent(units, np.zeros(2, dtype=np.int64))

    with pytest.raises(ValueError, match="more than the relay lets through"):
        world.accuracy(world.size.experiment, greedy, 10)
    assert world.accuracy(world.size.experiment, partial(guess, knowing=Malice("bias", 1, world.own())), 10)


def test_whoever_knows_the_first_tally_beforehand_uses_it_in_the_first_round() -> None:
    own = np.ones((4, 2), dtype=np.int64)
    told = np.array([[9, 1], [1, 9], [5, 4], [3, 3]])
    view = ParticipantView(PublicView(), budget=11)
    assert guess(view, Malice("ten bins", 1, own, spread=1)).packages == 0
    sent = guess(view, Malice("ten bins", 1, own, spread=1, prior=told))
    assert sent.units.tolist() == [[0, 10], [0, 0], [0, 0], [0, 0]]


def test_both_experiments_are_attacked_at_their_own_budgets() -> None:
    plain, covered = cases(SMALL)
    assert plain.experiment.cover is None
    assert covered.experiment.cover is not None
    assert covered.budget == covered.experiment.cover.budget > plain.budget
    assert ATTACK.goal is not None
