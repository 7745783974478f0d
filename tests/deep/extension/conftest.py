"""Both packages, built once, and each browser with its own in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from secvm_lab.extension import Package, build
from secvm_lab.rigs.extended import BROWSERS, ExtendedBrowser, extended

EXTENSION = Path(__file__).resolve().parents[3] / "extension"


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Package]:
    """By the browser that each is for."""
    return {one.browser: one for one in build(EXTENSION, tmp_path_factory.mktemp("packages"))}


@pytest.fixture(params=BROWSERS)
def browser(request: pytest.FixtureRequest, packages: dict[str, Package], tmp_path: Path) -> Iterator[ExtendedBrowser]:
    """Each of them, with a fresh profile, whose person says yes to what the extension asks for."""
    with extended(request.param, packages[request.param], tmp_path, granted=True) as started:
        yield started
