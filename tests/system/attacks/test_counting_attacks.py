"""Attacks on counts at a small size: each works without cover, and with it is not above what the accountant allows.

Seeds are the run's. Fails by chance with probability at most 1e-6 a test: by Efron's bound (``bounds``) an attack that
reaches the accountant's number is so many standard errors above it, and those that stay below fail less often. What an
attack must reach without cover is six standard errors below its mean. That the tests can fail is shown by the same
attacks without cover, by a relay that covers less than it promises, and by an ε that is no protection.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from secvm.learning.individual.contribution import train_packages
from secvm.learning.individual.dice import UnsafeSeededDice
from secvm_lab.attacks.attack import Measurement
from secvm_lab.attacks.counting import all_known, common_weights, membership
from secvm_lab.attacks.counting.covered import (
    Setting,
    count_units,
    draw_crowd,
    largest_auc,
    person_with,
    scores,
    weights_of,
)
from secvm_lab.attacks.counting.likelihood import CoverLaw, cell_law, place_tables, unit_table
from secvm_lab.attacks.counting.over_rounds import scores_intersection
from secvm_lab.attacks.registry import find
from secvm_lab.attacks.statistics import auc
from tests.deep.statistical.bounds import standard_errors
from tests.seeds import FALSE_ALARM, seed_for

#: Half the width of a 95 % interval in standard errors, and how many are allowed.
HALF, ALLOWED = 1.96, standard_errors(FALSE_ALARM, sides=1)


def above(found: Measurement, bound: float) -> float:
    """By how many standard errors a measurement is above the accountant's number."""
    return (found.value - bound) / ((found.ci95[1] - found.ci95[0]) / 2 / HALF)


class Small(NamedTuple):
    slug: str
    trials: int
    undefended_at_least: float
    bound: str


SMALL = (
    Small("hash-dictionary", 400, 0.4, "accountant_gain"),
    Small("rare-bin", 2_000, 0.98, "accountant_auc_one_cell"),
    Small("last-violator", 600, 1.0, "accountant_success"),
    Small("drop-out", 1_000, 1.0, "accountant_auc"),
    Small("many-experiments", 400, 0.8, "accountant_auc"),
    Small("isolated-device", 120, 0.95, "accountant_auc"),
)


@pytest.mark.parametrize("small", SMALL, ids=lambda small: small.slug)
def test_an_attack_works_without_cover_and_with_it_keeps_to_the_accountant(small: Small) -> None:
    attack, seed = find(small.slug), seed_for(small.slug)
    assert attack.measure(small.trials, seed, defended=False).value >= small.undefended_at_least
    defended = attack.measure(small.trials, seed, defended=True)
    bound = float(defended.detail[small.bound] or 0)
    assert bound < 0.7
    assert above(defended, bound) < ALLOWED


@pytest.fixture(scope="module")
def one_experiment() -> Setting:
    return Setting(people=4_000, bins=8, features=8, rounds=30)


def known_but_one(setting: Setting, plays: int, *, share: float = 1.0, rounds: int | None = None) -> Measurement:
    dice = np.random.default_rng(seed_for(f"all known {plays} {share}"))
    found = [scores(setting, label, plays, dice, share=share, rounds=rounds)[:, -1] for label in (1, 0)]
    return Measurement(*auc(*found), 2 * plays)


def test_who_knows_all_others_gets_what_the_accountant_allows_and_no_more(one_experiment: Setting) -> None:
    """The attack is the best there is, so it is not below either."""
    bound = one_experiment.auc_bound()
    found = known_but_one(one_experiment, 3_000)
    assert abs(above(found, bound)) < standard_errors(FALSE_ALARM)
    assert 0.58 < bound < 0.6


def test_a_relay_that_covers_less_than_it_promises_is_seen(one_experiment: Setting) -> None:
    assert above(known_but_one(one_experiment, 1_000, share=0.2), one_experiment.auc_bound()) > ALLOWED
    assert one_experiment.epsilon_with(0.2) > 2
    # Where both relays collude nobody is hidden, and the accountant says so.
    assert known_but_one(one_experiment, 50, share=0.0, rounds=2).value == 1
    assert math.isinf(one_experiment.epsilon_with(0.0))


def test_how_many_people_there_are_does_not_change_what_is_promised(one_experiment: Setting) -> None:
    alone = Setting(people=1, bins=8, features=8, rounds=30)
    assert alone.plan.cover == one_experiment.plan.cover
    assert alone.auc_bound() == one_experiment.auc_bound()


def test_an_epsilon_of_eight_is_no_protection() -> None:
    setting = Setting(people=4_000, bins=8, features=8, rounds=30, epsilon=8.0)
    assert known_but_one(setting, 400).value > 0.88
    assert setting.auc_bound() > 0.9


def test_plain_sums_tell_everything_to_who_knows_all_others() -> None:
    assert find("sybil").measure(100, seed_for("sybil"), defended=False).value == 1


