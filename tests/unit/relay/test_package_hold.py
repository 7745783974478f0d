"""A relay that holds packages: kept on the relay's disk, deposited once, sorted, with a signed count; or destroyed."""

from __future__ import annotations

import asyncio
import io
import ipaddress
import os
from pathlib import Path
from typing import Any

import pytest

from secvm.crypto.signing import SigningKey, verify
from secvm.protocol.documents.manifest import RelayCount
from secvm.protocol.problems import PROBLEMS
from secvm.protocol.version import RELAY_COUNT_TYPE
from secvm.relay.admission import Admission, Allowance, Epochs
from secvm.relay.deposits import Depositor, make_deposit
from secvm.relay.gateway import GatewayClient
from secvm.relay.refusals import plain
from secvm.relay.store import Arrival, Holding, RoundStore
from secvm.runtime.http.server import HttpResponse
from secvm.runtime.logs import Log
from secvm.runtime.metrics import Metrics
from secvm.testing.clock import ManualClock
from secvm.testing.gateway import FakeGateway, Reply
from tests.unit.relay.helpers import (
    DEPOSIT_MS,
    PERIOD_MS,
    TOKEN,
    Place,
    Running,
    behind,
    capsule,
    running,
    send,
    taken_apart,
    traces,
)

EPOCH = 10
DUE = EPOCH * PERIOD_MS + DEPOSIT_MS


async def told(relay: Running, state: str, epoch: int = EPOCH) -> None:
    """Return when the relay's log has said that this became of a deposit."""
    await relay.log.wait_for(f'"event":"deposit","state":"{state}","epoch":{epoch}')


