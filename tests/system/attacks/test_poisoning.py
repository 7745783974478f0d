"""A16, small: fewer people, fewer bins; the whole of it is `secvm attack run poisoning`.

Seeds are the run's. Losses are means over eight worlds, with a standard error of .005 where devices are stopped and .01
where they are not. Every limit is five of them and more away from what is found: fails by chance with at most 1e-6.

Under two relays' cover devices know the limit of a cell, and stay below it or go above it.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache, partial

import numpy as np
import pytest

from secvm.learning import aggregate
from secvm.learning.cover_law import Noise, RelayCover
from secvm.learning.experiment import Robust
from secvm_lab.attacks.poisoning.plots import ATTACK, PLOTS, SPREADS, WITHOUT_QUOTA, Malice, guess, lost
from secvm_lab.attacks.poisoning.poisoned import Case, PoisonWorld, Sent, Size, cases, defence
from secvm_lab.attacks.views import ParticipantView, PublicView
from tests.seeds import seed_for

SMALL = Size(people=2_000, test_people=2_000, bins=200, features=40, vocabulary=2_000, rounds=12)
DEFENCE = defence(SMALL.rounds)
PLAIN = Case("plain", SMALL.experiment, SMALL.rounds, SMALL.budget)


@cache
def worlds() -> list[PoisonWorld]:
    return [PoisonWorld(SMALL, seed=seed_for("poisoned", i)) for i in range(8)]


def mean_loss(robust: Robust | None, budget: int, plots: tuple[str, ...]) -> dict[str, float]:
    """The accuracy that each plot costs, what the defence itself costs, and the accuracy without a plot."""
    found = [lost(world, PLAIN, robust, budget, plots) for world in worlds()]
    by_plot = {plot: float(np.mean([one.by_plot[plot] for one in found])) for plot in plots}
    return by_plot | {name: float(np.mean([getattr(one, name) for one in found])) for name in ("price", "accuracy")}


def test_without_a_quota_a_hundredth_of_the_devices_ruins_a_model_and_with_quota_and_clipping_it_does_not() -> None:
    plots = ("bias", "ten bins", "adaptive, 100 bins")
    without = mean_loss(None, WITHOUT_QUOTA * SMALL.budget, plots)
    with_both = mean_loss(DEFENCE, SMALL.budget, plots)
    assert without["accuracy"] > 0.75
    assert min(without[plot] for plot in plots) > 0.2
    assert max(with_both[plot] for plot in plots) < 0.07
    assert abs(with_both["price"]) < 0.03


def test_quota_alone_is_not_enough_and_clipping_is_what_helps() -> None:
    assert mean_loss(None, SMALL.budget, ("bias",))["bias"] > 0.1
    assert mean_loss(DEFENCE, SMALL.budget, ("bias",))["bias"] < 0.04


@pytest.mark.parametrize("plot", PLOTS)
def test_every_plot_stays_within_what_the_relay_lets_through(plot: str) -> None:
    dice = np.random.default_rng(seed_for("plots"))
    own, seen = dice.integers(0, 9, (7, 2)), dice.integers(1, 90, (1, 7, 2))
    malice = Malice(plot, devices=3, own=own, spread=SPREADS.get(plot, 0))
    for public in (PublicView(), PublicView((seen,), (np.ones((1, 7)), -np.ones((1, 7))), (10,))):
        sent = guess(ParticipantView(public, budget=11), malice)
        assert sent.packages <= 3 * 10
        assert min(sent.units.min(), sent.participations.min()) >= 0


def test_a_world_counts_no_more_than_the_quota() -> None:
    few = Size(people=60, test_people=20, bins=20, features=5, vocabulary=50, rounds=1)
    world = PoisonWorld(few, seed=seed_for("greedy"))

    def greedy(view: ParticipantView) -> Sent:
        units = np.zeros((21, 2), dtype=np.int64)
        units[0, 0] = view.budget
        return Sent(units, np.zeros(2, dtype=np.int64))

    with pytest.raises(ValueError, match="more than the relay lets through"):
        world.accuracy(few.experiment, 1, greedy, 10)
    assert world.accuracy(few.experiment, 1, partial(guess, knowing=Malice("bias", 1, world.own())), 10)


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
    assert covered.budget == 2 + SMALL.features + 1 > plain.budget
    assert ATTACK.goal is not None


FEW = Size(people=400, test_people=200, bins=20, features=8, vocabulary=200, rounds=1)


@cache
def covered_world() -> tuple[PoisonWorld, Case]:
    # Little cover, which needs no plan: what a cell may hold follows from it all the same.
    few = {"shape": Fraction(3), "odds": Fraction(1, 2)}
    cover = RelayCover(
        train=Noise(cells=2 * (FEW.bins + 1), **few),
        participation=Noise(cells=4, **few),
        test=Noise(cells=4, **few),
        parts=4,
        packages=320,
    )
    return PoisonWorld(FEW, seed=5), Case("cover", replace(FEW.experiment, cover=cover), 1, budget=11)


def all_in_one_cell(view: ParticipantView, devices: int) -> Sent:
    units = np.zeros((FEW.bins + 1, 2), dtype=np.int64)
    units[-1, 1] = devices * (view.budget - 1)
    return Sent(units, np.zeros(2, dtype=np.int64))


def test_a_cell_that_nobody_explains_stops_the_round_and_without_the_rule_it_is_stepped() -> None:
    one, case = covered_world()
    # A large quota, since these are few people: what matters is the count in the cell.
    shouting, quota = partial(all_in_one_cell, devices=FEW.devices), 1_000 * case.budget
    (before,) = one.accuracy(case.experiment, 1)
    (stopped,) = one.accuracy(case.experiment, 1, shouting, quota)
    (stepped,) = one.accuracy(case.experiment, 1, shouting, quota, limited=False)
    assert before > max(stopped, stepped)
    # A model that was never stepped says one thing of everybody, and says it of another side than the shouting.
    assert stopped != stepped


def test_who_knows_the_limit_stays_below_it_and_the_round_is_stepped() -> None:
    one, case = covered_world()
    knowing = Malice("bias", FEW.devices, one.own())
    cover = case.experiment.cover
    assert cover is not None
    most = cover.most_in_a_cell(FEW.people)[0]
    free, held = (
        guess(ParticipantView(PublicView(), 1_000 * case.budget, limit), knowing).units for limit in (None, most)
    )
    assert free[-1, 1] > most > held[-1, 1] > 0
    plot = partial(guess, knowing=knowing)
    loud = partial(all_in_one_cell, devices=FEW.devices)
    assert one.accuracy(case.experiment, 1, plot, 1_000 * case.budget) != one.accuracy(
        case.experiment, 1, loud, 1_000 * case.budget
    )


def test_the_devices_that_can_stop_a_round_are_just_enough() -> None:
    one, case = covered_world()
    cover = case.experiment.cover
    assert cover is not None
    tally, needed = one._first_tally(case.experiment), one.stopping_devices(case.experiment, case.budget)

    def explained(devices: int) -> list[bool]:
        """With all that so many devices send on top of the fullest cell of each kind."""
        names, more = ("plus", "minus", "participants"), devices * (case.budget - 1)
        return [
            aggregate.explains(cover, replace(tally, **{name: getattr(tally, name) + more}), FEW.people)
            for name in names
        ]

    assert not all(explained(needed))
    assert all(explained(needed - 1))
