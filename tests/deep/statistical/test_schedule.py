"""Send times tell nothing: uniform, in any order, also after a redraw.

Seeds are the run's. Fails by chance with probability at most 1e-6 a test: Massart's inequality for times, exact
binomial counts for places and orders (``bounds``). Every law is also shown something unfair.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import permutations

import pytest

from secvm.learning.package import NullPackage, Package, ParticipationPackage
from secvm.protocol.codec import decode
from secvm.protocol.plain.session import ParticipantSession
from secvm.protocol.plain.session_events import ManifestArrived, PackagesReady, SendPackage, SendSucceeded, Tick
from secvm.protocol.schedule import Window, below, redraw, shuffle, spread
from tests.deep.statistical.bounds import equal_counts, kolmogorov, smallest_gaps
from tests.seeds import FALSE_ALARM, seed_for
from tests.unit.protocol.helpers import START, document, manifests, packages, served, words

WINDOW = Window(START, START + 600_000)


def dice(purpose: object) -> Iterator[int]:
    return words(seed_for(str(purpose)))


def shares(times: Iterable[int], window: Window) -> list[float]:
    """Times as parts of the window."""
    return [(at - window.opens_at) / (window.closes_at - window.opens_at) for at in times]


def test_times_are_uniform_over_the_window() -> None:
    found = shares(spread(50_000, WINDOW, dice("uniform")), WINDOW)
    assert kolmogorov(found, FALSE_ALARM) < 1
    # A window that ends a twentieth too early would be seen.
    assert kolmogorov([0.95 * at for at in found], FALSE_ALARM) > 1


def test_gaps_between_times_of_one_person_are_those_of_independent_draws() -> None:
    """The law of the smallest of a hundred gaps is known exactly."""
    window = Window(0, 10**12)
    people = [shares(spread(100, window, dice(("gap", i))), window) for i in range(400)]
    assert kolmogorov(smallest_gaps(people), FALSE_ALARM) < 1
    # A device that spaces its packages would be seen.
    spaced = [[(i + at) / 100 for i, at in enumerate(times)] for times in people]
    assert kolmogorov(smallest_gaps(spaced), FALSE_ALARM) > 1


def test_overdue_times_are_uniform_over_what_is_left() -> None:
    now = START + 450_000
    times = spread(50_000, WINDOW, dice("overdue"))
    again = redraw(times, WINDOW, dice("again"), now=now)
    moved = [after for before, after in zip(times, again, strict=True) if before < now]
    assert len(moved) > 30_000
    assert kolmogorov(shares(moved, Window(now, WINDOW.closes_at)), FALSE_ALARM) < 1


@pytest.mark.parametrize("n", [3, 7, 1000])
def test_numbers_below_a_bound_are_equally_likely(n: int) -> None:
    source = dice(("below", n))
    found = Counter(below(n, source) for _ in range(50_000))
    assert equal_counts([found[i] for i in range(n)], FALSE_ALARM) < 1


def test_numbers_that_are_rounded_down_are_seen() -> None:
    """Three bits modulo seven: zero comes twice as often."""
    source = dice("modulo")
    found = Counter(below(8, source) % 7 for _ in range(50_000))
    assert equal_counts([found[i] for i in range(7)], FALSE_ALARM) > 1


def test_all_orders_are_equally_likely() -> None:
    source = dice("orders")
    found = Counter(tuple(shuffle("abcd", source)) for _ in range(24_000))
    assert equal_counts([found[order] for order in permutations("abcd")], FALSE_ALARM) < 1
    assert sum(found[order] for order in permutations("abcd")) == 24_000


def test_participation_package_comes_at_any_place_and_time_of_a_session() -> None:
    """Neither a package's number nor its place in time tells its kind. False-alarm rate at most 3e-6 in all."""
    of = document()
    (first,) = manifests(1, of)
    sent: tuple[Package, ...] = packages()
    numbers, places, times = [0] * 5, [0] * 5, []
    for person in range(500):
        source = dice(("session", person))
        session = ParticipantSession(of, seal=lambda plaintext, _keys: plaintext)
        session.receive(ManifestArrived(served(first)), now=START - 1, words=source)
        session.receive(PackagesReady(sent), now=START - 1, words=source)
        order: list[SendPackage] = []
        # Steps within the grace, so that nothing is drawn again; the last one just before the end.
        for now in (*range(START, first.closes_at, 9_000), first.closes_at - 1):
            for action in session.receive(Tick(), now=now, words=source):
                if isinstance(action, SendPackage):
                    order.append(action)
                    session.receive(SendSucceeded(action.package_id), now=now, words=source)
        assert len(order) == of.budget
        for place, one in enumerate(order):
            package = decode(one.capsule).package
            assert isinstance(package, Package)
            if isinstance(package, ParticipationPackage):
                numbers[one.package_id] += 1
                places[place] += 1
                times.append(one.at)
    assert equal_counts(numbers, FALSE_ALARM / 3) < 1
    assert equal_counts(places, FALSE_ALARM / 3) < 1
    assert kolmogorov(shares(times, first.window), FALSE_ALARM / 3) < 1
    assert NullPackage() in sent
