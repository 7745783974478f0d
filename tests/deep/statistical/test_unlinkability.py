"""When packages leave says nothing: neither whose they are nor what they are. With churn and restarts.

The crowd is a thousand and more real devices over ten rounds; half of the time something befalls them (``crowd``). The
claims, and for whom each holds:

 1. **Steady**: the device is up for the whole window and every answer comes. First arrivals of all its packages, of
    every kind, are independent and uniform over the window, and so are its askings for manifests, over their spread.
 2. **Flaky**: answers or capsules are lost. The times at which capsules *first leave* are as in 1. One that was lost on
    the way arrives later by the random times of its retries: not uniform, but for reasons that the network gave.
 3. **Troubled**: stopped, killed, asleep or paused in the window, from one instant to another. What arrives before is
    uniform up to the first; nothing arrives between; what arrives after is independent and uniform over what is left.
    That the device was away shows to whoever can tell its packages apart by other means; it does not link them.
    One exception: a device that was asleep and has missed nothing older than ten seconds cannot tell sleep from a slow
    timer, and sends at the moment it wakes what became due in these ten seconds: of B = 8 packages in 600 seconds 0.13.
 4. **Late**: joined the experiment when the window was open. Sends nothing in this round, and is steady in the next.

Seeds are the run's. Fails by chance with probability at most 1e-6 a test (``bounds``). Every law is also tried on
devices with a fault, and must notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from secvm.protocol.plain import session_memory
from tests.deep.statistical import faults
from tests.deep.statistical.bounds import equal_counts, grid, kolmogorov, poisson_limit, rank_correlation, smallest_gaps
from tests.deep.statistical.crowd import BUDGET, GRACE_MS, LENGTH_MS, Fault, Stay, crowd
from tests.seeds import FALSE_ALARM, seed_for

#: Of one law on one crowd.
RATE = FALSE_ALARM
DEVICES, ROUNDS = 1900, 10
#: Enough for faults.
FEW_DEVICES, FEW_ROUNDS = 300, 5

#: A law measures a crowd: 1 and more is an alarm.
Law = Callable[[Sequence[Stay]], float]


def steady(stays: Iterable[Stay]) -> list[Stay]:
    """Those of claim 1."""
    return [stay for stay in stays if stay.steady and len(stay.times) == BUDGET]


def troubled(stays: Iterable[Stay]) -> list[Stay]:
    """Those of claim 3, with a little of the window before and after."""
    return [
        stay
        for stay in stays
        if stay.trouble.kind not in ("steady", "flaky")
        and stay.begins >= 1000
        and stay.ends <= LENGTH_MS - 1000
        and stay.times
    ]


def couples(times: Iterable[Sequence[float]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pairs of numbers of one list each, at random, every number in one pair at most."""
    rng = np.random.default_rng(seed_for("couples"))
    first: list[float] = []
    second: list[float] = []
    for one in times:
        mixed = rng.permutation(np.asarray(one, dtype=float))
        half = len(mixed) // 2
        first += mixed[:half].tolist()
        second += mixed[half : 2 * half].tolist()
    return np.array(first), np.array(second)


# ── laws ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def uniform_by_kind(stays: Sequence[Stay]) -> float:
    """Four Kolmogorov tests, one a kind. Of one person one package of a kind, so that all are independent."""
    by_kind: dict[str, list[float]] = {"train": [], "test": [], "participation": [], "null": []}
    rng = np.random.default_rng(seed_for("kinds"))
    for stay in steady(stays):
        for kind in sorted(set(stay.kinds)):
            of_it = [at for at, one in zip(stay.times, stay.kinds, strict=True) if one == kind]
            by_kind[kind].append(float(rng.choice(of_it)) / LENGTH_MS)
    assert all(len(times) > 40 for times in by_kind.values())
    return max(kolmogorov(times, RATE / 4) for times in by_kind.values())


def uniform_when_flaky(stays: Sequence[Stay]) -> float:
    """First departures of devices whose answers or capsules are lost."""
    flaky = [stay.tried for stay in stays if stay.trouble.kind == "flaky"]
    return kolmogorov([at / LENGTH_MS for tried in flaky for at in tried], RATE)


