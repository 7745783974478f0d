"""Attacks that worked once: numbers that no JSON holds, claims that no document makes, forms that nobody means."""

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from secvm.dashboard import app
from secvm.dashboard.plan import Planner
from secvm.errors import BadInputError
from secvm.privacy.accounting.cover_loss import log_masses
from secvm.runtime.http.server import HttpResponse
from tests.unit.dashboard.office import Office, office, status_of
from tests.unit.dashboard.test_plan import PRIVATE, SPECIFICATION
from tests.unit.protocol.helpers import document, log_terms


def _form(**changes: Any) -> dict[str, Any]:
    return {"specification": SPECIFICATION | changes, "part": "quick"}


async def _lied_to(here: Office, lie: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """What the page says of its experiment once the coordinator has told this of it."""
    status = json.loads(status_of(here.document, 4))
    lie(status)
    here.coordinator.show(f"/v1/experiment/{here.document.digest}/status", json.dumps(status).encode())
    told = await here.until(lambda told: told["experiments"] and told["experiments"][0]["problem"])
    found: dict[str, Any] = told["experiments"][0]
    return found


async def _goes_on(here: Office) -> None:
    """It looks again, and answers."""
    seen = len(here.coordinator.asked)
    while len(here.coordinator.asked) < seen + 12:
        assert not here.running.done(), "the page has ended"
        await asyncio.sleep(0.01)
    assert (await here.ask("/api/now"))[0] == 200


@pytest.mark.parametrize(
    "figures",
    [
        b"secvm_coordinator_start_time_seconds 1e18\n",
        b"".join(b'secvm_coordinator_packages_total{how="x%d"} 9e17\n' % i for i in range(50)),
        b"".join(b'secvm_coordinator_refused_total{problem="x%d"} -9e17\n' % i for i in range(50)),
    ],
)
async def test_repro_a_figure_beyond_all_whole_numbers_ended_the_page(figures: bytes) -> None:
    async with office() as here:
        await here.read()
        here.coordinator.instead["/metrics"] = HttpResponse(200, figures, "text/plain")
        await _goes_on(here)


async def test_repro_a_round_at_the_end_of_the_calendar_ended_the_page() -> None:
    async with office(page={"time_zone": "Asia/Tokyo"}) as here:
        await here.read()
        await _lied_to(here, lambda status: status["rounds"][3].update(opens_at=253_402_300_799_000))
        await _goes_on(here)


async def test_repro_a_status_could_claim_a_guarantee_that_its_document_does_not_give() -> None:
    async with office() as here:
        await here.read()
        claim = {"formal_guarantee": True, "epsilon": 0.1, "epsilon_planned": 0.2}
        told = await _lied_to(here, lambda status: status["leakage"].update(claim))
        assert "claims another guarantee" in told["problem"]
        assert told["formal_guarantee"] is False
        assert told["epsilon"] is None


@pytest.mark.parametrize("lie", [{"auc": -7.0}, {"auc": 1.5}, {"d_prime": -1.0}, {"planned_auc": 2.0}])
async def test_a_leak_that_can_be_none_is_not_shown(lie: dict[str, float]) -> None:
    async with office() as here:
        await _lied_to(here, lambda status: status["leakage"].update(lie))


class AtOnce:
    """Work that is called from threads: how often at once, at most."""

    def __init__(self, answer: dict[str, Any], *, seconds: float) -> None:
        self._answer, self._seconds = answer, seconds
        self._lock, self._others = threading.Lock(), threading.Event()
        self._now = self.most = 0

    def __call__(self, _given: object) -> dict[str, Any]:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        # Whoever else may begin has begun by then.
        self._others.wait(self._seconds)
        with self._lock:
            self._now -= 1
        return self._answer


async def test_repro_statements_of_all_experiments_were_reckoned_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = AtOnce({"statement": ["done"]}, seconds=0.05)
    monkeypatch.setattr(app, "privacy", slow)
    async with office(shown=None) as here:
        all_of_them = [document(log=log_terms(), title=f"Number {i}") for i in range(5)]
        for of in all_of_them:
            here.coordinator.show_experiment(of, 1)
        listed = [{"digest": of.digest, "title": of.title, "standing": "running"} for of in all_of_them]
        here.coordinator.list(listed)
        await here.until(lambda told: len([one for one in told["experiments"] if one["labels"]]) == 5)
        found = await asyncio.gather(*(here.get(f"/api/experiments/{of.digest}") for of in all_of_them))
        assert [one["privacy"]["statement"] for one in found] == [["done"]] * 5
    assert slow.most == 1


@pytest.mark.parametrize(
    "changes",
    [
        PRIVATE | {"privacy": {"epsilon": "1e999"}},
        PRIVATE | {"privacy": {"parts": -1}},
        {"descent": {"thinning": "1e-300"}},
    ],
)
def test_repro_a_form_with_absurd_numbers_was_a_fault_of_the_page(changes: dict[str, Any]) -> None:
    told = Planner()(_form(**changes))
    assert told["refusals"]
    assert told["attacker"] is None or told["attacker"]["auc"] is None


def test_repro_a_plan_for_more_devices_than_there_can_be_filled_the_memory() -> None:
    told = Planner()({**_form(**PRIVATE, people=10**14), "part": "guarantee"})
    assert told["refusals"]
    with pytest.raises(BadInputError, match="more noise than any relay could add"):
        log_masses(1e13, 0.5)


def test_repro_a_plan_could_take_hours() -> None:
    content = _form(**PRIVATE, rounds=1_000_000)
    moments = iter(range(0, 10**9, 20_000))
    told = Planner(now=lambda: next(moments))({**content, "part": "guarantee"})
    assert "longer" in told["refusals"][0]["sentence"]


async def test_repro_every_form_had_a_thread_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = AtOnce({}, seconds=0.02)
    monkeypatch.setattr(app, "_PLANS_AT_ONCE", 2)

    async with office(plan=plan) as here:
        sent = [here.ask("/api/plan", "POST", json={}) for _ in range(20)]
        assert {code for code, _, _ in await asyncio.gather(*sent)} == {200}
    assert plan.most <= 2
