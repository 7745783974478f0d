"""Plans of cover: the figures that the design rests on, and the laws that a plan keeps."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from secvm.errors import BadExperimentError
from secvm.learning.thinning import Thinning
from secvm.privacy.accountant import SAMPLER_ERROR, Adjacency, Contribution, Sight, delta_of, noise_delta
from secvm.privacy.cover_loss import log_masses, smallest_cap
from secvm.privacy.shuffle_dp import CoverPlan, epsilon_of, plan, smallest_odds

RHO_1 = Thinning(rho=Fraction(1))
EVERYTHING = Thinning()
#: 100 features and the bias, 30 rounds.
CONTRIBUTION = Contribution(rounds=30, models=1, cells=101, thinning=EVERYTHING)


@cache
def planned(shape: int = 15, gamma: float = 1.0, thinning: Thinning = EVERYTHING) -> CoverPlan:
    """10,000 people, 1,000 bins, 100 features, 30 rounds, ε = 1, δ = 1e-6."""
    return plan(
        epsilon=1.0,
        delta=1e-6,
        rounds=30,
        features=100,
        bins=1000,
        participants=10_000,
        gamma=gamma,
        shape=shape,
        thinning=thinning,
    )


@cache
def odds_15(thinning: Thinning = EVERYTHING) -> Fraction:
    told = Contribution(rounds=30, models=1, cells=101, thinning=thinning)

    def shown(p: float, q: float, looks: int) -> tuple[Sight, ...]:
        return (Sight(15.0, p, q, looks),)

    return smallest_odds([partial(shown, q=q, looks=looks) for q, looks in told.looks()], 1.0, 1e-6)


# ── figures of the design, recomputed ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("participants", "bins", "said"), [(10_000, 1_000, 197), (10_000, 10_000, 1_965), (100_000, 10_000, 196)]
)
def test_mean_cover_of_shape_15(participants: int, bins: int, said: int) -> None:
    """All of δ for the noise, as the design's figures have it: a hundredth less than said."""
    mean = 2 * (bins + 1) * 15 * odds_15() / participants
    assert float(mean) == pytest.approx(said, rel=0.015)


def test_caps_without_thinning() -> None:
    """2,300 and 2,500 at 1e-7 for all devices and rounds, without the factor 1 + e^ε that a proof asks for."""
    assert smallest_cap(2002 * 15 / 10_000, float(odds_15() / (1 + odds_15())), math.log(1e-7 / 3e5)) == pytest.approx(
        2_300, rel=0.02
    )
    made = planned(30, 0.5)
    assert float(made.noise.mean_packages) == pytest.approx(529, rel=0.01)
    assert smallest_cap(2002 * 30 / 5_000, float(made.noise.p), math.log(1e-7 / 3e5)) == pytest.approx(2_500, rel=0.03)


def test_the_plan_pays_for_the_factor() -> None:
    assert (planned().noise.cap, planned().budget) == (2_415, 2_516)
    assert (planned(30, 0.5).noise.cap, planned(30, 0.5).budget) == (2_517, 2_618)


def test_thinning_to_one_needs_a_tenth() -> None:
    made = planned(15, 1.0, RHO_1)
    assert float(made.noise.mean_packages) == pytest.approx(21, rel=0.03)
    assert made.noise.cap == pytest.approx(270, rel=0.05)
    assert planned(30, 0.5, RHO_1).budget <= 400


def test_a_flip_of_the_label_costs_root_two() -> None:
    found = epsilon_of(planned(), delta=1e-6, participants=10_000, gamma=1.0, adjacency=Adjacency.LABEL_FLIP)
    assert found == pytest.approx(1.42, abs=0.015)


def test_fewer_honest_than_assumed() -> None:
    """30 % of those assumed: 2.15 with shape 30, nothing at all with shape 15."""
    assert epsilon_of(planned(30, 0.5), delta=1e-6, participants=10_000, gamma=0.15) == pytest.approx(2.15, abs=0.01)
    assert math.isinf(epsilon_of(planned(15), delta=1e-6, participants=10_000, gamma=0.3))


