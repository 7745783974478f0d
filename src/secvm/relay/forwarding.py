"""The way to the gateway: media type and content go out, status, media type and content come back, and nothing else.

All requests share one pool of connections, whoever's they are: a connection says nothing about a client. No header
field is made from anything a client sent; what goes out is host, content-type, content-length, and the relay's own
token. What fails on this hop is an answer too: 502 and 504, as HTTP has them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Self

from secvm.crypto.sealing.oblivious import REQUEST_MEDIA_TYPE
from secvm.errors import UnreachableError
from secvm.relay.refusals import plain
from secvm.runtime.http.client import HttpClient, SlowAnswerError
from secvm.runtime.http.server import HttpResponse

FETCH_PATH, KEYS_PATH, DEPOSIT_PATH = "/v1/fetch", "/v1/keys", "/v1/deposit"
_MOST_CONNECTIONS = 256
#: Longer media types are nobody's.
_MOST_MEDIA_TYPE = 100

Answer = HttpResponse | Awaitable[HttpResponse]


class GatewayClient:
    """Speaks to one gateway. To be used as ``async with``."""

    def __init__(
        self, url: str, *, token: str | None = None, timeout_s: float = 30.0, answer_bytes: int = 2**23
    ) -> None:
        self._url = url
        self._token = token
        self._answer_bytes = answer_bytes
        self._client = HttpClient(answer_s=timeout_s, connections=_MOST_CONNECTIONS)

    def __repr__(self) -> str:
        return "GatewayClient(...)"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    async def post(self, path: str, body: bytes, media_type: str, *, timeout_s: float | None = None) -> HttpResponse:
        """Hand something on; the relay says by its token who itself is, and not more."""
        headers = {"content-type": media_type, "authorization": f"Bearer {self._token}"}
        return await self.ask("POST", path, body, headers, timeout_s)

    async def get(self, path: str) -> HttpResponse:
        """What is public."""
        return await self.ask("GET", path, None, {})

    async def ask(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], timeout_s: float | None = None
    ) -> HttpResponse:
        """One request with these header fields and no others; what fails on the way is an answer too."""
        most = self._answer_bytes
        try:
            answer = await self._client.ask(
                self._url + path, most=most, method=method, headers=headers, body=body, answer_s=timeout_s
            )
        except SlowAnswerError:
            return plain(504)
        except UnreachableError:
            return plain(502)
        if len(answer.content) > most:
            return plain(502)
        return HttpResponse(answer.status, answer.content, answer.headers.get("Content-Type", "")[:_MOST_MEDIA_TYPE])


class Turnstile:
    """So many fetches at a time; of one client, never more than are left for all others."""

    def __init__(self, gateway: GatewayClient, limit: int, later: Callable[[], HttpResponse]) -> None:
        self._gateway = gateway
        self._left = limit
        self._later = later
        #: Under way for each client, by its name.
        self._clients: Counter[bytes] = Counter()

    def fetch(self, client: bytes, capsule: bytes) -> Answer:
        """Hand a client's fetch on and bring the answer back, or say at once that there is no room."""
        if self._clients[client] >= self._left:
            return self._later()
        # Taken here and not in the coroutine: many may be made before the first runs.
        self._left -= 1
        self._clients[client] += 1
        task = asyncio.get_running_loop().create_task(self._gateway.post(FETCH_PATH, capsule, REQUEST_MEDIA_TYPE))
        task.add_done_callback(lambda _task: self._returned(client))
        return task

    def _returned(self, client: bytes) -> None:
        self._left += 1
        # This subtraction also drops who has none left.
        self._clients -= Counter((client,))
