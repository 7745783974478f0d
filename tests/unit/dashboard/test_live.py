"""Live figures, from differences of counters, and only where they can be known."""

from secvm.dashboard.live import Live, totals
from secvm.dashboard.public_status import PublicRound
from tests.unit.protocol.helpers import START, document

ROUND = PublicRound(number=1, state="open", opens_at=START, closes_at=START + 600_000, accept_until=START + 660_000)


#: Its devices send without a relay.
DIRECT = document(relays=(), test=True)


def packages(count: float) -> dict[tuple[str, ...], float]:
    return {("packages_total",): count}


def looked(*looks: tuple[int, float]) -> Live:
    """Looks at so many milliseconds, of both clocks, before or after the opening."""
    live = Live()
    for at, count in looks:
        live.look(packages(count), steady=at, now=START + at)
    return live


def test_packages_a_second_are_over_the_last_seconds_of_the_machine() -> None:
    assert looked().rates()["packages_per_s"] is None
    assert looked((0, 10)).rates()["packages_per_s"] is None
    assert looked((0, 10), (2000, 30)).rates()["packages_per_s"] == 10
    # Twelve seconds ago no longer counts.
    live = looked((0, 0), (10_000, 1000), (11_000, 1010), (12_000, 1020), (16_000, 1060))
    assert live.rates()["packages_per_s"] == 10


def test_a_coordinator_that_was_started_again_has_no_rate_below_zero() -> None:
    live = looked((0, 100), (1000, 120), (2000, 5))
    assert live.rates()["packages_per_s"] is None
    live.look(packages(15), steady=3000, now=START + 3000)
    assert live.rates()["packages_per_s"] == 10


def test_commits_have_a_mean_time_over_the_same_seconds() -> None:
    live = Live()
    for at, commits, spent in ((0, 10.0, 30.0), (1000, 20.0, 50.0)):
        figures = {**packages(0), ("commits_total",): commits, ("commit_milliseconds_total",): spent}
        live.look(figures, steady=at, now=START + at)
    assert live.rates()["commit_ms"] == 2


def test_devices_of_the_round_are_its_packages_over_the_budget() -> None:
    live = looked((-3000, 1000), (-100, 1000), (1000, 1040), (2000, 1100))
    running = [(DIRECT.digest, ROUND)]
    live.rounds(running)
    assert live.round_so_far(DIRECT, ROUND, running) == {"packages": 100, "devices": 20.0, "why_unknown": None}
    # Later looks count from the same beginning, though it is long ago.
    for at in range(3000, 60_000, 1000):
        live.look(packages(1100 + at), steady=at, now=START + at)
        live.rounds(running)
    assert live.round_so_far(DIRECT, ROUND, running)["packages"] == 100 + 59_000


def test_where_it_cannot_be_known_it_says_why() -> None:
    running = [("other", ROUND)]
    for of, live, runs, why in (
        (document(), looked((-1, 0), (1000, 5)), [], "the relay keeps"),
        (DIRECT, looked((1000, 5), (2000, 6)), [], "after the window had opened"),
        (DIRECT, looked((-1, 0), (1000, 5)), running, "several rounds run at once"),
        (DIRECT, Live(), [], "does not count packages"),
    ):
        every = [(of.digest, ROUND), *runs]
        live.rounds(every)
        found = live.round_so_far(of, ROUND, every)
        assert (found["packages"], found["devices"]) == (None, None)
        assert why in found["why_unknown"]


def test_a_coordinator_that_was_away_is_not_guessed_about() -> None:
    live = looked((-1, 0), (1000, 5))
    live.rounds([(DIRECT.digest, ROUND)])
    live.away()
    live.look(packages(7), steady=2000, now=START + 2000)
    live.rounds([(DIRECT.digest, ROUND)])
    assert "after the window had opened" in live.round_so_far(DIRECT, ROUND, [(DIRECT.digest, ROUND)])["why_unknown"]


def test_totals_are_null_where_a_coordinator_does_not_count() -> None:
    assert totals({})["packages_total"] is None
    assert totals({})["refused_total"] == {}
    figures = {
        **packages(30),
        ("opened_total",): 20.0,
        ("dropped_total", "stale"): 4.0,
        ("refused_total", "stale"): 1.0,
        ("refused_total", "wrong-size"): 0.0,
        ("start_time_seconds",): 1.5,
    }
    found = totals(figures)
    assert (found["packages_total"], found["backlog"], found["started_at"]) == (30, 6, 1500)
    assert found["refused_total"] == {"stale": 5}
