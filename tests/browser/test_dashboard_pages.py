"""Every page of the operator: quiet, at home on this machine, and usable without eyes, without a mouse, in the dark."""

from __future__ import annotations

import pytest

from secvm.lab.showcase import Showcase
from secvm.testing.browser import DESKTOP, PHONE, Browser, Window
from tests.browser.facts import PAGES, open_page, settle

EVERY_PAGE = pytest.mark.parametrize("name", PAGES)

_FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]:not([tabindex='-1'])"
#: Numbers for all that a keyboard must reach; a group of radio buttons is reached as one.
_NUMBER = """(selector) => {
  const seen = (one) => one.checkVisibility({ visibilityProperty: true }) && !one.disabled && !one.closest("[inert]");
  const groups = new Set();
  const all = [...document.querySelectorAll(selector)].filter(seen).filter((one) => {
    if (one.type !== "radio") return true;
    if (groups.has(one.name)) return false;
    return groups.add(one.name);
  });
  window.__all = all;
  return all.length;
}"""
_WHERE = """() => {
  const one = document.activeElement;
  const at = window.__all.indexOf(one);
  if (at >= 0 || one?.type !== "radio") return at;
  return window.__all.findIndex((other) => other.type === "radio" && other.name === one.name);
}"""
_NAMES = "(at) => at.map((i) => window.__all[i].outerHTML.slice(0, 120))"


@EVERY_PAGE
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_no_grave_issue_for_anybody_and_no_word_to_anybody_else(
    browser: Browser, showcase: Showcase, name: str, dark: bool
) -> None:
    with browser.window(dark=dark, size=PHONE if dark else DESKTOP) as window:
        open_page(window, showcase, name)
        assert window.accessibility() == []
        assert window.faults() == []
        assert window.requests
        assert all(url.startswith((showcase.url, "blob:")) for url in window.requests)


@EVERY_PAGE
def test_a_phone_shows_a_page_without_scrolling_sideways(browser: Browser, showcase: Showcase, name: str) -> None:
    with browser.window(size=PHONE) as window:
        open_page(window, showcase, name)
        assert window.page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]


@EVERY_PAGE
def test_a_page_has_one_heading_a_title_and_marks_for_screen_readers(
    window: Window, showcase: Showcase, name: str
) -> None:
    open_page(window, showcase, name)
    assert window.page.locator("h1").count() == 1
    assert window.page.locator("main").count() == 1
    assert window.page.title().endswith("SecVM")
    assert window.page.locator("html").get_attribute("lang") == "en"


@EVERY_PAGE
def test_the_tab_key_reaches_everything(window: Window, showcase: Showcase, name: str) -> None:
    open_page(window, showcase, name)
    count = window.page.evaluate(_NUMBER, _FOCUSABLE)
    reached: list[int] = []
    for _ in range(count + 3):
        window.page.keyboard.press("Tab")
        reached.append(window.page.evaluate(_WHERE))
    missed = sorted(set(range(count)) - set(reached))
    assert window.page.evaluate(_NAMES, missed) == []


@EVERY_PAGE
def test_what_has_the_keyboard_can_be_seen(window: Window, showcase: Showcase, name: str) -> None:
    open_page(window, showcase, name)
    for _ in range(6):
        window.page.keyboard.press("Tab")
        ring = window.page.evaluate(
            """() => {
              const look = getComputedStyle(document.activeElement);
              return (look.outlineStyle !== "none" && parseFloat(look.outlineWidth) > 0) || look.boxShadow !== "none";
            }"""
        )
        assert ring, window.focused()


def test_the_skip_link_leads_past_the_navigation(window: Window, showcase: Showcase) -> None:
    open_page(window, showcase, "overview")
    window.page.keyboard.press("Tab")
    assert window.focused()["words"] == "Skip to the content"
    window.page.keyboard.press("Enter")
    assert window.focused()["id"] == "main"
    window.page.keyboard.press("Tab")
    assert window.page.evaluate("document.activeElement.closest('main') !== null")


def test_links_between_pages_work_without_a_reload_and_so_does_going_back(window: Window, showcase: Showcase) -> None:
    open_page(window, showcase, "overview")
    window.page.evaluate("window.__stayed = true")
    window.page.locator(f'a[href="/experiment/{showcase.digest}"]').first.press("Enter")
    window.page.wait_for_selector("main[data-view=experiment]")
    settle(window)
    assert window.focused()["tag"] == "h1"
    window.page.go_back()
    window.page.wait_for_selector("main[data-view=overview]")
    assert window.page.evaluate("window.__stayed") is True
    assert window.faults() == []


def test_a_question_keeps_the_keyboard_and_gives_it_back(window: Window, showcase: Showcase) -> None:
    open_page(window, showcase, "experiment")
    window.page.locator("[data-action=pause]").press("Enter")
    window.page.wait_for_selector("dialog#confirm[open]")
    assert window.focused()["id"] == "admin-key"
    assert window.accessibility() == []
    for key in ["Tab"] * 6 + ["Shift+Tab"] * 6:
        window.page.keyboard.press(key)
        inside = "document.activeElement === document.body || document.activeElement.closest('dialog') !== null"
        assert window.page.evaluate(inside), window.focused()
    window.page.keyboard.press("Escape")
    window.page.wait_for_selector("dialog#confirm", state="hidden")
    assert window.page.evaluate("document.activeElement.dataset.action") == "pause"


def test_a_page_without_scripts_says_what_it_needs(browser: Browser, showcase: Showcase) -> None:
    with browser.window(java_script_enabled=False) as window:
        window.page.goto(showcase.url)
        assert "needs JavaScript" in window.page.locator("noscript").inner_text()


def test_a_server_that_is_gone_is_told_and_comes_back_by_itself(window: Window, showcase: Showcase) -> None:
    open_page(window, showcase, "overview")
    window.page.evaluate("window.__stayed = true")
    showcase.federation.kill("dashboard")
    window.page.wait_for_selector("[data-fact=connection][data-value=lost]")
    assert window.page.locator("#trouble").is_visible()
    showcase.federation.restart("dashboard")
    window.page.wait_for_selector("[data-fact=connection][data-value=live]", timeout=30_000)
    window.page.wait_for_selector("#trouble", state="hidden")
    assert window.page.evaluate("window.__stayed") is True
