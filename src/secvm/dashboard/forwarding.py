"""The operator's changes, passed on to the coordinator by whoever has the admin key; this page has none.

    GET, POST  /api/admin/experiments                           all of them with their settings; a new one
    GET        /api/admin/experiments/D                         one of them
    POST       /api/admin/experiments/D/pause|resume|stop       another standing

The visitor's Authorization and body are passed on, and nothing else of the request; status and JSON come back, and
nothing else of the answer. Without an Authorization the coordinator is not even asked. Nothing of it is kept or logged.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from aiohttp import web

from secvm.dashboard.reading import Reader
from secvm.errors import UnreachableError
from secvm.pages.serving import JSON_MEDIA_TYPE, PROBLEM_MEDIA_TYPE, problem

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
        told = request.headers.getall("authorization", [])
        if len(told) != 1 or not _AUTHORIZATION.fullmatch(told[0]):
            return problem(401, "this needs the admin key")
        headers = {"authorization": told[0]}
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