async def test_an_epoch_is_deposited_once_when_it_is_due_and_then_gone(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with behind(place) as (gateway, relay):
        sources = [f"127.0.0.{number % 3 + 1}" for number in range(90)]
        answers = await asyncio.gather(
            *(send(relay.port, capsule(number), source=source) for number, source in enumerate(sources))
        )
        assert {(one.status, one.body) for one in answers} == {(202, b"")}
        # Retries, one of them from elsewhere, change nothing.
        assert (await send(relay.port, capsule(0))).status == 202
        assert (await send(relay.port, capsule(0), source="127.0.0.9")).status == 202
        there = place.files()
        assert all(traces(number, there) for number in range(90))
        place.go_to(DUE - 1)
        assert (await send(relay.port, capsule(90))).status == 202
        assert gateway.seen == []
        place.go_to(DUE)
        # What comes now belongs to the next epoch, deposited or not.
        assert (await send(relay.port, capsule(91, epoch=EPOCH + 1))).status == 202
        (deposit,) = await gateway.wait_for("/v1/deposit")
        await told(relay, "accepted")

        envelope, capsules = taken_apart(deposit.body)
        count = RelayCount.from_bytes(verify(envelope, purpose=RELAY_COUNT_TYPE, keys=[place.key.public]))
        assert count == RelayCount(opens_at=EPOCH * PERIOD_MS, clients=3, capsules=91)
        assert sorted(capsules) == [capsule(number) for number in range(91)]
        assert capsules != sorted(capsules)
        assert deposit.fields["authorization"] == f"Bearer {TOKEN}"
        assert set(deposit.fields) == {"host", "content-type", "content-length", "authorization"}
        left = place.files()
        assert not any(traces(number, left) for number in range(91))
        assert traces(91, left)
    assert len(gateway.seen) == 1


async def test_a_deposit_is_sent_again_with_the_same_bytes_until_it_is_taken_over_restarts_too(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with FakeGateway(lambda _seen: Reply(503)) as gateway:
        async with running(place, gateway.url) as relay:
            await asyncio.gather(*(send(relay.port, capsule(number)) for number in range(50)))
            place.go_to(DUE)
            await gateway.wait_for("/v1/deposit", 2)
        gateway.answer = lambda _seen: Reply(0, hang_up=True)
        before = len(gateway.seen)
        async with running(place, gateway.url) as relay:
            await gateway.wait_for("/v1/deposit", before + 2)
            gateway.answer = lambda _seen: Reply(202)
            await told(relay, "accepted")
        assert len({seen.body for seen in gateway.seen}) == 1
        assert not any(traces(number, place.files()) for number in range(50))


async def test_a_deposit_that_comes_too_late_is_destroyed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    stale = PROBLEMS["stale"]
    async with behind(place, Reply(stale.status, stale.to_bytes())) as (gateway, relay):
        await send(relay.port, capsule(1))
        place.go_to(DUE)
        await told(relay, "stale")
        assert not traces(1, place.files())
        # A coordinator that is away for days: its capsules are not kept for ever.
        gateway.answer = lambda _seen: Reply(503)
        await send(relay.port, capsule(2, epoch=EPOCH + 1))
        place.go_to(DUE + PERIOD_MS)
        await told(relay, "failed", EPOCH + 1)
        assert traces(2, place.files())
        place.go_to(DUE + 4 * PERIOD_MS)
        before = len(gateway.seen)
        await gateway.wait_for("/v1/deposit", before + 2)
        assert traces(2, place.files())
        # The clock has said so for a period.
        place.go_to(DUE + 5 * PERIOD_MS)
        await told(relay, "given-up", EPOCH + 1)
        assert not traces(2, place.files())


async def test_repro_a_clock_that_is_ahead_destroys_no_deposit_that_the_coordinator_takes(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with behind(place) as (gateway, relay):
        assert (await send(relay.port, capsule(1))).status == 202
        place.go_to(DUE + 60 * PERIOD_MS)
        await told(relay, "accepted")
        assert taken_apart(gateway.seen[0].body)[1] == [capsule(1)]


class Nobody(GatewayClient):
    """The way to a gateway that is away."""

    async def post(self, *_arguments: object, **_named: object) -> HttpResponse:
        return plain(502)


def test_repro_a_clock_that_is_ahead_while_the_coordinator_is_away_destroys_nothing(tmp_path: Path) -> None:
    clock = ManualClock(DUE)
    store = RoundStore(tmp_path / "store.db", os.urandom)
    store.append([Arrival(EPOCH, bytes(32), b"client", capsule(1))])
    store.seal(EPOCH, lambda _clients, capsules: capsules[0])

    epochs = Epochs(0, PERIOD_MS, DEPOSIT_MS)
    admission = Admission(epochs, Allowance(1, 1, 1, 1), os.urandom)
    depositor = Depositor(
        Holding(store, admission, waiting=1, retry_after_s=1),
        epochs,
        Nobody("", timeout_s=1.0),
        clock=clock,
        steady=clock,
        key=SigningKey(bytes(32)),
        log=Log(io.StringIO(), clock, "relay"),
        metrics=Metrics("relay"),
        first_pause_s=1.0,
        timeout_s=1.0,
    )

    def sent(now: int, steady_now: int) -> bool:
        # Set, and not moved: a clock of tests does not go back by itself.
        depositor.clock, depositor.steady = ManualClock(now), ManualClock(steady_now)
        return asyncio.run(depositor._sent(EPOCH))

    wrong = DUE + 60 * PERIOD_MS
    assert not sent(wrong, 0)
    assert not sent(wrong, PERIOD_MS - 1)
    # Right again in between: what was said before counts no more.
    assert not sent(DUE, PERIOD_MS)
    assert not sent(wrong, 2 * PERIOD_MS)
    assert store.deposit(EPOCH) == capsule(1)
    assert not sent(wrong, 3 * PERIOD_MS - 1)
    assert sent(wrong, 3 * PERIOD_MS)
    assert store.deposit(EPOCH) == b""
    store.close()


async def test_quota_and_clients_survive_a_restart(tmp_path: Path) -> None:
    place = Place(tmp_path)
    changes: dict[str, Any] = {"clients": {"quota": 2}}
    async with FakeGateway() as gateway:
        async with running(place, gateway.url, **changes) as relay:
            assert [(await send(relay.port, capsule(number))).status for number in (1, 2)] == [202, 202]
            assert (await send(relay.port, capsule(3), source="127.0.0.2")).status == 202
        async with running(place, gateway.url, **changes) as relay:
            over = await send(relay.port, capsule(4))
            assert (over.status, over.body) == (429, PROBLEMS["over-quota"].to_bytes())
            assert (await send(relay.port, capsule(1))).status == 202
            place.go_to(DUE)
            (deposit,) = await gateway.wait_for("/v1/deposit")
            envelope, capsules = taken_apart(deposit.body)
            count = RelayCount.from_bytes(verify(envelope, purpose=RELAY_COUNT_TYPE, keys=[place.key.public]))
            assert count == RelayCount(opens_at=EPOCH * PERIOD_MS, clients=2, capsules=3)
            assert len(capsules) == 3


async def test_an_epoch_that_became_due_while_the_relay_was_down_is_deposited_at_its_start(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with FakeGateway() as gateway:
        async with running(place, gateway.url) as relay:
            await send(relay.port, capsule(1))
        place.go_to(DUE + 5)
        async with running(place, gateway.url) as relay:
            await told(relay, "accepted")
        assert taken_apart(gateway.seen[0].body)[1] == [capsule(1)]


async def test_no_file_of_the_store_ever_has_an_address(tmp_path: Path) -> None:
    place = Place(tmp_path)
    sources = ["127.77.66.55", "127.12.34.56"]
    spellings = [spelling for one in sources for spelling in (one.encode(), ipaddress.ip_address(one).packed)]

    def check() -> None:
        # Four bytes are found by chance among some kilobytes of random ones once in a million runs.
        found = place.files()
        assert not any(spelling in found for spelling in spellings)

    async with FakeGateway(lambda _seen: Reply(503)) as gateway:
        async with running(place, gateway.url) as relay:
            for number in range(40):
                assert (await send(relay.port, capsule(number), source=sources[number % 2])).status == 202
                check()
            place.go_to(DUE)
            await gateway.wait_for("/v1/deposit")
            check()
            gateway.answer = lambda _seen: Reply(202)
            await told(relay, "accepted")
            check()
        check()
        assert not any(one in relay.log.getvalue() for one in sources)


async def test_a_store_that_cannot_write_is_503_and_costs_no_quota(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with behind(place, clients={"quota": 1}) as (_gateway, relay):
        store = relay.relay._store
        assert store is not None
        store._db.execute("PRAGMA query_only=ON")
        refused = await send(relay.port, capsule(1))
        assert (refused.status, refused.body) == (503, PROBLEMS["try-later"].to_bytes())
        store._db.execute("PRAGMA query_only=OFF")
        assert (await send(relay.port, capsule(2))).status == 202
        assert (await send(relay.port, capsule(1))).status == 429


def test_a_relay_that_cannot_deposit_any_more_stops_taking_capsules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_store: RoundStore) -> list[int]:
        raise RuntimeError("a fault of ours")

    async def main() -> None:
        place = Place(tmp_path)
        async with behind(place) as (_gateway, relay):
            assert (await send(relay.port, capsule(1))).status == 202
            monkeypatch.setattr(RoundStore, "begun", broken)
            place.go_to(DUE)
            await relay.log.wait_for('"event":"draining"')

    with pytest.raises(ExceptionGroup):
        asyncio.run(main())
    assert traces(1, Place.files_in(tmp_path))


async def test_a_disk_that_is_full_at_the_deposit_moment_only_delays_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with behind(place) as (gateway, relay):
        assert (await send(relay.port, capsule(1))).status == 202
        store = relay.relay._store
        assert store is not None
        store._db.execute("PRAGMA query_only=ON")
        place.go_to(DUE)
        await told(relay, "failed")
        assert gateway.seen == []
        store._db.execute("PRAGMA query_only=OFF")
        await told(relay, "accepted")
        assert taken_apart(gateway.seen[0].body)[1] == [capsule(1)]


def test_without_capsules_there_is_no_deposit() -> None:
    assert make_deposit(5, 3, [], key=SigningKey(bytes(32))) is None
