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
from tests.unit.participant.ui.asking import Page, Said, desk_of, with_page
from tests.unit.participant.world import SECRET, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.joined().close()
    return world


def test_page_and_its_files_are_served_with_all_headers(world: World) -> None:
    async def scenario(page: Page) -> list[Said]:
        found = [await page.ask(), await page.ask("static/look.css"), await page.ask("static/person.js")]
        return [*found, await page.ask("api/state"), await page.ask("nothing"), await page.ask(target="/")]

    answers = with_page(world, scenario)
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


def test_first_paint_is_small(world: World) -> None:
    async def scenario(page: Page) -> int:
        names = ["", "static/look.css", "static/person.css", "static/person.svg", "api/state"]
        names += [
            f"static/{name}.js" for name in ("person", "talk", "parts", "dialogs", "day", "experiments", "offers")
        ]
        return sum([len((await page.ask(name)).body) for name in names])

    assert with_page(world, scenario) < 100_000


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


def test_whatever_comes_without_the_secret_gets_one_answer(world: World) -> None:
    async def scenario(page: Page) -> list[Said]:
        wrong = page.secret[:-1] + ("A" if page.secret[-1] != "A" else "B")
        targets = ["/", "/favicon.ico", f"/{wrong}/", f"/{wrong}/api/state", f"/{page.secret}", f"/{page.secret[:20]}/"]
        return [await page.ask(target=target) for target in targets] + [
            await page.ask(target=f"/{wrong}/api/forget", method="POST", headers={"Content-Type": "text/plain"}),
            await page.ask(target=f"/{wrong}/", headers={"Origin": "http://other.example"}),
        ]

    answers = with_page(world, scenario)
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
    world: World, headers: dict[str, str | None], status: int
) -> None:
    async def scenario(page: Page) -> tuple[Said, Any]:
        told = {name.replace("-", "_"): value for name, value in headers.items()}
        refused = await page.act("pause", {"digest": world.of.digest}, **told)
        return refused, (await page.ask("api/state")).json

    refused, state = with_page(world, scenario)
    assert refused.status == status
    assert refused.headers["content-type"].startswith("application/problem+json")
    assert state["experiments"][0]["status"] == "joined"


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH"])
def test_other_methods_and_preflights_are_refused(world: World, method: str) -> None:
    async def scenario(page: Page) -> Said:
        asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "secvm-page"}
        return await page.ask("api/pause", method=method, headers=asked)

    answer = with_page(world, scenario)
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
def test_nonsense_is_one_sentence(world: World, action: str, said: object, status: int) -> None:
    answer = with_page(world, lambda page: page.act(action, said))
    assert answer.status == status
    assert answer.json["detail"].endswith(".")


def test_body_that_is_no_json_or_too_long_is_refused(world: World) -> None:
    async def scenario(page: Page) -> list[int]:
        told = {"Content-Type": "application/json", "Secvm-Page": "person"}

        async def status(body: bytes) -> int:
            return (await page.ask("api/pause", method="POST", headers=told, body=body)).status

        return [await status(body) for body in (b"", b"{", b"[" * 9000, b'"' + b"x" * 20_000 + b'"')]

    assert with_page(world, scenario) == [400, 400, 400, 413]


@pytest.mark.parametrize(
    "listen", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "localhost:0", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", ":0"]
)
def test_page_is_shown_on_this_machine_only(world: World, listen: str) -> None:
    async def scenario() -> None:
        await serve_page(listen, desk_of(world), "secret")

    with pytest.raises(BadInputError, match="this machine only"):
        asyncio.run(scenario())


def test_taken_port_is_one_sentence(world: World) -> None:
    async def scenario(page: Page) -> None:
        with pytest.raises(BadInputError, match="cannot show the page") as refusal:
            await serve_page(page.host, page.desk, "a-secret")
        assert "a-secret" not in str(refusal.value)

    with_page(world, scenario)


def test_secret_and_persons_data_are_in_no_log_and_no_repr(world: World, caplog: pytest.LogCaptureFixture) -> None:
    log = io.StringIO()
    caplog.set_level(logging.DEBUG)

    async def scenario(page: Page) -> tuple[str, list[Said]]:
        async def fails() -> dict[str, Any]:
            raise RuntimeError(f"{page.secret} {SECRET}")

        answers = [await page.ask("api/state"), await page.act("examples", {"source": "words"})]
        answers += [await page.ask("nowhere"), await page.act("pause", {"digest": SECRET})]
        page.desk.look = fails  # type: ignore[method-assign]
        answers.append(await page.ask("api/state"))
        # What is no HTTP at all is answered by the library, which would log the line it could not read.
        reader, writer = await asyncio.open_connection("127.0.0.1", page.port)
        writer.write(f"GET /{page.secret}/ nonsense\r\n\r\n".encode())
        await reader.read()
        writer.close()
        assert page.secret not in repr(page.desk)
        return page.secret, answers

    secret, answers = with_page(world, scenario, log=log)
    assert [answer.status for answer in answers] == [200, 200, 404, 409, 500]
    assert SECRET in answers[1].body.decode()
    for answer in (answers[0], *answers[2:]):
        assert SECRET not in answer.body.decode()
        assert secret not in answer.body.decode()
    written = log.getvalue() + caplog.text
    assert '"event":"fault","error":"runtimeerror"' in written
    assert secret not in written
    assert SECRET not in written


def test_door_for_a_file_leads_to_the_page_and_says_nothing(world: World) -> None:
    async def scenario(page: Page) -> Said:
        return await page.ask("enter", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})

    answer = with_page(world, scenario)
    assert answer.status == 200
    assert b'content="0;url=./"' in answer.body
