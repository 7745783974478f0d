"""Firefox ESR with the extension in its profile, driven by its own remote protocol.

The package lies in the profile, where a restart finds it: the ESR alone takes one there that no store has signed.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from secvm.errors import BadInputError
from secvm_lab.rigs.browser import DESKTOP
from secvm_lab.rigs.extended.bidi import BiDi, BiDiError
from secvm_lab.rigs.extended.port import PATIENCE_S, ExtendedBrowser, Tab, patiently

#: Every name but ours leads to a port where nobody listens.
QUIET = {
    "app.normandy.enabled": False,
    "app.update.enabled": False,
    "browser.aboutwelcome.enabled": False,
    "browser.newtabpage.enabled": False,
    "browser.safebrowsing.downloads.remote.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.homepage_override.mstone": "ignore",
    "browser.startup.page": 0,
    "datareporting.policy.dataSubmissionEnabled": False,
    "extensions.update.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "network.dns.disablePrefetch": True,
    "network.proxy.type": 1,
    "network.proxy.http": "127.0.0.1",
    "network.proxy.http_port": 9,
    "network.proxy.ssl": "127.0.0.1",
    "network.proxy.ssl_port": 9,
    "network.proxy.no_proxies_on": "127.0.0.1",
    "services.settings.server": "http://127.0.0.1:9/",
    "toolkit.telemetry.enabled": False,
}
_EXTENDED = {
    "extensions.autoDisableScopes": 0,
    "extensions.enabledScopes": 1,
    "xpinstall.signatures.required": False,
    "network.dns.forceResolve": "127.0.0.1",
    "network.proxy.no_proxies_on": "127.0.0.1, .example",
}
_DARK = "layout.css.prefers-color-scheme.content-override"


def preference_lines(preferences: dict[str, Any]) -> str:
    """As a profile's ``user.js`` has them."""
    return "".join(f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in preferences.items())


def find_firefox() -> str:
    """Where the system's Firefox is."""
    found = shutil.which("firefox-esr")
    if found is None:
        raise BadInputError(
            "there is no Firefox ESR on this machine, and the extension is tried in it",
            next_step="As root: apt-get install firefox-esr",
        )
    return found


