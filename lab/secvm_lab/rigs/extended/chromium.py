"""Chromium with the extension unpacked, driven by Playwright."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secvm_lab.rigs.browser import DESKTOP, arguments, find_chromium
from secvm_lab.rigs.extended.port import POPUP, ExtendedBrowser, Tab, patiently

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, CDPSession, Page, Playwright


class ChromiumTab(Tab):
    """A page of Playwright's."""

    def __init__(self, page: Page) -> None:
        self._page, self._errors = page, list[str]()
        page.on("pageerror", lambda error: self._errors.append(f"page error: {error}"))
        page.on("console", lambda line: self._errors.append(f"console: {line.text}") if line.type == "error" else None)

    def evaluate(self, script: str) -> Any:
        return self._page.evaluate(script)

    def click(self, selector: str) -> None:
        self._page.click(selector)

    def type(self, selector: str, text: str) -> None:
        self._page.fill(selector, text)

    def look(self, *, dark: bool = False, size: tuple[int, int] = DESKTOP) -> None:
        self._page.emulate_media(color_scheme="dark" if dark else "light")
        self._page.set_viewport_size({"width": size[0], "height": size[1]})

    def picture(self, file: Path) -> None:
        self._page.screenshot(path=file, full_page=True, animations="disabled")

    def faults(self) -> list[str]:
        self.evaluate("0")
        return list(self._errors)

    def close(self) -> None:
        self._page.close()


class Chromium(ExtendedBrowser):
    """Chromium, whose profile knows the extension by the folder that it lies in."""

    name = "chromium"
    _playwright: Playwright
    _context: BrowserContext
    _devtools: CDPSession
    _id: str
    _is_granted = False

    def start(self) -> None:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415  (for developers, and slow)

        self._faults: list[str] = []
        self._playwright = sync_playwright().start()
        try:
            self._launch()
            if self.granted and not self._is_granted:
                self._context.close()
                self._grant()
                self._launch()
        except BaseException:
            self._playwright.stop()
            raise

    def _launch(self) -> None:
        here = self.package.folder
        self._context = self._playwright.chromium.launch_persistent_context(
            self.profile,
            executable_path=find_chromium(),
            ignore_default_args=["--disable-extensions"],
            args=[
                *arguments("MAP *.example 127.0.0.1"),
                f"--disable-extensions-except={here}",
                f"--load-extension={here}",
                f"--lang={self.language}",
                f"--accept-lang={self.language}",
            ],
        )
        self._context.on("serviceworker", self._listen)
        workers = self._context.service_workers
        worker = workers[0] if workers else self._context.wait_for_event("serviceworker")
        self._id = worker.url.split("/")[2]
        if workers:
            self._listen(worker)
        assert self._context.browser is not None
        self._devtools = self._context.browser.new_browser_cdp_session()

    def _listen(self, worker: Any) -> None:
        worker.on("console", lambda line: self._faults.append(line.text) if line.type == "error" else None)

    def _grant(self) -> None:
        """Write into the profile that the person has once allowed what is optional.

        Nobody can press a button of the browser's own without a screen. Chromium asks no second time for what was
        granted before: the page asks in its click as ever, and is answered at once.
        """
        file = self.profile / "Default/Preferences"
        preferences = json.loads(file.read_text(encoding="utf-8"))
        settings = preferences["extensions"]["settings"][self._id]
        manifest = self.package.manifest
        allowed = {"api": manifest["optional_permissions"], "explicit_host": manifest["optional_host_permissions"]}
        empty: dict[str, list[str]] = {"manifest_permissions": [], "scriptable_host": []}
        settings["runtime_granted_permissions"] = allowed | empty
        for kind, more in allowed.items():
            settings["granted_permissions"][kind] = sorted({*settings["granted_permissions"][kind], *more})
        file.write_text(json.dumps(preferences), encoding="utf-8")
        self._is_granted = True

    def stop(self) -> None:
        try:
            self._context.close()
        finally:
            self._playwright.stop()

    @property
    def origin(self) -> str:
        return f"chrome-extension://{self._id}"

    @property
    def version(self) -> str:
        assert self._context.browser is not None
        return self._context.browser.version

    def open(self, url: str) -> Tab:
        page = self._context.new_page()
        tab = ChromiumTab(page)
        page.goto(url)
        return tab

    def _background(self) -> list[str]:
        targets = self._devtools.send("Target.getTargets")["targetInfos"]
        return [one["targetId"] for one in targets if one["type"] == "service_worker" and self._id in one["url"]]

    def background_runs(self) -> bool:
        return bool(self._background())

    def kill_background(self) -> None:
        killed = set(self._background())
        for target in killed:
            self._devtools.send("Target.closeTarget", {"targetId": target})
        # A page that asks it something may have woken another one by now.
        patiently(lambda: not killed.intersection(self._background()), "the background to end")

    def private_windows_have_it(self) -> bool:
        from playwright.sync_api import Error  # noqa: PLC0415  (for developers, and slow)

        assert self._context.browser is not None
        private = self._context.browser.new_context()
        try:
            private.new_page().goto(f"{self.origin}/{POPUP}")
        except Error as fault:
            if "ERR_BLOCKED_BY_CLIENT" not in fault.message:
                raise
            return False
        finally:
            private.close()
        return True

    def faults(self) -> list[str]:
        return list(self._faults)
