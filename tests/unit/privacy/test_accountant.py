"""The accountant: never below brute force, and telling more costs more."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.learning.thinning import Thinning
from secvm.privacy.accounting.accountant import Adjacency, Contribution, Sight, delta_of
from secvm.privacy.accounting.cover_loss import log_masses
from secvm.privacy.planning.relay_plan import smallest_odds

EVERYTHING = Thinning()
#: 100 features and the bias, 30 rounds.
CONTRIBUTION = Contribution(rounds=30, models=1, cells=101, thinning=EVERYTHING)


def noise_delta(
    contribution: Contribution, shape: float, p: float, epsilon: float, adjacency: Adjacency = Adjacency.ZERO_OUT
) -> float:
    """δ(ε) of the noise in train cells alone: the largest over all persons there may be."""
    return max(delta_of([Sight(shape, p, q, looks)], epsilon, adjacency) for q, looks in contribution.looks())


@given(st.integers(1, 3000), st.fractions(Fraction(1, 10), 30, max_denominator=20))
def test_every_person_is_looked_at_or_one_who_tells_more(cells: int, rho: Fraction) -> None:
    looks = list(Contribution(rounds=2, models=3, cells=cells, thinning=Thinning(rho=rho)).looks())
    assert len(looks) <= cells
    for n in {1, 2, 3, 7, 50, 101, 250, cells // 2, cells - 1, cells}:
        if 1 <= n <= cells:
            q = min(1.0, float(rho) / math.sqrt(n))
            assert any(q <= other and 6 * n <= count for other, count in looks)


@pytest.mark.parametrize("more", [{"rounds": 31}, {"models": 2}, {"cells": 102}])
def test_telling_more_costs_more(more: dict[str, int]) -> None:
    fields = {"rounds": 30, "models": 1, "cells": 101} | more
    assert noise_delta(Contribution(**fields, thinning=EVERYTHING), 15.0, 65 / 66, 1.0) > noise_delta(
        CONTRIBUTION, 15.0, 65 / 66, 1.0
    )


def test_a_flip_is_a_unit_taken_and_a_unit_given() -> None:
    """One cell, one round: held to all outcomes of the two signs' counts. Two units taken would tell something else."""
    masses = np.exp(log_masses(3.0, 0.8))
    moved = np.concatenate([[0.0], masses[:-1]])
    once = Contribution(rounds=1, models=1, cells=1, thinning=EVERYTHING)
    for epsilon in (0.2, 1.0):
        truth = np.maximum(np.outer(moved, masses) - math.exp(epsilon) * np.outer(masses, moved), 0.0).sum()
        found = noise_delta(once, 3.0, 0.8, epsilon, Adjacency.LABEL_FLIP)
        assert truth <= found <= 1.02 * truth


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


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.2])
def test_repro_a_geometric_law_loses_the_same_everywhere(epsilon: float) -> None:
    """A shape of exactly 1 has no spread; the grid's step was 0."""
    p = 0.8
    taken, given = 1 - math.exp(epsilon) * p, 1 - p
    found = delta_of([Sight(1.0, p, 1.0, 1)], epsilon, Adjacency.ZERO_OUT)
    assert max(taken, given) <= found <= max(taken, given) + 1e-6


@pytest.mark.parametrize(("bins", "said"), [(1_000, 1_970_000), (10_000, 19_650_000)])
def test_mean_cover_of_shape_15_is_that_of_the_design(bins: int, said: int) -> None:
    """All of δ for the noise, 30 rounds of 101 cells: a hundredth less than said."""

    def shown(p: float) -> tuple[Sight, ...]:
        return (Sight(15.0, p, 1.0, 30 * 101),)

    mean = 2 * (bins + 1) * 15 * smallest_odds([shown], 1.0, 1e-6)
    assert float(mean) == pytest.approx(said, rel=0.015)
