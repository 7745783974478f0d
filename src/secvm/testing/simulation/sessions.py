"""What aiohttp's session is to our clients, over the simulated network: all that they use of it, and no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp

from secvm.runtime.http_server import Request, Response
from secvm.testing.simulation.network import Network

#: Without another word of it, a request is given up after so long.
TIMEOUT_S = 30.0


class _Content:
    """The content of an answer, to be read in pieces."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def read(self, most: int) -> bytes:
        taken, self._data = self._data[:most], self._data[most:]
        return taken

    async def iter_any(self) -> Any:
        if self._data:
            yield self._data

    async def iter_chunked(self, _size: int) -> Any:
        if self._data:
            yield self._data


class _Answer:
    """As much of aiohttp's response as our clients look at."""

    def __init__(self, answer: Response, date: str | None) -> None:
        self.status = answer.status
        self.content_type = answer.media_type.partition(";")[0] or "application/octet-stream"
        self.content_length = len(answer.body)
        self.content = _Content(answer.body)
        self.headers = {name.title(): value for name, value in answer.headers}
        self.headers["content-type"] = answer.media_type
        if date is not None:
            self.headers["Date"] = date


@dataclass
class _Exchange:
    """A request that is made when its block is entered."""

    session: Session
    request: Request
    host: str
    timeout_s: float

    async def __aenter__(self) -> _Answer:
        session = self.session
        link = "fetch" if session.link == "package" and self.request.method == "GET" else session.link
        answer = await session.network.exchange(link, self.request, self.host, self.timeout_s)
        return _Answer(answer, session.date())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Session:
    """What aiohttp's session is to our clients: all that they use of it."""

    def __init__(self, network: Network, link: str, date: Callable[[], str | None] = lambda: None) -> None:
        """``date``: what servers say in their field of that name."""
        self.network, self.link, self.date = network, link, date

    def post(self, url: object, *, data: bytes, headers: dict[str, str], **_unused: object) -> _Exchange:
        return self.request("POST", url, data=data, headers=headers)

    def get(self, url: object, **_unused: object) -> _Exchange:
        return self.request("GET", url, data=None, headers={})

    def request(
        self,
        method: str,
        url: object,
        *,
        data: bytes | None,
        headers: dict[str, str],
        timeout: aiohttp.ClientTimeout | None = None,
        **_unused: object,
    ) -> _Exchange:
        parts = urlsplit(str(url))
        lower = {name.lower(): value for name, value in headers.items()}
        request = Request(method, parts.path or "/", parts.query, lower, data or b"", "127.0.0.1")
        timeout_s = TIMEOUT_S if timeout is None or timeout.total is None else timeout.total
        return _Exchange(self, request, parts.hostname or "", timeout_s)

    async def close(self) -> None:
        """Nothing to let go of."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


__all__ = ["Session"]
