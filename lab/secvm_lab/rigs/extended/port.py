"""What both browsers with the extension can do: the same words for Playwright's chromium and Firefox's own protocol."""

from __future__ import annotations

import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from secvm_lab.extension import Package
from secvm_lab.rigs.browser import DESKTOP, grave

#: A browser on a busy machine may take its time; one that takes longer will not come.
PATIENCE_S = 60.0
#: The pages of the extension.
PERSON, POPUP = "person.html", "popup.html"
_ASK_STATE = "chrome.runtime.sendMessage({action: 'state', said: {}})"


def patiently(condition: Callable[[], object], what: str) -> None:
    """Wait until this holds; what never comes is a ``TimeoutError``."""
    deadline, pause = time.monotonic() + PATIENCE_S, threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited in vain for {what}")
        pause.wait(0.02)


class Tab(ABC):
    """One page, and what it complained of."""

    @abstractmethod
    def evaluate(self, script: str) -> Any:
        """The value of an expression, which JSON can say; where it is a promise, what that comes to."""

    @abstractmethod
    def click(self, selector: str) -> None:
        """Press what this selects, as a hand does: the browser takes it for the person's own."""

    @abstractmethod
    def type(self, selector: str, text: str) -> None:
        """Write into a field."""

    @abstractmethod
    def look(self, *, dark: bool = False, size: tuple[int, int] = DESKTOP) -> None:
        """Look at it so from now on."""

    @abstractmethod
    def picture(self, file: Path) -> None:
        """The whole page as PNG."""

    @abstractmethod
    def faults(self) -> list[str]:
        """What the page said as an error on its console, what it did not catch, and what its policy refused."""

    @abstractmethod
    def close(self) -> None:
        """Close it."""

    def wait_for(self, condition: str) -> None:
        """Wait until an expression is true."""
        patiently(lambda: self.evaluate(f"Boolean({condition})"), condition)

    def text(self, selector: str) -> str:
        """The words that stand there."""
        found: str = self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")
        return found

    def state(self) -> Any:
        """What the background tells a page of the device."""
        return self.evaluate(_ASK_STATE)["json"]

    def accessibility(self) -> list[str]:
        """What axe-core finds that is grave, a sentence each."""
        found = find_spec("axe_playwright_python")
        assert found is not None
        assert found.origin is not None
        self._add_script((Path(found.origin).parent / "axe.min.js").read_text(encoding="utf-8"))
        self.rest()
        return grave(self.evaluate("axe.run().then((found) => found.violations)"))

    def rest(self) -> None:
        """Wait until nothing moves."""
        self.wait_for("document.getAnimations().length === 0")

    def _add_script(self, script: str) -> None:
        self.evaluate(f"(() => {{ {script}; return true; }})()")


class ExtendedBrowser(ABC):
    """A browser that has the extension. Use it in a ``with``: at the end it is gone, and its profile still there."""

    name: str

    def __init__(self, package: Package, folder: Path, *, granted: bool = False, language: str = "en-GB") -> None:
        """``granted``: the person says yes to whatever the extension asks for, where the browser would ask."""
        self.package, self.folder, self.granted, self.language = package, folder, granted, language
        self.profile = folder / "profile"
        self.profile.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @abstractmethod
    def start(self) -> None:
        """Start it with its profile, and wait for the extension's background."""

    @abstractmethod
    def stop(self) -> None:
        """Let it quit in good order."""

    def restart(self) -> None:
        """Quit, and start again with the same profile."""
        self.stop()
        self.start()

    @property
    @abstractmethod
    def origin(self) -> str:
        """Where the extension's own pages lie, without a slash at the end."""

    @property
    @abstractmethod
    def version(self) -> str:
        """The browser's."""

    @abstractmethod
    def open(self, url: str) -> Tab:
        """A page in a tab of its own, loaded."""

    def page(self, name: str = PERSON) -> Tab:
        """One of the extension's pages, once it shows what the background told it."""
        tab = self.open(f"{self.origin}/{name}")
        tab.wait_for("!document.getElementById('runs').hidden")
        return tab

    def visit(self, url: str) -> None:
        """Look at a page of the web, and close it."""
        tab = self.open(url)
        tab.wait_for("document.readyState === 'complete'")
        tab.close()

    @abstractmethod
    def background_runs(self) -> bool:
        """Whether the extension's background is awake."""

    @abstractmethod
    def kill_background(self) -> None:
        """End the background as the browser does with one that is idle, whatever it is doing."""

    @abstractmethod
    def private_windows_have_it(self) -> bool:
        """Whether the extension can be opened in a private window."""

    @abstractmethod
    def faults(self) -> list[str]:
        """What the background has complained of since the browser started."""
