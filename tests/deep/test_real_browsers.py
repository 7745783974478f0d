"""Histories made by the real Firefox and the real Chromium, read while they run and after.

`./secvm test` installs both where it may (tests/system_packages.txt). Where one is missing its history is made by its
schema instead; the test prints which it was. The browsers see pages of a server on this machine and nothing else.
"""

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from secvm.participant.sources.port import Options
from secvm.participant.sources.registry import find_source
from secvm_lab.cli.dev import tiers
from secvm_lab.rigs.extended.firefox import QUIET, preference_lines
from tests.serving import Answer, serving
from tests.unit.participant.histories import NOW, Visited, look, make

ROOT = Path(__file__).resolve().parents[2]
#: A browser on a busy machine may take its time; one that takes longer will not come.
PATIENCE_S = 60

CHROMIUM_FLAGS = [
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-quic", "--disable-default-apps", "--disable-extensions", "--no-proxy-server"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]

PAGE = """<!doctype html><html><head><meta charset="utf-8"><title>{title}</title></head>
<body onload="fetch('/loaded{path}')">A page.</body></html>"""
TITLES = {"/one": "Quokka Straße one", "/two": "Quokka page two"}


class Site:
    """Pages with known titles, and which of them a browser has wholly loaded."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.loaded = {path: threading.Event() for path in TITLES}

    def answer(self, asked: str) -> Answer:
        path = asked.removeprefix("/loaded")
        if path not in TITLES:
            return 404, {}, b""
        if path != asked:
            self.loaded[path].set()
        content = PAGE.format(title=TITLES[path], path=path).encode()
        return 200, {"Content-Type": "text/html; charset=utf-8"}, content


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as server:
        site = Site(server.url)
        server.answer = site.answer
        yield site


class Browser:
    """One browser with a fresh profile."""

    def __init__(self, name: str, program: str, folder: Path) -> None:
        self.name = name
        self.program = program
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()
        self.profile = folder / "profile"
        self.profile.mkdir()
        self.history = self.profile / "Default/History"
        if name == "firefox":
            self.history = self.profile / "places.sqlite"
            (self.profile / "user.js").write_text(preference_lines(QUIET), encoding="utf-8")

    def command(self, url: str, picture: Path | None = None) -> list[str]:
        if self.name == "chromium":
            shot = [] if picture is None else [f"--screenshot={picture}"]
            return [self.program, *CHROMIUM_FLAGS, f"--user-data-dir={self.profile}", *shot, url]
        shot = [] if picture is None else ["--screenshot", str(picture)]
        return [self.program, "-headless", "-no-remote", "-profile", str(self.profile), *shot, url]

    def start(self, command: list[str]) -> "subprocess.Popen[bytes]":
        environment = {**os.environ, "HOME": str(self.home), "MOZ_CRASHREPORTER_DISABLE": "1"}
        environment.pop("DISPLAY", None)
        # A session of its own: its helper processes end with it.
        quiet = subprocess.DEVNULL
        return subprocess.Popen(
            command, stdin=quiet, stdout=quiet, stderr=quiet, env=environment, start_new_session=True
        )

    def visit(self, url: str) -> None:
        """Look at a page and quit, as a browser does that is asked for a picture of a page."""
        picture = self.folder / "picture.png"
        with self.running(self.command(url, picture)) as process:
            assert process.wait(PATIENCE_S) == 0
        assert picture.exists()

    @contextmanager
    def running(self, command: list[str]) -> Iterator["subprocess.Popen[bytes]"]:
        process = self.start(command)
        try:
            yield process
        finally:
            # The first process alone writes the history; once it is gone, its helpers have nothing left to do.
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE_S)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def installed(name: str) -> str | None:
    """A program that is this browser and runs; a stub that asks for another package does not."""
    package = {"firefox": "firefox-esr", "chromium": "chromium"}[name]
    lists = [ROOT / "tests/system_packages.txt", ROOT / "tests/deep/system_packages.txt"]
    packages = {name: programs for file in lists for name, programs in tiers.wanted(file).items()}
    for program in packages[package]:
        found = shutil.which(program)
        if found and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0:
            return found
    return None


def read(path: Path, source: str, **given: str) -> dict[str, int]:
    now = int(time.time() * 1000)
    return find_source(source).read(Options(home=Path("/nowhere"), now=now, path=path, given={"local": "yes", **given}))


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "the browser did not do it in time"
        pause.wait(0.02)


def make_by_browser(browser: Browser, site: Site) -> None:
    """Visit both pages, and read the history while the browser runs."""
    browser.visit(site.url + "/one")
    if browser.name == "chromium":  # it writes a visit down after ten seconds, or when it quits
        browser.visit(site.url + "/two")
    site.loaded["/two"].clear()
    with browser.running(browser.command(site.url + "/two")) as process:
        wait_for(site.loaded["/two"].is_set)
        assert read(browser.history, "history")["one"] == 1
        wait_for(lambda: "two" in read(browser.history, "history"))
        assert process.poll() is None, "the browser runs on"


def make_by_schema(name: str, folder: Path, site: Site) -> Path:
    now = int(time.time() * 1000)
    return make(name, folder, [Visited(site.url + path, title, last=now) for path, title in TITLES.items()])


@pytest.mark.parametrize("name", ["firefox", "chromium"])
def test_history_of_a_real_browser_is_read_and_not_touched(name: str, tmp_path: Path, site: Site) -> None:
    program = installed(name)
    if program is None:
        print(f"{name} is not installed: its history was made by its schema")
        history = make_by_schema(name, tmp_path / "profile", site)
    else:
        print(f"the history was made by {program}")
        browser = Browser(name, program, tmp_path)
        make_by_browser(browser, site)
        history = browser.history
    folder = history.parent
    folder.chmod(0o555)
    before = look(folder)
    try:
        words = {"quokka": 2, "strasse": 1, "one": 1, "page": 1, "two": 1}
        host = f"host:{site.url.removeprefix('http://')}"
        assert read(history, "history") == {**words, host: 2}
        assert read(folder, "history-titles", days="1") == words
        assert read(history, "history-hosts", **{"min-visits": "1"}) == {host: 2}
        assert find_source("history").read(Options(home=Path("/nowhere"), now=NOW, path=history)) == {}, "a local site"
    finally:
        folder.chmod(0o755)
    after = look(folder)
    # The mode was changed by us, twice.
    assert {file: told[1:] for file, told in after.items()} == {file: told[1:] for file, told in before.items()}
