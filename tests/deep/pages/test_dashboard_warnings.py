"""What somebody should know who only looks: swings, standstills, abandoned rounds, nights, guarantees that are none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from benchmarks._page_server import dashboard
from secvm_lab.rigs.browser import Window
from secvm_lab.rigs.histories.long_history import LongHistory
from tests.system.browser.facts import settle

ROUNDS = 80
ENDS = ("too-few-trained", "nothing-came", "nothing-came", "restarted")
SWING = "rounds {} to {} swing between two models: a larger lambda, a step cap or swift would help"


class Told:
    """A dashboard before a coordinator that tells what the test says."""

    def __init__(self, history: LongHistory, url: str) -> None:
        self.history, self.url = history, url
        self._calm = history.files[history.status_path]

    @property
    def page(self) -> str:
        return f"{self.url}/experiment/{self.history.document.digest}"

    def calm(self) -> None:
        self.history.files[self.history.status_path] = self._calm

    def now(self, change: Callable[[dict[str, Any]], None]) -> None:
        self.calm()
        self.history.retell(change)


@pytest.fixture(scope="module")
def _told() -> Iterator[Told]:
    history = LongHistory(rounds=ROUNDS)
    with history.served() as (_, coordinator), dashboard(coordinator, history.now) as (url, _):
        yield Told(history, url)


@pytest.fixture
def told(_told: Told) -> Iterator[Told]:
    _told.calm()
    yield _told
    _told.calm()


def until_said(window: Window, weight: str, words: str) -> str:
    """The warning of this weight with these words in it, once it is there."""
    kind = f".notice.{weight}" if weight else ".notice:not(.bad):not(.fair)"
    found = window.page.locator(f"[data-fact=notes] {kind}", has_text=re.compile(words))
    found.wait_for()
    return " ".join(found.inner_text().split())


def until_calm(window: Window) -> None:
    """Nothing warns any more: what was told before is forgotten with the next look at the coordinator."""
    window.page.locator("[data-fact=notes] .notice.bad").first.wait_for(state="hidden")


def notes(*all_of_them: str) -> Callable[[dict[str, Any]], None]:
    return lambda status: status.update(notes=list(all_of_them))


def test_a_two_cycle_is_told_in_words_while_it_lasts_and_noted_when_it_is_over(window: Window, told: Told) -> None:
    window.page.goto(told.page)
    settle(window)
    until_calm(window)
    told.now(notes(SWING.format(5, 9), SWING.format(20, 31), SWING.format(60, ROUNDS)))
    said = until_said(window, "bad", "swing")
    assert said == (
        "Warning: Rounds 60 to 80 swing between two models: a larger lambda, a step cap or swift would help."
        " So it did 2 times before."
    )
    told.now(notes(SWING.format(5, 9)))
    assert until_said(window, "fair", "swing").startswith("Note: Rounds 5 to 9 swing between two models")
    until_calm(window)
    assert window.accessibility() == []
    assert window.faults() == []


def test_unopened_rounds_are_named_and_two_of_ten_are_a_warning(window: Window, told: Told) -> None:
    def lose(*numbers: int) -> Callable[[dict[str, Any]], None]:
        def change(status: dict[str, Any]) -> None:
            for number in numbers:
                one = status["rounds"][number - 1]
                for name in ("participants", "people", "accuracy", "recall", "precision", "baseline", "cells"):
                    one.pop(name, None)
                one["state"] = "unopened"

        return change

    told.now(lose(ROUNDS))
    window.page.goto(told.page)
    settle(window)
    until_said(window, "fair", f"Of the last 10\u00a0rounds {ROUNDS} was unopened.")
    told.now(lose(ROUNDS - 3, ROUNDS))
    window.page.goto(told.page)
    settle(window)
    until_said(window, "bad", "A device that sent in two of them takes part no more.")
    assert window.page.locator("[data-fact=unopened]").get_attribute("data-value") == "2"
    assert window.faults() == []


def test_rounds_abandoned_in_a_row_are_a_standstill(window: Window, told: Told) -> None:
    def lose(status: dict[str, Any]) -> None:
        for one, end in zip(status["rounds"][ROUNDS - 4 : ROUNDS], ENDS, strict=True):
            for name in ("participants", "people", "accuracy", "recall", "precision", "baseline", "cells"):
                one.pop(name, None)
            one |= {"state": "abandoned", "end": end}

    told.now(lose)
    window.page.goto(told.page)
    settle(window)
    until_said(window, "bad", "stands still: the last 4\u00a0rounds brought no new model \\(no relay")
    said = window.page.locator("[data-fact=abandoned]").inner_text()
    assert "77: fewer trained than the floor; 78, 79: no relay handed anything on" in said
    table = window.page.locator("[data-fact=rounds]")
    assert table.get_attribute("data-value").startswith(f"open,{','.join(reversed(ENDS))},counted")  # type: ignore[union-attr]
    row = table.locator(f"[data-round='{ROUNDS}']")
    assert "started again while it ran" in row.inner_text()
    # It says so itself; every other page says so above everything else.
    banner = window.page.locator("#trouble")
    assert banner.get_attribute("data-value") == ""
    window.page.goto(told.url + "/server")
    window.page.wait_for_selector("#trouble[data-value=rounds]")
    banner.locator("a").click()
    window.page.wait_for_selector("main[data-view=experiment]")
    assert window.accessibility() == []
    # Whoever sees all experiments sees the most pressing thing about each.
    window.page.goto(told.url)
    settle(window)
    warned = window.page.locator("[data-digest] [data-fact=warning][data-value=true]")
    warned.wait_for()
    assert warned.inner_text().startswith("It stands still")


def test_who_is_lost_is_named_above_every_page_until_they_are_back(window: Window, told: Told) -> None:
    lost = [
        {"what": "quorum", "parties": ["w0.example", "w1.example"], "since": told.history.now - 400_000},
        {"what": "relay", "parties": ["relay.example"], "since": told.history.now - 100_000},
    ]
    well = told.history.files["/health"]
    for path in ("/", "/new", "/server", f"/experiment/{told.history.document.digest}", "/nope"):
        told.history.files["/health"] = json.dumps({"status": "degraded", "lost": lost}).encode()
        window.page.goto(told.url + path)
        window.page.wait_for_selector("#trouble[data-value='quorum,relay']")
        said = window.page.locator("#trouble").inner_text()
        assert "w0.example, w1.example have not cosigned" in said
        assert "The relay relay.example has not answered since" in said
        told.history.files["/health"] = well
        window.page.wait_for_selector("#trouble", state="hidden")


def test_a_round_that_is_not_counted_in_time_is_a_standstill(window: Window, told: Told) -> None:
    def long_ago(status: dict[str, Any]) -> None:
        for name in ("opens_at", "closes_at", "accept_until"):
            status["rounds"][-1][name] -= 2 * 3_600_000

    window.page.goto(told.page)
    settle(window)
    until_calm(window)
    told.now(long_ago)
    until_said(window, "bad", f"stands still: round {ROUNDS + 1} was to be counted at .*, and is not")


def test_nights_are_shaded_in_every_plot_over_rounds(window: Window, told: Told) -> None:
    window.page.goto(told.page)
    settle(window)
    for name in ("recall", "participants", "leakage"):
        window.page.locator(f"[data-figure={name}] svg .shade").first.wait_for(state="attached")
        assert "night" in window.page.locator(f"[data-figure={name}] svg").first.text_content()  # type: ignore[operator]


_OVERTAKEN = """async () => {
  const { History } = await import("/static/history.js");
  const told = (number, state) => ({ number, state, opens_at: number, closes_at: number });
  let answer = null;
  const history = new History("d", () => new Promise((done) => { answer = done; }));
  const asked = history.reach(1);
  history.hear({ total: 2, columns: told([2], ["published"]) });
  answer({ total: 2, columns: told([1, 2], ["published", "open"]) });
  await asked;
  const again = history.catchUp();
  history.hear({ total: 3, columns: told([3], ["open"]) });
  answer({ total: 2, columns: told([1, 2], ["published", "published"]) });
  await again;
  return history.columns.state;
}"""


def test_repro_an_event_that_overtakes_an_answer_is_not_lost(window: Window, told: Told) -> None:
    """It was dropped, and a page opened in that moment stayed behind until the next round."""
    window.page.goto(told.url)
    assert window.page.evaluate(_OVERTAKEN) == ["published", "published", "open"]
