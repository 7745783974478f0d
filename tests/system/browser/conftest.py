"""A real browser and a real federation for the tests of pages.

The browser is one for each module: while it runs, ``asyncio.run`` is not to be had in this thread.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from secvm_lab.rigs.browser import Browser, Window
from secvm_lab.showcase import Showcase
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
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder,
        Showcase(Path(folder), title=HOSTILE, question=HOSTILE) as started,
    ):
        started.play(3)
        yield started
