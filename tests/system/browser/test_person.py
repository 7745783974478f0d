"""The person's page in a real browser: what it shows is what the program says, and what is clicked happens.

One made-up person for each test that decides something: what is forgotten stays so.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from secvm.participant.storage.state import DeviceState, Status
from secvm.protocol.evidence.plain import examine
from secvm_lab.rigs.browser import DESKTOP, PHONE, Browser, Window
from secvm_lab.rigs.person_page import FEATURES, MadeUpPerson, ShownPage, shown_page


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> MadeUpPerson:
    return MadeUpPerson(tmp_path_factory.mktemp("person") / "device")


@contextlib.contextmanager
def as_in_the_beginning(person: MadeUpPerson, own: Path) -> Iterator[ShownPage]:
    """The page of that person, whose device is a copy that may be changed."""
    before = person.folder
    shutil.copytree(before, own)
    own.chmod(0o700)
    person.folder = own
    try:
        with shown_page(own, person=person) as page:
            yield page
    finally:
        person.folder = before


@pytest.fixture
def shown(person: MadeUpPerson, tmp_path: Path) -> Iterator[ShownPage]:
    with as_in_the_beginning(person, tmp_path / "device") as page:
        yield page


def state_of(window: Window) -> Any:
    """What the program says, asked from the page itself."""
    return window.page.evaluate("fetch('api/state').then((answer) => answer.json())")


def texts(sentences: list[dict[str, Any]]) -> list[str]:
    return [sentence["text"] for sentence in sentences]


def opened(window: Window, shown: ShownPage) -> Page:
    window.page.goto(shown.address)
    expect(window.page.locator("[data-experiment]").first).to_be_visible()
    return window.page


def experiment(page: Page, digest: str) -> Locator:
    return page.locator(f"[data-experiment='{digest}']")


def found(page: Page, button: str = "Ask which there are") -> None:
    page.get_by_role("button", name=button).click()
    expect(page.locator("[data-offer]").first).to_be_visible()


def status(shown: ShownPage, digest: str) -> Status | None:
    state = DeviceState(shown.person.folder)
    record = state.record(digest)
    state.close()
    return None if record is None else record.status


def test_values_on_the_page_are_those_of_the_program(window: Window, shown: ShownPage) -> None:
    page = opened(window, shown)
    state = state_of(window)
    assert len(state["experiments"]) == 3
    for one in state["experiments"]:
        panel = experiment(page, one["digest"])
        expect(panel.locator("h3")).to_have_text(one["title"])
        expect(panel.locator(".means")).to_have_text(one["means"]["text"])
        expect(panel.locator(".asks")).to_have_text(" ".join(texts(one["asks"])))
        expect(panel.locator(".risk")).to_have_text(one["risk"]["text"])
        expect(panel.locator(".question")).to_have_text(one["question"])
        counts = {"rounds": len(one["rounds"]), **{name: one[name] for name in ("acknowledged", "waiting", "lost")}}
        for name, count in counts.items():
            expect(panel.locator(f"[data-count='{name}'] b")).to_have_text(str(count))
        for heading, sentences in (
            ("what leaves your device", one["leaves"]),
            ("The figures", one["figures"]),
            ("What your device has checked", one["checked"]),
        ):
            folded = panel.locator("details").filter(has_text=heading)
            folded.locator("summary").click()
            assert folded.locator("li").all_inner_texts() == texts(sentences)
    meters = {one.get_attribute("data-meter"): one.inner_text() for one in page.locator("[data-meter]").all()}
    assert f"{int(100 * state['budget']['auc']['left'])}% left" in meters["auc"]
    assert "100% left" in meters["epsilon"]
    assert "/ 50 MB" in meters["bytes"]
    budget = page.locator("[data-budget='risk']")
    budget.locator("summary").click()
    assert budget.locator("li").all_inner_texts()[: len(state["budget"]["words"])] == texts(state["budget"]["words"])
    expect(budget).to_contain_text(f"{state['budget']['auc']['spent']} of 0.55")
    rows = {row["name"]: row["features"] for row in state["vault"]["sources"]}
    for name, count in rows.items():
        expect(page.locator("#vault tr").filter(has_text=name).locator("td").first).to_have_text(str(count))
    (evidence,) = state["evidence"]
    expect(page.locator("[data-evidence]")).to_contain_text(evidence["sentence"])
    assert window.faults() == []


def test_hours_of_the_day_hold_what_waits(window: Window, shown: ShownPage) -> None:
    page = opened(window, shown)
    (going,) = (one for one in state_of(window)["experiments"] if one["waiting"])
    hours: dict[int, int] = {}
    for quarter in going["times"]:
        hour = quarter["at"] // 3_600_000 % 24
        hours[hour] = hours.get(hour, 0) + quarter["packages"]
    strip = experiment(page, going["digest"]).locator(".day")
    assert strip.locator("rect.packages").count() == len(hours)
    assert strip.locator("text.count").all_text_contents() == [str(hours[hour]) for hour in sorted(hours)]
    assert strip.locator("rect.hour").count() == 24
    expect(strip).to_contain_text(f"{going['waiting']} packages")
    expect(strip).to_contain_text("forgotten as soon as it has arrived")


def test_persons_own_words_are_shown_only_behind_a_click_and_go_again(window: Window, shown: ShownPage) -> None:
    page = opened(window, shown)
    html = page.content()
    assert not any(word in html for word in FEATURES)
    page.get_by_role("button", name="Show some").first.click()
    expect(page.locator("dialog li")).to_have_count(len(FEATURES))
    expect(page.locator("dialog")).to_contain_text("glasshouse × 7")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_be_hidden()
    expect(page.locator("dialog li")).to_have_count(0)
    assert window.faults() == []


def test_pause_and_go_on_by_clicking(window: Window, shown: ShownPage) -> None:
    page, digest = opened(window, shown), shown.person.garden.document.digest
    panel = experiment(page, digest)
    panel.get_by_role("button", name="Pause").click()
    expect(panel.locator(".badge")).to_have_text("paused")
    assert status(shown, digest) is Status.PAUSED
    expect(page.get_by_role("status")).to_have_text("Paused: Gardens")
    panel.get_by_role("button", name="Go on").click()
    expect(panel.locator(".badge")).to_have_text("taking part")
    assert status(shown, digest) is Status.JOINED
    assert window.faults() == []


def test_joining_shows_the_statement_first_and_wants_an_answer(window: Window, shown: ShownPage) -> None:
    page, digest = opened(window, shown), shown.person.music.document.digest
    asked = [path for path, _ in shown.person.net.fetches if path == "/v1/experiments"]
    found(page)
    assert [path for path, _ in shown.person.net.fetches if path == "/v1/experiments"] == [*asked, "/v1/experiments"]
    # Its guarantee is computed first: the others are there before it.
    page.locator(f"[data-offer='{digest}']").wait_for()
    offer = next(one for one in state_of(window)["offers"]["list"] if one["digest"] == digest)
    page.locator(f"[data-offer='{digest}']").get_by_role("button", name="Read what it means").click()
    dialog = page.get_by_role("dialog")
    shown_sentences = dialog.locator(".sentences").locator("li").all_inner_texts()
    assert shown_sentences[: len(offer["asks"]) + len(offer["short"])] == texts([*offer["asks"], *offer["short"]])
    for heading, sentences in (("Read everything", offer["leaves"]), ("The figures", offer["figures"])):
        folded = dialog.locator("details").filter(has_text=heading)
        folded.locator("summary").click()
        assert folded.locator("li").all_inner_texts() == texts(sentences)
    join = dialog.get_by_role("button", name="Take part")
    expect(join).to_be_disabled()
    dialog.get_by_label("Your own answer").select_option("no")
    join.click()
    expect(experiment(page, digest)).to_be_visible()
    assert status(shown, digest) is Status.JOINED
    expect(page.locator(f"[data-offer='{digest}']")).to_have_count(0)
    assert window.faults() == []


def test_what_tells_more_than_the_device_likes_wants_a_second_yes(window: Window, shown: ShownPage) -> None:
    page, digest = opened(window, shown), shown.person.travel.document.digest
    found(page)
    page.locator(f"[data-offer='{digest}']").get_by_role("button", name="Read what it means").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("your device would say no")
    dialog.get_by_label("Your own answer").select_option("by train")
    join = dialog.get_by_role("button", name="Take part")
    expect(join).to_be_disabled()
    dialog.get_by_label("I accept this risk").check()
    join.click()
    expect(experiment(page, digest)).to_be_visible()
    state = DeviceState(shown.person.folder)
    accepted = state.ledger.accepted(digest)
    state.close()
    assert accepted.auc is not None
    assert accepted.auc > 0.55


def test_what_the_device_refuses_cannot_be_joined(window: Window, shown: ShownPage) -> None:
    page, digest = opened(window, shown), shown.person.endless.document.digest
    found(page)
    page.locator(f"[data-offer='{digest}']").get_by_role("button", name="Read what it means").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("2,000 rounds, and this device agrees to 1,000 at most")
    expect(dialog.get_by_role("button", name="Take part")).to_have_count(0)


def test_no_is_remembered_and_can_be_looked_at_again(window: Window, shown: ShownPage) -> None:
    page, digest = opened(window, shown), shown.person.music.document.digest
    found(page)
    page.locator(f"[data-offer='{digest}']").get_by_role("button", name="No", exact=True).click()
    said_no = page.locator(f"[data-declined='{digest}']")
    expect(said_no).to_contain_text("you said no")
    assert status(shown, digest) is Status.DECLINED
    found(page)
    expect(page.locator(f"[data-offer='{digest}']")).to_have_count(0)
    said_no.get_by_role("button", name="Look at it again").click()
    expect(page.locator(f"[data-offer='{digest}']")).to_be_visible()
    assert window.faults() == []


def test_forgetting_asks_first_and_says_what_stays(window: Window, shown: ShownPage) -> None:
    page, digest = opened(window, shown), shown.person.garden.document.digest
    panel = experiment(page, digest)
    panel.get_by_role("button", name="Leave and forget").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("cannot be taken back")
    dialog.get_by_role("button", name="Not now").click()
    assert status(shown, digest) is Status.JOINED
    panel.get_by_role("button", name="Leave and forget").click()
    dialog.get_by_role("button", name="Leave and forget").click()
    expect(page.locator(f"[data-left='{digest}']")).to_be_visible()
    expect(panel).to_have_count(0)
    assert status(shown, digest) is Status.FORGOTTEN
    assert window.faults() == []


def test_model_is_asked_about_oneself(window: Window, shown: ShownPage) -> None:
    page, history = opened(window, shown), shown.person.garden
    experiment(page, history.document.digest).get_by_role("button", name="What does it say about me?").click()
    answer = page.locator("dialog .answer")
    expect(answer).to_be_visible()
    assert answer.inner_text() in history.document.experiment.labels


def test_evidence_is_saved_after_a_warning(window: Window, shown: ShownPage, tmp_path: Path) -> None:
    page = opened(window, shown)
    page.get_by_role("button", name="Save the proof").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("put a mark into what it serves")
    with page.expect_download() as download:
        dialog.get_by_role("button", name="Save the file").click()
    file = tmp_path / "evidence.json"
    download.value.save_as(file)
    assert examine(file.read_bytes()).sentence in page.locator("[data-evidence]").inner_text()


def test_refusal_is_a_sentence_in_the_dialog(window: Window, shown: ShownPage) -> None:
    page = opened(window, shown)
    page.get_by_label("Or one that you were told of").fill("not a name")
    page.get_by_role("button", name="Find it").click()
    expect(page.get_by_role("dialog")).to_contain_text("64 hexadecimal digits")
    assert window.faults(but=["409"]) == []


def test_page_follows_the_device_and_keeps_what_is_unfolded(window: Window, shown: ShownPage) -> None:
    page, digest = opened(window, shown), shown.person.garden.document.digest
    panel = experiment(page, digest)
    panel.locator("summary").first.focus()
    page.keyboard.press("Enter")
    state = DeviceState(shown.person.folder)
    state.set_status(digest, Status.PAUSED)
    state.close()
    expect(panel.locator(".badge")).to_have_text("paused")
    expect(panel.locator("details").first).to_have_attribute("open", "")
    assert window.focused()["tag"] == "summary"
    assert len([url for url in window.requests if url.endswith("api/state")]) >= 2


def test_page_asks_every_few_seconds_and_hidden_it_asks_nothing(window: Window, shown: ShownPage) -> None:
    window.page.clock.install()
    page = opened(window, shown)

    def asked() -> int:
        return len([url for url in window.requests if url.endswith("api/state")])

    before = asked()
    with page.expect_response("**/api/state"):
        page.clock.run_for(3000)
    assert asked() == before + 1
    page.evaluate(
        """() => {
          Object.defineProperty(document, "hidden", { value: true, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
        }"""
    )
    page.clock.run_for(60_000)
    assert asked() == before + 1


def test_lost_program_is_told(window: Window, person: MadeUpPerson, tmp_path: Path) -> None:
    with as_in_the_beginning(person, tmp_path / "device") as shown:
        opened(window, shown)
    expect(window.page.locator("#away")).to_be_visible()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", [PHONE, DESKTOP])
def test_everybody_can_use_it(browser: Browser, shown: ShownPage, dark: bool, size: tuple[int, int]) -> None:
    with browser.window(dark=dark, size=size) as window:
        page = opened(window, shown)
        found(page)
        for folded in page.locator("details").all():
            folded.evaluate("one => { one.open = true; }")
        assert window.accessibility() == []
        wide = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert wide[0] <= wide[1]
        for name in ("Read what it means", "Leave and forget", "Show some", "Save the proof"):
            page.get_by_role("button", name=name).first.click()
            expect(page.get_by_role("dialog")).to_be_visible()
            assert window.accessibility() == []
            page.keyboard.press("Escape")
        assert window.faults() == []


def test_everything_can_be_reached_with_the_keyboard(window: Window, shown: ShownPage) -> None:
    page = opened(window, shown)
    reached: list[str] = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(window.focused()["words"])
    for words in (
        "To the content",
        "Save the proof …",
        "Pause",
        "Leave and forget …",
        "Ask which there are",
        "Show some",
    ):
        assert words in reached


def test_first_paint_is_under_100_kilobytes(window: Window, shown: ShownPage) -> None:
    opened(window, shown)
    assert 0 < window.transferred() < 100_000


def test_secret_stays_out_of_titles_storage_and_referrers(window: Window, shown: ShownPage) -> None:
    page = opened(window, shown)
    secret = shown.address.split("/")[3]
    kept: Callable[[str], Any] = page.evaluate
    assert secret not in page.title()
    assert kept("JSON.stringify({...localStorage, ...sessionStorage})") == json.dumps({})
    assert kept("document.cookie") == ""
    assert secret not in page.content()


def test_page_speaks_the_language_of_the_browser_and_of_its_switch(window: Window, shown: ShownPage) -> None:
    window.page.add_init_script("Object.defineProperty(navigator, 'languages', { value: ['fr-FR', 'de-AT', 'en'] })")
    page = opened(window, shown)
    found(page, button="Fragen, welche es gibt")
    html = page.locator("html")
    expect(html).to_have_attribute("lang", "de")
    for folded in page.locator("details").all():
        folded.evaluate("one => { one.open = true; }")
    words = page.locator("main").inner_text()
    assert "von 10 Mal richtig; 5 ist ein Münzwurf" in words
    own = {
        one["text"]
        for of in state_of(window)["experiments"]
        for name in ("leaves", "figures", "checked")
        for one in of[name]
    }
    assert not any(sentence in words for sentence in own), "said in English"
    assert not re.search(r"\{\w+|undefined|\b(?:act|fold|offer|day|why)\.\w", words)
    page.get_by_role("button", name="Lesen, was es bedeutet").first.click()
    expect(page.get_by_role("dialog")).to_contain_text("In Kürze")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="English").click()
    expect(html).to_have_attribute("lang", "en")
    expect(page.locator("h1")).to_have_text("Your device")
    page.reload()
    expect(html).to_have_attribute("lang", "en")
    assert window.faults() == []
