"""The page's routes.

GET  /, /experiment/D, /experiment/D/FIGURE, /new, /server    the shell; the page itself finds out what to show
GET  /static/NAME                                             scripts and styles
GET  /api/now, /api/experiments/D, /api/experiments/D/rounds  what is known, as JSON
GET  /api/events                                              changes, as server-sent events
POST /api/plan                                                what an experiment would cost and leak
…    /api/admin/…                                             ``forwarding``
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from secvm.dashboard import view
from secvm.dashboard.answers import as_json, problem
from secvm.dashboard.background import in_background
from secvm.dashboard.events import Hub, Listener, TooManyListenersError
from secvm.dashboard.facts import facts, privacy
from secvm.dashboard.forwarding import Forwarding
from secvm.dashboard.guard import Guard
from secvm.dashboard.shell import Shell
from secvm.dashboard.watching import Known, Watcher
from secvm.errors import BadInputError, SecVMError
from secvm.privacy.patience import patience, until
from secvm.protocol.experiment_document import ExperimentDocument
from secvm.runtime.clock import Clock

_DIGEST = re.compile(r"[0-9a-f]{64}")
_FIGURE = re.compile(r"[a-z0-9-]{1,40}")
_NUMBER = re.compile(r"[0-9]{1,7}")
#: How long a visitor waits for a statement before it is told that it is still being reckoned.
_STATEMENT_S = 20.0
#: After so long a statement is given up: nobody means an experiment that takes longer.
_PATIENCE_S = 120.0
_RECKONING: dict[str, Any] = {"statement": ["The statement is still being reckoned; look again in a moment."]}

Answer = Callable[[Request], Awaitable[Response]]
#: ``POST /api/plan``: a form's content → numbers; raises ``BadInputError`` with one sentence.
Plan = Callable[[dict[str, Any]], dict[str, Any]]


class Page:
    """Answers from what the watcher knows."""

    def __init__(
        self,
        watcher: Watcher,
        hub: Hub,
        forwarding: Forwarding,
        *,
        shell: Shell,
        steady: Clock,
        plan: Plan | None = None,
    ) -> None:
        self._watcher, self._hub, self._forwarding = watcher, hub, forwarding
        self._shell, self._steady, self._plan = shell, steady, plan
        #: Statements by digest: a document never changes, and cover takes seconds.
        self._statements: dict[str, asyncio.Future[dict[str, Any]]] = {}
        #: One after the other: visitors may ask for all of them at once.
        self._reckoning = asyncio.Lock()

    def routes(self) -> list[Route]:
        """All of them."""
        pages = ("/", "/new", "/server", "/experiment/{digest}", "/experiment/{digest}/{figure}")
        return [
            *(Route(path, self._page, methods=["GET"]) for path in pages),
            Route("/static/{name:path}", self._shell.static, methods=["GET"]),
            Route("/favicon.ico", self._shell.icon, methods=["GET"]),
            Route("/api/now", self._now, methods=["GET"]),
            Route("/api/experiments/{digest}", self._experiment, methods=["GET"]),
            Route("/api/experiments/{digest}/rounds", self._rounds, methods=["GET"]),
            Route("/api/events", _Events(self._watcher, self._hub), methods=["GET"]),
            Route("/api/plan", self._planned, methods=["POST"]),
            Route("/api/admin/{rest:path}", self._forwarding.answer, methods=["GET", "POST"]),
        ]

    async def _page(self, request: Request) -> Response:
        digest, figure = request.path_params.get("digest"), request.path_params.get("figure")
        if (digest is not None and not _DIGEST.fullmatch(digest)) or (figure and not _FIGURE.fullmatch(figure)):
            raise HTTPException(404)
        return self._shell.page(request)

    async def _now(self, request: Request) -> Response:
        return await as_json(request, self._watcher.now())

    def _known(self, request: Request) -> Known:
        digest = request.path_params["digest"]
        known = self._watcher.known(digest) if _DIGEST.fullmatch(digest) else None
        if known is None:
            raise HTTPException(404, "there is no such experiment")
        return known

    async def _experiment(self, request: Request) -> Response:
        known = self._known(request)
        found: dict[str, Any] = {"summary": self._watcher.summary(known)}
        if known.document is not None:
            found |= facts(known.document)
            found["privacy"] = await self._privacy(known)
        if known.log is not None:
            found["log"] = {**(found.get("log") or {}), **known.log.content()}
        status = known.status
        found["leakage"] = None if status is None else status.leakage.model_dump()
        found["notes"] = [] if status is None else list(status.notes)
        return await as_json(request, found)

    async def _privacy(self, known: Known) -> dict[str, Any]:
        digest, document = known.listed.digest, known.document
        assert document is not None
        if digest not in self._statements:
            for gone in [one for one in self._statements if self._watcher.known(one) is None]:
                self._statements.pop(gone).cancel()
            self._statements[digest] = asyncio.ensure_future(self._reckoned(document))
        reckoned = self._statements[digest]
        await asyncio.wait([reckoned], timeout=_STATEMENT_S)
        return reckoned.result() if reckoned.done() and not reckoned.cancelled() else _RECKONING

    async def _reckoned(self, document: ExperimentDocument) -> dict[str, Any]:
        def reckon() -> dict[str, Any]:
            with patience(until(self._steady.now, _PATIENCE_S)):
                return privacy(document)

        async with self._reckoning:
            try:
                return await in_background(reckon)
            except SecVMError as fault:
                why = str(fault)
            except (ArithmeticError, MemoryError, ValueError):
                why = "its numbers make no sense"
            return {"statement": [f"There is no statement: {why}."]}

    async def _rounds(self, request: Request) -> Response:
        known = self._known(request)
        if known.status is None or known.document is None:
            raise HTTPException(404, "nothing is known of its rounds yet")
        asked = [self._number(request, name) for name in ("from", "to")]
        first, last = view.stretch(known.status, *asked)
        content = {"from": first, "to": last, **self._watcher.rounds(known, range(first, last + 1))}
        return await as_json(request, content)

    @staticmethod
    def _number(request: Request, name: str) -> int | None:
        told = request.query_params.get(name)
        if not told:
            return None
        if not _NUMBER.fullmatch(told):
            raise HTTPException(422, f"'{name}' is the number of a round")
        return int(told)

    async def _planned(self, request: Request) -> Response:
        plan = self._plan
        if plan is None:
            raise HTTPException(404, "nothing is planned here")
        try:
            content = orjson.loads(await request.body())
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise HTTPException(422, "a plan is a JSON object")
        try:
            return await as_json(request, await in_background(lambda: plan(content)))
        except BadInputError as fault:
            raise HTTPException(422, str(fault)) from None


class _Events:
    """``/api/events``: an answer that goes on until somebody has enough."""

    def __init__(self, watcher: Watcher, hub: Hub) -> None:
        self._watcher, self._hub = watcher, hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            listener = self._hub.listen(request.headers.get("last-event-id") or request.query_params.get("after"))
        except TooManyListenersError:
            await problem(503, "too many are listening already")(scope, receive, send)
            return
        listener.put(self._hub.frame("now", orjson.dumps(self._watcher.now())))
        listener.task = asyncio.current_task()
        leaving = asyncio.ensure_future(_until_left(receive, listener))
        try:
            headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            while not listener.gone.is_set():
                frame = await listener.next()
                if frame:
                    await send({"type": "http.response.body", "body": frame, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except asyncio.CancelledError:
            # Let go because it was too slow, or because all is over; anybody else's wish to end us is passed on.
            if not listener.gone.is_set():
                raise
        finally:
            self._hub.leave(listener)
            leaving.cancel()


async def _until_left(receive: Receive, listener: Listener) -> None:
    """A browser that closes the page says so here, also while nothing happens."""
    while (await receive())["type"] != "http.disconnect":
        pass
    listener.gone.set()
    if listener.task is not None:
        listener.task.cancel()


async def _refused(_request: Request, fault: Exception) -> Response:
    assert isinstance(fault, HTTPException)
    sentences = {404: "there is nothing here", 405: "this has no meaning here"}
    usual = HTTPException(fault.status_code).detail
    detail = sentences.get(fault.status_code, usual) if fault.detail == usual else fault.detail
    return problem(fault.status_code, detail)


def make_app(page: Page, *, names: frozenset[str]) -> ASGIApp:
    """The whole application, guarded."""
    return Guard(Starlette(routes=page.routes(), exception_handlers={HTTPException: _refused}), names=names)
