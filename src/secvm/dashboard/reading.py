"""Reader: a coordinator's public files over HTTP, with limits: on each answer, on the time, on nothing else.

A file that has not changed costs a few hundred bytes (``If-None-Match``). Redirects are not followed: a page that is
sent elsewhere would show somebody else's experiments. Nothing is sent but what is asked for: no cookie, no key.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from secvm.errors import UnreachableError
from secvm.runtime.http.client import HttpAnswer, HttpClient, SlowAnswerError, checked_url

#: A tag is a short text in quotation marks; anything else is not sent back.
_MOST_TAG = 200


class Reader:
    """Asks one coordinator. Use it in an ``async with``."""

    def __init__(self, url: str, *, answer_s: float = 30.0, connections: int = 4) -> None:
        """``answer_s``: for one answer, all of it."""
        self.url = checked_url(url)
        self._client = HttpClient(answer_s=answer_s, connections=connections)
        #: The tag of what was read last at a path, and those bytes' meaning is kept by whoever asked.
        self._tags: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

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
        answer = await self.pass_on("GET", path, {} if tag is None else {"if-none-match": tag}, None, most=most)
        if answer.status == 304 and tag is not None:
            return None
        if answer.status == 404:
            self._tags.pop(path, None)
            raise FileNotFoundError(path)
        if answer.status != 200:
            raise UnreachableError(f"the coordinator answers {answer.status} where a public file should be")
        new = answer.headers.get("etag", "")
        if 2 < len(new) <= _MOST_TAG and new.startswith('"') and new.isascii() and new.isprintable():
            self._tags[path] = new
        else:
            self._tags.pop(path, None)
        return answer.content

    async def pass_on(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, *, most: int
    ) -> HttpAnswer:
        """Ask for something, with these header fields and no others.

        Raises
        ------
        UnreachableError
            There is no answer, or a longer one than it may be.
        """
        try:
            answer = await self._client.ask(self.url + path, most=most, method=method, headers=headers, body=body)
        except SlowAnswerError:
            raise UnreachableError("the coordinator does not answer in time") from None
        except UnreachableError:
            raise UnreachableError("the coordinator cannot be reached") from None
        if len(answer.content) > most:
            raise UnreachableError("the coordinator answers more than it should")
        return answer
