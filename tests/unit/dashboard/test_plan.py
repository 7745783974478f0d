"""``POST /api/plan`` over real sockets: quick, refused in sentences, bounded."""

import json
import threading
from typing import Any

import pytest

from secvm.dashboard import plan as plan_module
from secvm.dashboard.plan import MOST_BYTES, Planner
from secvm.pages.guarding import RefusedRequestError
from secvm.privacy.planning.planner import quick
from tests.unit.dashboard.office import office

SPECIFICATION: dict[str, Any] = {
    "labels": ["a", "b"],
    "floor": 1_000,
    "rounds": 10,
    "features": {"source": "s", "per_participant": 50},
    "binning": {"bins": 500},
    "windows": {"length_s": 3000, "grace_s": 60},
    "relays": [{}],
    "people": 5_000,
    "privacy": "none",
}
PRIVATE: dict[str, Any] = {"privacy": {"epsilon": 1}, "relays": [{"role": "entry"}, {"role": "mix"}]}


async def asked(*bodies: bytes, **headers: str) -> list[tuple[int, str, dict[str, Any]]]:
    """The answers of a page; plans need no coordinator."""
    async with office(shown=None, plan=Planner()) as here:
        answers = [await here.post("/api/plan", body, **headers) for body in bodies]
    return [(code, told["content-type"], content) for code, told, content in answers]


def form(**changes: Any) -> bytes:
    return json.dumps({"specification": SPECIFICATION | changes}).encode()


async def test_a_form_is_answered_with_numbers_and_the_statement() -> None:
    [(status, kind, told)] = await asked(form())
    assert (status, kind) == (200, "application/json")
    assert told["kind"] == "plain"
    assert told["refusals"] == []
    assert 0.5 < told["attacker"]["auc"] < told["attacker"]["auc_at_floor"] <= 1
    assert (told["attacker"]["risk"], told["attacker"]["times"]) == (1.0, 10.0)
    assert told["packages"]["total"] == 10 * told["packages"]["per_round"]
    assert told["accuracy"]["expected"] < told["accuracy"]["central"]
    assert "made-up people" in told["caveat"]
    assert told["statement"][0].startswith("Nothing limits the risk")
    assert {"bins": 500, "auc": told["attacker"]["auc"]} in told["curve"]


async def test_a_guarantee_is_answered_at_once_and_said_to_be_unplanned() -> None:
    [(status, _, told)] = await asked(form(**PRIVATE))
    assert status == 200
    assert (told["kind"], told["exact"]) == ("relays", False)
    assert told["packages"]["per_round"] == 53
    assert (told["statement"], told["plan"]) == ([], None)


async def test_nonsense_is_told_beside_its_field_and_has_no_numbers() -> None:
    answers = await asked(form(binning={"bins": 0}), form(binning={}), form(floor=4_000))
    assert [status for status, _, _ in answers] == [200, 200, 200]
    assert [told["refusals"][0]["field"] for _, _, told in answers] == ["binning.bins", "binning.bins", "floor"]
    assert all(told["packages"] is None for _, _, told in answers)


async def test_what_is_no_form_is_a_problem_in_one_sentence() -> None:
    long = json.dumps({"specification": {"title": "x" * MOST_BYTES}}).encode()
    answers = await asked(b"[]", b"{}", b"not JSON", long)
    assert [status for status, _, _ in answers] == [422, 422, 422, 413]
    assert all(kind == "application/problem+json" for _, kind, _ in answers)
    assert all(told["detail"] for _, _, told in answers)


async def test_a_form_of_another_kind_is_refused_before_it_is_read() -> None:
    [(status, _, _)] = await asked(form(), **{"content-type": "text/plain"})
    assert status == 415


def test_too_many_who_wait_for_a_guarantee_are_told_to_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(*arguments: Any, **more: Any) -> Any:
        begun.set()
        go_on.wait()
        return quick(*arguments, **more)

    monkeypatch.setattr(plan_module, "guaranteed", slow)
    planner = Planner(most_waiting=1)
    content = json.loads(form(**PRIVATE)) | {"part": "guarantee"}
    found: list[dict[str, Any]] = []
    first = threading.Thread(target=lambda: found.append(planner(content)))
    first.start()
    begun.wait()
    with pytest.raises(RefusedRequestError) as caught:
        planner(content)
    assert caught.value.status == 503
    # Quick answers wait for nobody.
    assert planner(content | {"part": "quick"})["packages"] is not None
    go_on.set()
    first.join()
    assert found[0]["kind"] == "relays"
    assert planner(content)["kind"] == "relays"
