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
from secvm_lab.chaos.storm import Plan, Storm, Wanted, draw

KINDS = {NODE: 4, DRIVER: 3, DATABASE: 3}


def drawn(seed: int, rounds: int, wanted: Wanted) -> Plan:
    return draw(random.Random(seed), rounds=rounds, wanted=wanted, kinds=KINDS, disks=["database", "relay"])


WANTED = st.builds(
    Wanted,
    kills=st.integers(0, 60),
    others=st.integers(0, 9),
    stops=st.integers(0, 5),
    cuts=st.integers(0, 5),
    slows=st.integers(0, 5),
    losses=st.integers(0, 3),
    delays=st.integers(0, 3),
    disks=st.integers(0, 4),
    restarts=st.integers(0, 1),
)


@given(seed=st.integers(0, 99), rounds=st.integers(1, 9), wanted=WANTED)
def test_all_that_is_wanted_is_in_the_plan_once(seed: int, rounds: int, wanted: Wanted) -> None:
    plan = drawn(seed, rounds, wanted)
    faults = Counter(fault.kind for queue in plan.values() for fault in queue)
    assert faults[Kind.KILL] == wanted.kills + wanted.others
    assert (faults[Kind.STOP], faults[Kind.CUT]) == (wanted.stops, wanted.cuts)
    assert (faults[Kind.SLOW], faults[Kind.DISK]) == (wanted.slows, wanted.disks)
    assert (faults[Kind.LOSS], faults[Kind.DELAY]) == (wanted.losses, wanted.delays)
    assert [part for (_, part), queue in plan.items() for fault in queue if fault.kind is Kind.RESTART] == (
        [Part.CLOSING] * wanted.restarts
    )
    assert all(1 <= number <= rounds for number, _ in plan)
    killed = Counter(fault.whom for queue in plan.values() for fault in queue if fault.kind is Kind.KILL)
    assert sum(killed[name] for name in KINDS) == wanted.kills
    # Nobody is spared where there is one for each.
    assert wanted.kills < len(KINDS) or all(killed[name] for name in KINDS)


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
def test_everything_comes_and_nothing_shaky_comes_late_in_a_window(seed: int, rounds: int, wanted: Wanted) -> None:
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
    assert done[Kind.KILL] == wanted.kills + wanted.others
    assert done[Kind.STOP] == wanted.stops
    assert sum(storm.done.values()) == len(faults.done)
    assert [part for part, _, fault in faults.done if fault.kind is Kind.RESTART] == [Part.CLOSING] * wanted.restarts
    for part, left_ms, fault in faults.done:
        if part is Part.WINDOW and fault.shaky:
            assert left_ms > 20_000
