"""Nodes on one PostgreSQL: what they must have in common, who drives, and what the operator may ask of whom."""

import asyncio
import hashlib
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from secvm.coordinator.main import ADMIN_FILE, DATABASE_FILE, KEY_FILE, LOG_KEY_FILE, Coordinator, initialise
from secvm.coordinator.nodes import node as node_module
from secvm.coordinator.settings import CoordinatorProgramSettings
from secvm.errors import BadInputError, StoreError
from secvm.protocol.documents.experiment import read_published
from secvm.runtime.clock import ClockSteering
from secvm.runtime.disk.secret_files import make_secret
from secvm.runtime.settings import read_settings
from secvm.testing.processes import free_port
from tests.postgres_server import cluster
from tests.unit.coordinator.test_new_experiment import put
from tests.unit.coordinator.witnesses import KEYS, TinyWitness, serving
from tests.unit.protocol.helpers import COORDINATOR, LOG, START, STRANGER

ADMIN = {"authorization": "Bearer admin"}


@pytest.fixture
def database() -> Iterator[str]:
    url = cluster().create_database()
    yield url
    cluster().drop_database(url)


class Nodes:
    """Folders and settings of nodes that have one database."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder = folder
        make_secret(folder / DATABASE_FILE, database.encode())
        self.steering = ClockSteering(folder / "clock", now=START, rate=0.0)
        self.urls: list[str] = []

    def settings(
        self, name: str, *, drives: bool = True, port: int = 0, **changes: object
    ) -> CoordinatorProgramSettings:
        state = self.folder / name
        if not state.exists():
            state.mkdir(mode=0o700)
            (state / ADMIN_FILE).write_text(hashlib.sha256(b"admin").hexdigest())
            if drives:
                make_secret(state / KEY_FILE, COORDINATOR.seed)
                make_secret(state / LOG_KEY_FILE, LOG.seed)
        witnesses = [
            {"name": key.name, "url": url, "key": key.key.data.hex()} for key, url in zip(KEYS, self.urls, strict=False)
        ]
        told: dict[str, object] = {
            "state": {"folder": name},
            "epochs": {"period_s": 3600, "lead_s": 300},
            "listen": {"host": "127.0.0.1", "port": port},
            "database": {"url": f"file:{DATABASE_FILE}"},
            "node": {"name": name, "drives": drives, "lease_s": 20.0, "poll_s": 0.1},
            "testing": {"clock": "clock"},
            **({"log": {"name": "log.example"}, "witnesses": witnesses} if witnesses else {}),
            **changes,
        }
        return CoordinatorProgramSettings.model_validate(told, strict=False)

    def open(self, name: str, **changes: Any) -> Coordinator:
        return Coordinator(self.settings(name, **changes).placed(self.folder))


# ── what they must have in common ────────────────────────────────────────────────────────────────────────────────────


def test_nodes_must_have_one_grid_and_the_same_keys(tmp_path: Path, database: str) -> None:
    nodes = Nodes(tmp_path, database)
    nodes.open("first").close()
    nodes.open("second").close()
    for grid in ({"period_s": 7200, "lead_s": 300}, {"period_s": 3600, "lead_s": 300, "origin_ms": 5}):
        with pytest.raises(BadInputError, match="not those of the other nodes") as refused:
            nodes.open("second", epochs=grid)
        assert refused.value.next_step == 'There they are {"origin_ms": 0, "period_s": 3600}.'
    # How early manifests come is the driver's own affair.
    nodes.open("second", epochs={"period_s": 3600, "lead_s": 200}).close()
    for file, kind in ((KEY_FILE, "signing key"), (LOG_KEY_FILE, "log key")):
        kept = (tmp_path / "second" / file).read_bytes()
        (tmp_path / "second" / file).write_bytes(STRANGER.seed)
        with pytest.raises(BadInputError, match=f"the {kind} here is not the one of the other nodes"):
            nodes.open("second")
        (tmp_path / "second" / file).unlink()
        # No new one is made: nobody would believe it.
        with pytest.raises(BadInputError, match="other nodes of this database have such a key"):
            nodes.open("second")
        assert not (tmp_path / "second" / file).exists()
        make_secret(tmp_path / "second" / file, kept)
    nodes.open("second").close()


def test_a_node_that_cannot_sign_needs_no_key_and_waits_for_one_that_can(tmp_path: Path, database: str) -> None:
    nodes = Nodes(tmp_path, database)
    with pytest.raises(StoreError, match="no node that drives has used this database yet"):
        nodes.open("gateway", drives=False)
    nodes.open("first").close()
    nodes.open("gateway", drives=False).close()
    assert not (tmp_path / "gateway" / KEY_FILE).exists()
    assert not (tmp_path / "gateway" / LOG_KEY_FILE).exists()


def test_two_processes_in_one_nodes_folder_are_refused_and_the_address_is_told_to_nobody(
    tmp_path: Path, database: str
) -> None:
    nodes = Nodes(tmp_path, database)
    first = nodes.open("first")
    with pytest.raises(BadInputError, match="another process runs this coordinator"):
        nodes.open("first")
    first.close()
    told = nodes.settings("first", database={"url": database})
    assert database not in repr(told)
    assert "postgresql" not in repr(told)
    Coordinator(told.placed(tmp_path)).close()
    for url, sentence in (
        ("env:NOWHERE", "the environment has no NOWHERE"),
        ("file:nothing", "cannot read the secret"),
    ):
        with pytest.raises(BadInputError, match=sentence):
            nodes.open("first", database={"url": url})
    (tmp_path / DATABASE_FILE).chmod(0o644)
    with pytest.raises(BadInputError, match="open to others"):
        nodes.open("first")


def test_a_database_without_tables_is_refused_with_the_command_that_makes_them(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, cluster().create_database(migrated=False))
    with pytest.raises(BadInputError, match="lacks the migration") as refused:
        nodes.open("first")
    assert refused.value.next_step is not None
    assert "coordinator migrate up" in refused.value.next_step


def test_init_writes_the_settings_of_a_node(tmp_path: Path, database: str) -> None:
    initialise(tmp_path, database)
    assert database not in (tmp_path / "coordinator.toml").read_text()
    assert (tmp_path / "state" / DATABASE_FILE).stat().st_mode & 0o077 == 0
    told = read_settings(tmp_path / "coordinator.toml", CoordinatorProgramSettings)
    Coordinator(told).close()


# ── together ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Running:
    """A node that runs in this process, and somebody who asks it."""

    def __init__(self, session: aiohttp.ClientSession, stop: asyncio.Event, task: "asyncio.Task[None]") -> None:
        self.session, self.stop, self.task = session, stop, task

    async def get(self, path: str) -> bytes | None:
        try:
            async with self.session.get(path, headers=ADMIN) as answer:
                return await answer.read() if answer.status == 200 else None
        except aiohttp.ClientError:
            return None

    async def post(self, path: str, content: Any = None) -> tuple[int, Any]:
        async with self.session.post(path, json=content, headers=ADMIN) as answer:
            return answer.status, json.loads(await answer.read())

    async def health(self) -> dict[str, Any]:
        return dict(json.loads(await self.get("/health") or b"{}").get("node", {}))

    async def end(self) -> None:
        self.stop.set()
        await self.task


@asynccontextmanager
async def node(nodes: Nodes, name: str, **changes: Any) -> AsyncIterator[Running]:
    port = free_port()
    coordinator = nodes.open(name, port=port, **changes)
    stop = asyncio.Event()
    task = asyncio.create_task(coordinator.run(stop))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        running = Running(session, stop, task)
        await soon(lambda: running.get("/health"))
        try:
            yield running
        finally:
            await running.end()


async def soon(ask: Callable[[], Awaitable[Any]]) -> Any:
    """What is answered once it is something: another process, or a thread, takes its time."""
    while not (found := await ask()):  # noqa: ASYNC110  (nobody tells when it is)
        await asyncio.sleep(0.01)
    return found


async def drives(*running: Running) -> list[bool]:
    return [(await one.health()).get("role") == "driver" for one in running]


async def test_one_drives_any_answers_the_operator_and_another_takes_over(tmp_path: Path, database: str) -> None:
    nodes = Nodes(tmp_path, database)
    specification = {**put("binning.beacons", [{"chain": "local-unsafe", "round": START // 1000 + 60}]), "test": True}
    async with AsyncExitStack() as stack:
        clock = nodes.steering
        people = [TinyWitness(i, clock) for i in range(3)]  # type: ignore[arg-type]  # it only asks for the time
        nodes.urls = [await stack.enter_async_context(serving(one.add_checkpoint)) for one in people]
        first = await stack.enter_async_context(node(nodes, "first"))
        await soon(lambda: _any(drives(first)))
        second = await stack.enter_async_context(node(nodes, "second"))
        gateway = await stack.enter_async_context(node(nodes, "gateway", drives=False))
        assert await drives(first, second, gateway) == [True, False, False]
        assert (await first.health())["term"] == 1
        # One that cannot sign makes none, and shows what others made.
        assert (await gateway.post("/admin/experiments", specification))[0] == 409
        status, made = await second.post("/admin/experiments", specification)
        assert status == 201
        base = f"/v1/experiment/{made['digest']}"
        served = [await soon(lambda one=one: one.get(base)) for one in (first, second, gateway)]  # type: ignore[misc]
        assert served[0] == served[1] == served[2]
        read_published(served[0], digest=made["digest"])
        clock.steer(limit=START + 60_000, rate=100_000.0)
        manifests = [await soon(lambda one=one: one.get(f"{base}/manifest/1")) for one in (gateway, second, first)]  # type: ignore[misc]
        assert len(set(manifests)) == 1
        proofs = [await soon(lambda one=one: one.get(f"{base}/first")) for one in (first, second, gateway)]  # type: ignore[misc]
        assert len(set(proofs)) == 1
        assert b"secvm_coordinator_driving 1.0" in (await first.get("/metrics") or b"")
        assert b"secvm_coordinator_driving 0.0" in (await second.get("/metrics") or b"")
        # The operator's word at a node that does not drive; a second stop at a third one finds it over.
        action = f"/admin/experiments/{made['digest']}"
        assert (await gateway.post(f"{action}/pause"))[0] == 200
        await soon(lambda: _is(first, action, "paused"))
        assert (await second.post(f"{action}/stop"))[0] == 200
        assert (await gateway.post(f"{action}/resume"))[0] == 409
        # It resigns, and the other one leads without waiting for the lease.
        await first.end()
        await soon(lambda: _any(drives(second)))
        assert (await second.health())["term"] == 2
        assert await drives(gateway) == [False]
    nodes.steering.steer(rate=0.0)
    shutil.rmtree(tmp_path / "first")


async def _any(asked: Awaitable[list[bool]]) -> bool:
    return any(await asked)


async def _is(one: Running, path: str, standing: str) -> bool:
    return bool(json.loads(await one.get(path) or b"{}").get("standing") == standing)


def test_repro_waking_a_driver_whose_loop_has_ended_this_instant_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    node_module._call(loop, lambda: None)
    # It ended between a question and what follows from the answer.
    monkeypatch.setattr(loop, "is_closed", lambda: False)
    node_module._call(loop, lambda: None)
