"""Every page of the operator: quiet, at home on this machine, and usable without eyes, without a mouse, in the dark."""

from __future__ import annotations

import pytest

from secvm.testing.federation import COORDINATOR
from secvm_lab.rigs.browser import PHONE, Browser, Window
from secvm_lab.showcase import Showcase
from tests.system.browser.facts import PAGES, open_page, settle

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
#: Around the element, a shape that belongs to it, or the card that it stands for. Past the last it is the browser's.
_RING = """() => {
  const one = document.activeElement;
  // Parts of a date are marked one by one, by the browser.
  if (one === document.body || one.type === "datetime-local") return true;
  const looks = ["", "::before", "::after"].map((part) => getComputedStyle(one, part));
  looks.push(getComputedStyle(one.closest("li, article, section") ?? one));
  return looks.some(
    (look) => (look.outlineStyle !== "none" && parseFloat(look.outlineWidth) > 0) || look.boxShadow !== "none",
  );
}"""
_NAMES = "(at) => at.map((i) => window.__all[i].outerHTML.slice(0, 120))"


@EVERY_PAGE
def test_a_page_by_day_at_a_desk(browser: Browser, showcase: Showcase, name: str) -> None:
    with browser.window() as window:
        open_page(window, showcase, name)
        _is_good(window, showcase)
        assert window.page.locator("h1").count() == window.page.locator("main").count() == 1
        assert window.page.title().endswith("SecVM")
        assert window.page.locator("html").get_attribute("lang") == "en"


@EVERY_PAGE
def test_a_page_by_night_on_a_phone(browser: Browser, showcase: Showcase, name: str) -> None:
    with browser.window(dark=True, size=PHONE) as window:
        open_page(window, showcase, name)
        _is_good(window, showcase)
        assert window.page.evaluate("document.documentElement.scrollWidth") <= PHONE[0], "it scrolls sideways"


def _is_good(window: Window, showcase: Showcase) -> None:
    """No grave issue for anybody, no error, and nothing asked of anybody else."""
    assert window.accessibility() == []
    assert window.faults() == []
    assert window.requests
    assert all(url.startswith((showcase.url, "blob:")) for url in window.requests)


@EVERY_PAGE
def test_the_tab_key_reaches_everything_and_shows_where_it_is(window: Window, showcase: Showcase, name: str) -> None:
    open_page(window, showcase, name)
    count = window.page.evaluate(_NUMBER, _FOCUSABLE)
    reached: list[int] = []
    # A date has several parts, each with a stop of its own.
    for _ in range(count + 12):
        window.page.keyboard.press("Tab")
        reached.append(window.page.evaluate(_WHERE))
        assert window.page.evaluate(_RING), window.focused()
        if len(set(reached)) == count:
            break
    missed = sorted(set(range(count)) - set(reached))
    assert window.page.evaluate(_NAMES, missed) == []


def test_the_skip_link_leads_past_the_navigation(window: Window, showcase: Showcase) -> None:
    open_page(window, showcase, "overview")
    window.page.keyboard.press("Tab")
    assert window.focused()["words"] == "Skip to the content"
    window.page.keyboard.press("Enter")
    window.page.wait_for_function("() => document.activeElement.closest('main') !== null")
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


def test_a_coordinator_that_is_gone_is_named_and_nothing_of_it_goes_on(window: Window, showcase: Showcase) -> None:
    open_page(window, showcase, "server")
    showcase.federation.kill(COORDINATOR)
    window.page.wait_for_selector("#trouble[data-value^=coordinator]")
    assert "The coordinator has not answered since" in window.page.locator("#trouble").inner_text()
    assert "has not answered since" in window.page.locator("[data-fact=reachable]").inner_text()
    running = window.page.locator(".tile", has=window.page.locator("[data-fact=started_at]")).inner_text()
    assert "when it was seen last at" in running
    window.page.goto(showcase.url + "/nope")
    window.page.wait_for_selector("#trouble[data-value^=coordinator]")
    assert window.page.locator("h1").inner_text() == "Not here"
    showcase.federation.restart(COORDINATOR)
    window.page.wait_for_selector("#trouble", state="hidden", timeout=30_000)
