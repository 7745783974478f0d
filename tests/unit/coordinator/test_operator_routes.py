"""The operator's API: a key, specifications in, standings changed, refusals as problems."""

import asyncio
import hashlib
import hmac
import json
import threading
from typing import Any

import pytest

from secvm.coordinator.epochs import Grid
from secvm.coordinator.experiments.new_experiment import NewestPulse
from secvm.coordinator.experiments.operator_routes import Admin
from secvm.coordinator.settings import LimitsPart
from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.port import Standing
from secvm.protocol.documents.experiment import HashedBins, read_published
from secvm.relay import settings as relay_settings
from secvm.runtime.http.server import HttpRequest, HttpResponse
from secvm.runtime.metrics import Metrics
from secvm.testing.clock import ManualClock
from tests.unit.coordinator.test_new_experiment import put
from tests.unit.protocol.helpers import COORDINATOR, START, log_terms

KEY = "the admin key"


class Office:
    """An operator and the API."""

    def __init__(self, **changes: Any) -> None:
        self.store, self.woken = MemoryStore(), 0
        self.admin = Admin(
            store=self.store,
            key=COORDINATOR,
            admin_sha256=hashlib.sha256(KEY.encode()).digest(),
            grid=Grid(period_s=3600, lead_s=300),
            clock=ManualClock(START),
            dice=bytes,
            wake=self.wake,
            **changes,
        )

    def wake(self) -> None:
        self.woken += 1

    def ask(
        self, method: str, path: str = "", content: object = None, authorization: str = f"Bearer {KEY}"
    ) -> HttpResponse:
        body = content if isinstance(content, bytes) else b"" if content is None else json.dumps(content).encode()
        headers = {"authorization": authorization} if authorization else {}
        request = HttpRequest(method, f"/admin/experiments{path}", "", headers, body, "somebody")
        return asyncio.run(self.admin.answer(request))

    def make(self) -> str:
        answer = self.ask("POST", content=put("title", "A question"))
        assert answer.status == 201
        return str(told(answer)["digest"])


def told(answer: HttpResponse) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(answer.body)
    return content


@pytest.mark.parametrize(
    "authorization", ["", "Bearer", "Bearer wrong", KEY, f"Basic {KEY}", f"Bearer {KEY}x", "Bearer \xff"]
)
def test_without_the_key_nothing_is_told_or_done(authorization: str) -> None:
    office = Office()
    for method in ("GET", "POST"):
        answer = office.ask(method, content=put("title", "A question"), authorization=authorization)
        assert (answer.status, answer.media_type) == (401, "application/problem+json")
        assert dict(answer.headers)["www-authenticate"] == "Bearer"
    # It is told so before its content comes.
    assert office.admin.before_body({"authorization": authorization}) is not None
    assert office.admin.before_body({"authorization": f"Bearer {KEY}"}) is None
    assert office.store.experiments() == []


def test_wrong_keys_are_counted_and_lock_nobody_out() -> None:
    metrics = Metrics("coordinator")
    office = Office(metrics=metrics)
    for _ in range(100):
        assert office.ask("GET", authorization="Bearer wrong").status == 401
    assert office.ask("GET").status == 200
    page = metrics.page()[0].decode()
    assert "secvm_coordinator_admin_refused_total 100.0" in page
    assert "wrong" not in page


