"""The grid: slots, hours of the day, days that have 23 or 25 hours."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.coordinator.epochs import Grid, offset_at, time_zone
from secvm.errors import BadExperimentError
from secvm.protocol.documents.experiment import Windows

HOURLY = Grid(period_s=3600, lead_s=600)


def at(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()) * 1000


def told(instant: int, zone: str = "UTC") -> str:
    return datetime.fromtimestamp(instant / 1000, UTC).astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M")


def windows(**changes: object) -> Windows:
    return Windows(**{"length_s": 1800, "grace_s": 60, "first_opening": 0, **changes})  # type: ignore[arg-type]


def test_the_next_window_opens_with_the_next_slot_that_leaves_half_of_the_lead() -> None:
    now = at("2026-05-01 10:20")
    assert told(HOURLY.next_opening(windows(), now=now, after=0)) == "2026-05-01 11:00"
    assert told(HOURLY.next_opening(windows(), now=at("2026-05-01 10:55"), after=0)) == "2026-05-01 11:00"
    assert told(HOURLY.next_opening(windows(), now=at("2026-05-01 10:55:01"), after=0)) == "2026-05-01 12:00"


def test_no_window_opens_before_the_round_before_is_over_or_the_experiment_begins() -> None:
    now = at("2026-05-01 10:20")
    assert told(HOURLY.next_opening(windows(), now=now, after=at("2026-05-01 12:00"))) == "2026-05-01 12:00"
    later = windows(first_opening=at("2026-05-02 00:30"))
    assert told(HOURLY.next_opening(later, now=now, after=0)) == "2026-05-02 01:00"


def test_windows_open_only_in_the_hours_of_the_day() -> None:
    daytime = windows(hours=((7, 9), (18, 22)))
    seen, now = [], at("2026-05-01 05:00")
    for _ in range(7):
        opens_at = HOURLY.next_opening(daytime, now=now, after=now)
        seen.append(told(opens_at)[-5:])
        now = opens_at + 1_860_000
    assert seen == ["07:00", "08:00", "18:00", "19:00", "20:00", "21:00", "07:00"]


@pytest.mark.parametrize(
    ("day", "utc"),
    [
        # In Berlin clocks go forward on 29 March 2026 and back on 25 October.
        ("2026-03-28", "2026-03-28 07:00"),
        ("2026-03-29", "2026-03-29 06:00"),
        ("2026-10-24", "2026-10-24 06:00"),
        ("2026-10-25", "2026-10-25 07:00"),
    ],
)
def test_eight_in_the_morning_is_eight_on_the_wall_in_summer_and_winter(day: str, utc: str) -> None:
    morning = windows(hours=((8, 9),), time_zone="Europe/Berlin")
    opens_at = HOURLY.next_opening(morning, now=at(f"{day} 00:00", "Europe/Berlin"), after=0)
    assert told(opens_at) == utc
    assert told(opens_at, "Europe/Berlin") == f"{day} 08:00"


def test_an_hour_that_a_day_does_not_have_is_waited_for_until_the_next_and_a_double_one_opens_twice() -> None:
    night = windows(hours=((2, 3),), time_zone="Europe/Berlin")
    missing = HOURLY.next_opening(night, now=at("2026-03-29 00:30", "Europe/Berlin"), after=0)
    assert told(missing, "Europe/Berlin") == "2026-03-30 02:00"
    first = HOURLY.next_opening(night, now=at("2026-10-25 00:30", "Europe/Berlin"), after=0)
    second = HOURLY.next_opening(night, now=first, after=first + 1)
    assert [told(first), told(second)] == ["2026-10-25 00:00", "2026-10-25 01:00"]
    assert [offset_at(time_zone("Europe/Berlin"), instant) for instant in (first, second)] == [7200, 3600]


def test_zones_of_half_hours_meet_a_grid_of_hours() -> None:
    indian = windows(hours=((8, 9),), time_zone="Asia/Kolkata")
    assert told(HOURLY.next_opening(indian, now=at("2026-05-01 00:00"), after=0), "Asia/Kolkata") == "2026-05-01 08:30"


def test_windows_that_do_not_fit_are_refused_in_one_sentence() -> None:
    with pytest.raises(BadExperimentError, match="take 3601 s, and a slot of this coordinator has 3600 s"):
        HOURLY.check(windows(length_s=2941))
    HOURLY.check(windows(length_s=2940))
    daily = Grid(period_s=86_400, lead_s=60)
    with pytest.raises(BadExperimentError, match="no slot of this coordinator begins"):
        daily.check(windows(hours=((7, 9),)))
    Grid(period_s=86_400, lead_s=60, origin_ms=7 * 3_600_000).check(windows(hours=((7, 9),)))
    with pytest.raises(BadExperimentError, match="time zone"):
        HOURLY.check(windows(time_zone="Europe/Nowhere"))


@given(
    period_s=st.integers(1, 10**6),
    origin_ms=st.integers(0, 10**13),
    instant=st.integers(0, 10**13),
)
def test_every_instant_lies_in_its_slot_and_the_slot_from_it_begins_no_earlier(
    period_s: int, origin_ms: int, instant: int
) -> None:
    grid = Grid(period_s=period_s, lead_s=0, origin_ms=origin_ms)
    slot = grid.slot_of(instant)
    assert grid.start(slot) <= instant < grid.end(slot)
    following = grid.slot_from(instant)
    assert following >= 0
    assert grid.start(following) >= instant
    assert following == 0 or grid.start(following - 1) < instant
