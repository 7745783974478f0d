"""Relays' cover as the accountant has it: never below the truth of tiny rounds, whose outcomes are all written down."""

import math
from fractions import Fraction
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from secvm.errors import BadExperimentError
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.cover_law import Noise, RelayCover
from secvm.learning.experiment import Experiment
from secvm.learning.thinning import Thinning
from secvm.privacy.accounting.accountant import Adjacency, Contribution, Mechanism
from secvm.privacy.accounting.relay_cover import contribution_of, log_overflow, relay_mechanism, smallest_part
from tests.unit.learning.helpers import relay_cover
from tests.unit.privacy.enumerated import Law, added, independent_units, part_that_fits, true_delta

PARTS = 4
#: Two train cells (the signs of one bin) and two participation cells (two labels).
CELLS = 4
EPSILONS = (0.0, 0.1, 0.3, 0.7, 1.2, 2.0)


def tiny(shape: str, train: str, participation: str, room: int) -> RelayCover:
    return relay_cover(bins=0, labels=1, shape=shape, train=train, here=participation, parts=PARTS, room=room)


def cover_that_stays(cover: RelayCover) -> Law:
    """S - 1 parts of one relay, each drawn again until it fits."""
    laws = [
        (float(noise.part(cover.parts)), float(noise.p))
        for noise in (cover.train, cover.train, cover.participation, cover.participation)
    ]
    part = part_that_fits(laws, cover.part_packages)
    return reduce(added, [part] * (cover.parts - 1))


def worlds(cover: RelayCover, q: float, adjacency: Adjacency) -> tuple[Law, Law]:
    """All counts with the person's packages, and in the other world."""
    stays = cover_that_stays(cover)
    here = added(stays, independent_units([q, 0.0, 1.0, 0.0]))
    other = [0.0] * CELLS if adjacency is Adjacency.ZERO_OUT else [0.0, q, 0.0, 1.0]
    return here, added(stays, independent_units(other))


def mechanism(cover: RelayCover, q: str, rounds: int) -> Mechanism:
    told = Contribution(rounds=rounds, models=1, cells=1, thinning=Thinning(q=Fraction(q)))
    return relay_mechanism(told, cover)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(
    ("cover", "q", "rounds"),
    [
        (tiny("3", "1/8", "1/8", 5), "1", 1),
        (tiny("3", "1/8", "1/4", 5), "1/2", 1),
        (tiny("6", "1/16", "1/8", 4), "1/2", 2),
        (tiny("1", "1/2", "1/4", 6), "1/3", 1),
        (tiny("1/2", "1", "1/2", 6), "1", 2),
        (tiny("12", "1/32", "1/16", 5), "9/10", 1),
        # So little room that most parts are drawn again.
        (tiny("3", "1/4", "1/4", 1), "1/2", 1),
    ],
)
def test_delta_is_never_below_the_truth(cover: RelayCover, q: str, rounds: int, adjacency: Adjacency) -> None:
    one, other = worlds(cover, float(Fraction(q)), adjacency)
    told = mechanism(cover, q, rounds)
    for epsilon in EPSILONS:
        truth = true_delta(one, other, epsilon, rounds=rounds)
        assert told.delta(epsilon, adjacency=adjacency) >= truth * (1 - 1e-12)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_delta_is_near_the_truth_where_parts_hardly_overflow(adjacency: Adjacency) -> None:
    cover = tiny("3", "1/16", "1/16", 7)
    told, (one, other) = mechanism(cover, "1/2", 1), worlds(cover, 0.5, adjacency)
    for epsilon in EPSILONS[:3]:
        truth = true_delta(one, other, epsilon)
        assert truth < told.delta(epsilon, adjacency=adjacency) < 1.02 * truth + 1e-4


def test_an_accountant_without_overflow_would_say_too_little() -> None:
    """A part with little room says by its own size how many units a person has."""
    cover = tiny("3", "1/4", "1/4", 2)
    one, other = worlds(cover, 0.5, Adjacency.ZERO_OUT)
    told = mechanism(cover, "1/2", 1)
    without = told.delta(0.3) - (1 + math.exp(0.3)) * told.departs
    assert without < true_delta(one, other, 0.3) < told.delta(0.3)


