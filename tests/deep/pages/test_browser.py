"""The browser that holds pages to their promises notices what it should: each fault is committed once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from secvm.errors import BadInputError
from secvm_lab.rigs.browser import PROGRAMS, Browser, Window, find_chromium, stays_here
from tests.serving import HTML, serving

_PAGES = {
    "/": "<h1>All is well</h1><a href='/next' id='first'>Next</a>",
    "/strangers": "<h1>Strangers</h1><img alt='' src='http://192.0.2.7/a.png'><img alt='' src='http://a.test/b.png'>",
    "/fails": "<h1>Fails</h1><script>console.error('said'); setTimeout(() => { throw new Error('thrown'); });</script>",
    "/pale": "<h1>Pale</h1><p style='color: #ccc; background: #fff'>Hardly to be seen</p>",
    "/large": f"<h1>Large</h1><p hidden>{'x' * 50_000}</p>",
}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    head = "<!doctype html><html lang='en'><title>A page</title><link rel='icon' href='data:,'><main>"
    with serving({path: f"{head}{body}</main>".encode() for path, body in _PAGES.items()}, HTML) as server:
        yield server.url


def test_a_good_page_has_no_faults(window: Window, address: str) -> None:
    window.page.goto(address + "/")
    assert window.faults() == []
    assert window.accessibility() == []
    assert window.requests == [address + "/"]


def test_a_request_to_another_machine_is_stopped_and_told(window: Window, address: str) -> None:
    window.page.goto(address + "/strangers")
    assert window.strangers == ["http://192.0.2.7/a.png", "http://a.test/b.png"]
    sizes = window.page.evaluate("[...document.images].map((one) => one.naturalWidth)")
    assert sizes == [0, 0]
    assert len(window.faults(but=["ERR_NAME_NOT_RESOLVED"])) == 2


def test_what_a_page_complains_about_is_told(window: Window, address: str) -> None:
    with window.page.expect_event("pageerror"):
        window.page.goto(address + "/fails")
    assert window.faults() == ["console: said", "page error: thrown"]
    assert window.faults(but=["said", "thrown"]) == []


def test_what_is_hard_to_read_is_found_by_axe_core(window: Window, address: str) -> None:
    window.page.goto(address + "/pale")
    assert [found.partition(" ")[0] for found in window.accessibility()] == ["color-contrast"]


def test_bytes_are_counted_as_they_came_over_the_network(window: Window, address: str) -> None:
    window.page.goto(address + "/large")
    window.page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
    told = window.page.evaluate("performance.getEntriesByType('navigation')[0].encodedBodySize")
    assert 50_000 < told <= window.transferred("load") == window.transferred() < told + 400
    window.forget()
    assert window.transferred() == 0
    assert window.requests == []


@pytest.mark.parametrize("dark", [False, True])
def test_a_window_is_light_or_dark_and_as_large_as_asked(browser: Browser, address: str, dark: bool) -> None:
    with browser.window(dark=dark, size=(390, 844)) as window:
        window.page.goto(address + "/")
        assert window.page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") is dark
        assert window.page.evaluate("[innerWidth, innerHeight]") == [390, 844]


def test_what_has_the_keyboard_is_told(window: Window, address: str) -> None:
    window.page.goto(address + "/")
    window.page.keyboard.press("Tab")
    assert window.focused() == {"tag": "a", "id": "first", "role": "", "words": "Next"}


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:8760/", True),
        ("http://localhost/", True),
        ("http://[::1]:1/", True),
        ("ws://127.0.0.1/", True),
        ("blob:http://127.0.0.1:8760/1", True),
        ("data:,", True),
        ("http://127.0.0.1.example.org/", False),
        ("https://example.org/", False),
        ("http://10.0.0.1/", False),
        ("wss://example.org/", False),
    ],
)
def test_only_loopback_is_here(url: str, here: bool) -> None:
    assert stays_here(url) is here


def test_a_machine_without_chromium_is_told_what_is_missing() -> None:
    with pytest.raises(BadInputError, match="no chromium") as caught:
        find_chromium(lambda name: None)
    assert caught.value.next_step == "As root: apt-get install chromium"
    assert find_chromium(lambda name: f"/there/{name}" if name == PROGRAMS[2] else None) == "/there/google-chrome"
