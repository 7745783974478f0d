"""The form for a new experiment in a real browser: the planner answers while one types, nonsense is not sent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Response

from secvm_lab.rigs.browser import Window
from secvm_lab.showcase import Showcase, temporary_showcase
from tests.system.browser.facts import HOSTILE, api, ask, await_fact, facts, open_page, same


@pytest.fixture(scope="module")
def own() -> Iterator[Showcase]:
    """A federation of this module's own: here experiments are made."""
    with temporary_showcase() as started:
        started.play(1)
        yield started


def planned(window: Window, showcase: Showcase, query: str) -> dict[str, Any]:
    """Open the form; the last answer of the planner, when it is all there."""
    answers: list[Response] = []
    window.page.on("response", lambda one: answers.append(one) if one.url.endswith("/api/plan") else None)
    open_page(window, showcase, "new", query)
    window.page.wait_for_selector("[data-fact=plan_state]:is([data-value=exact], [data-value=refused])", timeout=60_000)
    found: dict[str, Any] = answers[-1].json()
    return found


def field(name: str) -> str:
    return f"[data-field='{name}']"


def test_the_panel_shows_what_the_planner_says(window: Window, showcase: Showcase) -> None:
    told = planned(window, showcase, "?privacy=none&binning.bins=777&floor=1500")
    shown = facts(window, ".plan")
    assert same(shown["plan_risk"], told["attacker"]["risk"])
    assert same(shown["plan_per_round"], told["packages"]["per_round"])
    assert same(shown["plan_total"], told["packages"]["total"])
    assert same(shown["plan_points"], told["accuracy"]["points"])
    assert window.page.locator(".statement p").all_text_contents() == told["statement"]
    assert "made-up people" in window.page.locator(".plan-rows").inner_text()
    assert window.faults() == []
    assert window.strangers == []


def test_a_guarantee_is_planned_as_the_coordinator_would(window: Window, showcase: Showcase) -> None:
    told = planned(window, showcase, "?features.per_participant=10&binning.bins=100&rounds=2")
    assert told["exact"]
    assert told["guarantee"]["epsilon"] <= 1
    assert same(facts(window, ".plan")["plan_relays"], told["plan"]["packages"])
    assert same(facts(window, ".plan")["plan_per_round"], told["packages"]["per_round"])


def test_nonsense_is_marked_beside_its_field_and_cannot_be_sent(window: Window, showcase: Showcase) -> None:
    planned(window, showcase, "?title=Owls&privacy=none&test=yes")
    window.page.wait_for_selector("[data-action=create]:enabled")
    window.page.fill(field("binning.bins"), "0")
    window.page.wait_for_selector(f"{field('binning.bins')}[aria-invalid=true]")
    assert window.page.locator("[data-action=create]").is_disabled()
    named = window.page.get_attribute(field("binning.bins"), "aria-describedby") or ""
    said = [window.page.locator(f"#{one}").inner_text() for one in named.split()]
    assert any("bins" in sentence for sentence in said)
    assert facts(window, ".plan")["plan_risk"] == ""
    assert window.accessibility() == []
    window.page.fill(field("binning.bins"), "50")
    window.page.wait_for_selector(f"{field('binning.bins')}:not([aria-invalid])")
    await_fact(window, "plan_state", "refused", ".plan")
    # A hundred features of a person do not fit.
    assert window.page.get_attribute(field("features.per_participant"), "aria-invalid") == "true"


def test_what_stands_in_the_form_stands_in_its_address(window: Window, showcase: Showcase) -> None:
    planned(window, showcase, "?privacy=none")
    window.page.fill(field("title"), HOSTILE)
    window.page.fill(field("binning.bins"), "432")
    window.page.wait_for_url(re.compile("binning.bins=432"))
    window.page.reload()
    window.page.wait_for_selector("[data-fact=plan_state][data-value=exact]")
    assert window.page.input_value(field("title")) == HOSTILE
    assert window.page.input_value(field("binning.bins")) == "432"
    assert window.page.title() != "taken"


def test_an_experiment_is_made_and_stopped_with_the_key_and_not_without(window: Window, own: Showcase) -> None:
    before = len(api(own, "/api/now")["experiments"])
    sizes = "people=400&floor=20&features.per_participant=20&binning.bins=64"
    query = f"?title=%3Cb%3EOwls%3C%2Fb%3E&privacy=none&{sizes}"
    told = planned(window, own, query)
    # Windows, source and the mark of a test are those of the experiment that runs here.
    window.page.wait_for_selector(f"{field('test')}:checked")
    assert re.fullmatch(r"\d+(\.\d{1,2})?", window.page.locator(field("windows.length_s")).input_value())
    window.page.locator("[data-action=create]:enabled").click()
    window.page.wait_for_selector("dialog#create[open]")
    assert "<b>Owls</b>" in window.page.locator("#create-title").inner_text()
    assert window.accessibility() == []
    window.page.locator("dialog [data-action=confirm]").click()
    window.page.wait_for_selector("dialog [data-fact=refusal]:not(:empty)")
    window.page.fill("#admin-key", "00" * 32)
    window.page.locator("dialog [data-action=confirm]").click()
    await_fact(window, "refusal", "401", "dialog")
    assert len(ask(own.url, "/api/now")[1]["experiments"]) == before
    window.page.fill("#admin-key", own.admin_key)
    window.page.locator("dialog [data-action=confirm]").click()
    window.page.wait_for_url(re.compile("/experiment/[0-9a-f]{64}$"))
    digest = window.page.url.rpartition("/")[2]
    path = f"/api/admin/experiments/{digest}"
    status, made = ask(own.url, path, authorization=f"Bearer {own.admin_key}")
    assert status == 200
    assert made["title"] == "<b>Owls</b>"
    assert made["budget"] == told["packages"]["per_round"]
    assert made["standing"] == "running"
    # The tab holds the key: stopping asks for nothing but a word, and is for good.
    window.page.locator("[data-action=stop]").click()
    assert "cannot be resumed" in window.page.locator("dialog#confirm").inner_text()
    window.page.locator("dialog [data-action=confirm]").click()
    await_fact(window, "standing", "stopped")
    assert ask(own.url, path, authorization=f"Bearer {own.admin_key}")[1]["standing"] == "stopped"
    assert not window.page.locator("[data-action=resume]").is_visible()
    assert own.admin_key not in json.dumps(window.requests)
    assert window.faults(but=["status of 401", "status of 404"]) == []
