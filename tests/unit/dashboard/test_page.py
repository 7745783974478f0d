"""The page over real sockets: its values are the coordinator's, changes come live, and it ends without a rest."""

import asyncio
import gzip
import json
from typing import Any

import pytest

from secvm.coordinator.store.port import Standing
from secvm.dashboard import view
from secvm.dashboard.public_status import ExperimentStatus
from secvm.runtime.clock import Clock
from secvm.runtime.http.server import HttpResponse
from tests.unit.dashboard.office import KEY, Listening, Office, checkpoint_of, office, status_of
from tests.unit.protocol.helpers import START


async def test_values_are_the_coordinators() -> None:
    async with office(shown=9) as here:
        told = await here.read()
        digest = here.document.digest
        data = status_of(here.document, 9)
        status = json.loads(data)
        summary = told["experiments"][0]
        assert (summary["digest"], summary["title"], summary["rounds_told"]) == (digest, here.document.title, 8)
        assert summary["auc"] == status["leakage"]["auc"]
        rounds = await here.get(f"/api/experiments/{digest}/rounds")
        assert (rounds["from"], rounds["to"], rounds["total"]) == (1, 9, 9)
        assert rounds["columns"] == view.columns(ExperimentStatus.read(data, digest=digest), range(1, 10))
        some = await here.get(f"/api/experiments/{digest}/rounds?from=2&to=4")
        assert some["columns"]["number"] == [2, 3, 4]
        whole = await here.get(f"/api/experiments/{digest}")
        leakage = status["leakage"]
        del leakage["per_round"]
        assert {name: whole["leakage"][name] for name in leakage} == leakage
        assert whole["summary"] == summary
        assert (whole["bins"], whole["hashes"], whole["labels"]) == (10, 1, ["a", "b"])
        assert whole["log"]["cosigned"] == ["w0.example", "w1.example", "w2.example"]
        assert (whole["log"]["size"], whole["log"]["quorum"]) == (10, 2)
        assert whole["privacy"]["kind"] == "plain"
        assert "no formal guarantee" in whole["privacy"]["statement"][1]


async def test_the_server_part_has_log_witnesses_counters_and_audit() -> None:
    def audit(clock: Clock) -> dict[str, Any]:
        return {"ok": True, "faults": [], "warnings": ["a test"], "steps_replayed": 8, "at_clock": clock.now()}

    async with office(audit=audit) as here:
        refused = here.coordinator.metrics.counter("dropped", "…", {"problem": ("stale", "wrong-size")})
        refused.add(3, problem="stale")
        here.coordinator.metrics.counter("packages", "…").add(40)
        here.coordinator.metrics.counter("opened", "…").add(30)
        wanted = ("audit", "packages_total", "log")
        told = await here.until(lambda told: all(told["server"][name] for name in wanted))
        server = told["server"]
        assert server["refused_total"] == {"stale": 3}
        assert (server["packages_total"], server["backlog"]) == (40, 7)
        assert server["audit"]["ok"] is True
        assert (server["audit"]["at"], server["audit"]["steps_replayed"]) == (START, 8)
        assert (server["log"]["size"], server["log"]["quorum"]) == (1, 2)
        assert [one["agrees"] for one in server["witnesses"]] == [True] * 3
        assert server["witnesses"][2]["last_seen"] == START + 2000
        # One of them is late under the newest checkpoint of one log.
        digest = here.document.digest
        here.coordinator.show(f"/v1/experiment/{digest}/checkpoint", checkpoint_of(here.document, 5, witnesses=2))
        told = await here.until(lambda told: told["server"]["witnesses"][2]["agrees"] is None)
        assert [one["agrees"] for one in told["server"]["witnesses"]] == [True, True, None]


