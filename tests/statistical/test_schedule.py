"""Send times tell nothing: uniform, in any order, also after a redraw. Seeds are fixed, so each test always says the
same; its false-alarm rate is the chance with which a fair implementation would have failed had the seed been drawn
once."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from secvm.learning.package import NullPackage, Package, ParticipationPackage
from secvm.protocol.codec import decode
from secvm.protocol.events import ManifestArrived, PackagesReady, SendPackage, SendSucceeded, Tick
from secvm.protocol.schedule import Window, below, redraw, shuffle, spread
from secvm.protocol.session import ParticipantSession, unsafe_no_seal
from tests.unit.protocol.helpers import START, document, manifests, packages, served, words

pytestmark = pytest.mark.slow

#: sqrt(ln(2 / rate) / 2): by Massart's inequality a fair sample's Kolmogorov distance times sqrt(n) exceeds it with at
#: most this probability, for every n.
RATE = 1e-6
LIMIT = math.sqrt(math.log(2 / RATE) / 2)


def kolmogorov(times: list[int], window: Window) -> float:
    """sqrt(n) times the largest distance between the sample's distribution and the uniform one, from both sides."""
    ordered = (np.sort(np.array(times)) - window.opens_at) / (window.closes_at - window.opens_at)
    n = len(ordered)
    steps = np.arange(n + 1) / n
    return float(math.sqrt(n) * max(np.max(steps[1:] - ordered), np.max(ordered - steps[:-1])))


def chi_square_limit(cells: int) -> float:
    """A value that chi-square with cells - 1 degrees of freedom exceeds with probability at most RATE (Laurent and
    Massart, 2000: k + 2 sqrt(k x) + 2 x with x = ln(1 / rate))."""
    k, x = cells - 1, math.log(1 / RATE)
    return k + 2 * math.sqrt(k * x) + 2 * x


def chi_square(counts: list[int]) -> float:
    expected = sum(counts) / len(counts)
    return sum((count - expected) ** 2 / expected for count in counts)


def test_times_are_uniform_over_the_window() -> None:
    """False-alarm rate 1e-6."""
    window = Window(START, START + 600_000)
    assert kolmogorov(spread(50_000, window, words("uniform")), window) < LIMIT


def test_gaps_between_times_of_one_person_are_those_of_independent_draws() -> None:
    """The smallest gap of n uniform points times n² is about exponential. False-alarm rate about 1e-6 per side."""
    window, n = Window(0, 10**12), 100
    smallest = [
        min(b - a for a, b in pairwise(sorted(spread(n, window, words(("gap", i)))))) * n * (n - 1) / 10**12
        for i in range(400)
    ]
    mean = sum(smallest) / len(smallest)
    assert abs(mean - 1) < 4.892 / math.sqrt(400) + 0.02  # 0.02: the law is exact only as n grows


def test_overdue_times_are_uniform_over_what_is_left() -> None:
    """False-alarm rate 1e-6."""
    window, now = Window(START, START + 600_000), START + 450_000
    times = spread(50_000, window, words("overdue"))
    again = redraw(times, window, words("again"), now=now)
    moved = [after for before, after in zip(times, again, strict=True) if before < now]
    assert len(moved) > 30_000
    assert kolmogorov(moved, Window(now, window.closes_at)) < LIMIT


@pytest.mark.parametrize("n", [3, 7, 1000])
def test_numbers_below_a_bound_are_equally_likely(n: int) -> None:
    """False-alarm rate at most 1e-6 for each bound."""
    dice = words(("below", n))
    counts = Counter(below(n, dice) for _ in range(50_000))
    assert chi_square([counts[i] for i in range(n)]) < chi_square_limit(n)


def test_all_orders_are_equally_likely() -> None:
    """False-alarm rate at most 1e-6."""
    dice = words("orders")
    counts = Counter(tuple(shuffle("abcd", dice)) for _ in range(24_000))
    assert len(counts) == 24
    assert chi_square(list(counts.values())) < chi_square_limit(24)


def test_participation_package_comes_at_any_place_and_time_of_a_session() -> None:
    """Neither a package's number nor its place in time tells its kind. False-alarm rate at most 3e-6 in all."""
    of = document()
    (first,) = manifests(1, of)
    sent: tuple[Package, ...] = packages()
    numbers, places, times = [0] * 5, [0] * 5, []
    for person in range(500):
        dice = words(("session", person))
        session = ParticipantSession(of, seal=unsafe_no_seal)
        session.receive(ManifestArrived(served(first)), now=START - 1, words=dice)
        session.receive(PackagesReady(sent), now=START - 1, words=dice)
        order: list[SendPackage] = []
        # Steps within the grace, so that nothing is drawn again; the last one just before the end.
        for now in (*range(START, first.closes_at, 9_000), first.closes_at - 1):
            for action in session.receive(Tick(), now=now, words=dice):
                if isinstance(action, SendPackage):
                    order.append(action)
                    session.receive(SendSucceeded(action.package_id), now=now, words=dice)
        assert len(order) == of.budget
        for place, one in enumerate(order):
            package = decode(one.capsule).package
            assert isinstance(package, Package)
            if isinstance(package, ParticipationPackage):
                numbers[one.package_id] += 1
                places[place] += 1
                times.append(one.at)
    assert chi_square(numbers) < chi_square_limit(5)
    assert chi_square(places) < chi_square_limit(5)
    assert kolmogorov(times, first.window) < LIMIT
    assert NullPackage() in sent
