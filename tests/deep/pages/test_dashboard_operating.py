"""Changing something takes the admin key, from this page alone: the buttons without it, strangers' pages, programs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from secvm_lab.rigs.browser import Window
from secvm_lab.showcase import Showcase
from tests.serving import HTML, serving
from tests.system.browser.facts import ask, await_fact, open_page

WRONG = "00" * 32


@pytest.fixture(autouse=True)
def _nothing_has_changed(showcase: Showcase) -> Iterator[None]:
    """Whatever a test tries: afterwards one experiment runs, as before."""
    before = ask(showcase.federation.coordinator_url, "/v1/experiments")
    yield
    assert ask(showcase.federation.coordinator_url, "/v1/experiments") == before


# ── without the key ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("action", ["pause", "stop"])
@pytest.mark.parametrize("key", ["", WRONG], ids=["no key", "a wrong key"])
def test_a_button_without_the_key_changes_nothing(window: Window, showcase: Showcase, action: str, key: str) -> None:
    open_page(window, showcase, "experiment")
    window.page.locator(f"[data-action={action}]").click()
    if key:
        window.page.locator("#admin-key").fill(key)
    window.page.locator("dialog [data-action=confirm]").click()
    window.page.wait_for_selector("dialog [data-fact=refusal]:not(:empty)")
    assert "key" in window.page.locator("[data-fact=refusal]").inner_text().lower()
    assert showcase.status()["standing"] == "running"
    asked = [url for url in window.requests if "/api/admin" in url]
    assert len(asked) == (1 if key else 0)
    assert window.faults(but=["status of 401"]) == []


def test_the_right_key_in_the_wrong_place_is_no_key(showcase: Showcase) -> None:
    path, key = f"/api/admin/experiments/{showcase.digest}/pause", showcase.admin_key
    for place in (f"{path}?key={key}", f"{path}?authorization=Bearer%20{key}"):
        assert ask(showcase.url, place, method="POST", body={})[0] == 401
    assert ask(showcase.url, path, method="POST", body={"key": key}, cookie=f"key={key}")[0] == 401


# ── with it ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_key_pauses_and_resumes_and_is_kept_nowhere(window: Window, showcase: Showcase) -> None:
    open_page(window, showcase, "experiment")
    window.page.locator("[data-action=pause]").click()
    window.page.locator("#admin-key").fill(showcase.admin_key)
    window.page.locator("dialog [data-action=confirm]").click()
    await_fact(window, "standing", "paused")
    assert showcase.status()["standing"] == "paused"
    kept = window.page.evaluate(
        "() => JSON.stringify([localStorage, sessionStorage, document.cookie, location.href, history.state])"
        " + document.documentElement.outerHTML"
    )
    assert showcase.admin_key not in kept
    assert window.context.cookies() == []
    # Held in the tab: no second asking.
    window.page.locator("[data-action=resume]").click()
    window.page.locator("dialog [data-action=confirm]").click()
    await_fact(window, "standing", "running")
    window.page.locator("[data-action=forget-key]").click()
    await_fact(window, "key_held", "false")
    assert not any(showcase.admin_key in url for url in window.requests)
    assert window.faults() == []


def test_a_reload_forgets_the_key(window: Window, showcase: Showcase) -> None:
    open_page(window, showcase, "experiment")
    window.page.locator("[data-action=pause]").click()
    window.page.locator("#admin-key").fill(WRONG)
    open_page(window, showcase, "experiment")
    window.page.locator("[data-action=pause]").click()
    assert window.page.locator("#admin-key").input_value() == ""


# ── strangers' pages ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def stranger() -> Iterator[int]:
    """The port of somebody else's page on this machine."""
    page = b"<!doctype html><html lang='en'><title>A stranger</title><h1>A stranger</h1>"
    with serving({"/": page}, HTML) as server:
        yield server.server_port


STRANGERS = pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
_ATTEMPTS = """async ([url, key]) => {
  const tries = {
    simple: { method: "POST", mode: "no-cors", body: "{}", headers: { "content-type": "text/plain" } },
    form: { method: "POST", mode: "no-cors", body: new URLSearchParams({ a: "b" }) },
    beacon: { method: "POST", mode: "no-cors", credentials: "include", keepalive: true, body: "{}" },
    json: { method: "POST", body: "{}", headers: { "content-type": "application/json" } },
    key: { method: "POST", body: "{}",
      headers: { "content-type": "application/json", authorization: `Bearer ${key}` } },
  };
  const told = {};
  for (const [name, options] of Object.entries(tries)) {
    try {
      const answer = await fetch(url, options);
      told[name] = answer.type === "opaque" ? "opaque" : answer.status;
    } catch { told[name] = "refused"; }
  }
  return told;
}"""


@STRANGERS
def test_a_strangers_page_cannot_change_anything_not_even_with_the_key(
    window: Window, showcase: Showcase, stranger: int, host: str
) -> None:
    window.page.goto(f"http://{host}:{stranger}/")
    url = f"{showcase.url}/api/admin/experiments/{showcase.digest}/pause"
    told = window.page.evaluate(_ATTEMPTS, [url, showcase.admin_key])
    assert told["json"] == told["key"] == "refused"
    assert {told["simple"], told["form"], told["beacon"]} <= {"opaque", "refused"}
    assert showcase.status()["standing"] == "running"


@STRANGERS
def test_a_strangers_form_is_refused(window: Window, showcase: Showcase, stranger: int, host: str) -> None:
    window.page.goto(f"http://{host}:{stranger}/")
    url = f"{showcase.url}/api/admin/experiments/{showcase.digest}/stop"
    with window.page.expect_navigation() as going:
        window.page.evaluate(
            """(url) => {
              const form = Object.assign(document.createElement("form"), { method: "post", action: url });
              form.enctype = "text/plain";
              document.body.append(form);
              form.submit();
            }""",
            url,
        )
    assert going.value is not None
    assert going.value.status in (403, 415)


@STRANGERS
def test_a_strangers_page_cannot_read_or_frame_ours(
    window: Window, showcase: Showcase, stranger: int, host: str
) -> None:
    window.page.goto(f"http://{host}:{stranger}/")
    told = window.page.evaluate(
        """async (url) => {
          const read = await fetch(`${url}/api/now`).then((answer) => answer.text(), () => "refused");
          const script = await new Promise((done) => {
            const one = document.createElement("script");
            one.onload = () => done("loaded");
            one.onerror = () => done("refused");
            one.src = `${url}/static/main.js`;
            document.head.append(one);
          });
          await new Promise((done) => {
            const one = document.createElement("iframe");
            one.onload = done;
            one.src = url;
            document.body.append(one);
          });
          return { read, script };
        }""",
        showcase.url,
    )
    assert told == {"read": "refused", "script": "refused"}
    # Framed, it would have begun to listen.
    assert not any("/api/events" in url for url in window.requests)
