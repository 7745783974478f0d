"""Mode interval: held for a moment, shuffled, handed on; answered when the coordinator has it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from secvm.crypto.capsules import MEDIA_TYPE, unpack
from secvm.protocol.problems import PROBLEMS
from secvm.testing.gateway import FakeGateway, Reply, Seen
from tests.unit.relay.helpers import TOKEN, Place, ask, capsule, running, send

#: An interval that does not end by itself in a test.
LONG: dict[str, Any] = {"relay": {"interval_ms": 10_000_000}}


def test_capsules_leave_together_in_another_order_and_are_answered_after_the_coordinator(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            FakeGateway() as gateway,
            # Sixty that wait are a batch: time plays no part in this test.
            running(Place(tmp_path), gateway.url, "interval", **LONG, limits={"waiting": 60}) as relay,
        ):
            gateway.open.clear()
            sent = []
            for number in range(60):
                # One after the other, so that the order of arrival is known.
                sent.append(asyncio.ensure_future(send(relay.port, capsule(number), headers={"cookie": "who=ann"})))
                await asyncio.sleep(0)
            (batch,) = await gateway.wait_for("/v1/batch")
            assert not any(one.done() for one in sent)
            gateway.open.set()
            told = await asyncio.gather(*sent)
            assert {(one.status, one.body) for one in told} == {(202, b"")}
            host = gateway.url.removeprefix("http://")
            assert batch.fields == {
                "host": host,
                "content-type": MEDIA_TYPE,
                "content-length": str(len(batch.body)),
                "authorization": f"Bearer {TOKEN}",
            }
            came = unpack(batch.body)
            assert sorted(came) == [capsule(number) for number in range(60)]
            assert came != sorted(came)

    asyncio.run(main())


@pytest.mark.parametrize("reply", [Reply(503), Reply(401), Reply(410), Reply(0, hang_up=True)])
def test_what_the_coordinator_does_not_take_is_told_to_each_device_and_may_come_again(
    tmp_path: Path, reply: Reply
) -> None:
    async def main() -> None:
        async with (
            FakeGateway(lambda _seen: reply) as gateway,
            running(Place(tmp_path), gateway.url, "interval", clients={"quota": 3}) as relay,
        ):
            told = await asyncio.gather(*(send(relay.port, capsule(number)) for number in range(3)))
            assert {(one.status, one.fields["retry-after"]) for one in told} == {(503, "5")}
            assert told[0].body == PROBLEMS["try-later"].to_bytes()
            gateway.answer = lambda _seen: Reply(202)
            told = await asyncio.gather(*(send(relay.port, capsule(number)) for number in range(3)))
            assert {one.status for one in told} == {202}
            assert (await send(relay.port, capsule(4))).status == 429

    asyncio.run(main())


def test_the_queue_is_bounded_and_a_retry_of_what_waits_takes_no_place(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            FakeGateway() as gateway,
            running(Place(tmp_path), gateway.url, "interval", **LONG, limits={"waiting": 2}) as relay,
        ):
            gateway.open.clear()
            waiting = [asyncio.ensure_future(send(relay.port, capsule(number))) for number in range(2)]
            await gateway.wait_for("/v1/batch")
            again = asyncio.ensure_future(send(relay.port, capsule(0), source="127.0.0.2"))
            assert (await send(relay.port, capsule(5))).status == 503
            gateway.open.set()
            assert [one.status for one in await asyncio.gather(*waiting, again)] == [202, 202, 202]
            (batch,) = gateway.at("/v1/batch")
            assert len(unpack(batch.body)) == 2

    asyncio.run(main())


def test_stop_hands_on_what_is_held(tmp_path: Path) -> None:
    async def main() -> None:
        async with FakeGateway() as gateway:
            async with running(Place(tmp_path), gateway.url, "interval", **LONG) as relay:
                held = [asyncio.ensure_future(send(relay.port, capsule(number))) for number in range(5)]
                while b'"capsule"} 5.0' not in (await ask(relay.port, "GET", "/metrics")).body:
                    pass
            assert [one.status for one in await asyncio.gather(*held)] == [202] * 5
            assert len(unpack(gateway.at("/v1/batch")[0].body)) == 5

    asyncio.run(main())


def test_repro_a_capsule_of_an_epoch_that_was_over_was_acknowledged_with_others(tmp_path: Path) -> None:
    """The coordinator drops it from a batch and takes the rest; the relay told every device that it was taken."""

    def over(seen: Seen) -> Reply:
        left = [one for one in unpack(seen.body) if one[0] == 11]
        return Reply(202 if left else 410)

    async def main() -> None:
        async with (
            FakeGateway(over) as gateway,
            running(Place(tmp_path), gateway.url, "interval", **LONG, limits={"waiting": 4}) as relay,
        ):
            capsules = [capsule(number, epoch=10 + number % 2) for number in range(4)]
            told = await asyncio.gather(*(send(relay.port, one) for one in capsules))
            assert [one.status for one in told] == [503, 202, 503, 202]

    asyncio.run(main())
