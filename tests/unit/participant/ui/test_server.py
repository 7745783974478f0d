"""The person's page over real sockets: one address, one secret, one kind of answer, and nothing told to a log."""

import asyncio
import io
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from secvm.errors import BadInputError
from secvm.pages.guarding import HEADERS
from secvm.participant.ui.server import serve_page
from tests.unit.participant.ui.asking import Page, desk_of, served
from tests.unit.participant.world import SECRET, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.joined().close()
    return world


def test_page_and_its_files_are_served_with_all_headers(page: Page) -> None:
    answers = [page.ask(path) for path in ("", "static/look.css", "static/person.js", "api/state", "nothing")]
    answers.append(page.ask(target="/"))
    assert [answer.status for answer in answers] == [200, 200, 200, 200, 404, 404]
    assert answers[0].headers["content-type"].startswith("text/html")
    assert answers[2].headers["content-type"].startswith("text/javascript")
    for answer in answers:
        assert {name: answer.headers.get(name.lower()) for name in HEADERS} == HEADERS
        assert answer.headers["content-length"] == str(len(answer.body))
    policy = HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


def test_first_paint_is_small(page: Page) -> None:
    names = ["", "static/look.css", "static/person.css", "static/person.svg", "api/state"]
    names += [f"static/{name}.js" for name in ("person", "talk", "parts", "dialogs", "day", "experiments", "offers")]
    assert sum(len(page.ask(name).body) for name in names) < 100_000


def test_files_hold_no_inline_script_style_or_markup_from_text() -> None:
    static = Path(__file__).parents[4] / "src/secvm/participant/ui/static"
    html = (static / "person.html").read_text()
    assert "<style" not in html
    assert " style=" not in html
    assert html.count("<script") == html.count('<script type="module" src=') == 1
    assert not re.search(r"\son[a-z]+=", html)
    for script in static.glob("*.js"):
        text = script.read_text()
        assert "innerHTML" not in text
        assert "insertAdjacent" not in text
        assert "eval(" not in text
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
        assert max(map(len, text.splitlines())) <= 120


def test_whatever_comes_without_the_secret_gets_one_answer(page: Page) -> None:
    wrong = page.secret[:-1] + ("A" if page.secret[-1] != "A" else "B")
    targets = ["/", "/favicon.ico", f"/{wrong}/", f"/{wrong}/api/state", f"/{page.secret}", f"/{page.secret[:20]}/"]
    answers = [page.ask(target=target) for target in targets]
    answers.append(page.ask(target=f"/{wrong}/api/forget", method="POST", headers={"Content-Type": "text/plain"}))
    answers.append(page.ask(target=f"/{wrong}/", headers={"Origin": "http://other.example"}))
    for answer in answers:
        answer.headers.pop("date")
    assert all(answer == answers[0] for answer in answers)
    assert answers[0].status == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "rebound.example"}, 421),
        ({"Origin": "http://other.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": None}, 415),
        ({"Secvm-Page": None}, 403),
    ],
)
def test_nothing_is_changed_by_whoever_is_not_the_page(
    world: World, page: Page, headers: dict[str, str | None], status: int
) -> None:
    refused = page.act("pause", {"digest": world.of.digest}, **headers)
    assert refused.status == status
    assert refused.headers["content-type"].startswith("application/problem+json")
    assert page.state()["experiments"][0]["status"] == "joined"


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH"])
def test_other_methods_and_preflights_are_refused(page: Page, method: str) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "secvm-page"}
    answer = page.ask("api/pause", method=method, headers=asked)
    assert answer.status == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    ("action", "said", "status"),
    [
        ("pause", [], 400),
        ("pause", {"other": 1}, 400),
        ("pause", {"digest": 7}, 400),
        ("pause", {"digest": "x" * 2000}, 400),
        ("pause", {"digest": "0" * 64}, 409),
        ("join", {"digest": "0" * 64, "accept": "all"}, 409),
        ("join", {"digest": "0" * 64, "accept": {"auc": "1"}}, 400),
        ("join", {"digest": "0" * 64, "accept": {"auc": float("nan")}}, 400),
        ("join", {"digest": "0" * 64, "accept": {"epsilon": float("inf")}}, 400),
        ("join", {"digest": "0" * 64, "accept": {"epsilon": -1}}, 400),
        ("examples", {"source": "\ud800"}, 400),
        ("join", {"digest": "0" * 64, "accept": {"auc": 3}}, 409),
        ("find", {"digest": "short"}, 409),
        ("evidence", {"number": 1}, 409),
        ("evidence", {"number": True}, 409),
        ("predict", {"digest": "0" * 64}, 409),
        ("nothing", {}, 404),
    ],
)
def test_nonsense_is_one_sentence(page: Page, action: str, said: object, status: int) -> None:
    answer = page.act(action, said)
    assert answer.status == status
    assert answer.json["detail"].endswith(".")


def test_body_that_is_no_json_or_too_long_is_refused(page: Page) -> None:
    told = {"Content-Type": "application/json", "Secvm-Page": "person"}
    for body, status in ((b"", 400), (b"{", 400), (b"[" * 9000, 400), (b'"' + b"x" * 20_000 + b'"', 413)):
        assert page.ask("api/pause", method="POST", headers=told, body=body).status == status


@pytest.mark.parametrize(
    "listen", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "localhost:0", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", ":0"]
)
def test_page_is_shown_on_this_machine_only(world: World, listen: str) -> None:
    with pytest.raises(BadInputError, match="this machine only"):
        asyncio.run(serve_page(listen, desk_of(world), "secret"))


def test_taken_port_is_one_sentence(page: Page) -> None:
    with pytest.raises(BadInputError, match="cannot show the page") as refusal:
        page.run(serve_page(page.host, page.desk, "a-secret"))
    assert "a-secret" not in str(refusal.value)


def test_secret_and_persons_data_are_in_no_log_and_no_repr(world: World, caplog: pytest.LogCaptureFixture) -> None:
    log = io.StringIO()
    caplog.set_level(logging.DEBUG)

    with served(world, log=log) as page:
        secret = page.secret

        async def fails() -> dict[str, Any]:
            raise RuntimeError(f"{secret} {SECRET}")

        answers = [page.ask("api/state"), page.act("examples", {"source": "words"})]
        answers += [page.ask("nowhere"), page.act("pause", {"digest": SECRET})]
        page.desk.look = fails  # type: ignore[method-assign]
        answers.append(page.ask("api/state"))
        # What is no HTTP at all is answered by the library, which would log the line it could not read.
        page.run(page.saying(f"GET /{secret}/ nonsense\r\n\r\n".encode()))
        assert secret not in repr(page.desk)
    assert [answer.status for answer in answers] == [200, 200, 404, 409, 500]
    assert SECRET in answers[1].body.decode()
    for answer in (answers[0], *answers[2:]):
        assert SECRET not in answer.body.decode()
        assert secret not in answer.body.decode()
    written = log.getvalue() + caplog.text
    assert '"event":"fault","error":"runtimeerror"' in written
    assert secret not in written
    assert SECRET not in written


def test_door_for_a_file_leads_to_the_page_and_says_nothing(page: Page) -> None:
    answer = page.ask("enter", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})
    assert answer.status == 200
    assert b'content="0;url=./"' in answer.body
