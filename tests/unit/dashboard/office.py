"""A page over real sockets, before a coordinator that serves what the test says it serves."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from yarl import URL

from secvm.coordinator.epochs import Grid
from secvm.coordinator.experiments.operator_routes import Admin
from secvm.coordinator.experiments.status_document import LeakageMeter, TellableRound, Watchers, status
from secvm.coordinator.publisher import Publisher
from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.port import Standing
from secvm.dashboard.app import Plan
from secvm.dashboard.main import AuditOnce, Dashboard, DashboardSettings
from secvm.learning import aggregate
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.documents.experiment import ExperimentDocument, publish
from secvm.protocol.documents.manifest import LastRound
from secvm.protocol.log.checkpoints import Checkpoint, read_checkpoint
from secvm.protocol.relays.manifest import Instants
from secvm.protocol.round_state import RoundEnd
from secvm.runtime.clock import SteadyClock
from secvm.runtime.http.server import HttpRequest, HttpResponse, HttpServer
from secvm.runtime.metrics import Metrics
from secvm.testing.clock import ManualClock
from tests.unit.protocol.helpers import COORDINATOR, LOG, START, WITNESSES, document, log_terms

KEY = "the-admin-key"
#: How long a test waits for what must come.
PATIENCE_S = 30.0
DAY_MS = 86_400_000


def tellable(number: int, *, told: bool = True, opens_at: int | None = None) -> TellableRound:
    """A round of the usual experiment, with other counts each time; every seventh is abandoned."""
    opens = START + 660_000 * (number - 1) if opens_at is None else opens_at
    abandoned = number % 7 == 0
    last = LastRound(
        tally=None if abandoned else "ab" * 32,
        participants=() if abandoned else (30 + number % 5, 40 + number % 3),
        cells=() if abandoned else ((10 + number % 7, 4), (3, 8 + number % 4)),
    )
    state = ("abandoned" if abandoned else "published") if told else "open"
    times = Instants(opens, opens + 600_000, *[opens + 660_000] * 5)
    end = RoundEnd.NOTHING_CAME if abandoned else RoundEnd.COUNTED
    return TellableRound(number, state, times, last if told else None, end)


def status_of(of: ExperimentDocument, rounds: int, *, standing: Standing = Standing.RUNNING) -> bytes:
    """The status of an experiment whose newest round is open, as a coordinator writes it."""
    over = standing in (Standing.STOPPED, Standing.FINISHED)
    watchers = Watchers(of.experiment, leakage=LeakageMeter(of))
    told = [tellable(number, told=over or number < rounds) for number in range(1, rounds + 1)]
    for one in told:
        counted = None
        if one.last is not None and one.last.tally is not None:
            empty = aggregate.empty_tally(of.experiment)
            empty.plus[0, -1], empty.minus[0, -1] = 20 + one.number, 10
            counted = Tally(empty.plus, empty.minus, one.last.counts.participants, one.last.counts.cells)
        watchers.watch(one.number, counted)
    return status(of, standing=standing, rounds=told, watchers=watchers)


def checkpoint_of(of: ExperimentDocument, size: int, *, witnesses: int = 3) -> bytes:
    """A checkpoint of the log, cosigned."""
    assert of.log is not None
    key = of.log.log_key
    point = Checkpoint(key.name, size, bytes([size % 256]) * 32)
    lines = [
        point.cosign(witness, name=f"w{i}.example", time_s=START // 1000 + i)
        for i, witness in enumerate(WITNESSES[:witnesses])
    ]
    return read_checkpoint(point.sign(LOG), log=key).cosigned(*lines).data


class StubCoordinator:
    """Serves files by path, as the publisher does, and the operator's API; what was asked is kept."""

    def __init__(self, clock: ManualClock) -> None:
        self.store = MemoryStore()
        self._publisher = Publisher(self.store)
        self.admin = Admin(
            store=self.store,
            key=COORDINATOR,
            admin_sha256=hashlib.sha256(KEY.encode()).digest(),
            grid=Grid(period_s=3600, lead_s=300),
            clock=clock,
            dice=bytes,
            wake=lambda: None,
        )
        self.metrics = Metrics("coordinator")
        #: Answers that go before all files, by path.
        self.instead: dict[str, HttpResponse | Callable[[HttpRequest], Any]] = {
            "/health": HttpResponse(200, b'{"status":"ok"}', "application/json"),
        }
        self.asked: list[HttpRequest] = []
        self._server = HttpServer(self._answer)
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self.port = await self._server.start("127.0.0.1", 0)

    async def stop(self) -> None:
        await self._server.drain()

    def show(self, path: str, data: bytes) -> None:
        """From now on this is there."""
        self._publisher.put_json(path, data)

    def show_experiment(self, of: ExperimentDocument, rounds: int, *, standing: Standing = Standing.RUNNING) -> None:
        """All of one experiment, which is then the only one in the list."""
        self.show(f"/v1/experiment/{of.digest}", publish(of, keys=(COORDINATOR,)))
        self.show(f"/v1/experiment/{of.digest}/status", status_of(of, rounds, standing=standing))
        if of.log is not None:
            self.show(f"/v1/experiment/{of.digest}/checkpoint", checkpoint_of(of, rounds + 1))
            self.show("/secvm/v2/checkpoint", checkpoint_of(of, 1))
        self.list([{"digest": of.digest, "title": of.title, "standing": standing.value}])

    def list(self, experiments: list[dict[str, str]]) -> None:
        self.show("/v1/experiments", json.dumps({"experiments": experiments}).encode())

    def _answer(self, request: HttpRequest) -> Any:
        self.asked.append(request)
        instead = self.instead.get(request.path)
        if instead is not None:
            return instead if isinstance(instead, HttpResponse) else instead(request)
        if request.path.startswith("/admin/"):
            return self.admin.answer(request)
        if request.path == "/metrics":
            return HttpResponse(200, *self.metrics.page())
        return self._publisher.handle(request)


