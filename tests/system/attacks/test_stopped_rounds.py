"""Malicious devices under two relays' cover: they know the limit of a cell, and stay below it or go above it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache, partial

import numpy as np

from secvm.learning import aggregate
from secvm.learning.cover_law import Noise, RelayCover
from secvm_lab.attacks.poisoning.plots import Malice, guess
from secvm_lab.attacks.poisoning.poisoned import Case, PoisonWorld, Sent, Size
from secvm_lab.attacks.views import ParticipantView, PublicView

SMALL = Size(people=400, test_people=200, bins=20, features=8, vocabulary=200, rounds=1)


@cache
def world() -> tuple[PoisonWorld, Case]:
    # Little cover, which needs no plan: what a cell may hold follows from it all the same.
    few = {"shape": Fraction(3), "odds": Fraction(1, 2)}
    cover = RelayCover(
        train=Noise(cells=2 * (SMALL.bins + 1), **few),
        participation=Noise(cells=4, **few),
        test=Noise(cells=4, **few),
        parts=4,
        packages=320,
    )
    return PoisonWorld(SMALL, seed=5), Case("cover", replace(SMALL.experiment, cover=cover), 1, budget=11)


def all_in_one_cell(view: ParticipantView, devices: int) -> Sent:
    units = np.zeros((SMALL.bins + 1, 2), dtype=np.int64)
    units[-1, 1] = devices * (view.budget - 1)
    return Sent(units, np.zeros(2, dtype=np.int64))


def test_a_cell_that_nobody_explains_stops_the_round_and_without_the_rule_it_is_stepped() -> None:
    one, case = world()
    # A large quota, since these are few people: what matters is the count in the cell.
    shouting, quota = partial(all_in_one_cell, devices=SMALL.devices), 1_000 * case.budget
    (before,) = one.accuracy(case.experiment, 1)
    (stopped,) = one.accuracy(case.experiment, 1, shouting, quota)
    (stepped,) = one.accuracy(case.experiment, 1, shouting, quota, limited=False)
    assert before > max(stopped, stepped)
    # A model that was never stepped says one thing of everybody, and says it of another side than the shouting.
    assert stopped != stepped


def test_who_knows_the_limit_stays_below_it_and_the_round_is_stepped() -> None:
    one, case = world()
    knowing = Malice("bias", SMALL.devices, one.own())
    cover = case.experiment.cover
    assert cover is not None
    most = cover.most_in_a_cell(SMALL.people)[0]
    free, held = (
        guess(ParticipantView(PublicView(), 1_000 * case.budget, limit), knowing).units for limit in (None, most)
    )
    assert free[-1, 1] > most > held[-1, 1] > 0
    plot = partial(guess, knowing=knowing)
    loud = partial(all_in_one_cell, devices=SMALL.devices)
    assert one.accuracy(case.experiment, 1, plot, 1_000 * case.budget) != one.accuracy(
        case.experiment, 1, loud, 1_000 * case.budget
    )


def test_the_devices_that_can_stop_a_round_are_just_enough() -> None:
    one, case = world()
    cover = case.experiment.cover
    assert cover is not None
    tally, needed = one._first_tally(case.experiment), one.stopping_devices(case.experiment, case.budget)

    def explained(devices: int) -> list[bool]:
        """With all that so many devices send on top of the fullest cell of each kind."""
        names, more = ("plus", "minus", "participants"), devices * (case.budget - 1)
        return [
            aggregate.explains(cover, replace(tally, **{name: getattr(tally, name) + more}), SMALL.people)
            for name in names
        ]

    assert not all(explained(needed))
    assert all(explained(needed - 1))