def test_rounds_add_up_and_the_ledger_ends_them() -> None:
    setting = Setting(people=1_000, bins=60, features=8, rounds=5)
    dice = np.random.default_rng(seed_for("rounds add up"))
    yes, no = scores_intersection(dice, setting, 1_600, rounds=30, covered=False)
    after = [auc(yes[:, rounds - 1], no[:, rounds - 1])[0] for rounds in (1, 5, 30)]
    assert after == sorted(after)
    assert after[-1] > 0.9
    assert setting.rounds_within(setting.epsilon, 30) == 5
    yes, no = scores_intersection(dice, setting, 1_600, rounds=5, covered=True)
    covered = Measurement(*auc(yes[:, -1], no[:, -1]), 1_600)
    assert above(covered, setting.auc_bound()) < ALLOWED


def test_a_model_of_few_people_tells_who_they_were_and_not_under_cover() -> None:
    """Means of eight models, with a standard error of .02: .75 without cover, .52 with it, and .564 is allowed."""
    setting, seed = Setting(people=120, bins=300, features=20, rounds=5), seed_for("membership")
    plain = membership.play_in(setting, 8, seed, defended=False, advance=lambda _: None)
    covered = membership.play_in(setting, 8, seed, defended=True, advance=lambda _: None)
    assert plain.value > 0.62
    assert above(covered, float(covered.detail["accountant_auc"] or 0)) < ALLOWED


def test_a_ledger_spends_no_more_than_its_cap() -> None:
    assert all_known.joined_within(4.0, 0.99) == 4
    assert all_known.joined_within(4.0, 4.1) == 0
    assert all_known.joined_within(4.0, 0.001) == all_known.EXPERIMENTS


# ── what the attackers compute with ──────────────────────────────────────────────────────────────────────────────────


@given(st.floats(0.05, 3.0))
@settings(max_examples=8)
def test_the_largest_auc_of_two_normal_laws_is_theirs(apart: float) -> None:
    def delta(epsilon: float) -> float:
        low, high = (float(stats.norm.cdf(side * apart / 2 - epsilon / apart)) for side in (-1, 1))
        return high - math.exp(epsilon) * low

    exact = float(stats.norm.cdf(apart / math.sqrt(2)))
    assert exact - 1e-12 <= largest_auc(delta) <= exact + 1e-3


def test_nothing_told_is_a_coin_and_everything_is_certain() -> None:
    assert largest_auc(lambda _: 0.0) == pytest.approx(0.5)
    assert largest_auc(lambda _: 1.0) == 1.0


@given(st.integers(0, 40), st.floats(0.01, 0.99), st.floats(1.5, 20.0), st.floats(0.1, 0.8))
@settings(max_examples=25)
def test_the_law_of_a_cell_is_cover_and_crowd_together(people: int, share: float, shape: float, p: float) -> None:
    law = cell_law(CoverLaw(shape, p), people, share)
    k = np.arange(len(law))
    by_hand = sum(
        stats.binom.pmf(crowd, people, share) * stats.nbinom.pmf(k - crowd, shape, 1 - p) for crowd in range(people + 1)
    )
    assert law == pytest.approx(by_hand, abs=1e-12)
    table = unit_table(CoverLaw(shape, p), people, share)
    middle = int(np.argmax(law)) + 1
    assert table[middle] == pytest.approx(math.log(law[middle - 1] / law[middle]))


@given(st.integers(2, 60), st.floats(0.05, 0.95))
def test_without_cover_a_place_among_senders_has_a_closed_form(senders: int, share: float) -> None:
    has, lacks = place_tables(None, senders, np.array([True, False]), np.array([share, share]))
    law = cell_law(None, senders, share)
    for count in range(1, senders):
        # Tails that never come are not written down.
        if count + 1 >= len(law) or law[count] < 1e-20:
            continue
        assert has[count] == pytest.approx(math.log(count / (senders * share)))
        assert lacks[count] == pytest.approx(math.log((senders - count) / (senders * (1 - share))))


@given(st.integers(0, 10**6))
@settings(max_examples=10)
def test_a_crowd_sends_what_its_devices_would_send(seed: int) -> None:
    dice = np.random.default_rng(seed)
    setting = Setting(people=30, bins=12, features=5, rounds=1)
    crowd = draw_crowd(dice, people=setting.people, bins=setting.bins, features=setting.features)
    bins = crowd.bins_of(0)[:2]
    experiment = setting.experiment(covered=False)
    for values in (common_weights.isolating(bins, setting.bins, 1), dice.integers(-2, 3, size=setting.bins + 1)):
        packages = []
        for person in range(crowd.size):
            one = person_with(crowd.bins_of(person), int(crowd.labels[person]), setting.bins)
            packages += train_packages(
                one,
                experiment=experiment,
                training=weights_of(values),
                dice=UnsafeSeededDice(bytes(8), person),
                round_number=1,
            )
        sending = crowd.violators(crowd.scores(values))
        assert np.array_equal(crowd.counted(sending), count_units(packages, setting.bins))
