"""Connections that a test leaves open, told of the test that left them.

Python's own warning of an unclosed connection comes when the memory is collected, perhaps many tests later, and is
raised in whatever test runs then. ``watch`` looks when an event loop is closed instead.
"""

from __future__ import annotations

import asyncio
import socket
import weakref
from asyncio import selector_events
from typing import Any

#: What was found open since the last look: addresses of each connection.
_left_open: list[str] = []
_transports: weakref.WeakSet[Any] = weakref.WeakSet()


def watch() -> None:
    """Look at every event loop of this process from now on, whenever one is closed."""
    base: Any = selector_events.BaseSelectorEventLoop
    transport: Any = selector_events._SelectorTransport  # type: ignore[attr-defined]  # no public name for it
    accept, close, begin = base._accept_connection2, base.close, transport.__init__

    async def accept_unless_closed(
        loop: Any,
        factory: Any,
        accepted: socket.socket,
        extra: Any,
        context: Any = None,
        server: Any = None,
        *rest: Any,
    ) -> None:
        # Until Python 3.12 a connection that is accepted in the last turn before its server is closed gets a transport
        # that fails an assertion, and stays open for ever. Servers of ours stop with stop_listening; aiohttp's do not.
        if server is not None and not server.sockets:
            accepted.close()
        else:
            await accept(loop, factory, accepted, extra, context, server, *rest)

    def remember(made: Any, *arguments: Any, **named: Any) -> None:
        begin(made, *arguments, **named)
        _transports.add(made)

    def close_and_look(loop: asyncio.AbstractEventLoop) -> None:
        for left in [one for one in _transports if one._loop is loop and one._sock is not None]:
            _left_open.append(f"{left.get_extra_info('sockname')} to {left.get_extra_info('peername')}")
            left._sock.close()
            # Neither the transport nor its writer says it again.
            left._sock, left._closing = None, True
        close(loop)

    base._accept_connection2, base.close, transport.__init__ = accept_unless_closed, close_and_look, remember


def left_open() -> list[str]:
    """Connections found open since the last call."""
    found = list(_left_open)
    _left_open.clear()
    return found