@pytest.mark.parametrize("given", ["", "t", KEY[:-1], KEY[:-1] + "X", "X" + KEY[1:], KEY * 100])
def test_a_key_is_compared_by_its_hash_whole_whatever_was_given(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return real(one, other)

    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert Office().ask("GET", authorization=f"Bearer {given}").status == 401
    # One comparison of two digests of one length, and none of what was given itself.
    assert compared == [(hashlib.sha256(given.encode()).digest(), hashlib.sha256(KEY.encode()).digest())]


def test_the_key_itself_is_nowhere_in_the_office() -> None:
    office = Office()
    assert KEY not in repr(vars(office.admin))


def test_a_specification_becomes_a_signed_experiment_with_its_first_blobs() -> None:
    office = Office()
    digest = office.make()
    stored = office.store.experiments()[0]
    document = read_published(stored.envelope, digest=digest)
    assert (document.title, stored.standing, office.woken) == ("A question", Standing.RUNNING, 1)
    listed = told(office.ask("GET"))["experiments"]
    assert [one["digest"] for one in listed] == [digest]
    assert told(office.ask("GET", f"/{digest}"))["budget"] == document.budget


@pytest.mark.parametrize(
    ("content", "detail"),
    [
        (put("floor", None), "the specification: floor is missing"),
        (put("secret", "a secret"), "the specification: secret is not a setting"),
        (
            put("windows.length_s", 3600),
            "window, grace and lead take 3960 s, and a slot of this coordinator has 3600 s",
        ),
        ("words", "the specification: the file should be an object"),
        (b"{", None),
    ],
)
def test_a_bad_specification_is_one_sentence(content: object, detail: str | None) -> None:
    office = Office()
    answer = office.ask("POST", content=content)
    assert (answer.status, told(answer)["detail"]) == (422, detail or told(answer)["detail"])
    assert (office.store.experiments(), office.woken) == ([], 0)


def test_experiments_pause_go_on_and_stop_for_good() -> None:
    office = Office()
    digest = office.make()
    for action, status, standing in (
        ("resume", 200, Standing.RUNNING),
        ("pause", 200, Standing.PAUSED),
        ("pause", 200, Standing.PAUSED),
        ("resume", 200, Standing.RUNNING),
        ("pause", 200, Standing.PAUSED),
        ("stop", 200, Standing.STOPPED),
        ("stop", 200, Standing.STOPPED),
        ("resume", 409, Standing.STOPPED),
        ("pause", 409, Standing.STOPPED),
    ):
        assert office.ask("POST", f"/{digest}/{action}").status == status
        assert office.store.experiments()[0].standing is standing
    # The driver hears of changes, and of nothing else.
    assert office.woken == 5


def test_a_finished_experiment_stays_finished() -> None:
    office = Office()
    digest = office.make()
    office.store.set_standing(digest, Standing.FINISHED)
    assert told(office.ask("POST", f"/{digest}/stop"))["detail"] == "the experiment is finished"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/abc", 404), ("POST", "/D", 405), ("POST", "/D/forget", 404), ("GET", "/D/stop", 405), ("PUT", "", 405)],
)
def test_other_requests_are_refused(method: str, path: str, status: int) -> None:
    office = Office()
    digest = office.make()
    assert office.ask(method, path.replace("D", digest)).status == status


def test_with_a_steered_clock_only_tests_may_run() -> None:
    office = Office(only_tests=True)
    assert "only experiments marked as a test" in told(office.ask("POST", content=put("title", "x")))["detail"]
    assert office.ask("POST", content=put("test", True)).status == 201


def test_a_delay_of_beacons_asks_nist_off_the_event_loop_and_only_for_the_operator() -> None:
    threads = []

    def newest() -> NewestPulse:
        threads.append(threading.current_thread())
        return NewestPulse(1000, START)

    office = Office(log=log_terms(), newest=newest)

    asked = put("binning.beacon_delay_s", 900)
    assert office.ask("POST", content=asked, authorization="Bearer wrong").status == 401
    assert threads == []
    answer = office.ask("POST", content=asked)
    assert answer.status == 201
    assert threads != []
    assert threading.main_thread() not in threads
    document = read_published(office.store.experiments()[0].envelope, digest=str(told(answer)["digest"]))
    assert isinstance(document.binning, HashedBins)
    assert document.binning.beacons[1].round_number == 1015
    assert document.log == log_terms()


def test_repro_an_experiment_whose_tallies_no_relay_passes_on_is_refused() -> None:
    office = Office()
    answer = office.ask("POST", content=put("binning.bins", 1_000_000))
    assert answer.status == 422
    sentence = told(answer)["detail"]
    assert all(part in sentence for part in ("16000064 bytes", "8388608", "limits.answer_bytes"))
    assert office.store.experiments() == []
    assert office.ask("POST", content=put("binning.bins", 500_000)).status == 201
    # What is not set is the same on both sides.
    assert LimitsPart().answer_bytes == relay_settings.RelayLimits().answer_bytes


def test_repro_a_model_larger_than_any_memory_is_refused_before_it_is_made() -> None:
    office = Office()
    answer = office.ask("POST", content=put("binning.bins", 2**24) | {"labels": [f"label{i}" for i in range(300)]})
    assert answer.status == 422
    assert "fewer bins or labels" in told(answer)["detail"]
    assert office.store.experiments() == []
