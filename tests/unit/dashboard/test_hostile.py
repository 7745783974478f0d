"""A coordinator that serves garbage, lies or nothing: the page says what is wrong, and goes on."""

import asyncio
import gzip
import json
from typing import Any

import pytest

from secvm.dashboard import watching
from secvm.protocol.documents.experiment import publish
from secvm.runtime.http.server import HttpRequest, HttpResponse
from tests.unit.dashboard.office import Office, checkpoint_of, office, status_of
from tests.unit.protocol.helpers import COORDINATOR, STRANGER, document, log_terms

EVIL = "<img src=x onerror=alert(1)>\"'</script>"


async def trouble(here: Office) -> str:
    """What the page says is wrong with the coordinator, or with its experiment."""

    def found(told: dict[str, Any]) -> str | None:
        problems = [told["coordinator"]["problem"], *(one["problem"] for one in told["experiments"])]
        return next((one for one in problems if one and one != "the coordinator has not been asked yet"), None)

    told = await here.until(found)
    problem = found(told)
    assert problem is not None
    assert "<" not in problem
    return problem


async def recovers(here: Office) -> None:
    """It shows what is shown as soon as it can."""
    here.coordinator.instead.clear()
    here.coordinator.show_experiment(here.document, 5)
    await here.until(
        lambda told: (
            told["coordinator"]["reachable"]
            and [one["rounds_told"] for one in told["experiments"] if one["problem"] is None] == [4]
        )
    )


@pytest.mark.parametrize("path", ["/v1/experiments", "/v1/experiment/D", "/v1/experiment/D/status", "/health"])
@pytest.mark.parametrize(
    "answer",
    [
        HttpResponse(200, b"garbage", "application/json"),
        HttpResponse(200, b"", "application/json"),
        HttpResponse(200, b"[" * 100_000, "application/json"),
        HttpResponse(200, b'{"experiments":[NaN],"rounds":NaN}', "application/json"),
        HttpResponse(302, b"", "text/html", (("location", "http://127.0.0.1:9/"),)),
        HttpResponse(301, b"", "text/html", (("location", "/v1/other"),)),
        HttpResponse(500, EVIL.encode(), "text/html"),
        HttpResponse(304, b"", "text/html"),
        HttpResponse(200, gzip.compress(b"{}"), "application/json", (("content-encoding", "gzip"),)),
    ],
)
async def test_garbage_anywhere_is_said_and_gone_when_it_is_gone(
    path: str, answer: HttpResponse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_AGAIN_MS", 100)

    async with office(shown=None) as here:
        here.coordinator.instead[path.replace("D", here.document.digest)] = answer
        here.coordinator.show_experiment(here.document, 3)
        assert await trouble(here)
        assert (await here.ask("/"))[0] == 200
        await recovers(here)


async def test_answers_without_an_end_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("MOST_LIST_BYTES", "MOST_STATUS_BYTES", "MOST_HEALTH_BYTES", "MOST_METRICS_BYTES"):
        monkeypatch.setattr(watching, limit, 2**16)

    for path in ("/v1/experiments", "/v1/experiment/D/status", "/health", "/metrics"):
        async with office(shown=3) as here:
            where = path.replace("D", here.document.digest)
            here.coordinator.instead[where] = HttpResponse(200, b" " * 2**18, "application/json")
            assert await trouble(here) == "the coordinator answers more than it should"


async def test_a_coordinator_that_never_answers_holds_nobody_up() -> None:
    async with office(shown=3) as here:
        before = await here.read()
        here.coordinator.instead["/health"] = _never
        # What is known stays, and is answered at once.
        assert (await here.get("/api/now"))["experiments"] == before["experiments"]


def _never(_request: HttpRequest) -> "asyncio.Future[HttpResponse]":
    return asyncio.get_running_loop().create_future()


async def test_what_is_known_stays_while_the_coordinator_is_away_and_the_page_says_since_when() -> None:
    async with office(shown=3) as here:
        before = await here.read()
        await here.until(lambda told: told["coordinator"]["reachable"])
        here.clock.advance(5000)
        await here.coordinator.stop()
        told = await here.until(lambda told: not told["coordinator"]["reachable"])
        assert told["coordinator"]["since"] == before["now"] + 5000
        assert told["coordinator"]["problem"] == "the coordinator cannot be reached"
        assert told["experiments"][0]["last"] == before["experiments"][0]["last"]


async def test_markup_in_texts_is_text_and_breaks_no_event() -> None:
    async with office(shown=None) as here:
        of = document(log=log_terms(), title=EVIL, question=EVIL)
        here.coordinator.show_experiment(of, 3)
        told = await here.read()
        assert told["experiments"][0]["title"] == EVIL
        code, headers, _ = await here.ask(f"/api/experiments/{of.digest}")
        assert (code, headers["content-type"], headers["x-content-type-options"]) == (
            200,
            "application/json",
            "nosniff",
        )
        async with here.session.get(f"{here.url}/api/events") as answer:
            data = b""
            while b"event: now" not in data or not data.endswith(b"\n\n"):
                data += await answer.content.readany()
        lines = [line for line in data.decode().split("\n") if line.startswith("data: ")]
        assert json.loads(lines[0].removeprefix("data: "))["experiments"][0]["title"] == EVIL


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/v1/experiment/D", "signature"),
        ("/v1/experiment/D/status", "labels"),
        ("/v1/experiment/D/status", "another"),
        ("/v1/experiment/D/checkpoint", "checkpoint"),
    ],
)
async def test_lies_that_can_be_seen_are_said_of_the_experiment_alone(path: str, what: str) -> None:
    async with office(shown=None) as here:
        of = here.document
        here.coordinator.show_experiment(of, 3)
        lies = {
            "signature": publish(of, keys=(COORDINATOR,)).replace(
                COORDINATOR.public.key_id.hex().encode(), STRANGER.public.key_id.hex().encode()
            )[:-9],
            "labels": status_of(of, 3).replace(b'"a"', b'"x"'),
            "another": status_of(of, 3).replace(of.digest.encode(), b"0" * 64),
            "checkpoint": checkpoint_of(of, 4).replace(b"\n4\n", b"\n5\n"),
        }
        here.coordinator.show(path.replace("D", of.digest), lies[what])
        told = await here.until(lambda told: told["experiments"] and told["experiments"][0]["problem"])
        assert told["experiments"][0]["problem"].startswith("what is served of this experiment cannot be used: ")
        assert (await here.ask(f"/api/experiments/{of.digest}"))[0] == 200
        await here.until(lambda told: told["coordinator"]["reachable"])


async def test_a_cosignature_in_a_witnesss_name_that_is_not_its_own_is_told() -> None:
    async with office(shown=3) as here:
        of = here.document
        good = checkpoint_of(of, 4).decode().splitlines()
        other = checkpoint_of(of, 9).decode().splitlines()
        # The third witness's line is one that it wrote under something else.
        forged = "\n".join([*good[:-1], other[-1]]) + "\n"
        here.coordinator.show(f"/v1/experiment/{of.digest}/checkpoint", forged.encode())
        told = await here.until(lambda told: any(one["agrees"] is False for one in told["server"]["witnesses"]))
        assert [one["agrees"] for one in told["server"]["witnesses"]] == [True, True, False]


async def test_what_is_listed_and_not_shown_is_said_to_be_so() -> None:
    async with office(shown=None) as here:
        here.coordinator.list([{"digest": "ab" * 32, "title": "A", "standing": "running"}])
        assert await trouble(here) == "the coordinator lists this experiment and does not show it"
        code, _, _ = await here.ask(f"/api/experiments/{'ab' * 32}/rounds")
        assert code == 404
