"""The guard of tests hears of connections that stay open, and of none that its own Python leaves."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from tests import connections


def test_a_connection_that_stays_open_is_told_of_the_test_that_opened_it() -> None:
    async def main() -> None:
        server = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        _, writer = await asyncio.open_connection(*address)
        writer.close()
        await writer.wait_closed()
        server.close()

    asyncio.run(main())
    assert len(connections.left_open()) == 1


@pytest.mark.parametrize("turns", range(6))
def test_repro_a_connection_accepted_just_before_its_server_was_closed_stayed_open(turns: int) -> None:
    async def main() -> None:
        server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
        with socket.create_connection(server.sockets[0].getsockname()) as client:
            # After one of these numbers of turns the connection is accepted, and has no transport yet.
            for _ in range(turns):
                await asyncio.sleep(0)
            server.close()
            client.setblocking(False)
            # Only a socket that stayed open would not tell the other side of the end.
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.get_running_loop().sock_recv(client, 1) == b""

    asyncio.run(asyncio.wait_for(main(), 20))
    assert connections.left_open() == []
