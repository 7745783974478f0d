"""Longer cases of ``tests/unit/dashboard/test_page.py``."""

import asyncio

import pytest

from secvm.dashboard.events import HubLimits
from tests.unit.dashboard.office import Listening, office
from tests.unit.dashboard.test_page import listen

#: Whoever is five events behind is let go.
LIMITS = HubLimits(waiting=5, waiting_bytes=2**30)


def test_a_visitor_who_reads_nothing_is_let_go_and_others_hear_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secvm.dashboard.events.HubLimits", lambda: LIMITS)

    async def run() -> None:
        async with office(shown=3) as here:
            # Large events, so that the system's own buffers are full soon.
            many = [{"digest": f"{n:064x}", "title": "long" * 1000, "standing": "running"} for n in range(100)]
            here.coordinator.list(many)
            await here.until(lambda told: len(told["experiments"]) == 100)
            reader, writer = await asyncio.open_connection("127.0.0.1", int(here.url.rpartition(":")[2]), limit=2**10)
            writer.write(b"GET /api/events HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            await reader.readuntil(b"event: now")
            async with await listen(here) as answer:
                for number in range(40):
                    many[0]["title"] = f"{number} of these"
                    here.coordinator.list(many)
                    # A stream of its own for each, so that the test itself is quick.
                    await Listening(answer).until(
                        lambda told: told and told[-1][2].get("experiments", [{}])[0].get("title") == many[0]["title"]
                    )
            async with asyncio.timeout(30):
                rest = await reader.read()
            # It was ended in the middle, without the last piece of a whole answer.
            assert not rest.endswith(b"0\r\n\r\n")
            writer.close()

    asyncio.run(run())