@dataclass
class Office:
    """A page, its coordinator and a browser that is none."""

    coordinator: StubCoordinator
    clock: ManualClock
    url: str
    session: aiohttp.ClientSession
    running: "asyncio.Task[None]"
    stop: asyncio.Event
    document: ExperimentDocument = field(default_factory=lambda: document(log=log_terms()))

    async def ask(self, path: str, method: str = "GET", **more: Any) -> tuple[int, Any, bytes]:
        """Status, header fields and body."""
        # As it stands there: nothing is made prettier on the way.
        async with self.session.request(method, URL(self.url + path, encoded=True), **more) as answer:
            return answer.status, answer.headers, await answer.read()

    async def get(self, path: str) -> Any:
        """The JSON there."""
        code, _, body = await self.ask(path)
        assert code == 200, body
        return json.loads(body)

    async def post(self, path: str, content: object = None, **headers: str) -> tuple[int, Any, dict[str, Any]]:
        """Status, header fields and JSON of what is answered to this: bytes as they are, else JSON."""
        data = content if isinstance(content, bytes) else json.dumps(content or {}).encode()
        sent = {"content-type": "application/json", **headers}
        code, told, body = await self.ask(path, "POST", headers=sent, data=data)
        return code, told, json.loads(body)

    async def raw(self, *lines: str) -> bytes:
        """The answer to a head that no browser would send."""
        reader, writer = await asyncio.open_connection("127.0.0.1", int(self.url.rpartition(":")[2]))
        writer.write("\r\n".join([*lines, "connection: close", "", ""]).encode())
        answer = await reader.read()
        writer.close()
        return answer

    async def until(self, holds: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """What /api/now says, once it says so."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                told: dict[str, Any] = await self.get("/api/now")
                if holds(told):
                    return told
                await asyncio.sleep(0.01)

    async def read(self) -> dict[str, Any]:
        """What /api/now says once the coordinator was read, all of it."""
        return await self.until(
            lambda told: told["coordinator"]["reachable"] and told["experiments"] and told["experiments"][0]["labels"]
        )


def settings(url: str, **changes: Any) -> DashboardSettings:
    polled = {"poll_s": 0.1, **changes.pop("coordinator", {}), "url": url}
    told: dict[str, Any] = {"listen": {"port": 0}, "coordinator": polled, **changes}
    return DashboardSettings.model_validate_json(json.dumps(told))


@asynccontextmanager
async def office(
    *,
    audit: AuditOnce | None = None,
    plan: Plan | None = None,
    now: int = START,
    shown: int | None = 3,
    request_s: float = 15.0,
    **changes: Any,
) -> AsyncIterator[Office]:
    """A page that runs; with ``shown`` its coordinator has one experiment of so many rounds."""
    clock = ManualClock(now)
    coordinator = StubCoordinator(clock)
    await coordinator.start()
    of = document(log=log_terms())
    if shown is not None:
        coordinator.show_experiment(of, shown)
    dashboard = Dashboard(
        settings(coordinator.url, **changes),
        clock=clock,
        steady=SteadyClock(),
        audit=audit,
        plan=plan,
        request_s=request_s,
    )
    stop, address = asyncio.Event(), asyncio.get_running_loop().create_future()
    running = asyncio.create_task(dashboard.run(stop, address.set_result))
    try:
        await asyncio.wait([running, address], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            await running
        async with aiohttp.ClientSession(auto_decompress=True) as session:
            yield Office(coordinator, clock, (await address).rstrip("/"), session, running, stop, of)
    finally:
        stop.set()
        await asyncio.gather(running, return_exceptions=True)
        await coordinator.stop()
    running.result()


def events(frames: bytes) -> list[tuple[str, str, Any]]:
    """Id, name and content of server-sent events."""
    found = []
    for frame in frames.decode(errors="ignore").split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in frame.splitlines() if ": " in line)
        if "event" in fields:
            found.append((fields["id"], fields["event"], json.loads(fields["data"])))
    return found


class Listening:
    """Somebody who listens to /api/events."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer, self._data = answer, b""

    async def until(self, holds: Callable[[list[tuple[str, str, Any]]], Any]) -> list[tuple[str, str, Any]]:
        """All events so far, once they are such."""
        async with asyncio.timeout(PATIENCE_S):
            while not holds(events(self._data)):
                piece = await self._answer.content.readany()
                assert piece, "the stream has ended"
                self._data += piece
        return events(self._data)

    async def ended(self) -> None:
        """Return when there is no more."""
        async with asyncio.timeout(PATIENCE_S):
            while await self._answer.content.readany():
                pass