class FirefoxTab(Tab):
    """A browsing context of WebDriver BiDi."""

    def __init__(self, firefox: Firefox, context: str) -> None:
        self._firefox, self._context, self._bidi = firefox, context, firefox.bidi

    def evaluate(self, script: str) -> Any:
        return self._bidi.evaluate(self._context, script)

    def click(self, selector: str) -> None:
        place = f"document.querySelector({json.dumps(selector)})"
        self.wait_for(f"{place} && !{place}.disabled")
        box = f"(({place}.scrollIntoView({{block: 'center', behavior: 'instant'}}), {place}.getBoundingClientRect()))"
        x, y = self.evaluate(f"((box) => [box.x + box.width / 2, box.y + box.height / 2])({box})")
        moves = [
            {"type": "pointerMove", "x": round(x), "y": round(y)},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        self._perform({"type": "pointer", "id": "mouse", "actions": moves})

    def type(self, selector: str, text: str) -> None:
        self.click(selector)
        self.evaluate(f"document.querySelector({json.dumps(selector)}).select()")
        keys = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self._perform({"type": "key", "id": "keys", "actions": keys})

    def _perform(self, source: dict[str, Any]) -> None:
        self._bidi.ask("input.performActions", context=self._context, actions=[source])

    def look(self, *, dark: bool = False, size: tuple[int, int] = DESKTOP) -> None:
        self._firefox.within(f"Services.prefs.setIntPref('{_DARK}', {0 if dark else 1})")
        self._bidi.ask(
            "browsingContext.setViewport", context=self._context, viewport={"width": size[0], "height": size[1]}
        )
        # A page hears of a setting of Firefox a moment later.
        self.wait_for(f"matchMedia('(prefers-color-scheme: dark)').matches === {json.dumps(dark)}")

    def picture(self, file: Path) -> None:
        told = self._bidi.ask("browsingContext.captureScreenshot", context=self._context, origin="document")
        file.write_bytes(base64.b64decode(told["data"]))

    def faults(self) -> list[str]:
        told = [one["params"] for one in self._bidi.events if one.get("method") == "log.entryAdded"]
        here = [one for one in told if one["level"] == "error" and one["source"].get("context") == self._context]
        return [f"{one['type']}: {one['text']}" for one in here]

    def close(self) -> None:
        self._bidi.ask("browsingContext.close", context=self._context)


class Firefox(ExtendedBrowser):
    """Firefox ESR."""

    name = "firefox"
    bidi: BiDi
    _process: subprocess.Popen[bytes]

    @property
    def _id(self) -> str:
        return str(self.package.manifest["browser_specific_settings"]["gecko"]["id"])

    @property
    def uuid(self) -> str:
        """By which this profile names the extension: one that can be known beforehand, and no other profile's."""
        return str(uuid.uuid5(uuid.NAMESPACE_URL, self.profile.as_uri()))

    def start(self) -> None:
        self._lay_out()
        told = self.profile / "WebDriverBiDiServer.json"
        told.unlink(missing_ok=True)
        environment = {**os.environ, "HOME": str(self.folder), "MOZ_CRASHREPORTER_DISABLE": "1"}
        environment.pop("DISPLAY", None)
        command = [find_firefox(), "-headless", "-no-remote", "-profile", str(self.profile)]
        # The extension's pages are the browser's own in the eyes of WebDriver.
        command += ["--remote-debugging-port=0", "--remote-allow-system-access"]
        quiet = subprocess.DEVNULL
        # A session of its own: its helper processes end with it.
        self._process = subprocess.Popen(  # noqa: S603  (the system's Firefox)
            command, stdin=quiet, stdout=quiet, stderr=quiet, env=environment, start_new_session=True
        )
        try:
            patiently(lambda: told.exists() and told.read_bytes().endswith(b"}"), "Firefox to listen")
            self.bidi = BiDi(json.loads(told.read_bytes())["ws_port"])
            self.bidi.ask("session.subscribe", events=["log.entryAdded"])
            try:
                patiently(self._has_started, "the background to run")
            except TimeoutError:
                self._check_looked_into()
                raise
        except BaseException:
            self._end()
            raise

    def _has_started(self) -> bool:
        # It listens before it has a window, and its window is an empty page before it is the browser's.
        contexts = self.bidi.ask("browsingContext.getTree", **{"moz:scope": "chrome"})["contexts"]
        if not contexts:
            return False
        self._chrome = contexts[0]["context"]
        with suppress(BiDiError):
            return self.background_runs()
        return False

    def _check_looked_into(self) -> None:
        if self.within("typeof WebExtensionPolicy") == "undefined":
            raise BadInputError(
                f"Firefox {self.version} lets nobody look into it by WebDriver BiDi, and the extension is tried so",
                next_step="As root: apt-get update && apt-get install firefox-esr",
            )

    def _lay_out(self) -> None:
        extensions = self.profile / "extensions"
        extensions.mkdir(exist_ok=True)
        shutil.copy(self.package.file, extensions / f"{self._id}.xpi")
        own = {
            "extensions.webextensions.uuids": json.dumps({self._id: self.uuid}),
            "intl.accept_languages": self.language,
            "extensions.webextOptionalPermissionPrompts": not self.granted,
        }
        lines = preference_lines(QUIET | _EXTENDED | own)
        (self.profile / "user.js").write_text(lines, encoding="utf-8")

    def stop(self) -> None:
        with suppress(BiDiError, OSError):
            self.bidi.ask("browser.close")
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE_S)
        self._end()

    def _end(self) -> None:
        if hasattr(self, "bidi"):
            self.bidi.close()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def within(self, script: str) -> Any:
        """The value of an expression in the browser itself, beside all pages."""
        return self.bidi.evaluate(self._chrome, script)

    @property
    def origin(self) -> str:
        return f"moz-extension://{self.uuid}"

    @property
    def version(self) -> str:
        return self.bidi.version

    def open(self, url: str) -> Tab:
        context = self.bidi.ask("browsingContext.create", type="tab")["context"]
        self.bidi.ask("browsingContext.navigate", context=context, url=url, wait="complete")
        return FirefoxTab(self, context)

    @property
    def _extension(self) -> str:
        return f"WebExtensionPolicy.getByID('{self._id}')?.extension"

    def background_runs(self) -> bool:
        return bool(self.within(f"{self._extension}?.backgroundState === 'running'"))

    def kill_background(self) -> None:
        # What its own timer does after half a minute, and no sooner than the test wants it.
        self.within(f"{self._extension}.terminateBackground({{ignoreDevToolsAttached: true}})")
        patiently(lambda: not self.background_runs(), "the background to end")

    def private_windows_have_it(self) -> bool:
        opened = f"""(async () => {{
            const opened = OpenBrowserWindow({{private: true}});
            await new Promise((loaded) => opened.addEventListener('load', loaded, {{once: true}}));
            const seen = WebExtensionPolicy.getByID('{self._id}').canAccessWindow(opened);
            opened.close();
            return seen;
        }})()"""
        return bool(self.within(opened))

    def faults(self) -> list[str]:
        script = """Services.console.getMessageArray()
            .filter((one) => one instanceof Ci.nsIScriptError && one.sourceName.startsWith('ORIGIN'))
            .map((one) => one.errorMessage)"""
        found: list[str] = self.within(script.replace("ORIGIN", self.origin))
        return found
