"""Which fault comes when: all that is wanted comes, once, and nothing shaky at the end of a window."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from secvm_lab.chaos.deployment import Part
from secvm_lab.chaos.faults import DATABASE, DRIVER, NODE, Fault, Kind
from secvm_lab.chaos.storm import Plan, Storm, draw

KINDS = {NODE: 4, DRIVER: 3, DATABASE: 3}


def drawn(seed: int, rounds: int, wanted: dict[Kind, int]) -> Plan:
    return draw(random.Random(seed), rounds=rounds, wanted=wanted, kinds=KINDS, disks=["database", "relay"])


WANTED = st.fixed_dictionaries(
    {
        Kind.KILL: st.integers(0, 60),
        **dict.fromkeys((Kind.STOP, Kind.CUT, Kind.SLOW), st.integers(0, 5)),
        **dict.fromkeys((Kind.LOSS, Kind.DELAY), st.integers(0, 3)),
        Kind.DISK: st.integers(0, 4),
        Kind.RESTART: st.integers(0, 1),
    }
)


def with_others(wanted: dict[Kind, int]) -> dict[Kind, int]:
    """What comes of it: one in five kills more, of those who are no nodes."""
    return {**wanted, Kind.KILL: wanted[Kind.KILL] + -(-wanted[Kind.KILL] // 5)}


@given(seed=st.integers(0, 99), rounds=st.integers(1, 9), wanted=WANTED)
def test_all_that_is_wanted_is_in_the_plan_once(seed: int, rounds: int, wanted: dict[Kind, int]) -> None:
    plan = drawn(seed, rounds, wanted)
    faults = Counter(fault.kind for queue in plan.values() for fault in queue)
    assert {kind: faults[kind] for kind in Kind} == with_others(wanted)
    assert [part for (_, part), queue in plan.items() for fault in queue if fault.kind is Kind.RESTART] == (
        [Part.CLOSING] * wanted[Kind.RESTART]
    )
    assert all(1 <= number <= rounds for number, _ in plan)
    killed = Counter(fault.whom for queue in plan.values() for fault in queue if fault.kind is Kind.KILL)
    assert sum(killed[name] for name in KINDS) == wanted[Kind.KILL]
    # Nobody is spared where there is one for each.
    assert wanted[Kind.KILL] < len(KINDS) or all(killed[name] for name in KINDS)


class FakeClock:
    def __init__(self) -> None:
        self.time, self.held = 0, 0

    def now(self) -> int:
        return self.time

    def freeze(self) -> Callable[[], None]:
        self.held += 1
        return lambda: None

    def slacken(self, _rate: float, limit: int) -> Callable[[], None]:
        assert limit > self.time
        self.held += 1
        return lambda: None


class FakeDeployment:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.looks = 0

    def well(self) -> bool:
        # Not at once.
        self.looks += 1
        return self.looks % 2 == 0

    well_enough = well


class FakeFaults:
    def __init__(self) -> None:
        self.done: list[tuple[Part, int, Fault]] = []
        self.where: tuple[Part, int] = (Part.JOINING, 0)

    def prepare(self, whom: str) -> None:
        assert self.where is not None, whom

    def strike(self, fault: Fault, *, number: int) -> str:
        assert number > 0
        self.done.append((*self.where, fault))
        return fault.whom


@settings(max_examples=30)
@given(seed=st.integers(0, 99), rounds=st.integers(1, 3), wanted=WANTED)
def test_everything_comes_and_nothing_shaky_comes_late_in_a_window(
    seed: int, rounds: int, wanted: dict[Kind, int]
) -> None:
    deployment, faults = FakeDeployment(), FakeFaults()
    seconds = [0.0]
    storm = Storm(
        deployment,  # type: ignore[arg-type]  # what it uses of one
        random.Random(seed),
        drawn(seed, rounds, wanted),
        faults,  # type: ignore[arg-type]
        monotonic=lambda: seconds[0],
        sleep=lambda _s: None,
    )
    clock = deployment.clock
    for number in range(1, rounds + 1):
        for part in Part:
            storm.enter(number, part, closes_at=clock.time + 60_000)
            for step in range(40 if part is not Part.COUNTING else 2):
                seconds[0] += 1
                faults.where = part, 60_000 - 1500 * step
                storm.strike()
                if part is Part.WINDOW:
                    clock.time += 1500
            assert part is Part.COUNTING or storm.spent() or part is Part.WINDOW
    storm.finish()
    done: Any = Counter(fault.kind for _, _, fault in faults.done)
    assert done[Kind.KILL] == with_others(wanted)[Kind.KILL]
    assert done[Kind.STOP] == wanted[Kind.STOP]
    assert sum(storm.done.values()) == len(faults.done)
    assert [part for part, _, fault in faults.done if fault.kind is Kind.RESTART] == [Part.CLOSING] * wanted[
        Kind.RESTART
    ]
    for part, left_ms, fault in faults.done:
        if part is Part.WINDOW and fault.shaky:
            assert left_ms > 20_000
