"""A real browser for the tests of pages: one for each module, so that ``asyncio.run`` is free again for the next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from secvm.testing.browser import Browser, Window


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as started:
        yield started


@pytest.fixture
def window(browser: Browser) -> Iterator[Window]:
    """Light, and as large as a desk's."""
    with browser.window() as opened:
        yield opened
