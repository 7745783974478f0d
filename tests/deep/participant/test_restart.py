"""Longer cases of ``tests/unit/participant/test_restart.py``."""

import asyncio
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.participant.logged_world import LoggedWorld
from tests.unit.participant.test_restart import FATES, OPS, Life, check_round
from tests.unit.participant.world import BUDGET, START, Fate, World


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


@pytest.mark.parametrize("power_cut", [False, True])
def test_death_at_each_single_moment_of_a_round_changes_nothing(tmp_path: Path, power_cut: bool) -> None:
    moments, at = 1, 0
    while at < moments:
        # Early enough to ask for the manifest twice.
        world = World(tmp_path / f"{at}", now=START - 200_000)
        life = Life(world)
        manifest = world.publish(1)
        world.points.passed = 0

        async def scenario(life: Life = life, at: int = at, until: int = manifest.accept_until + 1) -> None:
            await life.live((at, power_cut), until=until)
            life.world.points.left = None
            life.device.close()

        asyncio.run(scenario())
        check_round(world, manifest.closes_at)
        assert world.distinct() == BUDGET
        moments, at = max(moments, world.points.passed), at + 1
    # Four requests or more, two moments each; a capsule each; commits.
    assert moments > 2 * (3 + BUDGET)


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

        async def scenario() -> None:
            nonlocal device
            for number in range(4):
                if number:
                    world.conclude()
                manifest = world.announce()
                device = await world.survived(device, left, until=manifest.accept_until)
            world.points.left = None
            world.conclude()
            world.history.now = world.clock.now()
            world.history.end()
            await world.driven(device, until=world.clock.now() + 1_000_000)

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
