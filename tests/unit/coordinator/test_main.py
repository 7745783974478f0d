"""A coordinator's start: what is wrong with its folders is told before anything runs."""

import asyncio
import hashlib
import json
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from secvm.coordinator.main import ADMIN_FILE, KEY_FILE, LOG_KEY_FILE, STORE_FILE, Coordinator, initialise, log_key
from secvm.coordinator.settings import CoordinatorProgramSettings
from secvm.coordinator.store.sqlite import SQLiteStore
from secvm.crypto.signing import SigningKey
from secvm.errors import BadInputError
from secvm.protocol.documents.experiment import read_published
from secvm.protocol.documents.manifest import accept
from secvm.protocol.log.checkpoints import Checkpoint
from secvm.protocol.log.entries import experiment_entry
from secvm.protocol.log.policy import LogTerms
from secvm.protocol.log.proofs import LogProof
from secvm.runtime.clock import ClockSteering, SteeredClock
from secvm.runtime.disk.secret_files import make_secret
from secvm.testing.processes import free_port
from tests.unit.coordinator.rounds import add, experiment
from tests.unit.coordinator.test_new_experiment import put
from tests.unit.coordinator.witnesses import KEYS, TinyWitness, logged, serving
from tests.unit.protocol.helpers import COORDINATOR, LOG, START


def settings(**changes: object) -> CoordinatorProgramSettings:
    told = {
        "state": {"folder": "state"},
        "public": {"folder": "public"},
        "epochs": {"period_s": 3600, "lead_s": 300},
        **changes,
    }
    return CoordinatorProgramSettings.model_validate(told, strict=False)


def test_repro_a_second_coordinator_on_one_state_folder_is_refused(tmp_path: Path) -> None:
    first = Coordinator(settings().placed(tmp_path))
    with pytest.raises(BadInputError, match="another process runs this coordinator"):
        Coordinator(settings().placed(tmp_path))
    first.close()
    Coordinator(settings().placed(tmp_path)).close()


def test_repro_a_signing_key_that_is_not_the_experiments_own_is_refused(tmp_path: Path) -> None:
    initialise(tmp_path)
    of = experiment()
    store = SQLiteStore(tmp_path / "state" / STORE_FILE)
    add(store, of)
    store.close()
    # Restored without its key: a new one was made, which no device knows.
    with pytest.raises(BadInputError, match="signing key"):
        Coordinator(settings().placed(tmp_path))
    (tmp_path / "state" / KEY_FILE).write_bytes(COORDINATOR.seed)
    Coordinator(settings().placed(tmp_path)).close()


@pytest.mark.parametrize("public", [".", "state", "state/public", ""])
def test_repro_a_public_folder_in_which_the_state_lies_is_refused(tmp_path: Path, public: str) -> None:
    with pytest.raises(BadInputError, match="public folder"):
        Coordinator(settings(public={"folder": public}).placed(tmp_path))


def test_repro_a_state_folder_that_was_open_to_others_is_closed(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o755)
    Coordinator(settings().placed(tmp_path)).close()
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o077 for file in (tmp_path / "state").iterdir() if file.name != "grid.json"} == {0}
    assert os.access(tmp_path / "state" / STORE_FILE, os.R_OK)


def test_repro_a_deposit_as_large_as_allowed_may_wait(tmp_path: Path) -> None:
    made = Coordinator(settings(limits={"deposit_bytes": 2**30}).placed(tmp_path))
    assert made.ingest_limits.content_bytes > 2**30
    made.close()


# ── the log ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def with_log(*urls: str, **changes: object) -> CoordinatorProgramSettings:
    witnesses = [
        {"name": key.name, "url": url, "key": key.key.data.hex()}
        for key, url in zip(KEYS, urls or ("https://w.example",) * 3, strict=True)
    ]
    return settings(log={"name": "log.example"}, witnesses=witnesses, **changes)


def test_the_logs_key_is_made_once_and_is_another_than_the_signing_key(tmp_path: Path) -> None:
    initialise(tmp_path)
    made = log_key(tmp_path / "state")
    Coordinator(with_log().placed(tmp_path)).close()
    assert log_key(tmp_path / "state") == made
    assert SigningKey((tmp_path / "state" / KEY_FILE).read_bytes()).public != made
    (tmp_path / "state" / LOG_KEY_FILE).write_bytes((tmp_path / "state" / KEY_FILE).read_bytes())
    with pytest.raises(BadInputError, match="a log signs with a key of its own"):
        Coordinator(with_log().placed(tmp_path))


