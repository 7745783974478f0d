"""What lasts for a minute is told once, and once more when it is over; and what is posted arrives, or is counted."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from secvm.coordinator import main
from secvm.coordinator.alarms import PATIENCE_MS, QUORUM, RELAY, Alarms
from secvm.coordinator.relayed.relay_statements import RelayClient
from secvm.coordinator.relayed.relayed_history import (
    ENTRY_PART,
    MISSING_BATCH,
    MIX_PART,
    ONE_PART,
    OTHER_BATCH,
    RESTARTED,
    STAYED,
    TOO_LATE,
    fault_names,
    missing_names,
)
from secvm.coordinator.settings import CoordinatorProgramSettings
from secvm.coordinator.store.sqlite import SQLiteStore
from secvm.coordinator.webhook import WAITING, Webhook, WebhookPart
from secvm.crypto.signing import SigningKey
from secvm.errors import BadInputError, UnreachableError
from secvm.protocol.documents.experiment import Relay
from secvm.protocol.documents.faults import Missing, OpeningFault
from secvm.protocol.round_state import RoundEnd
from secvm.runtime.disk.secret_files import make_secret
from secvm.runtime.http.client import HttpAnswer, ask_once
from secvm.runtime.http.server import HttpRequest, HttpResponse, HttpServer
from secvm.runtime.metrics import Metrics
from secvm.testing.clock import ManualClock
from secvm.testing.processes import free_port
from secvm_lab.rigs.histories.relayed_rounds import ENTRY, MIX, START, relayed_document
from tests.unit.coordinator.rounds import add, until
from tests.unit.coordinator.witnesses import KEYS, TERMS, TinyWitness, all_answer, logged, serving
from tests.unit.protocol.helpers import COORDINATOR, LOG

WITNESSES, LOST = (QUORUM, ""), (RELAY, "relay.example")


def figures(metrics: Metrics, *wanted: str) -> dict[str, float]:
    """These of the coordinator's figures, by name."""
    lines = (line.removeprefix("secvm_coordinator_").rpartition(" ") for line in metrics.page()[0].decode().split("\n"))
    return {name: float(value) for name, _, value in lines if name.startswith(wanted)}


class Scene(Alarms):
    """Alarms whose time and findings the test says."""

    def __init__(self) -> None:
        self.at = ManualClock(1000)
        self.parties: dict[tuple[str, str], tuple[str, ...]] = {}
        self.told: list[tuple[str, tuple[str, ...]]] = []
        super().__init__(
            clock=self.at,
            steady=self.at,
            relays={"relay.example": "https://relay.example/r"},
            missing=lambda: self.parties,
            webhook=Hook(self.told),
        )

    def after(self, milliseconds: int, **_: Any) -> dict[str, object]:
        """How it is so much later."""
        self.at.advance(milliseconds)
        self.look()
        return self.health()


class Hook(Webhook):
    def __init__(self, told: list[tuple[str, tuple[str, ...]]]) -> None:
        self.all = told

    def tell(self, event: str, *, at: int, text: str, **fields: Any) -> None:
        assert all(party in text for party in fields["parties"] if not event.startswith("quorum-re")), at
        self.all.append((event, tuple(fields["parties"])))


def test_a_quorum_is_lost_after_a_minute_and_told_once_with_the_names_of_the_silent() -> None:
    scene = Scene()
    scene.parties = {WITNESSES: ("w1", "w2")}
    assert scene.after(0) == scene.after(PATIENCE_MS - 1) == {}
    lost = {"status": "degraded", "lost": [{"what": "quorum", "parties": ["w1", "w2"], "since": 1000}]}
    assert scene.after(1) == scene.after(5000) == lost
    assert figures(scene.metrics, "quorum_lost") == {"quorum_lost": 1}
    scene.parties = {WITNESSES: ()}
    assert scene.after(5000) == {}
    assert figures(scene.metrics, "quorum_lost") == {"quorum_lost": 0}
    assert scene.told == [("quorum-lost", ("w1", "w2")), ("quorum-regained", ("w1", "w2"))]


