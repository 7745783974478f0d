"""Browser: the system's chromium without a screen, which stays on this machine and keeps notes of what its pages do.

    with Browser() as browser, browser.window(dark=True, size=PHONE) as window:
        window.page.goto("http://127.0.0.1:8760/")
        assert window.faults() == []
        assert window.accessibility() == []

No name but this machine's own is ever resolved, for pages and for the browser itself; a page that asks for another is
found out all the same (``strangers``). Playwright is for developers and imported when a browser is started; it brings
no browser. While one runs, its thread has an event loop: ``asyncio.run`` is for when it is closed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from secvm.errors import BadInputError

if TYPE_CHECKING:
    from playwright.sync_api import Browser as Chromium
    from playwright.sync_api import BrowserContext, Page, Playwright

#: What chromium is called, by those who package it.
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PHONE, DESKTOP = (390, 844), (1280, 900)
#: What a person who cannot see or point would stumble over; the rest of axe-core's list is advice.
GRAVE = frozenset({"serious", "critical"})

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]", "::1"})
#: Everybody else's name leads nowhere, numbers included.
_NOWHERE = "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, EXCLUDE ::1"
#: Machines are shared.
_PATIENCE_MS = 30_000


def find_chromium(which: Callable[[str], str | None] = shutil.which) -> str:
    """Where the system's chromium is."""
    for name in PROGRAMS:
        found = which(name)
        if found is not None:
            return found
    raise BadInputError(
        "there is no chromium on this machine, and pages are looked at in it",
        next_step="As root: apt-get install chromium",
    )


def arguments(*rules: str) -> list[str]:
    """What chromium is started with; ``rules``: names that lead to this machine."""
    # Its sandbox needs a user that is not root.
    unguarded = ["--no-sandbox"] if os.geteuid() == 0 else []
    return [f"--host-resolver-rules={', '.join([*rules, _NOWHERE])}", *unguarded]


def stays_here(url: str) -> bool:
    """Whether asking for this leaves the machine in peace: a loopback address, or no network at all."""
    parts = urlsplit(url)
    return parts.scheme in {"about", "blob", "data", "file", "chrome-error"} or parts.hostname in _LOOPBACK


