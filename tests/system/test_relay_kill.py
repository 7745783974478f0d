"""The real process, killed again and again: nothing that it acknowledged is lost, nothing is deposited twice."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

from secvm.crypto.signing import verify
from secvm.protocol.documents.manifest import RelayCount
from secvm.protocol.version import RELAY_COUNT_TYPE
from secvm.testing.gateway import FakeGateway, Reply
from tests.system.parties import Party, party
from tests.unit.relay.helpers import DEPOSIT_MS, PERIOD_MS, Place, capsule, fetch, send, taken_apart, traces

DUE = 10 * PERIOD_MS + DEPOSIT_MS
#: After so many acknowledgements of one life the process is killed, with others under way.
KILLS = (1, 3, 40, 0, 17, 80)
AT_A_TIME = 16


@contextlib.contextmanager
def life(settings: Path, end: signal.Signals) -> Iterator[Party]:
    """One life of the process, which ends by this signal."""
    with party("relay", "serve", "--config", str(settings)) as relay:
        yield relay
        relay.process.send_signal(end)
        assert relay.end() == (0 if end is signal.SIGTERM else -end)
        assert "127.0.0" not in relay.said
        assert "Traceback" not in relay.said


async def pour(relay: Party, numbers: list[int], acknowledged: set[int], *, until: int) -> None:
    """Send capsules, several at a time; when so many were acknowledged, kill the process under the others."""
    left, port = iter(numbers), relay.port
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
    relay.kill()
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
                with life(settings, signal.SIGKILL) as relay:
                    numbers = list(range(1000 * number, 1000 * number + 1000))
                    await pour(relay, numbers, acknowledged, until=kill_after)
            # Killed after the deposit was sent and before it was answered, twice.
            gateway.open.clear()
            with life(settings, signal.SIGKILL) as relay:
                # All five clients, also those whose capsules were under way.
                for number in range(9000, 9005):
                    assert (await send(relay.port, capsule(number), source=f"127.0.0.{number % 5 + 1}")).status == 202
                    acknowledged.add(number)
                place.go_to(DUE)
                await gateway.wait_for("/v1/deposit")
            with life(settings, signal.SIGKILL):
                await gateway.wait_for("/v1/deposit", 2)
            gateway.open.set()
            with life(settings, signal.SIGTERM) as relay:
                await asyncio.to_thread(relay.told, "deposit", state="accepted")
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
            with life(settings, signal.SIGTERM) as relay:
                assert (await send(relay.port, capsule(1))).status == 202
                assert (await fetch(relay.port, capsule(2))).status == 202
            assert traces(1, place.files())
            assert len(gateway.at("/v1/fetch")) == 1

    asyncio.run(main())
