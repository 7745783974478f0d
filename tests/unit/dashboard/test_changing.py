"""Changes pass through to the coordinator with the key, and without it nothing does."""

import json
from typing import Any

import pytest

from secvm.runtime.http.server import HttpRequest, HttpResponse
from tests.unit.coordinator.test_new_experiment import put
from tests.unit.dashboard.office import KEY, Office, office

EXPERIMENTS = "/api/admin/experiments"
_KEYED = {"authorization": f"Bearer {KEY}"}


async def make(here: Office) -> str:
    code, _, made = await here.post(EXPERIMENTS, put("title", "A question"), **_KEYED)
    assert code == 201, made
    return str(made["digest"])


def standings(here: Office) -> list[str]:
    return [one.standing.value for one in here.coordinator.store.experiments()]


async def test_who_has_the_key_makes_pauses_resumes_and_stops() -> None:
    async with office() as here:
        digest = await make(here)
        assert standings(here) == ["running"]
        for action, standing in (("pause", "paused"), ("resume", "running"), ("stop", "stopped")):
            code, headers, told = await here.post(f"{EXPERIMENTS}/{digest}/{action}", **_KEYED)
            assert (code, told["standing"]) == (200, standing)
            assert headers["content-type"] == "application/json"
            assert standings(here) == [standing]
        code, _, told = await here.post(f"{EXPERIMENTS}/{digest}/resume", **_KEYED)
        assert (code, told["detail"]) == (409, "the experiment is stopped")
        code, _, body = await here.ask(EXPERIMENTS, headers=_KEYED)
        assert [one["digest"] for one in json.loads(body)["experiments"]] == [digest]
        code, _, body = await here.ask(f"{EXPERIMENTS}/{digest}", headers=_KEYED)
        assert json.loads(body)["digest"] == digest
        # The body is what was sent, byte for byte.
        assert [one.body for one in here.coordinator.asked if one.path.endswith("/pause")] == [b"{}"]


async def test_a_specification_that_is_refused_says_why_in_the_coordinators_sentence() -> None:
    async with office() as here:
        code, headers, told = await here.post(EXPERIMENTS, put("floor", -1), **_KEYED)
        assert (code, headers["content-type"]) == (422, "application/problem+json")
        assert "floor" in told["detail"]


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer wrong", KEY, f"Basic {KEY}", f"Bearer {KEY}x", "Bearer " + "a" * 600],
)
async def test_without_the_key_no_route_and_no_method_changes_anything(authorization: str | None) -> None:
    async with office() as here:
        digest = await make(here)
        before = here.coordinator.store.experiments()
        headers = {"content-type": "application/json"}
        if authorization is not None:
            headers["authorization"] = authorization
        paths = ["", f"/{digest}", *(f"/{digest}/{action}" for action in ("pause", "resume", "stop"))]
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH"):
            for path in paths:
                body = None if method == "GET" else json.dumps(put("title", "Another")).encode()
                code, _, answer = await here.ask(f"/api/admin/experiments{path}", method, headers=headers, data=body)
                assert code in (401, 405), (method, path, answer)
                if (method == "POST" and path != f"/{digest}") or (method == "GET" and path in ("", f"/{digest}")):
                    assert code == 401, (method, path)
                assert digest.encode() not in answer
        assert here.coordinator.store.experiments() == before


@pytest.mark.parametrize(
    "path",
    [
        "experiments/",
        "experiments/../experiments",
        "experiments/%2e%2e",
        "openapi.json",
        "experiments/D/delete",
        "experiments/D/stop/",
        "experiments/D/stop/stop",
        "experiments//stop",
        "experiments/DD/stop",
        "experiments/D%2fstop",
        "experiments/D%0d%0ax",
        "../v1/experiments",
        "",
    ],
)
async def test_nothing_but_the_operators_routes_is_passed_on(path: str) -> None:
    async with office() as here:
        digest = await make(here)
        here.coordinator.asked.clear()
        for method in ("GET", "POST"):
            where = f"/api/admin/{path.replace('D', digest)}"
            headers = {**_KEYED, "content-type": "application/json"}
            code, _, _ = await here.ask(where, method, headers=headers, data=None if method == "GET" else b"{}")
            assert code in (404, 405), (method, where)
        assert not [one for one in here.coordinator.asked if one.path.startswith("/admin")]
        assert standings(here) == ["running"]


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (HttpResponse(302, b"", "application/json", (("location", "http://127.0.0.1:9/"),)), 502),
        (HttpResponse(200, b"<script>alert(1)</script>", "text/html"), 502),
        (
            HttpResponse(200, b"{}", "application/json", (("set-cookie", "a=b"), ("content-security-policy", "none"))),
            200,
        ),
        (HttpResponse(500, b'{"detail":"x"}', "application/problem+json"), 500),
        (HttpResponse(200, b"[" + b"1," * 2**24 + b"1]", "application/json"), 502),
    ],
)
async def test_of_an_answer_only_status_and_json_come_back(answer: HttpResponse, status: int) -> None:
    async with office() as here:
        here.coordinator.instead["/admin/experiments"] = answer
        code, headers, body = await here.ask("/api/admin/experiments", headers=_KEYED)
        assert code == status
        assert "json" in headers["content-type"]
        assert {"set-cookie", "location"}.isdisjoint(headers)
        assert "default-src 'none'" in headers["content-security-policy"]
        assert b"<script>" not in body


async def test_a_coordinator_that_is_away_is_said_to_be() -> None:
    async with office() as here:
        await here.coordinator.stop()
        code, _, body = await here.ask("/api/admin/experiments", headers=_KEYED)
        assert (code, json.loads(body)["detail"]) == (502, "the coordinator cannot be reached")


async def test_a_change_is_looked_at_at_once() -> None:
    # The page looks every ten minutes, and yet it sees what was changed from here.
    async with office(coordinator={"url": "", "poll_s": 600.0}) as here:
        digest = here.document.digest

        def pause(_request: HttpRequest) -> Any:
            here.coordinator.list([{"digest": digest, "title": "x", "standing": "paused"}])
            return HttpResponse(200, b'{"standing":"paused"}', "application/json")

        here.coordinator.instead[f"/admin/experiments/{digest}/pause"] = pause
        await here.read()
        before = sum(one.path == "/v1/experiments" for one in here.coordinator.asked)
        await here.post(f"{EXPERIMENTS}/{digest}/pause", **_KEYED)
        await here.until(lambda _: sum(one.path == "/v1/experiments" for one in here.coordinator.asked) > before)