# ── laws ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("thinning", [EVERYTHING, RHO_1, Thinning(q=Fraction(1, 10))])
def test_a_plan_keeps_what_was_asked_with_all_parts_of_delta(thinning: Thinning) -> None:
    made = planned(15, 1.0, thinning)
    parts = made.delta_noise + made.delta_overflow + made.delta_sampler + made.delta_cut
    assert 0.9e-6 < parts <= 1e-6
    assert 0.99 < made.achieved <= 1.0
    assert made.delta_sampler == pytest.approx((1 + math.e) * 3e5 * SAMPLER_ERROR)
    assert made.budget == made.noise.cap + made.real_cap
    assert made.noise.share * 10_000 == 15


@given(st.integers(1, 3000), st.fractions(Fraction(1, 10), 30, max_denominator=20))
def test_every_person_is_looked_at_or_one_who_tells_more(cells: int, rho: Fraction) -> None:
    looks = list(Contribution(rounds=2, models=3, cells=cells, thinning=Thinning(rho=rho)).looks())
    assert len(looks) <= cells
    for n in {1, 2, 3, 7, 50, 101, 250, cells // 2, cells - 1, cells}:
        if 1 <= n <= cells:
            q = min(1.0, float(rho) / math.sqrt(n))
            assert any(q <= other and 6 * n <= count for other, count in looks)


def test_the_person_with_one_cell_tells_most_here() -> None:
    """A look-up, not a law: other sizes of noise may have another worst person, and a plan looks at all."""
    told = Contribution(rounds=30, models=1, cells=101, thinning=RHO_1)
    p = float(planned(15, 1.0, RHO_1).noise.p)
    alone = noise_delta(Contribution(rounds=30, models=1, cells=1, thinning=RHO_1), 15.0, p, 1.0)
    assert noise_delta(told, 15.0, p, 1.0) == alone
    evenly = Contribution(rounds=30, models=1, cells=101, thinning=Thinning(q=Fraction(995, 10_000)))
    assert noise_delta(evenly, 15.0, p, 1.0) < alone


@pytest.mark.parametrize("more", [{"rounds": 31}, {"models": 2}, {"cells": 102}])
def test_telling_more_costs_more(more: dict[str, int]) -> None:
    fields = {"rounds": 30, "models": 1, "cells": 101} | more
    assert noise_delta(Contribution(**fields, thinning=EVERYTHING), 15.0, 65 / 66, 1.0) > noise_delta(
        CONTRIBUTION, 15.0, 65 / 66, 1.0
    )


def test_epsilon_falls_with_honest_devices_and_grows_with_rounds() -> None:
    made = planned(30)
    by_gamma = [epsilon_of(made, delta=1e-6, participants=10_000, gamma=g) for g in (0.5, 0.8, 1.0)]
    assert by_gamma == sorted(by_gamma, reverse=True)
    by_rounds = [epsilon_of(made, delta=1e-6, participants=10_000, gamma=1.0, rounds=t) for t in (1, 10, 30, 60)]
    assert by_rounds == sorted(by_rounds)
    assert by_rounds[2] == made.achieved


def test_nobody_honest_is_no_guarantee() -> None:
    assert math.isinf(epsilon_of(planned(30), delta=1e-6, participants=10_000, gamma=0.00001))


def test_a_delta_below_the_caps_chance_is_no_guarantee() -> None:
    assert math.isinf(epsilon_of(planned(30), delta=1e-9, participants=10_000, gamma=1.0))


def test_the_chance_of_a_cut_is_an_upper_bound() -> None:
    told = Contribution(rounds=30, models=1, cells=101, thinning=RHO_1)
    for cap in (15, 25, 37):
        for n in (1, 5, 40, 101):
            assert stats.binom.sf(cap, n, 1 / math.sqrt(n)) <= math.exp(told.log_cut(cap))
    assert told.log_cut(101) == -math.inf
    assert told.log_cut(5) == 0.0


def test_a_person_touches_no_more_cells_than_there_are() -> None:
    made = plan(epsilon=4.0, delta=1e-3, rounds=2, features=100, hashes=2, bins=20, participants=1_000)
    assert made.contribution.cells == 21


def test_the_planner_may_choose_the_shape() -> None:
    asked = {"epsilon": 2.0, "delta": 1e-5, "rounds": 5, "features": 10, "bins": 100, "participants": 2_000}
    free = plan(**asked, shape=None)  # type: ignore[arg-type]  # a table of arguments
    for shape in (15, 60):
        assert free.budget <= plan(**asked, shape=shape).budget  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [{"epsilon": 0.0}, {"delta": 0.0}, {"gamma": 1.5}, {"participants": 0}, {"rounds": 0}, {"bins": 0}, {"hashes": 0}],
)
def test_a_plan_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    asked = {"epsilon": 1.0, "delta": 1e-6, "rounds": 1, "features": 1, "bins": 10, "participants": 100} | wrong
    with pytest.raises(BadExperimentError):
        plan(**asked)  # type: ignore[arg-type]  # a table of arguments


