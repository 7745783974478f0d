"""Devices of Python, some of them over Tor, Chromium and Firefox take part in one experiment with a guarantee, in real
time.

The extension is the built one, unchanged by a byte; its person clicks what a person clicks, and has really visited the
pages whose titles are looked at. Each browser's background is killed and each browser restarted between rounds.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from secvm.protocol.relays.opening import clients_of
from secvm_lab.extension import Package
from secvm_lab.rigs.extended import BROWSERS, ExtendedBrowser, Tab, extended
from secvm_lab.rigs.tor_network import TorClient
from tests.rigs.live_federation import LiveFederation
from tests.serving import HTML, serving
from tests.system.verifying import verify

ROUNDS, WANTED = 6, 3
PYTHON = 10
SOURCE = "history-titles"
TITLES = ("Quokka rain and tea", "Wool coat", "Sea and sand")
#: A round takes two slots of 40 seconds; more than two rounds without anything new will bring nothing.
PATIENCE_S = 240.0


def until(condition: Callable[[], object], what: str) -> None:
    deadline, pause = time.monotonic() + PATIENCE_S, threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        pause.wait(0.5)


class Person:
    """Who sits before one browser."""

    def __init__(self, browser: ExtendedBrowser, digest: str) -> None:
        self.browser, self.digest = browser, digest
        self.tab: Tab = browser.page()

    def press(self, key: str) -> None:
        selector = f"[data-key='{key}']"
        self.tab.wait_for(f"document.querySelector({json.dumps(selector)})")
        self.tab.click(selector)

    def shown(self, selector: str) -> None:
        self.tab.wait_for(f"document.querySelector({json.dumps(selector)})")

    def closed(self) -> None:
        self.tab.wait_for("!document.querySelector('#dialog').open")

    def join(self, invite: str, label: str) -> None:
        """Take the invite up, let the titles be read, say yes."""
        read = f"{self.digest[:12]}:read"
        self.tab.type("#invite", invite)
        self.press("take-invite")
        self.press(read)
        self.press("import-history")
        self.closed()
        self.press(read)
        self.shown("#answer")
        choose = "(field) => { field.value = LABEL; return field.dispatchEvent(new Event('input', {bubbles: true})); }"
        self.tab.evaluate(f"({choose.replace('LABEL', json.dumps(label))})(document.querySelector('#answer'))")
        self.press("join")
        self.shown(f"[data-experiment='{self.digest}']")

    def take_back_and_allow_again(self) -> None:
        """What the person takes back in the browser's own settings is one sentence on the page, with a way back."""
        assert self.tab.evaluate("chrome.permissions.remove({permissions: ['history']})") is True
        self.shown("[data-trouble='trouble.permission']")
        assert self.tab.accessibility() == []
        self.press("allow")
        self.tab.wait_for("!document.querySelector('[data-trouble=\"trouble.permission\"]')")
        assert self.tab.state()["troubles"] == []

    def experiment(self) -> Any:
        (one,) = self.tab.state()["experiments"]
        return one

    def rounds(self) -> dict[int, int]:
        """Packages of each round that have arrived."""
        return {row["round"]: row["acknowledged"] for row in self.experiment()["rounds"] if row["acknowledged"]}

    def await_rounds(self, count: int) -> None:
        """Until its requests of so many rounds have arrived."""
        until(lambda: len(self.rounds()) >= count, f"round {count} in {self.browser.name}")

    def restart(self) -> None:
        self.browser.restart()
        self.tab = self.browser.page()

    def predict(self) -> str:
        """What the page says of its person."""
        self.press(f"{self.digest[:12]}:predict")
        self.shown("#dialog .answer")
        found = self.tab.text("#dialog .answer")
        self.press("close")
        return found

    def leave(self) -> None:
        self.press(f"{self.digest[:12]}:forget")
        self.press("forget-now")
        self.closed()
        self.shown(f"[data-left='{self.digest}']")


@pytest.mark.takes(minutes=15)
def test_devices_of_python_chromium_and_firefox_are_counted_once_in_one_experiment(
    packages: dict[str, Package], tor: TorClient, tmp_path: Path
) -> None:
    pages = {f"/{number}": f"<!doctype html><title>{title}</title>".encode() for number, title in enumerate(TITLES)}
    with (
        LiveFederation(tmp_path, people=PYTHON, source=SOURCE, rounds=ROUNDS) as federation,
        serving({**pages, "/favicon.ico": b""}, HTML) as server,
        extended(BROWSERS[0], packages[BROWSERS[0]], tmp_path / "first", granted=True) as first,
        extended(BROWSERS[1], packages[BROWSERS[1]], tmp_path / "second", granted=True) as second,
    ):
        digest, budget = federation.document.digest, federation.document.budget
        federation.let_people_join(over_tor=tor.proxy)
        people = [Person(browser, digest) for browser in (first, second)]
        for person, label in zip(people, federation.document.experiment.labels, strict=True):
            for path in pages:
                person.browser.visit(server.url.replace("127.0.0.1", "garden.example") + path)
            person.join(federation.invite, label)
            person.take_back_and_allow_again()
            (source,) = person.tab.state()["vault"]["sources"]
            assert (source["name"], source["features"]) == (SOURCE, 8)

        for count in range(1, WANTED + 1):
            for person in people:
                person.await_rounds(count)
                if count == 1:
                    person.browser.kill_background()
                elif count == 2:
                    person.restart()
        until(lambda: all(person.experiment()["ended"] for person in people), "the ending")
        until(lambda: federation.ended() == PYTHON, "the ending on Python's devices")
        for number in range(1, ROUNDS + 1):
            opening = federation.opening(number)
            assert opening is not None
            arrived = federation.acknowledged(number) + sum(one.rounds().get(number, 0) for one in people)
            # Each request once: those of everybody who was told that theirs had arrived.
            assert clients_of(opening) * budget == arrived, number
        assert federation.faults() == []
        # A stranger's program comes to the same model from the same packages.
        code, said = verify(federation.url, digest)
        assert code == 0, said
        for person in people:
            one = person.experiment()
            assert one["distrust"] is None
            # A round that was announced while nothing was allowed is declined.
            assert {was["reason"] for was in one["abstentions"]} <= {"LATE", "DECLINED"}, one["abstentions"]
            assert person.predict() in federation.document.experiment.labels
            person.leave()
            person.restart()
            state = person.tab.state()
            assert (state["experiments"][0]["status"], state["vault"]["labels"]) == ("forgotten", 0)
            assert person.tab.faults() == person.browser.faults() == []
