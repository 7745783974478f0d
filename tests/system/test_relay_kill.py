"""The real process, killed again and again: nothing that it acknowledged is lost, nothing is deposited twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

from secvm.crypto.signing import verify
from secvm.protocol.documents.manifest import RelayCount
from secvm.protocol.version import RELAY_COUNT_TYPE
from secvm.testing.gateway import FakeGateway, Reply
from tests.unit.relay.helpers import DEPOSIT_MS, PERIOD_MS, Place, capsule, fetch, send, taken_apart, traces

ROOT = Path(__file__).resolve().parents[2]
DUE = 10 * PERIOD_MS + DEPOSIT_MS
#: After so many acknowledgements of one life the process is killed, with others under way.
KILLS = (1, 3, 40, 0, 17, 80)
AT_A_TIME = 16


async def start(settings: Path) -> tuple[Process, int]:
    """The process, and its port."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "secvm.cli.main", "relay", "serve", "--config", str(settings)),
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=DEVNULL,
        stderr=PIPE,
    )
    assert process.stderr is not None
    line = json.loads(await process.stderr.readline())
    assert line["event"] == "listening", line
    return process, line["port"]


def end_by(process: Process, end: signal.Signals) -> None:
    # Not by asyncio's own way: it looks whether the process has ended, and takes its exit code from the one who waits.
    with contextlib.suppress(ProcessLookupError):
        if process.returncode is None:
            os.kill(process.pid, end)


@contextlib.asynccontextmanager
async def life(settings: Path, end: signal.Signals) -> AsyncIterator[tuple[Process, int]]:
    """One life of the process, which ends by this signal."""
    process, port = await start(settings)
    try:
        yield process, port
        end_by(process, end)
        assert process.stderr is not None
        rest = await process.stderr.read()
        assert await process.wait() == (0 if end is signal.SIGTERM else -end)
        assert b"127.0.0" not in rest
        assert b"Traceback" not in rest
    finally:
        end_by(process, signal.SIGKILL)
        await process.wait()


async def pour(process: Process, port: int, numbers: list[int], acknowledged: set[int], *, until: int) -> None:
    """Send capsules, several at a time; when so many were acknowledged, kill the process under the others."""
    left = iter(numbers)
    enough = asyncio.Event()
    before = len(acknowledged)

    async def one_by_one() -> None:
        for number in left:
            answer = await send(port, capsule(number), source=f"127.0.0.{number % 5 + 1}")
            assert answer.status == 202
            acknowledged.add(number)
            if len(acknowledged) - before >= until:
                enough.set()

    tasks = [asyncio.ensure_future(one_by_one()) for _ in range(AT_A_TIME)]
    signals = asyncio.ensure_future(enough.wait())
    if until:
        await asyncio.wait([signals, *tasks], return_when=asyncio.FIRST_COMPLETED)
        assert signals.done()
    signals.cancel()
    end_by(process, signal.SIGKILL)
    for ending in await asyncio.gather(*tasks, return_exceptions=True):
        # Whoever was not answered saw the connection end, and nothing else.
        assert isinstance(ending, OSError | EOFError), ending


def test_kill_loses_nothing_acknowledged_and_changes_no_deposit(tmp_path: Path) -> None:
    async def main() -> None:
        place = Place(tmp_path)
        acknowledged: set[int] = set()
        async with FakeGateway() as gateway:
            settings = place.settings_file(gateway.url, clients={"known_by": "address"})
            for number, kill_after in enumerate(KILLS):
                async with life(settings, signal.SIGKILL) as (process, port):
                    numbers = list(range(1000 * number, 1000 * number + 1000))
                    await pour(process, port, numbers, acknowledged, until=kill_after)
            # Killed after the deposit was sent and before it was answered, twice.
            gateway.open.clear()
            async with life(settings, signal.SIGKILL) as (_process, port):
                # All five clients, also those whose capsules were under way.
                for number in range(9000, 9005):
                    assert (await send(port, capsule(number), source=f"127.0.0.{number % 5 + 1}")).status == 202
                    acknowledged.add(number)
                place.go_to(DUE)
                await gateway.wait_for("/v1/deposit")
            async with life(settings, signal.SIGKILL):
                await gateway.wait_for("/v1/deposit", 2)
            gateway.open.set()
            async with life(settings, signal.SIGTERM) as (process, _port):
                assert process.stderr is not None
                line = b""
                while b'"accepted"' not in line:
                    line = await process.stderr.readline()
            assert len({seen.body for seen in gateway.seen}) == 1
            envelope, capsules = taken_apart(gateway.seen[0].body)

        count = RelayCount.from_bytes(verify(envelope, purpose=RELAY_COUNT_TYPE, keys=[place.key.public]))
        assert count == RelayCount(opens_at=10 * PERIOD_MS, clients=5, capsules=len(capsules))
        assert len(set(capsules)) == len(capsules)
        assert {capsule(number) for number in acknowledged} <= set(capsules)
        assert len(acknowledged) >= sum(KILLS)
        left = place.files()
        assert not any(traces(number, left) for number in acknowledged)

    asyncio.run(main())


def test_sigterm_ends_the_process_in_good_order(tmp_path: Path) -> None:
    async def main() -> None:
        place = Place(tmp_path)
        async with FakeGateway(lambda _seen: Reply(202)) as gateway:
            settings = place.settings_file(gateway.url)
            async with life(settings, signal.SIGTERM) as (_process, port):
                assert (await send(port, capsule(1))).status == 202
                assert (await fetch(port, capsule(2))).status == 202
            assert traces(1, place.files())
            assert len(gateway.at("/v1/fetch")) == 1

    asyncio.run(main())
