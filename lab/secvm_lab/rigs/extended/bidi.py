"""WebDriver BiDi, as Firefox speaks it on a port of its own: questions and events in JSON over one WebSocket.

Plain sockets: while Playwright runs, its thread has an event loop, and a second one is not to be had there.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import struct
from typing import Any

_TEXT, _CLOSED = 1, 8
_LAST = _MASKED = 0x80
_PATIENCE_S = 60.0


class BiDiError(Exception):
    """The browser refused a command."""


class BiDi:
    """One session with one browser."""

    def __init__(self, port: int) -> None:
        self._asked = 0
        #: What the browser told of itself, the oldest first.
        self.events: list[dict[str, Any]] = []
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S)
        self._stream = self._socket.makefile("rb")
        key = base64.b64encode(os.urandom(16)).decode()
        upgrade = f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13"
        self._socket.sendall(f"GET /session HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{upgrade}\r\n\r\n".encode())
        if b" 101 " not in self._stream.readline():
            raise BiDiError("the browser has no WebDriver BiDi on this port")
        while self._stream.readline().strip():
            pass
        self.version: str = self.ask("session.new", capabilities={})["capabilities"]["browserVersion"]

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of one command; what is told in the meantime is kept in ``events``."""
        self._asked += 1
        self._send(json.dumps({"id": self._asked, "method": method, "params": parameters}).encode())
        while True:
            told = json.loads(self._message())
            if told.get("id") == self._asked:
                if told["type"] == "error":
                    raise BiDiError(f"{method}: {told['error']}: {told['message']}")
                result: dict[str, Any] = told["result"]
                return result
            self.events.append(told)

    def evaluate(self, context: str, script: str) -> Any:
        """The value of an expression in a page, by way of JSON."""
        asked = f"Promise.resolve({script}).then((value) => JSON.stringify(value ?? null))"
        told = self.ask("script.evaluate", expression=asked, target={"context": context}, awaitPromise=True)
        if told["type"] == "exception":
            raise BiDiError(told["exceptionDetails"]["text"])
        return json.loads(told["result"]["value"])

    def close(self) -> None:
        """Let go of the browser, which ends the session."""
        with contextlib.suppress(OSError):
            self._stream.close()
            self._socket.close()

    def _send(self, data: bytes) -> None:
        size = len(data)
        if size < 126:
            length = bytes([_MASKED | size])
        elif size < 1 << 16:
            length = struct.pack(">BH", _MASKED | 126, size)
        else:
            length = struct.pack(">BQ", _MASKED | 127, size)
        # A client masks what it sends (RFC 6455 §5.3), and Firefox closes where the mask is zero.
        mask = b"mask"
        masked = bytes(one ^ mask[place % 4] for place, one in enumerate(data))
        self._socket.sendall(bytes([_LAST | _TEXT]) + length + mask + masked)

    def _message(self) -> bytes:
        pieces = []
        while True:
            first, size = self._read(2)
            if size == 126:
                (size,) = struct.unpack(">H", self._read(2))
            elif size == 127:
                (size,) = struct.unpack(">Q", self._read(8))
            data = self._read(size)
            if first & 0x0F == _CLOSED:
                raise BiDiError("the browser has ended the session")
            if first & 0x0F <= _TEXT:
                pieces.append(data)
                if first & _LAST:
                    return b"".join(pieces)

    def _read(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise BiDiError("the browser is gone")
        return data