def test_repro_a_plan_that_the_samplers_error_breaks_is_refused_and_not_called_infinite() -> None:
    small: dict[str, Any] = {"rounds": 20, "features": 10, "bins": 60, "participants": 1200}
    for epsilon, delta in ((30.0, 1e-5), (1.0, 1e-14)):
        with pytest.raises(BadExperimentError, match="sampler"):
            plan(epsilon=epsilon, delta=delta, **small)
    assert plan(epsilon=8, delta=1e-5, **small).achieved <= 8


def test_a_flip_is_a_unit_taken_and_a_unit_given() -> None:
    """One cell, one round: held to all outcomes of the two signs' counts. Two units taken would tell something else."""
    masses = np.exp(log_masses(3.0, 0.8))
    moved = np.concatenate([[0.0], masses[:-1]])
    once = Contribution(rounds=1, models=1, cells=1, thinning=EVERYTHING)
    for epsilon in (0.2, 1.0):
        truth = np.maximum(np.outer(moved, masses) - math.exp(epsilon) * np.outer(masses, moved), 0.0).sum()
        found = noise_delta(once, 3.0, 0.8, epsilon, Adjacency.LABEL_FLIP)
        assert truth <= found <= 1.02 * truth


def test_a_cap_that_is_often_reached_costs_one_and_e_to_the_epsilon_times_its_chance() -> None:
    made = planned(30)
    short = replace(made, noise=replace(made.noise, cap=1_920))
    chance = 300_000 * float(stats.nbinom.sf(1_920, 2002 * 30 / 10_000, 1 - float(made.noise.p)))
    found = epsilon_of(short, delta=1e-6, participants=10_000, gamma=1.0)
    whole = noise_delta(CONTRIBUTION, 30.0, float(made.noise.p), found) + (1 + math.exp(found)) * chance
    assert found > 1.005
    # The tail that is charged is at most a fifth above the true one.
    assert 0.9e-6 < whole <= 1e-6


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.2])
def test_repro_a_geometric_law_loses_the_same_everywhere(epsilon: float) -> None:
    """A shape of exactly 1 (an eighth of eight devices) has no spread; the grid's step was 0."""
    p = 0.8
    taken, given = 1 - math.exp(epsilon) * p, 1 - p
    found = delta_of([Sight(1.0, p, 1.0, 1)], epsilon, Adjacency.ZERO_OUT)
    assert max(taken, given) <= found <= max(taken, given) + 1e-6
    plan(epsilon=1, delta=1e-3, rounds=1, features=2, bins=3, participants=8, labels=2)


# ── all kinds of cells ───────────────────────────────────────────────────────────────────────────────────────────────


@cache
def whole(labels: int = 2, thinning: Thinning = RHO_1) -> CoverPlan:
    return plan(
        epsilon=1.0,
        delta=1e-6,
        rounds=10,
        features=100,
        bins=1000,
        participants=10_000,
        gamma=0.5,
        shape=60,
        thinning=thinning,
        labels=labels,
        train_share=Fraction(7, 10),
    )


