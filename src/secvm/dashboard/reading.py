"""Reader: a coordinator's public files over HTTP, with limits: on each answer, on the time, on nothing else.

A file that has not changed costs a few hundred bytes (``If-None-Match``). Redirects are not followed: a page that is
sent elsewhere would show somebody else's experiments. Nothing is sent but what is asked for: no cookie, no key.
"""

from __future__ import annotations

import asyncio
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import aiohttp

from secvm.errors import BadInputError, UnreachableError
from secvm.runtime.http_messages import is_loopback

_PIECE_BYTES = 2**16
#: A tag is a short text in quotation marks; anything else is not sent back.
_MOST_TAG = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered to something that may change things."""

    status: int
    media_type: str
    body: bytes


def checked_url(url: str) -> str:
    """A coordinator's address, without a slash at its end; refuses what is none."""
    try:
        parts = urllib.parse.urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = urllib.parse.urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or "@" in url:
        raise BadInputError("a coordinator's address is a URL such as https://coordinator.example")
    return url.rstrip("/")


class Reader:
    """Asks one coordinator. Use it in an ``async with``."""

    def __init__(self, url: str, *, answer_s: float = 30.0, connections: int = 4) -> None:
        """``answer_s``: for one answer, all of it."""
        self.url = checked_url(url)
        self._answer_s = answer_s
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None
        #: The tag of what was read last at a path, and those bytes' meaning is kept by whoever asked.
        self._tags: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections),
            cookie_jar=aiohttp.DummyCookieJar(),
            # A proxy of the environment is for the world outside.
            trust_env=not is_loopback(urllib.parse.urlsplit(self.url).hostname or ""),
            headers={"user-agent": "secvm-dashboard"},
            timeout=aiohttp.ClientTimeout(total=self._answer_s, connect=min(5.0, self._answer_s)),
            raise_for_status=False,
            auto_decompress=False,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def forget(self, path: str) -> None:
        """Ask for all of it the next time: what came last could not be used."""
        self._tags.pop(path, None)

    async def changed(self, path: str, *, most: int) -> bytes | None:
        """The file at this path, or None where it is as it was when it was read last.

        Raises
        ------
        FileNotFoundError
            There is none.
        UnreachableError
            It cannot be had.
        """
        tag = self._tags.get(path)
        status, headers, body = await self._ask("GET", path, {} if tag is None else {"if-none-match": tag}, most=most)
        if status == 304 and tag is not None:
            return None
        if status == 404:
            self._tags.pop(path, None)
            raise FileNotFoundError(path)
        if status != 200:
            raise UnreachableError(f"the coordinator answers {status} where a public file should be")
        new = headers.get("etag", "")
        if 2 < len(new) <= _MOST_TAG and new.startswith('"') and new.isascii() and new.isprintable():
            self._tags[path] = new
        else:
            self._tags.pop(path, None)
        return body

    async def pass_on(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, *, most: int
    ) -> Answer:
        """Ask something that is none of the public files, with these header fields and no others of the visitor's."""
        status, answered, content = await self._ask(method, path, headers, body=body, most=most)
        return Answer(status, answered.get("content-type", ""), content)

    async def _ask(
        self, method: str, path: str, headers: Mapping[str, str], *, most: int, body: bytes | None = None
    ) -> tuple[int, Mapping[str, str], bytes]:
        assert self._session is not None
        try:
            async with self._session.request(
                method,
                self.url + path,
                headers={**headers, "accept-encoding": "identity"},
                data=body,
                allow_redirects=False,
            ) as answer:
                pieces, size = [], 0
                async for piece in answer.content.iter_chunked(_PIECE_BYTES):
                    size += len(piece)
                    if size > most:
                        raise UnreachableError("the coordinator answers more than it should")
                    pieces.append(piece)
                return answer.status, answer.headers, b"".join(pieces)
        except TimeoutError:
            raise UnreachableError("the coordinator does not answer in time") from None
        except aiohttp.ClientConnectorError:
            raise UnreachableError("the coordinator cannot be reached") from None
        except (aiohttp.ClientError, OSError, ValueError, asyncio.IncompleteReadError):
            raise UnreachableError("the coordinator does not answer in HTTP as it should") from None
