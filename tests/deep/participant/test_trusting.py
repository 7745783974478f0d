"""Longer cases of ``tests/unit/participant/test_trusting.py``."""

import asyncio
from pathlib import Path

import pytest

from tests.unit.participant.logged_world import LoggedWorld
from tests.unit.participant.world import BUDGET


@pytest.mark.parametrize("power_cut", [False, True])
def test_death_at_each_moment_of_an_asking_changes_nothing(tmp_path: Path, power_cut: bool) -> None:
    at, moments = 0, 1
    while at < moments:
        world = LoggedWorld(tmp_path / f"{at}")
        device = world.joined()
        world.play(device)
        manifest = world.announce()
        world.points.passed = 0
        device = asyncio.run(world.survived(device, [(at, power_cut)], until=manifest.opens_at))
        moments = max(moments, world.points.passed)
        world.points.left = None
        world.drive(device, until=manifest.accept_until)
        assert world.distinct(2) == BUDGET, at
        device.close()
        at += 1
    # Manifest, tally and proof, two moments each; two commits or more.
    assert moments >= 10