def test_an_opened_part_tells_nothing_of_the_others() -> None:
    """(All parts and the person, one part apart) tells as much as the others and the person."""
    part = part_that_fits([(1.0, 0.2), (1.0, 0.2)], 3)
    stays = added(part, part)
    person, nobody = independent_units([0.5, 1.0]), independent_units([0.0, 0.0])
    less, least = added(stays, person), added(stays, nobody)
    size = [a + b - 1 for a, b in zip(less.shape, part.shape, strict=True)]
    seen, seen_without = (np.zeros([*size, *part.shape]) for _ in range(2))
    for opened in np.argwhere(part > 0):
        where = tuple(slice(at, at + n) for at, n in zip(opened, less.shape, strict=True))
        seen[(*where, *opened)] += part[tuple(opened)] * less
        seen_without[(*where, *opened)] += part[tuple(opened)] * least
    for epsilon in EPSILONS:
        assert true_delta(seen, seen_without, epsilon) == pytest.approx(true_delta(less, least, epsilon), abs=1e-12)


# ── overflow ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def exact_overflow(kinds: list[Noise], parts: int, room: int) -> float:
    law = np.ones(1)
    for noise in kinds:
        k = np.arange(room + 1)
        one = stats.nbinom.pmf(k, float(noise.cells * noise.part(parts)), 1 - float(noise.p))
        law = np.convolve(law, one)[: room + 1]
    return 1 - float(law.sum())


kind = st.builds(
    Noise,
    cells=st.integers(1, 200),
    shape=st.fractions(Fraction(1, 4), 30, max_denominator=8),
    odds=st.fractions(Fraction(1, 16), 8, max_denominator=16),
)


@given(st.lists(kind, min_size=1, max_size=3), st.integers(4, 16), st.floats(-1, 5))
@settings(max_examples=40, deadline=None)
def test_overflow_is_never_below_the_truth_and_never_far(kinds: list[Noise], parts: int, deviations: float) -> None:
    mean = float(sum(noise.cells * noise.part(parts) * noise.odds for noise in kinds))
    spread = math.sqrt(sum(float(n.cells * n.part(parts) * n.odds * (1 + n.odds)) for n in kinds))
    room = max(1, math.floor(mean + deviations * spread))
    truth, bound = exact_overflow(kinds, parts, room), math.exp(log_overflow(kinds, parts, room))
    assert bound >= truth - 1e-12
    assert bound <= 1
    if mean > 100 and deviations > 3 and truth > 1e-9:
        assert bound < 2 * truth


def test_the_smallest_part_is_the_smallest() -> None:
    kinds = [
        Noise(cells=82, shape=Fraction(15), odds=Fraction(10)),
        Noise(cells=4, shape=Fraction(15), odds=Fraction(13)),
    ]
    least = smallest_part(kinds, 9, math.log(1e-9))
    assert log_overflow(kinds, 9, least) <= math.log(1e-9) < log_overflow(kinds, 9, least - 1)
    assert exact_overflow(kinds, 9, least) == pytest.approx(1e-9, rel=0.2)


# ── what a person tells ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_contribution_follows_from_the_experiment() -> None:
    experiment = Experiment(
        n_bins=50,
        labels=("a", "b", "c"),
        rule=Pegasos(),
        features_per_person=4,
        thinning=Thinning(q=Fraction(1, 2)),
        budget=20,
    )
    told = contribution_of(experiment, rounds=3, hashes=2)
    assert (told.rounds, told.models, told.cells) == (3, experiment.models.most_per_person, 9)
    # A person has no more cells than there are.
    assert contribution_of(experiment, rounds=3, hashes=20).cells == 51
    with pytest.raises(BadExperimentError, match=r"features\.per_participant"):
        contribution_of(Experiment(n_bins=5, labels=("a", "b"), rule=Pegasos(), budget=5), rounds=1)


def test_departures_are_those_of_all_parts_of_one_relay() -> None:
    cover = tiny("3", "1/8", "1/8", 5)
    told = mechanism(cover, "1", 3)
    one = math.exp(log_overflow(cover.kinds, PARTS, 5))
    assert told.departures.overflow == pytest.approx(4 * one)
    assert told.departures.sampler == 8 * 2.0**-60
    assert told.departs == pytest.approx(3 * (4 * one + 8 * 2.0**-60))
