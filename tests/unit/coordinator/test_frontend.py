"""All routes of a coordinator behind one handler: what is asked of which party, and what is told of its health."""

import asyncio
import hashlib
import json
import threading
from collections.abc import Awaitable

import pytest

from secvm.coordinator.frontend import Routes
from secvm.coordinator.intake.gateway import Gateway
from secvm.coordinator.intake.ingest import Ingest
from secvm.coordinator.intake.package_routes import PackageRoutes
from secvm.coordinator.publisher import Publisher, blob_path
from secvm.coordinator.store.memory import MemoryStore
from secvm.crypto.sealing.oblivious import REQUEST_MEDIA_TYPE
from secvm.learning import aggregate
from secvm.protocol.canonical import digest_of
from secvm.protocol.plain.sealed_requests import fetch_request, read_answer
from secvm.runtime.http.server import HttpRequest, HttpResponse
from secvm.runtime.metrics import Metrics
from secvm.testing.clock import ManualClock
from tests.unit.coordinator.package_path import DATE, DICE, PRESENT, TOKEN, running, seal
from tests.unit.coordinator.rounds import add, experiment, until
from tests.unit.protocol.helpers import START


class Answering:
    """The routes of a coordinator, without a network and without an operator."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = MemoryStore() if store is None else store
        clock, metrics = ManualClock(START), Metrics("coordinator")
        self.publisher = Publisher(self.store)
        packages = PackageRoutes(
            Gateway(dice=DICE, public=self.publisher.public, date=lambda: DATE),
            Ingest(self.store, clock, metrics=metrics),
            clock,
            tokens=[hashlib.sha256(TOKEN.encode()).digest()],
        )
        packages.update(PRESENT)
        self.routes = Routes(packages=packages, administration=None, publisher=self.publisher, metrics=metrics)

    def fetch(self, capsule: bytes) -> HttpResponse | Awaitable[HttpResponse]:
        headers = {"content-type": REQUEST_MEDIA_TYPE, "authorization": f"Bearer {TOKEN}"}
        return self.routes.handle(HttpRequest("POST", "/v1/fetch", "", headers, capsule, "127.0.0.1"))

    def ask(self, path: str, *, host: str = "127.0.0.1:8750") -> HttpResponse | Awaitable[HttpResponse]:
        headers = {"host": host}
        refused = self.routes.before_body(path, headers)
        return refused or self.routes.handle(HttpRequest("GET", path, "", headers, b"", "127.0.0.1"))

    def now(self, path: str, *, host: str = "127.0.0.1:8750") -> HttpResponse:
        """The answer to what needs no waiting."""
        answer = self.ask(path, host=host)
        assert isinstance(answer, HttpResponse)
        return answer


def test_repro_health_tells_of_files_that_could_not_be_written() -> None:
    answering = Answering()
    assert json.loads(answering.now("/health").body) == {"status": "ok"}
    answering.publisher.unwritten = 3
    told = answering.now("/health")
    assert (told.status, json.loads(told.body)) == (200, {"status": "degraded", "unwritten": 3})


class Slow(MemoryStore):
    """A store that reads a blob when it is told to, and knows in which thread it did."""

    def __init__(self) -> None:
        super().__init__()
        self.may_read = threading.Event()
        self.readers: list[int] = []

    def blob(self, digest: str) -> bytes:
        self.readers.append(threading.get_ident())
        assert self.may_read.wait(30)
        return super().blob(digest)


@pytest.mark.parametrize("sealed", [True, False])
async def test_repro_a_large_file_is_read_and_sealed_while_others_are_answered(sealed: bool) -> None:
    store, of = Slow(), experiment()
    add(store, of)
    answering, blob = Answering(store), digest_of(aggregate.start(of.experiment).to_bytes())
    answering.publisher.put_blob(blob)
    request = seal(fetch_request(blob_path(blob)))
    answer = answering.fetch(request.capsule) if sealed else answering.ask(blob_path(blob))
    assert isinstance(answer, Awaitable)
    waiting = asyncio.ensure_future(answer)
    await until(lambda: bool(store.readers))
    # The loop goes on while the store reads.
    assert answering.now("/health").status == 200
    assert store.readers != [threading.get_ident()]
    assert not waiting.done()
    store.may_read.set()
    told = await waiting
    body = read_answer(request.open_response(told.body)).content if sealed else told.body
    assert body == MemoryStore.blob(store, blob)


async def test_repro_few_large_files_are_read_at_a_time() -> None:
    async def _of(answer: HttpResponse | Awaitable[HttpResponse]) -> HttpResponse:
        return answer if isinstance(answer, HttpResponse) else await answer

    store, of = Slow(), experiment()
    add(store, of)
    answering, blob = Answering(store), digest_of(aggregate.start(of.experiment).to_bytes())
    answering.publisher.put_blob(blob)
    capsule = seal(fetch_request(blob_path(blob))).capsule
    waiting = [asyncio.ensure_future(_of(answering.fetch(capsule))) for _ in range(20)]
    await until(lambda: len(store.readers) == 4)
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(store.readers) == 4
    store.may_read.set()
    assert {(await one).status for one in waiting} == {200}


@pytest.mark.parametrize("token", ["", "another token"])
async def test_repro_fetches_of_relays_alone_are_answered(token: str) -> None:
    async with running(tests=False) as path:
        capsule = seal(fetch_request("/v1/keys")).capsule
        assert (await path.post("/v1/fetch", capsule, REQUEST_MEDIA_TYPE, token)).status == 401
        assert path.fetched == []
        assert (await path.post("/v1/fetch", capsule, REQUEST_MEDIA_TYPE, TOKEN)).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/admin/experiments/../../v1/x",
        "/admin/experiments/%2e%2E/x",
        "/admin/experiments/..%2f..%2Fv1",
        "/v1/./keys",
        "/v1/.%2e",
        "/..",
    ],
)
def test_repro_a_path_with_a_segment_of_dots_is_refused(path: str) -> None:
    assert Answering().now(path).status == 400


@pytest.mark.parametrize("path", ["/v1/keys", "/v1/...", "/v1/.a", "/v1/a..", "/v1/%252e%252e/keys"])
def test_other_dots_are_parts_of_names(path: str) -> None:
    assert Answering().routes.before_body(path, {"host": "127.0.0.1"}) is None


@pytest.mark.parametrize("path", ["/health", "/metrics", "/admin/experiments", "/admin/openapi.json"])
def test_repro_what_is_the_operators_alone_is_not_answered_under_a_strangers_name(path: str) -> None:
    answering = Answering()
    assert answering.now(path, host="evil.example").status == 421
    # Nobody is the operator here.
    assert answering.now(path).status in (200, 403)
    answering.publisher.put("/v1/keys", b"keys")
    assert answering.now("/v1/keys", host="coordinator.example").status == 200
