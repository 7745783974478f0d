"""The page over HTTP, on this machine only: guard, files of the page, and one door for each thing a person can do.

    GET  /SECRET/                 the page            GET  /SECRET/static/NAME      its files
    GET  /SECRET/enter            leads to the page   GET  /SECRET/api/state        all that it shows, as JSON
    POST /SECRET/api/find         ask which experiments there are            {"digest": optional}
    POST /SECRET/api/join         {"digest", "answer": optional, "accept": optional {"auc", "epsilon"}}
    POST /SECRET/api/exclude      {"feature"}: forget it, and read it no more
    POST /SECRET/api/remove       {"source"}: forget what it gave
    POST /SECRET/api/import       {"digest", "profile"}: read of a history what that experiment asks for
    POST /SECRET/api/decline, reconsider, pause, resume, forget, predict     {"digest"}
    POST /SECRET/api/examples     {"source"}          POST /SECRET/api/evidence     {"number"}: a file

What is refused is a problem document with one sentence. ``pages.serving`` does the HTTP.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import orjson
from aiohttp import web

from secvm.errors import BadInputError, SecVMError, StoreError
from secvm.pages.assets import Asset, Assets, asset
from secvm.pages.guarding import RefusedRequestError
from secvm.pages.serving import RunningPage, body_of, content_of, listen_on, loopback, problem, serve
from secvm.participant.storage.books import Accepted
from secvm.participant.ui.desk import Desk
from secvm.participant.ui.guard import ENTER, PageGuard
from secvm.runtime.logs import Log

#: What a person can say to a page is short.
_MOST_BODY_BYTES = 16_384
_ENTER_PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=./">'
    '<title>Your device</title><p><a href="./">To your page</a></p></html>'
)
_PAGE = "person.html"
#: Of what all pages share; this one has no charts.
_SHARED = ("look.css", "dom.js")
MakeGuard = Callable[[str, tuple[str, ...]], PageGuard]


async def serve_page(
    listen: str,
    desk: Desk,
    secret: str,
    *,
    log: Log | None = None,
    entered: Callable[[], None] = lambda: None,
    make_guard: MakeGuard = PageGuard,
) -> RunningPage:
    """Serve the page. ``listen`` is an address of this machine and a port; 0: any. ``entered``: who came by ``enter``
    has reached the page. ``make_guard``: a test shows by another what this one is good for.
    """
    host, port = loopback(
        listen, refusal="the page is shown on this machine only: --listen 127.0.0.1:PORT, or [::1]:PORT"
    )
    door = listen_on(host, port, complaint="cannot show the page there")
    port = door.getsockname()[1]
    named = f"[{host}]" if ":" in host else host
    doors = _Doors(desk, make_guard(secret, (f"{named}:{port}", f"localhost:{port}")), entered)

    def tell_fault(fault: Exception) -> None:
        if log is not None:
            log.tell("fault", error=type(fault).__name__.lower()[:40])

    served = await serve(door, doors.answer, tell_fault=tell_fault)
    return replace(served, address=f"{served.address}{secret}/")


class _Doors:
    """One request after the guard."""

    def __init__(self, desk: Desk, guard: PageGuard, entered: Callable[[], None]) -> None:
        self._desk, self._guard, self._entered = desk, guard, entered
        own = Assets("secvm.participant.ui")
        self._files: dict[str, Asset] = {f"static/{name}": file for name, file in own.items()}
        self._files |= {"": own[_PAGE], **{f"static/{name}": asset(name) for name in _SHARED}}
        self._actions: dict[str, Callable[[dict[str, Any]], Awaitable[web.Response]]] = {
            "find": self._find,
            "join": self._join,
            "resume": self._resume,
            "predict": self._predict,
            "examples": self._examples,
            "import": self._import,
            "evidence": self._evidence,
        }
        for act in (desk.decline, desk.reconsider, desk.pause, desk.forget):
            self._actions[act.__name__] = functools.partial(self._simple, act, "digest")
        self._actions["exclude"] = functools.partial(self._simple, desk.exclude, "feature")
        self._actions["remove"] = functools.partial(self._simple, desk.remove, "source")

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Guard, then the route; refusals of the device itself are sentences."""
        rest = self._guard.check(request.method, request.raw_path.partition("?")[0], request.headers.items())
        try:
            return await self._route(request, rest)
        except StoreError as fault:
            return problem(503, str(fault), fault.next_step)
        except SecVMError as fault:
            return problem(409, _sentence(fault), fault.next_step)

    async def _route(self, request: web.BaseRequest, rest: str) -> web.Response:
        if request.method == "POST":
            action = self._actions.get(rest.removeprefix("api/")) if rest.startswith("api/") else None
            if action is None:
                raise RefusedRequestError(404, "There is nothing here.")
            return await action(await _read(request))
        if rest == "api/state":
            return _json(await self._desk.look())
        if rest == ENTER:
            self._entered()
            return web.Response(text=_ENTER_PAGE, content_type="text/html")
        file = self._files.get(rest)
        if file is None:
            raise RefusedRequestError(404, "There is nothing here.")
        content, coding = content_of(request, file)
        return web.Response(body=content, headers={"Content-Type": file.media_type, **coding})

    # ── what a person can do ─────────────────────────────────────────────────────────────────────────────────────────

    async def _simple(self, what: Callable[[str], Awaitable[None]], name: str, said: dict[str, Any]) -> web.Response:
        await what(_text(said, name))
        return _json({"done": True})

    async def _find(self, said: dict[str, Any]) -> web.Response:
        await self._desk.find(None if said.get("digest") is None else _text(said, "digest"))
        return _json({"done": True})

    async def _resume(self, said: dict[str, Any]) -> web.Response:
        return _json({"done": True, "goes_on": await self._desk.resume(_text(said, "digest"))})

    async def _join(self, said: dict[str, Any]) -> web.Response:
        answer = None if said.get("answer") is None else _text(said, "answer")
        wanted = {} if said.get("accept") is None else said["accept"]
        if not isinstance(wanted, dict):
            raise BadInputError("what is accepted is an object")
        accepted = Accepted(_number(wanted, "auc"), _number(wanted, "epsilon"))
        await self._desk.join(_text(said, "digest"), answer=answer, accepted=accepted)
        return _json({"done": True})

    async def _predict(self, said: dict[str, Any]) -> web.Response:
        prediction = await self._desk.predict(_text(said, "digest"))
        return _json({"label": prediction.label, "margin": prediction.margin, "round": prediction.rounds})

    async def _import(self, said: dict[str, Any]) -> web.Response:
        features = await self._desk.bring_in(_text(said, "digest"), _text(said, "profile"))
        return _json({"done": True, "features": features})

    async def _examples(self, said: dict[str, Any]) -> web.Response:
        examples = await self._desk.examples(_text(said, "source"))
        return _json({"examples": [{"feature": feature, "value": value} for feature, value in examples]})

    async def _evidence(self, said: dict[str, Any]) -> web.Response:
        number = said.get("number")
        if isinstance(number, bool) or not isinstance(number, int):
            raise BadInputError("a piece of evidence has a number")
        return web.Response(body=await self._desk.evidence(number), content_type="application/octet-stream")


async def _read(request: web.BaseRequest) -> dict[str, Any]:
    try:
        said = json.loads(await body_of(request, most=_MOST_BODY_BYTES))
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise RefusedRequestError(400, "What was said is no JSON object.")
    return said


def _text(said: dict[str, Any], name: str) -> str:
    value = said.get(name)
    # JSON can write halves of a letter, which nothing can store.
    if not isinstance(value, str) or not 0 < len(value) <= 1000 or re.search("[\ud800-\udfff]", value):
        raise RefusedRequestError(400, f"'{name}' is missing, or no text.")
    return value


def _number(said: dict[str, Any], name: str) -> float | None:
    value = said.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e6:
        raise RefusedRequestError(400, f"'{name}' is no number.")
    return float(value)


def _json(content: dict[str, Any]) -> web.Response:
    # An infinite number is null.
    return web.Response(body=orjson.dumps(content), content_type="application/json")


def _sentence(fault: SecVMError) -> str:
    said = str(fault)
    return said[:1].upper() + said[1:] + ("" if said.endswith((".", "!", "?")) else ".")
