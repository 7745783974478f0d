"""A coordinator's package path over a real socket, and somebody who sends to it, for the tests."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from secvm.coordinator.intake.gateway import Gateway
from secvm.coordinator.intake.ingest import Ingest, IngestLimits
from secvm.coordinator.intake.package_routes import BODY_LIMITS, PackageRoutes
from secvm.coordinator.intake.running import CurrentRounds, OpenRound, gateway_key
from secvm.coordinator.problem_responses import plain_response, too_large
from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.port import CoordinatorStore, StoredKey
from secvm.crypto.sealing import capsules as packing
from secvm.crypto.sealing.oblivious import REQUEST_MEDIA_TYPE, SealedRequest, seal_request
from secvm.learning.package import NullPackage, Package, TrainPackage
from secvm.protocol.codec import AddressedPackage, encode
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.plain.sealed_requests import package_request
from secvm.protocol.relays.manifest import Instants
from secvm.runtime.clock import SteadyClock
from secvm.runtime.http.server import HttpRequest, HttpResponse, HttpServer
from secvm.runtime.metrics import Metrics
from secvm.testing.clock import ManualClock
from tests.unit.crypto.dice import unsafe_seeded
from tests.unit.protocol.helpers import GRACE_S, LENGTH_S, START, document

DOCUMENT = document()
#: The slot of the grid in which round 3 lies.
EPOCH, ROUND = 263, 3
CLOSES_AT = START + LENGTH_S * 1000
ACCEPT_UNTIL = CLOSES_AT + GRACE_S * 1000
KEY = StoredKey(EPOCH, EPOCH % 256, bytes(range(32)))
TOKEN = "the relay's token"
DATE = "Thu, 01 Jan 2026 00:00:00 GMT"
OPEN_ROUND = OpenRound(DOCUMENT, ROUND, EPOCH, Instants(START, CLOSES_AT, *[ACCEPT_UNTIL] * 5))
PRESENT = CurrentRounds((OPEN_ROUND,), (KEY,))
DICE = unsafe_seeded("package path")


def train(bin_index: int = 0, model: int = 0) -> Package:
    return TrainPackage(model=model, bin_index=bin_index, sign=1)


def plaintext(package: Package | None = None, *, number: int = ROUND, of: ExperimentDocument = DOCUMENT) -> bytes:
    return encode(AddressedPackage(of.experiment_id, number, package or NullPackage()))


def seal(request: bytes, key: StoredKey = KEY) -> SealedRequest:
    return seal_request(gateway_key(key).configuration, request, DICE)


def sealed_package(
    package: Package | None = None, *, number: int = ROUND, of: ExperimentDocument = DOCUMENT, key: StoredKey = KEY
) -> SealedRequest:
    return seal(package_request(plaintext(package, number=number, of=of)), key)


def records(capsules: Sequence[bytes], packages: Sequence[bytes]) -> list[bytes]:
    return sorted(hashlib.sha256(c).digest() + p for c, p in zip(capsules, packages, strict=True))


@dataclass
class Told:
    """An HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Running:
    """The package path while it listens."""

    store: CoordinatorStore
    clock: ManualClock
    ingest: Ingest
    routes: PackageRoutes
    port: int
    fetched: list[str] = field(default_factory=list)

    async def post(self, path: str, body: bytes, media_type: str = REQUEST_MEDIA_TYPE, token: str = TOKEN) -> Told:
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: {media_type}\r\ncontent-length: {len(body)}\r\n"
        head += f"authorization: Bearer {token}\r\n" if token else ""
        return await self.send(head.encode() + b"connection: close\r\n\r\n" + body)

    async def send(self, data: bytes) -> Told:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.split(": ", 1) for line in head[1:] if line)
        body = await reader.readexactly(int(headers["content-length"]))
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        return Told(int(head[0].split()[1]), headers, body)

    async def batch(self, capsules: Sequence[bytes], token: str = TOKEN) -> Told:
        return await self.post("/v1/batch", packing.pack(capsules), packing.MEDIA_TYPE, token)

    def opened(self, epoch: int = EPOCH) -> list[bytes]:
        """All records of an epoch."""
        block = b"".join(self.store.opened(epoch))
        return sorted(block[i : i + 64] for i in range(0, len(block), 64))

    def nothing_stored(self, epoch: int = EPOCH) -> bool:
        return not list(self.store.opened(epoch)) and not self.store.sealed(epoch, 1)


@contextlib.asynccontextmanager
async def running(
    store: CoordinatorStore | None = None,
    *,
    present: CurrentRounds = PRESENT,
    now: int = START,
    limits: IngestLimits = IngestLimits(),  # noqa: B008  (frozen)
    opener: bool = False,
    tests: bool = True,
    refresh: Callable[[], Awaitable[None]] | None = None,
    metrics: Metrics | None = None,
) -> AsyncIterator[Running]:
    """Serve the routes on a free port."""
    store = store or MemoryStore()
    for key in present.keys:
        store.add_key(key)
    clock = ManualClock(now)
    fetched: list[str] = []

    def public(path: str) -> tuple[bytes, str] | None:
        fetched.append(path)
        return (b"the keys of now", "application/ohttp-keys") if path == "/v1/keys" else None

    metrics = metrics or Metrics("coordinator")
    ingest = Ingest(store, clock, metrics=metrics, limits=limits, steady=SteadyClock())
    gateway = Gateway(dice=DICE, public=public, date=lambda: DATE)
    routes = PackageRoutes(
        gateway,
        ingest,
        clock,
        tokens=[hashlib.sha256(TOKEN.encode()).digest()],
        tests=tests,
        refresh=refresh,
        metrics=metrics,
    )
    routes.update(present)

    def handler(request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        found = routes.routes.get(request.path)
        return plain_response(404) if found is None else found(request)

    server = HttpServer(handler, body_limits=BODY_LIMITS, refusals={413: too_large()})
    port = await server.start("127.0.0.1", 0)
    if opener:
        ingest.start()
    try:
        yield Running(store, clock, ingest, routes, port, fetched)
    finally:
        await server.drain()
        await ingest.close()
