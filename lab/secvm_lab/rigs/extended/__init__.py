"""Browsers with the extension in them: Debian's chromium and Firefox ESR without a screen, on this machine alone.

    with extended("firefox", package, folder) as browser:
        browser.visit(f"http://garden.example:{port}/")
        page = browser.page("person.html")
        browser.restart()

``package`` is what ``secvm_lab.extension.build`` built, byte for byte. The profile in ``folder`` outlives a restart.
A name below ``.example`` is this machine, and every other name leads nowhere.
"""

from pathlib import Path
from typing import Any

from secvm_lab.extension import Package
from secvm_lab.rigs.extended.chromium import Chromium
from secvm_lab.rigs.extended.firefox import Firefox
from secvm_lab.rigs.extended.port import ExtendedBrowser, Tab

__all__ = ["BROWSERS", "ExtendedBrowser", "Tab", "extended"]

BROWSERS = ("chromium", "firefox")


def extended(name: str, package: Package, folder: Path, **options: Any) -> ExtendedBrowser:
    """The browser of this name. ``options`` are those of ``ExtendedBrowser``."""
    kinds: dict[str, type[ExtendedBrowser]] = {"chromium": Chromium, "firefox": Firefox}
    return kinds[name](package, folder, **options)
