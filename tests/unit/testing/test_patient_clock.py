"""The clock that waits: with a machine whose time passes only while somebody sleeps."""

from __future__ import annotations

import pytest

from secvm.testing.clock import PatienceLostError, PatientClock


class Machine:
    """A steering and a machine's clock in one: sleeping is what lets both go on."""

    def __init__(self) -> None:
        self.real, self.time, self.limit, self.rate = 0.0, 0.0, 2**62, 1.0
        self.furthest = 0

    def now(self) -> int:
        return int(self.time)

    def steer(self, *, limit: int | None = None, rate: float | None = None) -> None:
        self.limit = self.limit if limit is None else max(limit, self.now())
        self.rate = self.rate if rate is None else rate

    def sleep(self, seconds: float) -> None:
        self.real += seconds
        self.time = min(float(self.limit), self.time + 1000 * seconds * self.rate)
        self.furthest = max(self.furthest, self.now())

    def monotonic(self) -> float:
        return self.real


def patient(machine: Machine, **options: float) -> PatientClock:
    return PatientClock(
        machine,  # type: ignore[arg-type]  # has the two methods that are used
        rate=10.0,
        sleep=machine.sleep,
        monotonic=machine.monotonic,
        **options,
    )


def test_time_stops_at_the_instant_until_what_must_come_first_has_come() -> None:
    machine, asked = Machine(), list[int]()

    def there() -> bool:
        asked.append(machine.now())
        return len(asked) > 5

    waited = patient(machine).run_to(60_000, until=there, what="it")
    assert set(asked) == {60_000}
    assert machine.now() == machine.furthest == 60_000
    assert waited == pytest.approx(0.5)
    # Sixty seconds, ten times faster.
    assert machine.real == pytest.approx(6.5, abs=0.1)


def test_what_never_comes_is_not_waited_for_for_ever() -> None:
    with pytest.raises(PatienceLostError, match="a deposit"):
        patient(Machine(), patience_s=3.0).run_to(1000, until=lambda: False, what="a deposit")


def test_patience_lasts_as_long_as_there_is_progress() -> None:
    machine = Machine()
    patient(machine, patience_s=0.2).run_to(
        1000, until=lambda: machine.real > 5, what="it", progress=lambda: machine.real
    )
    assert machine.real > 5


def test_a_window_never_closes_on_a_package_that_was_put_off() -> None:
    """Whatever moment before the end the last retry is due at, it comes, and the end does not."""
    for due in (59_000, 59_990, 59_998, 59_999):
        machine = Machine()
        clock = patient(machine, patience_s=5.0)
        clock.creep_to(60_000, until=lambda m=machine, d=due: m.now() >= d, what="it", progress=lambda: 0)  # type: ignore[misc]
        assert machine.furthest == 59_999


def test_repro_an_asking_that_failed_late_never_got_another_moment() -> None:
    """Most of the time left went by in a second, whatever the devices were doing; an asking that failed on a busy
    machine was then put off behind the instant at which time stood.
    """
    machine, failed_at = Machine(), list[int]()

    def asked_again() -> bool:
        if not failed_at and machine.real >= 20:
            failed_at.append(machine.now())
        return bool(failed_at) and machine.now() >= failed_at[0] + 250

    patient(machine, patience_s=60.0).creep_to(
        60_000, until=asked_again, what="it", progress=lambda: machine.real < 15, run_until=54_500, quiet_s=5.0
    )
    assert failed_at[0] + 250 < 60_000


def test_a_creeping_clock_stands_while_something_moves() -> None:
    machine, left = Machine(), [40]

    def all_sent() -> bool:
        left[0] -= 1
        return left[0] <= 0

    patient(machine).creep_to(60_000, until=all_sent, what="it", progress=lambda: left[0])
    assert machine.furthest == 59_999
    assert left == [0]


def test_in_the_end_time_leaps_to_the_last_moment() -> None:
    machine = Machine()
    patient(machine).creep_to(60_000, until=lambda: True, what="it", progress=lambda: 0, run_until=20_000)
    assert machine.now() == 59_999


def test_a_leap_takes_no_time() -> None:
    machine = Machine()
    patient(machine).leap_to(10**9)
    assert machine.now() == 10**9
    assert machine.real < 2
    assert machine.rate == 10.0


def test_lookers_are_told_the_time_on_the_way() -> None:
    machine, seen = Machine(), list[int]()
    patient(machine).run_to(10_000, until=lambda: True, what="it", look=seen.append)
    assert seen == sorted(seen)
    assert len(seen) == 10