def test_what_is_back_within_the_minute_begins_anew() -> None:
    scene = Scene()
    for _ in range(3):
        scene.parties = {LOST: ("relay.example",)}
        scene.after(0)
        scene.after(PATIENCE_MS - 1)
        scene.parties = {LOST: ()}
        scene.after(1)
    assert scene.told == []


def test_a_relay_that_nobody_asks_any_more_is_neither_lost_nor_regained() -> None:
    scene = Scene()
    scene.parties = {LOST: ("relay.example",)}
    scene.after(0)
    lost = {"what": "relay", "parties": ["relay.example"], "since": 1000, "url": "https://relay.example/r"}
    assert scene.after(PATIENCE_MS) == {"status": "degraded", "lost": [lost]}
    assert figures(scene.metrics, "relay_lost") == {'relay_lost{relay="relay.example"}': 1}
    scene.parties = {}
    assert scene.after(1) == {}
    assert figures(scene.metrics, "relay_lost") == {'relay_lost{relay="relay.example"}': 0}
    assert scene.told == [("relay-lost", ("relay.example",))]


async def test_a_relay_answers_or_does_not_as_it_did_when_it_was_asked_last() -> None:
    answers: list[int] = []

    async def ask(_url: str, **_: Any) -> HttpAnswer:
        if not answers:
            raise UnreachableError("nobody")
        return HttpAnswer(answers.pop(), b"")

    clock, relay = ManualClock(1), relayed_document().relays[0]
    client = RelayClient({}, ask, clock)
    seen = [client.answers(relay.url)]
    for status in (200, 502, None, 404, None):
        answers[:] = [] if status is None else [status]
        await client.shown(relay, b"label")
        seen.append(client.answers(relay.url))
    assert seen == [None, True, False, False, True, False]
    clock.advance(180_000)
    assert client.answers(relay.url + "/") is None


