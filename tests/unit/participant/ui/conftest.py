"""The page of a test's world, served while the test lasts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.participant.ui.asking import Page, served
from tests.unit.participant.world import World


@pytest.fixture
def page(world: World) -> Iterator[Page]:
    """As its person has it; ``world`` is the one of the module."""
    with served(world) as served_page:
        yield served_page
