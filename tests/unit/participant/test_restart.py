"""A device may die at any moment: no scheduled package is lost, and none is ever sent with other content."""

import asyncio
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.participant.device import Device
from secvm.participant.state import DeviceState, Status
from tests.unit.participant.logged_world import LoggedWorld
from tests.unit.participant.world import BUDGET, START, Crash, Fate, World

#: (what, how long it lasts in milliseconds, or at which moment from now on the device dies)
OPS = st.lists(
    st.one_of(
        st.tuples(st.just("live"), st.integers(0, 60_000)),
        st.tuples(st.sampled_from(["die", "power cut"]), st.integers(0, 40)),
        st.tuples(st.sampled_from(["pause", "resume", "sleep"]), st.integers(0, 30_000)),
    ),
    max_size=8,
)
FATES = st.lists(st.sampled_from([Fate.ARRIVES, Fate.LOST, Fate.ANSWER_LOST, Fate.BUSY]), max_size=20)


class Life:
    """A device that is started again whenever it dies."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.device: Device = world.joined()

    async def live(self, *, until: int, power_cut: bool = False) -> None:
        try:
            await self.world.drive(self.device, until=until)
        except Crash:
            if power_cut:
                self.world.cut_power(self.device)
            else:
                self.device.state.close()
            self.device = self.world.start()
            await self.live(until=until)

    async def act(self, what: str, number: int) -> None:
        world = self.world
        if what in ("pause", "resume"):
            other = DeviceState(world.folder)
            other.set_status(world.of.digest, Status.PAUSED if what == "pause" else Status.JOINED)
            other.close()
        if what in ("die", "power cut"):
            world.points.left = number
            await self.live(until=world.clock.now() + 40_000, power_cut=what == "power cut")
            world.points.left = None
        elif what == "sleep":
            world.clock.advance(number)
        else:
            await self.live(until=world.clock.now() + number)


def check_round(world: World, manifest_closes: int) -> None:
    """Whoever joined has sent exactly B distinct capsules, all in the window, and they all arrived; others nothing."""
    distinct = {one.capsule for one in world.net.seen}
    joined = DeviceState(world.folder)
    history = joined.history(world.of.digest)
    joined.close()
    assert len(distinct) == (BUDGET if history else 0)
    assert all(START <= one.at < manifest_closes for one in world.net.seen)
    assert world.net.arrived == distinct
    for one in history:
        assert (one.packages, one.acknowledged, one.lost) == (BUDGET, BUDGET, 0)


@pytest.mark.slow
@settings(max_examples=40)
@given(ops=OPS, fates=FATES)
def test_deaths_pauses_and_losses_in_mid_round_leave_exactly_the_budget(
    ops: list[tuple[str, int]], fates: list[Fate]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        life = Life(world)
        manifest = world.publish(1)
        world.net.script = iter(fates)

        async def scenario() -> None:
            for op in ops:
                await life.act(*op)
            world.net.script = iter(())
            await life.act("resume", 0)
            await life.live(until=manifest.accept_until + 1)
            life.device.close()

        asyncio.run(scenario())
        check_round(world, manifest.closes_at)


@pytest.mark.slow
@pytest.mark.parametrize("power_cut", [False, True])
def test_death_at_each_single_moment_of_a_round_changes_nothing(tmp_path: Path, power_cut: bool) -> None:
    moments, at = 1, 0
    while at < moments:
        # Early enough to ask for the manifest twice.
        world = World(tmp_path / f"{at}", now=START - 200_000)
        life = Life(world)
        manifest = world.publish(1)
        world.points.passed, world.points.left = 0, at

        async def scenario(life: Life = life, until: int = manifest.accept_until + 1) -> None:
            await life.live(until=until, power_cut=power_cut)
            life.world.points.left = None
            life.device.close()

        asyncio.run(scenario())
        check_round(world, manifest.closes_at)
        assert world.distinct() == BUDGET
        moments, at = max(moments, world.points.passed), at + 1
    # Four requests or more, two moments each; a capsule each; commits.
    assert moments > 2 * (3 + BUDGET)


def test_overdue_packages_are_drawn_anew_over_what_is_left(tmp_path: Path) -> None:
    world = World(tmp_path)
    device = world.joined()
    manifest = world.publish(1)
    late = manifest.closes_at - 100_000

    async def scenario() -> None:
        await world.drive(device, until=manifest.opens_at)
        device.close()
        world.clock.advance(late - world.clock.now())
        await world.drive(world.start(), until=manifest.accept_until)

    asyncio.run(scenario())
    assert world.distinct() == BUDGET
    times = sorted(one.at for one in world.net.seen)
    assert all(late <= at < manifest.closes_at for at in times)
    # Not in one burst.
    assert len(set(times)) > BUDGET // 2
    assert times[-1] - times[0] > 10_000


@pytest.mark.slow
@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32),
    deaths=st.lists(st.tuples(st.integers(0, 60), st.booleans()), min_size=1, max_size=8),
)
def test_deaths_over_rounds_of_a_log_refuse_nothing_and_accuse_nobody(
    seed: int, deaths: list[tuple[int, bool]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = LoggedWorld(Path(folder), seed)
        device, left = world.joined(), list(deaths)

        async def live(until: int) -> None:
            nonlocal device
            if left and world.points.left is None:
                world.points.left, cut = left.pop()
            else:
                cut = False
            try:
                await world.drive(device, until=until)
            except Crash:
                if cut:
                    world.cut_power(device)
                else:
                    device.state.close()
                device = world.start()
                await live(until)

        async def scenario() -> None:
            for number in range(4):
                if number:
                    world.conclude()
                manifest = world.announce()
                await live(manifest.accept_until)
            world.points.left = None
            world.conclude()
            world.history.now = world.clock.now()
            world.history.end()
            await world.drive(device, until=world.clock.now() + 1_000_000)

        asyncio.run(scenario())
        device.flush()
        state, digest = device.state, world.of.digest
        assert device.memberships[digest].ended
        assert state.evidence(digest) == []
        assert state.trust.distrust(digest) is None
        assert {reason for _, reason, _ in state.abstentions(digest)} <= {"LATE", "OVER"}
        sent = Counter(number for _, number, _ in world.opened())
        assert set(sent.values()) == {BUDGET}
        assert {one.round_number for one in state.history(digest)} == set(sent)
        device.close()
