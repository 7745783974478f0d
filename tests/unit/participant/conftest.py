"""The world of a test, and its device: closed after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from secvm.participant.device import Device
from tests.unit.participant.world import World


@pytest.fixture
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    """As the module's ``WORLD`` makes it, or the small one without a log."""
    with closing(getattr(request.module, "WORLD", World)(tmp_path)) as made:
        yield made


@pytest.fixture
def device(world: World) -> Device:
    """The device of this world, which has joined its experiment."""
    return world.joined()