def pairs_on_a_grid(stays: Sequence[Stay]) -> float:
    """Two packages of one person fall into all 36 cells of a square alike."""
    first, second = couples(stay.times for stay in steady(stays))
    return equal_counts(grid(first / LENGTH_MS, second / LENGTH_MS), RATE)


def pairs_by_rank(stays: Sequence[Stay]) -> float:
    """Spearman's correlation between two packages of one person."""
    first, second = couples(stay.times for stay in steady(stays))
    return rank_correlation(first, second, RATE)


def gaps_of_independent_draws(stays: Sequence[Stay]) -> float:
    """A person's smallest gap has the law of independent draws."""
    return kolmogorov(smallest_gaps([[at / LENGTH_MS for at in stay.times] for stay in steady(stays)]), RATE)


def any_place_for_any_kind(stays: Sequence[Stay]) -> float:
    """The place of the participation package, of the test package, and of one train package, in 1 … B."""
    places: dict[str, list[int]] = {kind: [0] * BUDGET for kind in ("participation", "test", "train")}
    rng = np.random.default_rng(seed_for("places"))
    for stay in steady(stays):
        for kind in sorted(set(stay.kinds) - {"null"}):
            places[kind][int(rng.choice([i for i, one in enumerate(stay.kinds) if one == kind]))] += 1
    return max(equal_counts(counts, RATE / 3) for counts in places.values())


def no_phase_of_its_own(stays: Sequence[Stay]) -> float:
    """The distance of two packages of one person, modulo a minute and modulo ten seconds, is uniform."""
    first, second = couples(stay.times for stay in steady(stays))
    return max(kolmogorov((first - second) % period / period, RATE / 2) for period in (60_000, 10_000))


def askings_tell_nothing_of_sendings(stays: Sequence[Stay]) -> float:
    """When a device asked for the manifest, and its first, mean and last package."""
    found = steady(stays)
    asked = [stay.asked_at for stay in found]
    return max(
        rank_correlation(asked, [float(of(stay.times)) for stay in found], RATE / 3) for of in (np.min, np.mean, np.max)
    )


def next_to_each_other(stays: Sequence[Stay]) -> list[tuple[Stay, Stay]]:
    """One person in two rounds, one after the other; each round in one pair."""
    found = [
        (a, b) for a, b in pairwise(stays) if a.person == b.person and a.steady and b.steady and a.times and b.times
    ]
    return [(a, b) for a, b in found if a.round_number % 2 == 0]


def rounds_tell_nothing_of_rounds(stays: Sequence[Stay]) -> float:
    """Askings in two rounds; and a package of each, on a grid."""
    pairs = next_to_each_other(stays)
    # The first round is asked for when the device begins; and who asked in vain has another spread.
    asked = [(a.asked_at, b.asked_at) for a, b in pairs if max(len(a.fetches), len(b.fetches)) == 3]
    by_rank = rank_correlation([a for a, _ in asked], [b for _, b in asked], RATE / 2)
    sent = [(a.times[3] / LENGTH_MS, b.times[3] / LENGTH_MS) for a, b in pairs]
    return max(by_rank, rank_correlation([a for a, _ in sent], [b for _, b in sent], RATE / 2))


def left_over(stay: Stay) -> list[float]:
    """What arrives after trouble, as a share of what is left; without what a sleeper may send when it wakes."""
    asleep = stay.trouble.kind == "asleep"
    return [(at - stay.ends) / (LENGTH_MS - stay.ends) for at in stay.times if at >= stay.ends + asleep]


def uniform_over_what_is_left(stays: Sequence[Stay]) -> float:
    """Claim 3: before, after, pairs after, and no two of a person closer than independent draws would be."""
    found = troubled(stays)
    before = [at / stay.begins for stay in found for at in stay.times if at < stay.begins]
    after = [left_over(stay) for stay in found]
    first, second = couples(after)
    crowded = smallest_gaps([times for times in after if len(times) >= 2])
    return max(
        kolmogorov(before, RATE / 4),
        kolmogorov([at for times in after for at in times], RATE / 4),
        equal_counts(grid(first, second, 4), RATE / 4),
        kolmogorov(crowded, RATE / 4),
    )


