"""A real browser and a real federation for the tests of pages.

The browser is one for each module: while it runs, ``asyncio.run`` is not to be had in this thread.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from secvm_lab.rigs.browser import Browser, Window
from secvm_lab.showcase import Showcase, temporary_showcase
from tests.system.browser.facts import HOSTILE


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as started:
        yield started


@pytest.fixture
def window(browser: Browser) -> Iterator[Window]:
    """Light, and as large as a desk's."""
    with browser.window() as opened:
        yield opened


@pytest.fixture(scope="package")
def showcase() -> Iterator[Showcase]:
    """A few people and three rounds; its title is hostile to whoever takes it for HTML."""
    with temporary_showcase(title=HOSTILE, question=HOSTILE, operator=HOSTILE, contact="x", purpose="y") as started:
        started.play(3)
        yield started
