"""Answers of the page: JSON, shortened where it is worth it, and refusals as problems (RFC 9457)."""

from __future__ import annotations

import asyncio
import gzip
import http

import orjson
from starlette.requests import Request
from starlette.responses import Response

PROBLEM_MEDIA_TYPE = "application/problem+json"
JSON_MEDIA_TYPE = "application/json"
#: Below, gzip saves no packet on the wire.
_WORTH_BYTES = 1400
#: From here on it takes a while: in a thread.
_LARGE_BYTES = 2**18


def problem(status: int, detail: str) -> Response:
    """A refusal, with one sentence for whoever asked."""
    try:
        title = http.HTTPStatus(status).phrase
    except ValueError:
        title = "Refused"
    content = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return Response(orjson.dumps(content), status, media_type=PROBLEM_MEDIA_TYPE)


async def as_json(request: Request, content: object) -> Response:
    """An answer in JSON."""
    data = orjson.dumps(content)
    headers = {"vary": "accept-encoding"}
    if len(data) >= _WORTH_BYTES and takes_gzip(request):
        headers["content-encoding"] = "gzip"
        # Quick rather than small: it is made for one visitor. Nothing secret is in it, so its length tells nothing.
        data = await asyncio.to_thread(gzip.compress, data, 1) if len(data) > _LARGE_BYTES else gzip.compress(data, 1)
    return Response(data, media_type=JSON_MEDIA_TYPE, headers=headers)


def takes_gzip(request: Request) -> bool:
    """Whether a browser says that it can read it."""
    told = request.headers.get("accept-encoding", "")
    return any(one.partition(";")[0].strip().lower() == "gzip" for one in told.split(","))