def test_a_key_that_is_not_the_logs_own_is_refused(tmp_path: Path) -> None:
    Coordinator(with_log().placed(tmp_path)).close()
    store = SQLiteStore(tmp_path / "state" / STORE_FILE)
    origin = "log.example/secvm/v2"
    store.keep_note("newest", size=0, root=bytes(32), note=Checkpoint(origin, 0, bytes(32)).sign(LOG))
    store.close()
    with pytest.raises(BadInputError, match=r"log\.key must be restored"):
        Coordinator(with_log().placed(tmp_path))
    (tmp_path / "state" / LOG_KEY_FILE).write_bytes(LOG.seed)
    Coordinator(with_log().placed(tmp_path)).close()


def test_experiments_with_a_log_keep_its_key_and_its_settings(tmp_path: Path) -> None:
    initialise(tmp_path)
    (tmp_path / "state" / KEY_FILE).write_bytes(COORDINATOR.seed)
    of, store = logged(), SQLiteStore(tmp_path / "state" / STORE_FILE)
    add(store, of)
    store.close()
    with pytest.raises(BadInputError, match=r"log\.key must be restored"):
        Coordinator(with_log().placed(tmp_path))
    (tmp_path / "state" / LOG_KEY_FILE).write_bytes(LOG.seed)
    with pytest.raises(BadInputError, match=r"must keep their \[log\]"):
        Coordinator(settings().placed(tmp_path))
    renamed = settings(log={"name": "other.example"}, witnesses=with_log().model_dump()["witnesses"])
    with pytest.raises(BadInputError, match=r"have the log log\.example, and the settings name other\.example"):
        Coordinator(renamed.placed(tmp_path))
    Coordinator(with_log().placed(tmp_path)).close()


async def test_a_whole_coordinator_logs_waits_for_its_beacon_and_announces(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / ADMIN_FILE).write_text(hashlib.sha256(b"admin").hexdigest())
    make_secret(tmp_path / "state" / LOG_KEY_FILE, LOG.seed)
    steering = ClockSteering(tmp_path / "clock", now=START, rate=0.0)
    clock = SteeredClock(tmp_path / "clock")
    port = free_port()
    specification = {**put("binning.beacons", [{"chain": "local-unsafe", "round": START // 1000 + 60}]), "test": True}

    async def get(session: aiohttp.ClientSession, path: str) -> bytes | None:
        async with session.get(path) as answer:
            return await answer.read() if answer.status == 200 else None

    async def wait_for(session: aiohttp.ClientSession, path: str) -> bytes:
        while (found := await get(session, path)) is None:  # noqa: ASYNC110  (another party answers when it can)
            await asyncio.sleep(0.01)
        return found

    def check(proof: bytes, entry: Any, terms: LogTerms) -> None:
        terms.check_quorum(LogProof.from_bytes(proof).check(entry.to_bytes(), log=terms.log_key), now=clock.now())

    async with AsyncExitStack() as stack:
        witnesses = [TinyWitness(i, clock) for i in range(3)]
        urls = [await stack.enter_async_context(serving(one.add_checkpoint)) for one in witnesses]
        told = with_log(*urls, testing={"clock": "clock"}, listen={"host": "127.0.0.1", "port": port})
        stop = asyncio.Event()
        running = asyncio.create_task(Coordinator(told.placed(tmp_path)).run(stop))
        session = await stack.enter_async_context(aiohttp.ClientSession(f"http://127.0.0.1:{port}"))
        while not await answers(session):  # noqa: ASYNC110  (nobody tells when it listens)
            await asyncio.sleep(0.01)
        headers = {"authorization": "Bearer admin"}
        async with session.post("/admin/experiments", json=specification, headers=headers) as answer:
            assert answer.status == 201
            digest = (await answer.json())["digest"]
        base = f"/v1/experiment/{digest}"
        of = read_published(await wait_for(session, base), digest=digest)
        assert of.log is not None
        first = await wait_for(session, f"{base}/first")
        check(first, experiment_entry(digest), of.log)
        assert await get(session, f"{base}/manifest/1") is None
        steering.steer(limit=START + 60_000, rate=100_000.0)
        manifest = accept(await wait_for(session, f"{base}/manifest/1"), document=of).manifest
        check(await wait_for(session, f"{base}/proof/1"), manifest.log_entry, of.log)
        assert await get(session, f"{base}/beacon/0") is not None
        assert await get(session, f"{base}/first") == first
        health = json.loads(await wait_for(session, "/health"))["log"]
        assert (health["name"], health["key"], health["halted"]) == ("log.example", LOG.public.data.hex(), 0)
        assert b"secvm_coordinator_log_waiting 0.0" in await wait_for(session, "/metrics")
        stop.set()
        await running
    steering.steer(rate=0.0)


async def answers(session: aiohttp.ClientSession) -> bool:
    try:
        async with session.get("/health") as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False
