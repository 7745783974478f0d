"""A page of somebody else, in the person's own browser, tries to speak with the person's page. It knows the secret.

The same attacks are made on a page whose guard asks for nothing but the secret: there they succeed. So it is the rest
of the guard that they fail by, and not the browser alone, nor that nobody knows the address.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from secvm.pages.guarding import RefusedRequestError
from secvm.participant.storage.state import DeviceState, Status
from secvm.participant.ui.guard import PageGuard
from secvm_lab.rigs.browser import Window
from secvm_lab.rigs.person_page import MadeUpPerson, ShownPage, shown_page
from tests.serving import HTML, serving


class SecretOnly(PageGuard):
    """What would be left without the other rules."""

    def check(self, method: str, path: str, headers: Iterable[tuple[str, str]]) -> str:
        return self._below_secret(path)


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> MadeUpPerson:
    return MadeUpPerson(tmp_path_factory.mktemp("person") / "device")


@pytest.fixture
def shown(person: MadeUpPerson) -> Iterator[ShownPage]:
    with shown_page(person.folder, person=person) as page:
        yield page


@pytest.fixture
def stranger() -> Iterator[str]:
    """An origin of somebody else's: another port is one, and so is another name."""

    with serving({"/": b"<!doctype html><title>cats</title><body>Look at these cats.</body>"}, HTML) as server:
        yield f"http://localhost:{server.server_port}/"


#: Each gets the address of an action and what to say, and comes back when the browser is done with it.
ATTACKS = {
    "form": """async ([url, said]) => {
      const frame = document.createElement("iframe");
      frame.name = "out";
      const form = document.createElement("form");
      Object.assign(form, { method: "POST", action: url, target: "out", enctype: "text/plain" });
      const field = document.createElement("input");
      // Text in this encoding is name=value: the equals sign hides inside of a member that nobody reads.
      field.name = said.slice(0, -1) + ',"x":"';
      field.value = '"}';
      form.append(field);
      document.body.append(frame, form);
      const done = new Promise((ready) => { frame.onload = ready; });
      form.submit();
      await done;
    }""",
    "fetch as text": """async ([url, said]) => {
      await fetch(url, { method: "POST", mode: "no-cors", body: said }).catch(() => null);
    }""",
    "fetch as JSON": """async ([url, said]) => {
      await fetch(url, { method: "POST", body: said,
        headers: { "Content-Type": "application/json", "Secvm-Page": "person" } }).catch(() => null);
    }""",
}
#: Which a browser lets through if the server says nothing against it; the last asks for leave first.
LET_THROUGH = ("form", "fetch as text")


def attacked(window: Window, shown: ShownPage, stranger: str, attack: str) -> Status:
    digest = shown.person.garden.document.digest
    state = DeviceState(shown.person.folder)
    state.set_status(digest, Status.JOINED)
    window.page.goto(stranger)
    url, said = f"{shown.address}api/pause", json.dumps({"digest": digest})
    window.page.evaluate(ATTACKS[attack], [url, said])
    record = state.record(digest)
    state.close()
    assert record is not None
    return record.status


@pytest.mark.parametrize("attack", ATTACKS)
def test_page_of_a_stranger_changes_nothing(window: Window, shown: ShownPage, stranger: str, attack: str) -> None:
    assert attacked(window, shown, stranger, attack) is Status.JOINED


@pytest.mark.parametrize("attack", LET_THROUGH)
def test_without_the_guard_the_same_page_does_what_it_likes(
    window: Window, person: MadeUpPerson, stranger: str, attack: str
) -> None:
    with shown_page(person.folder, person=person, make_guard=SecretOnly) as shown:
        assert attacked(window, shown, stranger, attack) is Status.PAUSED


def test_page_of_a_stranger_reads_frames_and_embeds_nothing(window: Window, shown: ShownPage, stranger: str) -> None:
    window.page.goto(stranger)
    read = """async (url) => {
      const read = await fetch(url + "api/state").then((answer) => answer.text(), () => null);
      const blind = await fetch(url + "api/state", { mode: "no-cors" }).then((answer) => answer.type, () => null);
      const script = await new Promise((ready) => {
        const one = document.createElement("script");
        Object.assign(one, { onload: () => ready("ran"), onerror: () => ready(null) });
        one.src = url + "static/person.js";
        document.body.append(one);
      });
      return [read, blind, script];
    }"""
    assert window.page.evaluate(read, shown.address) == [None, None, None]
    frame = """(url) => new Promise((ready) => {
      const one = document.createElement("iframe");
      one.onload = () => ready(one.contentDocument === null);
      one.src = url;
      document.body.append(one);
    })"""
    assert window.page.evaluate(frame, shown.address) is True
    inner = [one for one in window.page.frames if one != window.page.main_frame]
    assert all("Your device" not in one.content() for one in inner)


def test_name_that_suddenly_leads_here_is_turned_away(window: Window, shown: ShownPage) -> None:
    # As after DNS rebinding: the browser believes that it speaks with another host, on our port.
    secret = shown.address.split("/")[3]
    answer = window.context.request.get(
        f"http://127.0.0.1:{shown.port}/{secret}/api/state", headers={"Host": f"rebound.example:{shown.port}"}
    )
    assert answer.status == 421


def test_file_that_opens_the_browser_leads_to_the_page(window: Window, shown: ShownPage, tmp_path: Path) -> None:
    from secvm.participant.ui.guard import OpeningFile

    tmp_path.chmod(0o700)
    OpeningFile(tmp_path).lead(shown.address, lambda address: bool(window.page.goto(address)))
    expect(window.page.locator("[data-experiment]").first).to_be_visible()
    assert window.page.url == shown.address


def test_link_from_elsewhere_to_the_page_itself_shows_nothing(window: Window, shown: ShownPage, stranger: str) -> None:
    window.page.goto(stranger)
    with window.page.expect_navigation(url=shown.address) as navigated:
        window.page.evaluate("(url) => { location.href = url; }", shown.address)
    assert navigated.value is not None
    assert navigated.value.status == 403


def test_unsafe_guard_of_this_test_still_knows_the_secret() -> None:
    with pytest.raises(RefusedRequestError):
        SecretOnly("secret", ()).check("GET", "/other/", [])
