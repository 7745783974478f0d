"""Faults that were found by looking for them: epochs larger than the coordinator takes, and floods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from secvm.errors import BadInputError
from secvm.protocol.problems import PROBLEMS
from secvm.testing.gateway import FakeGateway, GatewayRequest, Reply
from tests.unit.relay.helpers import DEPOSIT_MS, PERIOD_MS, Place, behind, capsule, running, send, taken_apart

DUE = 10 * PERIOD_MS + DEPOSIT_MS
LARGE = 4000


async def test_repro_no_more_is_accepted_in_an_epoch_than_can_be_deposited(tmp_path: Path) -> None:
    most = 2**16

    def answer(seen: GatewayRequest) -> Reply:
        return Reply(413 if len(seen.body) > most else 202)

    place = Place(tmp_path)
    changes: dict[str, Any] = {"limits": {"deposit_bytes": most, "package_bytes": 4096}}
    async with FakeGateway(answer) as gateway:
        async with running(place, gateway.url, **changes) as relay:
            statuses = [(await send(relay.port, capsule(number, LARGE))).status for number in range(10)]
        # A restart knows how much there is.
        async with running(place, gateway.url, **changes) as relay:
            statuses += [(await send(relay.port, capsule(number, LARGE))).status for number in range(10, 20)]
            # What is here already is here.
            assert (await send(relay.port, capsule(0, LARGE))).status == 202
            place.go_to(DUE)
            (deposit, *_) = await gateway.wait_for("/v1/deposit")
            await relay.log.wait_for('"state":"accepted","epoch":10')
        assert statuses == [202] * 15 + [503] * 5
        assert len(taken_apart(deposit.body)[1]) == 15


async def test_repro_a_package_takes_no_more_room_than_a_package_needs(tmp_path: Path) -> None:
    async with behind(Place(tmp_path)) as (_gateway, relay):
        # As a device makes them: 131 bytes.
        assert [(await send(relay.port, capsule(size, size))).status for size in (131, 196)] == [202, 202]
        refused = await send(relay.port, capsule(1, 257))
        assert (refused.status, refused.body) == (413, PROBLEMS["too-large"].to_bytes())
        # A fetch is longer, and no room is kept for it.
        assert (await send(relay.port, capsule(2, 1000), path="/fetch")).status == 202


async def test_repro_a_capsule_that_no_deposit_could_bring_to_its_key_is_not_accepted(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with behind(place) as (gateway, relay):
        assert (await send(relay.port, capsule(1, epoch=10))).status == 202
        # The client's clock is ahead: it shall come again.
        assert (await send(relay.port, capsule(2, epoch=11))).status == 503
        place.go_to(DUE)
        late = await send(relay.port, capsule(3, epoch=10))
        assert (late.status, late.body) == (410, PROBLEMS["stale"].to_bytes())
        assert (await send(relay.port, capsule(2, epoch=11))).status == 202
        (deposit,) = await gateway.wait_for("/v1/deposit")
        assert taken_apart(deposit.body)[1] == [capsule(1)]


async def test_repro_a_store_is_not_used_with_another_grid(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with FakeGateway() as gateway:
        async with running(place, gateway.url):
            pass
        changed: dict[str, Any] = {"epochs": {"period_s": PERIOD_MS // 1000 + 1}}
        with pytest.raises(BadInputError, match=r"epochs\.period_s"):
            async with running(place, gateway.url, **changed):
                pass
        # Nothing has changed, and nobody holds the file.
        async with running(place, gateway.url) as relay:
            assert (await send(relay.port, capsule(1))).status == 202
