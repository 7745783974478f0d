"""What the HTTP client is to our parties, over the simulated network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import aiohttp

from secvm.errors import UnreachableError
from secvm.runtime.http.client import HttpAnswer, HttpClient, SlowAnswerError
from secvm.runtime.http.server import HttpRequest
from secvm_lab.simulation.machines.network import Network

#: Without another word of it, a request is given up after so long.
TIMEOUT_S = 30.0


class Session(HttpClient):
    """Asks over the simulated network."""

    def __init__(self, network: Network, link: str, date: Callable[[], str | None] = lambda: None) -> None:
        """``date``: what servers say in their field of that name."""
        super().__init__(answer_s=TIMEOUT_S)
        self.network, self.link, self.date = network, link, date

    async def ask(
        self,
        url: str,
        *,
        most: int,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        answer_s: float | None = None,
    ) -> HttpAnswer:
        parts = urlsplit(url)
        lower = {name.lower(): value for name, value in (headers or {}).items()}
        request = HttpRequest(method, parts.path or "/", parts.query, lower, body or b"", "127.0.0.1")
        link = "fetch" if self.link == "package" and method == "GET" else self.link
        try:
            answer = await self.network.exchange(link, request, parts.hostname or "", answer_s or TIMEOUT_S)
        except aiohttp.ServerTimeoutError:
            raise SlowAnswerError from None
        except aiohttp.ClientError:
            raise UnreachableError from None
        told = {name.title(): value for name, value in answer.headers}
        told["Content-Type"] = answer.media_type
        date = self.date()
        if date is not None:
            told["Date"] = date
        return HttpAnswer(answer.status, answer.body[: most + 1], told)