async def test_a_witness_that_is_gone_does_not_agree_for_ever() -> None:
    def health(*silent: str, lost: list[dict[str, object]] | None = None) -> HttpResponse:
        log = {"name": "a", "key": "0" * 64, "entries": 9, "cosigned": 8, "waiting": 1, "halted": 0, "silent": silent}
        told = {"status": "degraded", "log": log, "lost": lost or []}
        return HttpResponse(200, json.dumps(told).encode(), "application/json")

    async with office() as here:
        await here.until(lambda told: [one["agrees"] for one in told["server"]["witnesses"]] == [True] * 3)
        lost = [{"what": "quorum", "parties": ["w1.example"], "since": START}]
        here.coordinator.instead["/health"] = health("w1.example", lost=lost)
        told = await here.until(lambda told: told["server"]["lost"])
        assert [(one["agrees"], one["silent"]) for one in told["server"]["witnesses"]] == [
            (True, False), (None, True), (True, False),
        ]  # fmt: skip
        assert told["server"]["lost"] == lost
        # And where the coordinator says nothing of it: cosignatures are renewed after a quarter of their time.
        here.coordinator.instead["/health"] = health()
        here.clock.advance(1000 * 3600 // 3 + 1500)
        told = await here.until(lambda told: any(one["silent"] for one in told["server"]["witnesses"]))
        assert [one["silent"] for one in told["server"]["witnesses"]] == [True, True, False]


async def test_an_audit_that_fails_is_said_to_have_failed_and_the_page_goes_on() -> None:
    def audit(_clock: Clock) -> dict[str, Any]:
        raise OSError("<something> that nobody shall see")

    async with office(audit=audit) as here:
        told = await here.until(lambda told: told["server"]["audit"])
        assert told["server"]["audit"]["ok"] is None
        assert "something" not in json.dumps(told)
        assert (await here.ask("/"))[0] == 200


async def test_every_address_of_the_page_has_the_same_shell_and_others_have_none() -> None:
    async with office() as here:
        digest = here.document.digest
        shells = set()
        for path in ("/", "/new", "/server", f"/experiment/{digest}", f"/experiment/{digest}/recall?from=1&to=2"):
            code, headers, body = await here.ask(path)
            assert (code, headers["content-type"]) == (200, "text/html; charset=utf-8")
            shells.add(body)
        assert len(shells) == 1
        for path in (
            "/nothing",
            "/experiment/",
            "/experiment/abc",
            f"/experiment/{digest}/<b>",
            "/static/",
            "/static/nothing.js",
            "/static/shell.html",
            "/static/../told.py",
            "/static/%2e%2e/told.py",
            "/api/nothing",
            f"/api/experiments/{'0' * 64}",
            "/api/experiments/..",
        ):
            code, headers, body = await here.ask(path)
            assert code == 404, path
            assert headers["content-type"] == "application/problem+json"
            assert json.loads(body)["detail"]
        # A browser is shown the page, which says that nothing is there; programs and scripts are told as before.
        accept = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
        for path in ("/nothing", "/experiment/abc"):
            code, headers, body = await here.ask(path, headers=accept)
            assert (code, headers["content-type"], {body}) == (404, "text/html; charset=utf-8", shells)
            assert "etag" not in headers
        for path in ("/api/nothing", "/static/nothing.js"):
            assert (await here.ask(path, headers=accept))[1]["content-type"] == "application/problem+json"


async def test_static_files_are_small_known_by_their_digest_and_not_sent_twice() -> None:
    async with office() as here:
        path = "/static/main.js"
        code, headers, body = await here.ask(path, headers={"accept-encoding": "identity"})
        assert (code, headers["content-type"]) == (200, "text/javascript; charset=utf-8")
        async with here.session.get(here.url + path, headers={"accept-encoding": "gzip"}) as answer:
            assert answer.headers["content-encoding"] == "gzip"
            assert await answer.read() == body
            assert int(answer.headers["content-length"]) < len(body)
        tag = headers["etag"]
        code, headers, nothing = await here.ask(path, headers={"if-none-match": tag})
        assert (code, nothing) == (304, b"")
        assert headers["cache-control"] == "no-cache"
        _, headers, _ = await here.ask(f"{path}?v={tag.strip(chr(34))}")
        assert "immutable" in headers["cache-control"]
        assert (await here.ask("/favicon.ico"))[0] in (200, 204)


async def test_large_answers_are_shortened_for_browsers_that_say_so() -> None:
    async with office(shown=30) as here:
        await here.read()
        path = f"{here.url}/api/experiments/{here.document.digest}/rounds"
        async with here.session.get(path, headers={"accept-encoding": "identity"}) as answer:
            plain = await answer.read()
            assert "content-encoding" not in answer.headers
        async with here.session.get(path, headers={"accept-encoding": "gzip;q=1, br"}) as answer:
            assert answer.headers["content-encoding"] == "gzip"
            assert await answer.read() == plain
            assert int(answer.headers["content-length"]) == len(gzip.compress(plain, 1))


@pytest.mark.parametrize("query", ["from=x", "from=-1", "to=1.5", "from=" + "9" * 30, "to=<b>"])
async def test_a_stretch_that_is_none_is_refused(query: str) -> None:
    async with office() as here:
        await here.read()
        code, _, body = await here.ask(f"/api/experiments/{here.document.digest}/rounds?{query}")
        assert (code, "<b>" in body.decode()) == (422, False)


# ── live ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def listen(here: Office, **headers: str) -> Any:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = await here.session.get(f"{here.url}/api/events", headers=told)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"
    return answer


async def test_changes_come_live_and_only_what_changed() -> None:
    async with office(shown=3) as here:
        await here.read()
        digest = here.document.digest
        async with await listen(here) as answer:
            stream = Listening(answer)
            first = await stream.until(lambda told: told)
            assert first[0][1] == "now"
            assert first[0][2]["experiments"][0]["running"]["number"] == 3
            here.coordinator.show_experiment(here.document, 4)
            told = await stream.until(lambda told: any(name == "rounds" for _, name, _ in told))
            rounds = next(content for _, name, content in told if name == "rounds")
            assert (rounds["digest"], rounds["total"]) == (digest, 4)
            assert rounds["columns"]["number"] == [3, 4]
            assert rounds["columns"]["state"] == ["published", "open"]
            assert rounds["columns"] == (await here.get(f"/api/experiments/{digest}/rounds?from=3"))["columns"]
            told = await stream.until(lambda told: any(name == "experiment" for _, name, _ in told))
            assert next(content for _, name, content in told if name == "experiment") == {"digest": digest}
            here.clock.advance(1234)
            await stream.until(lambda told: told[-1][2].get("now") == START + 1234)


async def test_who_comes_again_with_its_last_number_misses_nothing() -> None:
    async with office(shown=3) as here:
        await here.read()
        async with await listen(here) as answer:
            last = (await Listening(answer).until(lambda told: told))[-1][0]
        for rounds in (4, 5):
            here.coordinator.show_experiment(here.document, rounds)
            await here.until(lambda told: told["experiments"][0]["running"]["number"] == rounds)  # noqa: B023
        async with await listen(here, last_event_id=last) as answer:
            told = await Listening(answer).until(lambda told: any(name == "now" for _, name, _ in told))
        numbers = [content["columns"]["number"] for _, name, content in told if name == "rounds"]
        assert numbers == [[3, 4], [4, 5]]
        async with await listen(here, last_event_id="another-life") as answer:
            told = await Listening(answer).until(lambda told: any(name == "now" for _, name, _ in told))
        assert told[0][1] == "reset"


async def test_shutdown_ends_streams_closes_the_port_and_leaves_no_task() -> None:
    before = asyncio.all_tasks()
    async with office(shown=3) as here:
        await here.read()
        async with await listen(here) as answer:
            stream = Listening(answer)
            await stream.until(lambda told: told)
            here.stop.set()
            await stream.ended()
            await here.running
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", int(here.url.rpartition(":")[2]))
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_an_experiment_that_is_over_is_asked_for_no_more() -> None:
    async with office(shown=3) as here:
        await here.read()
        here.coordinator.show_experiment(here.document, 3, standing=Standing.STOPPED)
        await here.until(lambda told: told["experiments"][0]["running"] is None)
        here.coordinator.asked.clear()
        asked = here.coordinator.asked
        await here.until(lambda _: sum(one.path == "/v1/experiments" for one in asked) >= 4)
        assert not [one for one in asked if one.path.endswith("/status")]
        # What has not changed is not sent again.
        assert all("if-none-match" in one.headers for one in asked if one.path == "/v1/experiments")


async def test_the_page_has_no_key_and_sends_none_of_its_visitors_things() -> None:
    async with office(shown=3) as here:
        headers = {"authorization": f"Bearer {KEY}", "cookie": "a=b", "user-agent": "somebody's", "x-mine": "1"}
        await here.ask("/api/now", headers=headers)
        await here.ask("/api/admin/experiments", headers=headers)
        told = here.coordinator.asked
        for one in told:
            assert {"cookie", "x-mine", "referer", "origin"}.isdisjoint(one.headers)
            assert "user-agent" not in one.headers
            assert ("authorization" in one.headers) == one.path.startswith("/admin/")
        assert any(one.path.startswith("/admin/") for one in told)


async def test_a_coordinator_behind_a_proxy_that_hides_its_figures_is_shown_without_them() -> None:
    async with office(shown=3) as here:
        for path in ("/health", "/metrics"):
            here.coordinator.instead[path] = HttpResponse(404, b"")
        await here.read()
        told = await here.until(lambda told: told["coordinator"]["reachable"])
        assert told["server"]["packages_total"] is None
        assert told["server"]["packages_per_s"] is None