def test_a_whole_plan_covers_every_kind_of_cell_and_keeps_what_was_asked() -> None:
    made = whole()
    cover = made.cover
    assert [noise.cells for noise in cover.kinds] == [2002, 4, 4]
    assert made.budget == cover.budget == 1 + cover.real_cap + sum(noise.cap for noise in cover.kinds)
    assert made.achieved <= 1.0
    assert made.delta_noise + made.delta_overflow + made.delta_sampler + made.delta_cut <= 1e-6
    assert cover.train_share == Fraction(7, 10)


def test_participation_alone_keeps_its_share_and_costs_train_cells_little() -> None:
    made = whole()
    mechanism = made.mechanism
    assert mechanism.participation is not None
    alone = replace(mechanism, train=mechanism.participation, participation=None, test=None)
    one_look = replace(alone, contribution=Contribution(rounds=10, models=1, cells=1, thinning=EVERYTHING))
    assert one_look.epsilon(delta=1e-6, honest=made.honest) <= 0.2 * 1.02
    fewer = plan(
        epsilon=1.0,
        delta=1e-6,
        rounds=10,
        features=100,
        bins=1000,
        participants=10_000,
        gamma=0.5,
        shape=60,
        thinning=RHO_1,
    )
    assert fewer.noise.odds < made.noise.odds < 1.1 * fewer.noise.odds


def test_without_participation_cover_the_same_train_cover_says_less() -> None:
    made = whole()
    train_only = replace(made.mechanism, participation=None, test=None)
    assert train_only.epsilon(delta=1e-6, honest=made.honest) < made.achieved


def test_both_cohorts_are_looked_up() -> None:
    made = whole()
    weak = replace(made.mechanism, test=replace(made.cover.test or made.noise, odds=Fraction(1, 4096)))
    assert weak.epsilon(delta=1e-6, honest=made.honest) > 2 * made.achieved


def test_numbers_have_no_test_cells() -> None:
    assert whole(labels=1).test is None
    assert whole(labels=1).cover.participation.cells == 2


def test_a_plan_about_train_cells_alone_makes_no_experiment() -> None:
    with pytest.raises(BadExperimentError, match="train cells alone"):
        _ = planned().cover


@pytest.mark.parametrize("adjacency", Adjacency)
def test_a_person_of_two_kinds_of_cells_is_never_below_brute_force(adjacency: Adjacency) -> None:
    """One train cell and one participation cell, all outcomes written down."""
    (r1, p1, q1), (r2, p2) = (3.0, 0.6, 0.5), (5.0, 0.4)
    masses = [np.exp(log_masses(r1, p1)), np.exp(log_masses(r2, p2))]

    def law(mass: np.ndarray, q: float, length: int) -> np.ndarray:
        found = np.zeros(length)
        found[: len(mass)] += (1 - q) * mass
        found[1 : len(mass) + 1] += q * mass
        return found

    length = max(map(len, masses)) + 1
    with_, without = (
        [law(mass, q * there, length) for mass, q in zip(masses, (q1, 1.0), strict=True)] for there in (1, 0)
    )
    for epsilon in (0.1, 0.5, 1.0):
        if adjacency is Adjacency.ZERO_OUT:
            ours, theirs = np.multiply.outer(*with_), np.multiply.outer(*without)
        else:  # each unit is taken from one cell and given to another
            one = np.multiply.outer(with_[0], with_[1])[:40, :40]
            other = np.multiply.outer(without[0], without[1])[:40, :40]
            ours, theirs = np.multiply.outer(one, other), np.multiply.outer(other, one)
        worst = max(
            float(np.maximum(ours - math.exp(epsilon) * theirs, 0).sum()),
            float(np.maximum(theirs - math.exp(epsilon) * ours, 0).sum()),
        )
        found = delta_of([Sight(r1, p1, q1, 1), Sight(r2, p2, 1.0, 1)], epsilon, adjacency)
        assert worst <= found * (1 + 1e-6)
        assert found <= 1.05 * worst + 1e-3
