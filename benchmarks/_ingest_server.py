"""The two servers of ``benchmarks/ingest.py``, each a process of its own: ``ours``, and ``peer``, starlette on uvicorn.

Started with the name of one and a folder for its database, or the address of one, it prints the port it listens on.
Then it obeys lines of JSON on its standard input: ``begin`` takes the time, ``end`` prints what was used since (for
``ours`` after everything was opened and counted), ``quit`` ends it. Both store what they get with the same
``SQLiteStore``, packed, a group in one commit.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
import time
from collections.abc import Awaitable
from fractions import Fraction
from pathlib import Path

import orjson
import uvloop

from benchmarks._measuring import answer, memory_mb
from secvm.coordinator.counting.epoch_count import RoundToCount, count_epoch
from secvm.coordinator.intake.gateway import Gateway
from secvm.coordinator.intake.ingest import Ingest
from secvm.coordinator.intake.package_routes import BODY_LIMITS, PackageRoutes
from secvm.coordinator.intake.running import CurrentRounds, OpenRound
from secvm.coordinator.store.port import CoordinatorStore, StoredKey
from secvm.coordinator.store.sqlite import SQLiteStore
from secvm.crypto.sealing.capsules import pack
from secvm.crypto.signing import SigningKey
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm.protocol.documents.experiment import ExperimentDocument, FeaturesWanted, HashedBins, Windows
from secvm.protocol.relays.manifest import Instants
from secvm.runtime.clock import SystemClock
from secvm.runtime.http.server import HttpRequest, HttpResponse, HttpServer, http_date
from secvm.runtime.metrics import Metrics
from secvm.testing.clock import ManualClock

EPOCH, ROUND = 1, 1
KEY = StoredKey(EPOCH, EPOCH, bytes(range(1, 33)))
TOKEN = "a token of the benchmark"
BINS = 1000
DOCUMENT = ExperimentDocument(
    title="A benchmark",
    question="",
    experiment=Experiment(n_bins=BINS, labels=("a", "b"), rule=Pegasos(), budget=100),
    features=FeaturesWanted(source="none", description=""),
    binning=HashedBins(bins=BINS, salt=bytes(16)),
    windows=Windows(length_s=60, grace_s=10, first_opening=0),
    floor=3,
    train_share=Fraction(7, 10),
    rounds=10,
    coordinator_keys=(SigningKey(bytes(32)).public,),
    relays=(),
    test=True,
)
PRESENT = CurrentRounds((OpenRound(DOCUMENT, ROUND, EPOCH, Instants(0, 60_000, *[70_000] * 5)),), (KEY,))


async def _lines() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def _obey(end: object = None) -> None:
    """Measure between ``begin`` and ``end``."""
    lines = await _lines()
    wall = cpu = 0.0
    while "quit" not in (asked := orjson.loads(await lines.readline())):
        if "begin" in asked:
            wall, cpu = time.perf_counter(), time.process_time()
        else:
            more = await end() if callable(end) else {}
            used = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
            answer(**used, peak_mb=memory_mb(), **more)


def _store(place: str) -> CoordinatorStore:
    if not place.startswith("postgresql:"):
        store = SQLiteStore(Path(place) / "ours.sqlite")
        store.add_key(KEY)
        return store
    from secvm.coordinator.store.postgres import PostgresStore

    return PostgresStore(place)


async def ours(place: str, *, opener: bool) -> None:
    """The coordinator's package path, with the parts that it has in a real one."""
    store = _store(place)
    clock = ManualClock(30_000)  # the middle of the window
    ingest = Ingest(store, clock, metrics=Metrics("coordinator"))
    gateway = Gateway(dice=os.urandom, public=lambda _path: None, date=lambda: "")
    routes = PackageRoutes(gateway, ingest, clock, tokens=[hashlib.sha256(TOKEN.encode()).digest()], tests=True)
    routes.update(PRESENT)
    rounds = [RoundToCount(DOCUMENT.experiment_id, DOCUMENT.experiment, ROUND)]
    # Kernels are compiled, or read from their cache, once in a process's life.
    count_epoch([bytes(64)], rounds, dice=os.urandom)

    def handler(request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        return routes.routes[request.path](request)

    # With a date, which uvicorn sends too.
    server = HttpServer(handler, body_limits=BODY_LIMITS, date=http_date(SystemClock()))
    answer(port=await server.start("127.0.0.1", 0))
    if opener:
        ingest.start()

    async def end() -> dict[str, object]:
        if not opener:
            return {}
        store.close_epoch(EPOCH)
        await ingest.finish(EPOCH)
        counted = count_epoch(store.opened(EPOCH), rounds, dice=os.urandom)
        return {"counted": int(counted.tallies[0].plus.sum()), "distinct": counted.distinct}

    await _obey(end)
    await server.drain()
    await ingest.close()
    store.close()


async def peer(folder: Path) -> None:
    """What one would write with starlette: a queue, and a task that commits what is in it."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request as Asked
    from starlette.responses import Response as Told
    from starlette.routing import Route

    store = SQLiteStore(folder / "peer.sqlite")
    queue: asyncio.Queue[tuple[bytes, asyncio.Future[bool]]] = asyncio.Queue(20_000)

    async def commit() -> None:
        while True:
            group = [await queue.get()]
            while not queue.empty() and len(group) < 1000:
                group.append(queue.get_nowait())
            packed = pack([capsule for capsule, _ in group])
            stored = await asyncio.to_thread(store.append_sealed, EPOCH, [packed])
            for _, future in group:
                if not future.done():
                    future.set_result(stored)

    async def capsule(request: Asked) -> Told:
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        await queue.put((await request.body(), future))
        return Told(status_code=202 if await future else 410)

    app = Starlette(routes=[Route("/v1/capsule", capsule, methods=["POST"])])
    config = uvicorn.Config(
        app, port=0, http="httptools", ws="none", lifespan="off", access_log=False, log_level="error", backlog=4096
    )
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server.serve())
    committing = asyncio.ensure_future(commit())
    while not server.started:  # noqa: ASYNC110  (uvicorn tells no other way)
        await asyncio.sleep(0.01)
    answer(port=server.servers[0].sockets[0].getsockname()[1])
    await _obey()
    server.should_exit = True
    await serving
    committing.cancel()
    store.close()


if __name__ == "__main__":
    _kind, _place = sys.argv[1], sys.argv[2]
    uvloop.run(peer(Path(_place)) if _kind == "peer" else ours(_place, opener=_kind == "batches"))
