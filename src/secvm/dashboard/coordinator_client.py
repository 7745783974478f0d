"""How the page asks its coordinator: ``Reader`` for public files, ``Forwarding`` for what an operator changes.

``Forwarding`` passes on what a browser sends with the admin key, and only this:

    GET, POST  /api/admin/experiments                           all of them with their settings; a new one
    GET        /api/admin/experiments/D                         one of them
    POST       /api/admin/experiments/D/pause|resume|stop       another standing

The visitor's Authorization and body are passed on, and nothing else of the request; status and JSON come back, and
nothing else of the answer. Without an Authorization the coordinator is not even asked. Nothing of it is kept or logged.

``Reader`` has limits on the length and the time of each answer.

A file that has not changed costs a few hundred bytes (``If-None-Match``). Redirects are not followed: a page that is
sent elsewhere would show somebody else's experiments. Nothing is sent but what is asked for: no cookie, no key.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Self

from aiohttp import web

from secvm.errors import UnreachableError
from secvm.pages.serving import JSON_MEDIA_TYPE, PROBLEM_MEDIA_TYPE, problem
from secvm.runtime.http.client import HttpAnswer, HttpClient, SlowAnswerError, checked_url

#: A tag is a short text in quotation marks; anything else is not sent back.
_MOST_TAG = 200


class Reader:
    """Asks one coordinator. Use it in an ``async with``."""

    def __init__(self, url: str) -> None:
        self.url = checked_url(url)
        self._client = HttpClient(connections=4)
        #: The tag of what was read last at a path, and those bytes' meaning is kept by whoever asked.
        self._tags: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
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


PREFIX = "/api/admin/"
_ROUTES: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (re.compile(r"experiments"), ("GET", "POST")),
    (re.compile(r"experiments/[0-9a-f]{64}"), ("GET",)),
    (re.compile(r"experiments/[0-9a-f]{64}/(pause|resume|stop)"), ("POST",)),
)
#: One line that a header can carry.
_AUTHORIZATION = re.compile(r"Bearer [!-~]{1,512}", re.IGNORECASE)
_MOST_ANSWER_BYTES = 2**24


class Forwarding:
    """Between a browser and the operator's API."""

    def __init__(self, reader: Reader, changed: Callable[[], None]) -> None:
        """``changed`` is called when the coordinator has done what it was asked for."""
        self._reader, self._changed = reader, changed

    async def answer(self, request: web.BaseRequest, body: bytes | None) -> web.Response:
        """Pass one request on."""
        # As it was sent: what is written in another way is another path.
        rest = request.raw_path.partition("?")[0].removeprefix(PREFIX)
        methods = next((methods for path, methods in _ROUTES if path.fullmatch(rest)), None)
        if methods is None:
            return problem(404, "there is nothing here")
        if request.method not in methods:
            return problem(405, f"only {' and '.join(methods)} {'has' if len(methods) == 1 else 'have'} a meaning here")
        authorization = request.headers.getall("authorization", [])
        if len(authorization) != 1 or not _AUTHORIZATION.fullmatch(authorization[0]):
            return problem(401, "this needs the admin key")
        headers = {"authorization": authorization[0]}
        if body is not None:
            headers["content-type"] = JSON_MEDIA_TYPE
        try:
            passing = asyncio.ensure_future(
                self._reader.pass_on(request.method, f"/admin/{rest}", headers, body, most=_MOST_ANSWER_BYTES)
            )
            # Who closes the page meanwhile has asked for it all the same.
            answer = await asyncio.shield(passing)
        except UnreachableError as fault:
            return problem(502, str(fault))
        media_type = answer.media_type
        if media_type not in (JSON_MEDIA_TYPE, PROBLEM_MEDIA_TYPE) or not 200 <= answer.status < 600:
            return problem(502, "the coordinator answers what is no answer to this")
        if 300 <= answer.status < 400:
            return problem(502, "the coordinator sends elsewhere, and that is not followed")
        if request.method == "POST" and answer.status < 300:
            self._changed()
        return web.Response(body=answer.content, status=answer.status, content_type=media_type)