def grave(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """What axe-core found that is grave, a sentence each, with the elements it is about."""
    return [
        f"{one['id']} ({one['impact']}): {one['help']}: "
        + "; ".join(", ".join(map(str, node["target"])) for node in one["nodes"][:5])
        for one in found
        if one["impact"] in GRAVE
    ]


class Browser:
    """Chromium. Use it in a ``with``: at the end it is gone, with every window."""

    def __init__(self) -> None:
        self._playwright: Playwright | None = None
        self._chromium: Chromium | None = None

    def __enter__(self) -> Self:
        program = find_chromium()
        if find_spec("playwright") is None:
            raise BadInputError("pages are looked at with playwright, which only developers' installations have")
        from playwright.sync_api import sync_playwright  # noqa: PLC0415  (for developers, and slow)

        self._playwright = sync_playwright().start()
        try:
            self._chromium = self._playwright.chromium.launch(executable_path=program, args=arguments())
        except BaseException:
            self._playwright.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._playwright is not None
        assert self._chromium is not None
        try:
            self._chromium.close()
        finally:
            self._playwright.stop()

    @property
    def version(self) -> str:
        """Chromium's."""
        assert self._chromium is not None
        return self._chromium.version

    @contextlib.contextmanager
    def window(self, *, dark: bool = False, size: tuple[int, int] = DESKTOP, **options: Any) -> Iterator[Window]:
        """A window with nothing in its memory, and one page. ``options`` are Playwright's, for a new context."""
        assert self._chromium is not None
        context = self._chromium.new_context(
            color_scheme="dark" if dark else "light",
            viewport={"width": size[0], "height": size[1]},
            locale="en-GB",
            timezone_id="UTC",
            **options,
        )
        context.set_default_timeout(_PATIENCE_MS)
        try:
            yield Window(context)
        finally:
            context.close()


@dataclass
class _Transfer:
    """Bytes of one answer, as they came."""

    arrivals: list[tuple[float, int]] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(size for _, size in self.arrivals)

    def until(self, moment: float) -> int:
        return sum(size for when, size in self.arrivals if when <= moment)


class Window:
    """One page, and notes of everything that it asked for and complained about."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        #: Every address that was asked for.
        self.requests: list[str] = []
        #: What the page said on its console as an error, and what it did not catch.
        self.errors: list[str] = []
        self._transfers: dict[str, _Transfer] = {}
        self._moments: dict[str, float] = {}
        context.on("request", lambda request: self.requests.append(request.url))
        self.page: Page = context.new_page()
        self.page.on("websocket", lambda socket: self.requests.append(socket.url))
        self.page.on("pageerror", lambda error: self.errors.append(f"page error: {error}"))
        self.page.on(
            "console", lambda line: self.errors.append(f"console: {line.text}") if line.type == "error" else None
        )
        self._listen()

    def _listen(self) -> None:
        self.devtools = devtools = self.context.new_cdp_session(self.page)
        devtools.on("Network.responseReceived", self._begun)
        devtools.on("Network.dataReceived", self._came)
        devtools.on("Network.loadingFinished", self._finished)
        devtools.on("Page.lifecycleEvent", lambda told: self._moments.update({told["name"]: told["timestamp"]}))
        devtools.send("Network.enable")
        devtools.send("Page.enable")
        devtools.send("Page.setLifecycleEventsEnabled", {"enabled": True})

    def _begun(self, told: dict[str, Any]) -> None:
        self._came({**told, "encodedDataLength": told["response"]["encodedDataLength"]})

    def _came(self, told: dict[str, Any]) -> None:
        transfer = self._transfers.setdefault(told["requestId"], _Transfer())
        transfer.arrivals.append((told["timestamp"], int(told["encodedDataLength"])))

    def _finished(self, told: dict[str, Any]) -> None:
        # The sum is the truth; what came before is told only roughly.
        transfer = self._transfers.setdefault(told["requestId"], _Transfer())
        transfer.arrivals.append((told["timestamp"], int(told["encodedDataLength"]) - transfer.total))

    # ── what was seen ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def strangers(self) -> list[str]:
        """What was asked of other machines. None of it was sent."""
        return [url for url in self.requests if not stays_here(url)]

    def faults(self, *, but: Sequence[str] = ()) -> list[str]:
        """Everything that should not have been; ``but``: complaints with these words were meant to come."""
        asked = [f"asked another machine: {url}" for url in self.strangers]
        return asked + [error for error in self.errors if not any(words in error for words in but)]

    def transferred(self, until: str | None = None) -> int:
        """Bytes that came over the network, heads of answers included: all, or those up to a moment of the last
        navigation as chromium names it, such as ``firstContentfulPaint`` or ``load``.
        """
        # What chromium has told is in the queue of events; one question more brings it here.
        self.page.evaluate("0")
        if until is None:
            return sum(transfer.total for transfer in self._transfers.values())
        return sum(transfer.until(self._moments[until]) for transfer in self._transfers.values())

    def forget(self) -> None:
        """Begin new notes."""
        for notes in (self.requests, self.errors, self._transfers, self._moments):
            notes.clear()

    def accessibility(self) -> list[str]:
        """What axe-core finds that is grave, a sentence each, with the elements it is about."""
        from axe_playwright_python.sync_playwright import (  # type: ignore[import-untyped]  # noqa: PLC0415
            Axe,
        )

        return grave(Axe().run(self.page).response["violations"])

    def focused(self) -> dict[str, str]:
        """What has the keyboard: its tag, id, role and words."""
        told: dict[str, str] = self.page.evaluate(
            """() => {
              const one = document.activeElement ?? document.body;
              return {
                tag: one.tagName.toLowerCase(), id: one.id, role: one.getAttribute("role") ?? "",
                words: (one.getAttribute("aria-label") ?? one.textContent ?? "").trim().slice(0, 80),
              };
            }"""
        )
        return told
