"""Visitors that begin a request and never end it: the page lets them go, and nobody else."""

import asyncio

import aiohttp
import pytest
from yarl import URL

from tests.unit.dashboard.office import Listening, Office, office

#: For one request, in these tests; and how long a test waits before it says that nobody was let go.
REQUEST_S, PATIENCE_S = 0.2, 5.0
WHOLE = b"GET /api/now HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
POST = b"POST /api/plan HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"


async def is_let_go(here: Office, *beginning: bytes, drip: bytes) -> bool:
    """Whether the page closes on somebody who says this much, and then a byte now and then."""
    url = URL(here.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    try:
        for part in beginning:
            writer.write(part)
            if part == WHOLE:
                await reader.readuntil(b"\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    async with asyncio.timeout(REQUEST_S / 4):
                        if not await reader.read(2**16):
                            return True
                except TimeoutError:
                    writer.write(drip)
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("beginning", "drip"),
    [
        ((), b""),
        ((WHOLE[:20],), b""),
        ((WHOLE[:-2],), b"x: y\r\n"),
        ((WHOLE, b"\r\n"), b"\r\n"),
        ((WHOLE, WHOLE[:-2]), b"x: y\r\n"),
        ((POST, b"{"), b" "),
    ],
    ids=["nothing", "a piece of a head", "a head that drips", "blank lines", "a second head", "a body that drips"],
)
async def test_repro_half_a_request_is_not_held_for_ever(beginning: tuple[bytes, ...], drip: bytes) -> None:
    async with office(request_s=REQUEST_S) as here:
        assert await is_let_go(here, *beginning, drip=drip)


async def test_who_has_asked_may_listen_for_as_long_as_it_likes() -> None:
    async with (
        office(request_s=REQUEST_S) as here,
        aiohttp.ClientSession() as session,
        session.get(here.url + "/api/events") as answer,
    ):
        assert await is_let_go(here, drip=b"")
        here.coordinator.show_experiment(here.document, 4)
        await Listening(answer).until(lambda events: any("rounds" in str(told) for _, _, told in events))
