"""The extension as the stores would get it, in the real chromium and the real Firefox ESR.

Nobody can press a button of a browser's own without a screen. Firefox has a preference for that; chromium's profile
says that its person has allowed before what is optional. The package is the built one, unchanged by a byte.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from secvm_lab.extension import Package
from secvm_lab.rigs.browser import PHONE
from secvm_lab.rigs.extended import BROWSERS, ExtendedBrowser, Tab, extended
from secvm_lab.rigs.extended.port import PERSON, POPUP
from tests.serving import HTML, serving

EVERYTHING = {"permissions": ["history"], "origins": ["http://127.0.0.1/*"]}
#: A value in a database of the extension's own, as whatever it keeps.
KEEP = """new Promise((done, failed) => {
    const opening = indexedDB.open("kept by a test");
    opening.onerror = () => failed(opening.error);
    opening.onupgradeneeded = () => opening.result.createObjectStore("values");
    opening.onsuccess = () => {
        const values = opening.result.transaction("values", "readwrite").objectStore("values");
        const before = values.get("kept");
        values.put("quokka", "kept").onsuccess = () => done(before.result ?? null);
    };
})"""


def ask_for(tab: Tab, wanted: object) -> bool:
    """What the browser answers who asks for permissions in a click."""
    tab.evaluate(
        f"""document.querySelector("h1").addEventListener("click", () => {{
            window.answered = undefined;
            chrome.permissions.request({json.dumps(wanted)}).then((yes) => (window.answered = yes));
        }}, {{ once: true }}) ?? true"""
    )
    tab.click("h1")
    tab.wait_for("window.answered !== undefined")
    return bool(tab.evaluate("window.answered"))


@pytest.mark.parametrize("name", [PERSON, POPUP])
def test_pages_open_without_a_complaint_and_show_what_the_background_tells(browser: ExtendedBrowser, name: str) -> None:
    tab = browser.page(name)
    assert tab.text("#summary") == "It takes part in nothing now. Nothing is sent."
    assert tab.text("#runs") == "running"
    assert tab.state()["experiments"] == []
    assert tab.faults() == browser.faults() == []


def test_a_killed_background_wakes_for_the_next_question_and_for_a_page(browser: ExtendedBrowser) -> None:
    tab = browser.page()
    for _ in range(2):
        browser.kill_background()
        assert not browser.background_runs()
        assert tab.state()["vault"]["features"] == 0
        assert browser.background_runs()
    browser.kill_background()
    assert browser.page(POPUP).text("#runs") == "running"
    assert tab.faults() == browser.faults() == []


def test_what_is_kept_and_allowed_outlives_a_killed_background_and_a_restart(browser: ExtendedBrowser) -> None:
    tab = browser.page()
    assert tab.evaluate(KEEP) is None
    assert ask_for(tab, EVERYTHING) is True
    browser.kill_background()
    browser.restart()
    tab = browser.page()
    assert tab.evaluate(KEEP) == "quokka"
    assert tab.evaluate(f"chrome.permissions.contains({json.dumps(EVERYTHING)})") is True


def test_who_allows_nothing_is_read_by_nobody(browser: ExtendedBrowser) -> None:
    tab = browser.page()
    assert tab.evaluate("chrome.history === undefined") is True
    granted = tab.evaluate("chrome.permissions.getAll()")
    assert granted["origins"] == []
    assert sorted(granted["permissions"]) == sorted(browser.package.manifest["permissions"])


def test_pages_that_were_really_visited_are_what_it_reads(browser: ExtendedBrowser) -> None:
    titles = {"/one": "Quokka Straße one", "/two": "Quokka page two", "/favicon.ico": ""}
    pages = {path: f"<!doctype html><title>{title}</title>A page.".encode() for path, title in titles.items()}
    tab = browser.page()
    assert ask_for(tab, EVERYTHING) is True
    with serving(pages, HTML) as server:
        for path in ("/one", "/two", "/two"):
            browser.visit(server.url.replace("127.0.0.1", "garden.example") + path)
    asked = 'chrome.history.search({ text: "", startTime: 0, maxResults: 2 ** 31 - 1 })'
    tab.wait_for(f"{asked}.then((all) => all.some(({{ title }}) => title?.endsWith('two')))")
    found = {one["title"]: one for one in tab.evaluate(asked) if ".example" in one["url"]}
    assert {title: one["visitCount"] for title, one in found.items()} == {titles["/one"]: 1, titles["/two"]: 2}


def test_private_windows_are_left_alone(browser: ExtendedBrowser) -> None:
    assert browser.page().evaluate("chrome.extension.isAllowedIncognitoAccess()") is False
    assert browser.private_windows_have_it() is False


def test_axe_finds_nothing_grave(browser: ExtendedBrowser) -> None:
    for name in (PERSON, POPUP):
        tab = browser.page(name)
        for dark in (False, True):
            tab.look(dark=dark, size=PHONE)
            assert tab.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") is dark
            assert tab.accessibility() == []


@pytest.mark.parametrize("name", BROWSERS)
def test_its_words_are_the_person_s_own(name: str, packages: dict[str, Package], tmp_path: Path) -> None:
    with extended(name, packages[name], tmp_path, language="de") as browser:
        assert browser.page(POPUP).text("#runs") == "läuft"
