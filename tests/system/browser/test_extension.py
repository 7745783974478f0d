"""The extension in the real chromium: it opens, wakes after it was killed, and finds again what it kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from secvm_lab.extension import build
from secvm_lab.rigs.extended import extended

EXTENSION = Path(__file__).resolve().parents[3] / "extension"


def test_extension_opens_in_chromium_and_wakes_after_it_was_killed(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (package,) = [one for one in build(EXTENSION, tmp_path_factory.mktemp("built")) if one.browser == "chromium"]
    with extended("chromium", package, tmp_path) as browser:
        tab = browser.page()
        assert tab.text("#runs") == "running"
        browser.kill_background()
        assert tab.state()["experiments"] == []
        assert browser.background_runs()
        assert tab.faults() == browser.faults() == []
