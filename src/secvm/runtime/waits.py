"""Waiting for whatever comes first, and for the end of listening."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any


async def any_of(*waits: Awaitable[Any]) -> None:
    """Return when the first is done, however it went, and end the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end_all(*tasks)


async def end_all(*tasks: asyncio.Future[Any]) -> None:
    """Cancel what is not done, and return when all is; nobody hears how it ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def stop_listening(server: asyncio.Server) -> None:
    """Close a server so that connections which were accepted just now still get their transport.

    Until Python 3.12, asyncio's server refuses a connection that it accepted in the loop's last turn and is to be given
    its transport in the next, after the server was closed: an assertion fails where nobody hears it, and the socket
    stays open. So nothing more is accepted first, then what was accepted has a turn for its transport and one in which
    its protocol hears of it, then the server is closed.
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    for _ in range(2):
        await asyncio.sleep(0)
    server.close()
