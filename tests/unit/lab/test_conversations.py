"""Servers of tests end without leaving connections open, whenever somebody came."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from secvm.runtime.service import stop_listening
from secvm_lab.rigs.conversations import Conversations


@pytest.mark.parametrize("turns", range(8))
def test_repro_a_conversation_ended_before_its_first_step_left_its_connection_open(turns: int) -> None:
    async def main() -> None:
        conversations = Conversations()

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await reader.read()
            finally:
                writer.close()

        def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            conversations.begin(talk(reader, writer), writer)

        server = await asyncio.start_server(taken, "127.0.0.1", 0)
        with socket.create_connection(server.sockets[0].getsockname()) as client:
            for _ in range(turns):
                await asyncio.sleep(0)
            await stop_listening(server)
            await conversations.end()
            client.setblocking(False)
            # Only a socket that stayed open would not tell the other side of the end.
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.get_running_loop().sock_recv(client, 1) == b""

    asyncio.run(asyncio.wait_for(main(), 20))


def test_what_is_still_being_written_does_not_keep_a_connection_open() -> None:
    async def main() -> None:
        conversations = Conversations()

        async def talk(writer: asyncio.StreamWriter) -> None:
            try:
                writer.write(bytes(2**24))
                await writer.drain()
            finally:
                writer.close()

        def taken(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            conversations.begin(talk(writer), writer)

        server = await asyncio.start_server(taken, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        await reader.readexactly(1)
        await stop_listening(server)
        await conversations.end()
        with contextlib.suppress(ConnectionResetError):
            assert len(await reader.read()) < 2**24 - 1
        writer.close()

    asyncio.run(asyncio.wait_for(main(), 20))
