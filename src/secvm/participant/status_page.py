"""A host's counts over HTTP, for tests: one JSON object, on this machine only, and only where a setting asks for it.

Small enough to be read in one look, because a device installs no HTTP server. It tells how many, never who or what.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
from collections.abc import Callable
from typing import Any

from secvm.errors import BadInputError

#: A request that says more is not one of ours.
_MOST_BYTES = 4096
_PATIENCE_S = 5.0


async def serve_status(listen: str, status: Callable[[], dict[str, Any]]) -> asyncio.Server:
    """Answer every request with the counts. ``listen`` is an address of this machine and a port."""
    host, _, port = listen.rpartition(":")
    try:
        local = ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        local = False
    if not local or not port.isdecimal() or int(port) > 65_535:
        raise BadInputError('the status is shown on this machine only: listen = "127.0.0.1:PORT"')

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_PATIENCE_S):
                await reader.readuntil(b"\r\n\r\n")
                body = json.dumps(status(), sort_keys=True).encode()
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
                writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
                await writer.drain()
        writer.close()

    return await asyncio.start_server(answer, host.strip("[]"), int(port), limit=_MOST_BYTES)