def no_burst_at_the_return(stays: Sequence[Stay]) -> float:
    """Claim 3: what leaves at the very millisecond of the return is what chance draws there, hardly ever anything."""
    found = [stay for stay in troubled(stays) if stay.trouble.kind != "asleep"]
    expected = sum(BUDGET / (LENGTH_MS - stay.ends) for stay in found)
    return sum(at == stay.ends for stay in found for at, _, _ in stay.sends) / poisson_limit(expected, RATE)


def who_is_late_waits(stays: Sequence[Stay]) -> float:
    """Claim 4: nothing in the round that was running, and in the next the whole window."""
    late = {stay.person for stay in stays if not stay.in_time}
    if any(stay.sends for stay in stays if not stay.in_time):
        return float("inf")
    return kolmogorov([at / LENGTH_MS for stay in steady(stays) if stay.person in late for at in stay.times], RATE)


# ── tests ────────────────────────────────────────────────────────────────────────────────────────────────────────────

#: What each law must notice.
LAWS: tuple[tuple[Law, Fault], ...] = (
    (uniform_by_kind, faults.participation_at_once),
    (uniform_by_kind, faults.kinds_in_order),
    (uniform_when_flaky, faults.participation_at_once),
    (pairs_on_a_grid, faults.one_generator_in_a_loop),
    (pairs_by_rank, faults.a_part_of_the_window),
    (gaps_of_independent_draws, faults.one_generator_in_a_loop),
    (gaps_of_independent_draws, faults.participation_at_once),
    (any_place_for_any_kind, faults.kinds_in_order),
    (any_place_for_any_kind, faults.participation_at_once),
    (no_phase_of_its_own, faults.a_phase_of_its_own),
    (askings_tell_nothing_of_sendings, faults.delays_from_the_fetch),
    (rounds_tell_nothing_of_rounds, faults.polls_at_a_fixed_phase),
    (uniform_over_what_is_left, faults.overdue_at_once),
    (no_burst_at_the_return, faults.a_burst_within_the_grace),
    (who_is_late_waits, faults.from_fetch_to_deadline),
)


@pytest.mark.parametrize("law", dict.fromkeys(law for law, _ in LAWS), ids=lambda law: law.__name__)
def test_times_of_packages_tell_nothing(law: Law) -> None:
    """Fails by chance with probability at most 1e-6 a law: its parts share the rate."""
    assert law(crowd(DEVICES, ROUNDS)) < 1


@pytest.mark.parametrize(("law", "fault"), LAWS, ids=lambda one: one.__name__)
def test_devices_with_a_fault_are_noticed(law: Law, fault: Fault) -> None:
    """Power: with a twelfth of the crowd the law already tells a device with this fault from a good one."""
    assert law(crowd(FEW_DEVICES, FEW_ROUNDS, fault)) > 1


def test_sleepers_send_at_their_waking_no_more_than_a_slow_timer_would() -> None:
    """Of each sleeper at most B · 10 s / 600 s on average, as claimed.

    Fails by chance with probability at most 1e-6: a sum of independent events has a thinner tail than Poisson's law.
    """
    sleepers = [stay for stay in troubled(crowd(DEVICES, ROUNDS)) if stay.trouble.kind == "asleep"]
    at_once = sum(stay.times.count(stay.ends) for stay in sleepers)
    claimed = len(sleepers) * BUDGET * (session_memory.GRACE_MS + 1) / LENGTH_MS
    assert at_once < poisson_limit(claimed, RATE)
    # That it can fail: twice as much would be noticed.
    assert 2 * claimed > poisson_limit(claimed, RATE) + 5 * (2 * claimed) ** 0.5


def test_nothing_leaves_while_a_device_is_away_and_nothing_is_lost_on_the_way_back() -> None:
    """Certain, no statistics: claim 3's instants, and B packages of whoever had the time to send them."""
    stays = crowd(DEVICES, ROUNDS)
    found = troubled(stays)
    assert len(found) > 1000
    assert not any(stay.begins <= at < stay.ends for stay in found for at, _, _ in stay.sends)
    assert all(len(stay.times) == BUDGET for stay in steady(stays))
    assert {len(stay.times) for stay in found} == {BUDGET}
    # All of this is about rounds in which devices asked before the window, within the three graces before it.
    assert all(-3 * GRACE_MS <= stay.asked_at < 0 for stay in steady(stays))