# ── the webhook ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Receiver:
    """Somebody's server; ``answers`` are the statuses that it answers with, the last one for ever."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)
        self.got: list[tuple[HttpRequest, dict[str, Any]]] = []

    def answer(self, request: HttpRequest) -> HttpResponse:
        self.got.append((request, json.loads(request.body)))
        return HttpResponse(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])

    @asynccontextmanager
    async def listening(self) -> Any:
        server = HttpServer(self.answer)
        try:
            yield f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}/hook"
        finally:
            await server.drain()


def posted(receiver: Receiver, act: Callable[[Webhook, Metrics], Awaitable[None]]) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            url = await stack.enter_async_context(receiver.listening())
            metrics, stop = Metrics("coordinator"), asyncio.Event()
            hook = Webhook(url, coordinator="secvm.example", metrics=metrics, pauses_s=(0.0, 0.0))
            running = asyncio.create_task(hook.run(stop))
            async with asyncio.timeout(20):
                await act(hook, metrics)
            stop.set()
            await running

    asyncio.run(main())


@pytest.mark.parametrize(
    ("answers", "tries", "outcome"),
    [((204,), 1, "delivered"), ((503, 200), 2, "delivered"), ((503,), 3, "given-up"), ((404,), 1, "given-up"),
     ((302,), 1, "given-up")],
)  # fmt: skip
def test_an_event_is_posted_and_tried_again_a_few_times(answers: tuple[int, ...], tries: int, outcome: str) -> None:
    receiver = Receiver(*answers)

    async def act(hook: Webhook, metrics: Metrics) -> None:
        alarms = Alarms(clock=ManualClock(1234), webhook=hook)
        alarms.ended("ab" * 32, 7, RoundEnd.COUNTED)
        alarms.ended("ab" * 32, 8, RoundEnd.NOTHING_CAME)
        await until(lambda: figures(metrics, "webhook")[f'webhook_events_total{{outcome="{outcome}"}}'] == 1)

    posted(receiver, act)
    request, body = receiver.got[0]
    assert (len(receiver.got), request.method, request.headers["content-type"]) == (tries, "POST", "application/json")
    assert body == {
        "event": "round-abandoned",
        "coordinator": "secvm.example",
        "at": 1234,
        "text": "Round 8 of experiment abababababab brought no new model: no relay handed anything on.",
        "experiment": "ab" * 32,
        "round": 8,
        "reason": "nothing-came",
    }


def test_a_webhook_that_nobody_serves_holds_nobody_up_and_is_counted() -> None:
    async def act(hook: Webhook, metrics: Metrics) -> None:
        for at in range(WAITING + 3):
            hook.tell("relay-lost", at=at, text="", parties=["r"])
        assert figures(metrics, "webhook")['webhook_events_total{outcome="dropped"}'] == 3
        await until(lambda: figures(metrics, "webhook")['webhook_events_total{outcome="given-up"}'] == WAITING)

    async def main() -> None:
        metrics, stop = Metrics("coordinator"), asyncio.Event()
        hook = Webhook("http://127.0.0.1:9/", coordinator="", metrics=metrics, pauses_s=())
        alarms = Alarms(webhook=hook, steady=ManualClock(1), metrics=metrics)
        running = asyncio.create_task(alarms.run(stop))
        async with asyncio.timeout(20):
            await act(hook, metrics)
        stop.set()
        await running

    asyncio.run(main())


def test_events_go_to_https_or_to_this_machine_alone_and_the_address_is_shown_nowhere(tmp_path: Path) -> None:
    for url in ("https://ops.example/hook/s3cret", "http://127.0.0.1:9000/s3cret", "http://localhost/s3cret"):
        part = WebhookPart(url=url)
        assert part.address() == url
        assert "s3cret" not in repr(part) + repr(Webhook(url, coordinator=""))
    for url in ("http://ops.example/", "ftp://x", "ops.example", "https://me@ops.example/", "https://a.example/?b=c"):
        with pytest.raises(ValueError, match="https"):
            WebhookPart(url=url)
    make_secret(tmp_path / "hook", b"https://ops.example/s3cret\n")
    assert WebhookPart(url_file=tmp_path / "hook").address() == "https://ops.example/s3cret"
    make_secret(tmp_path / "clear", b"http://ops.example/s3cret\n")
    with pytest.raises(BadInputError, match="holds no address") as refused:
        WebhookPart(url_file=tmp_path / "clear").address()
    assert "s3cret" not in str(refused.value)
    told = {"state": {"folder": "s"}, "epochs": {"period_s": 600, "lead_s": 60}, "webhook": {"url_file": "hook"}}
    assert CoordinatorProgramSettings.model_validate_json(json.dumps(told)).webhook == WebhookPart(
        url_file=Path("hook")
    )
    with pytest.raises(ValueError, match="url or url_file"):
        CoordinatorProgramSettings.model_validate_json(json.dumps({**told, "webhook": {}}))


# ── all of it together ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_whole_coordinator_posts_what_its_operator_should_hear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round to which nobody came; then two of three witnesses, and both relays of another experiment, are gone."""
    (tmp_path / "state").mkdir(mode=0o700)
    for file, key in ((main.KEY_FILE, COORDINATOR), (main.LOG_KEY_FILE, LOG)):
        make_secret(tmp_path / "state" / file, key.seed)
    make_secret(tmp_path / "token", b"t" * 32)
    roles: dict[Literal["entry", "mix"], SigningKey] = {"entry": ENTRY, "mix": MIX}
    # Nobody listens on port 9.
    urls = {role: f"http://127.0.0.1:9/{role}" for role in roles}
    relays = tuple(Relay(url=urls[role], key=roles[role].public, role=role, operator=role) for role in roles)
    store, plain = SQLiteStore(tmp_path / "state" / main.STORE_FILE), logged()
    add(store, plain)
    add(store, relayed_document(relays=relays, log=TERMS, test=True, coordinator_keys=(COORDINATOR.public,)))
    store.close()
    clock, steady, receiver, stop = ManualClock(START - 100_000), ManualClock(1), Receiver(200), asyncio.Event()
    monkeypatch.setattr(main, "SystemClock", lambda: clock)
    monkeypatch.setattr(main, "SteadyClock", lambda: steady)
    witnesses, port = [TinyWitness(i, clock) for i in range(3)], free_port()
    async with AsyncExitStack() as stack:
        addresses = [await stack.enter_async_context(serving(one.add_checkpoint)) for one in witnesses]
        told = {
            "state": {"folder": "state"},
            "epochs": {"period_s": 600, "lead_s": 60},
            "listen": {"port": port},
            "log": {"name": "log.example"},
            "witnesses": [
                {"name": key.name, "url": url, "key": key.key.data.hex()}
                for key, url in zip(KEYS, addresses, strict=True)
            ],
            "relays": [
                {"name": f"{role}.example", "url": url, "token_file": str(tmp_path / "token"), "token_sha256": "0" * 64}
                for role, url in urls.items()
            ],
            "webhook": {"url": await stack.enter_async_context(receiver.listening())},
        }
        settings = CoordinatorProgramSettings.model_validate_json(json.dumps(told))
        gone = {"w1.example", "w2.example"}
        running = asyncio.create_task(main.Coordinator(settings.placed(tmp_path)).run(stop))

        async def until(come: Callable[[], Awaitable[dict[str, Any] | None]]) -> dict[str, Any]:
            async with asyncio.timeout(30):
                while not running.done():
                    if (found := await come()) is not None:
                        return found
                    clock.advance(20_000)
                    steady.advance(20_000)
                    await asyncio.sleep(0.01)
            await running
            raise AssertionError("the coordinator ended")

        async def hear(event: str) -> dict[str, Any]:
            async def heard() -> dict[str, Any] | None:
                return next((body for _, body in receiver.got if body["event"] == event), None)

            return await until(heard)

        async def degraded() -> dict[str, Any] | None:
            page = await ask_once(f"http://127.0.0.1:{port}/health", answer_s=9, most=9999)
            health: dict[str, Any] = json.loads(page.content)
            return health if any(gone <= set(one["parties"]) for one in health.get("lost", [])) else None

        try:
            abandoned = await hear("round-abandoned")
            assert (abandoned["experiment"], abandoned["round"]) == (plain.digest, 1)
            assert (abandoned["coordinator"], abandoned["reason"]) == ("log.example", "nothing-came")
            # While relays are gone they are asked in the machine's own time, which goes slower here.
            assert (await hear("relay-lost"))["parties"][0] in {"entry.example", "mix.example"}
            all_answer(witnesses[1:], says(500))
            # Witnesses answer in the machine's own time too: on a busy one they seem lost before they are.
            assert len((await hear("quorum-lost"))["parties"]) >= 2
            assert (await until(degraded))["status"] == "degraded"
        finally:
            stop.set()
            await running


def says(status: int) -> Callable[[bytes], tuple[int, bytes]]:
    return lambda _body: (status, b"")


def test_every_reason_that_is_told_of_a_round_stands_in_the_documents() -> None:
    page = (Path(__file__).parents[3] / "docs/how-to/run-for-real.md").read_text(encoding="utf-8")
    _, table = page.split("### Why a round brought no new model\n")
    for end in RoundEnd:
        assert (f"\n| `{end.word}` |" in table) == (end is not RoundEnd.COUNTED), end
    exactly = {
        MISSING_BATCH,
        OTHER_BATCH,
        ENTRY_PART,
        MIX_PART,
        ONE_PART,
        *missing_names(Missing),
        *fault_names(OpeningFault),
    }
    assert [reason for reason in sorted(exactly) if f"`{reason}`" not in table] == []
    # What is told when a round was opened and not stepped, or not at all, is the end's own word.
    assert {*STAYED.values(), TOO_LATE, RESTARTED} <= {end.word for end in RoundEnd}
