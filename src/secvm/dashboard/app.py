"""The page's routes.

GET  /, /experiment/D, /experiment/D/FIGURE, /new, /server    the shell; the page itself finds out what to show
GET  /static/NAME                                             scripts and styles
GET  /api/now, /api/experiments/D, /api/experiments/D/rounds  what is known, as JSON
GET  /api/events                                              changes, as server-sent events
POST /api/plan                                                what an experiment would cost and leak
…    /api/admin/…                                             ``coordinator_client.Forwarding``

Every request must name a host that the page is known by: the loopback, the address that is listened on, or what the
operator named. Under /api/ a browser must ask from a page of ours, and a POST there is JSON, and short
(``pages.guarding`` has the rules).
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web

from secvm.dashboard import view
from secvm.dashboard.coordinator_client import Forwarding
from secvm.dashboard.events import Hub, TooManyListenersError
from secvm.dashboard.view import facts, privacy
from secvm.dashboard.watching import Known, Watcher, in_background
from secvm.errors import BadInputError, SecVMError
from secvm.pages.assets import Assets
from secvm.pages.guarding import READING, Fields, RefusedRequestError, check_host, check_json, check_origin, fields_of
from secvm.pages.serving import REQUEST_S, as_file, as_json, body_of, problem
from secvm.privacy.accounting.accountant import patience, until
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.runtime.clock import Clock

#: As the coordinator's: an experiment's specification is a few kilobytes.
MOST_BODY_BYTES = 2**18
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def names_of(listen_host: str, public_hosts: Iterable[str]) -> frozenset[str]:
    """The names that this page is known by."""
    names = {*_LOOPBACK_NAMES, *(name.lower() for name in public_hosts)}
    try:
        address = ipaddress.ip_address(listen_host)
        if not address.is_unspecified:
            names.add(str(address))
    except ValueError:
        names.add(listen_host.lower())
    return frozenset(names)


@dataclass(frozen=True, slots=True)
class OperatorGuard:
    """The rules above for a page of these names."""

    names: frozenset[str]

    def check(self, method: str, path: str, fields: Fields) -> None:
        """Raise ``RefusedRequestError`` with 421, 403, 405 or 415, or let it in."""
        unknown = "this page is not known by that name; the operator can add one with --public-host"
        host = check_host(fields, lambda host: host[0] in self.names, sentence=unknown)
        if path.startswith("/api/"):
            # A proxy in front may have taken TLS off.
            others = "this is answered to pages of this address alone"
            check_origin(method, fields, host, schemes=("http", "https"), sentence=others)
        if method in READING:
            return
        if method != "POST" or not path.startswith("/api/"):
            raise RefusedRequestError(405, "only GET has a meaning here, and POST under /api/")
        check_json(fields, sentence="this takes application/json alone")


#: Addresses of the page; all of them are answered with the shell.
PAGES = ("/", "/new", "/server", "/experiment/{digest}", "/experiment/{digest}/{figure}")
_PARTS = {"digest": "[0-9a-f]{64}", "figure": "[a-z0-9-]{1,40}", "name": ".*"}
_SHELL, _ICON = "shell.html", "icon.svg"
#: Programs ask there.
_NO_PAGES = ("/api/", "/static/")
_NUMBER = re.compile(r"[0-9]{1,7}")
#: How long a visitor waits for a statement before it is told that it is still being computed.
_STATEMENT_S = 20.0
#: So many threads at most make plans; whoever comes then waits for its turn.
_PLANS_AT_ONCE = 8
#: After so long a statement is given up: nobody means an experiment that takes longer.
_PATIENCE_S = 120.0
_RECKONING: dict[str, Any] = {"statement": ["The statement is still being computed; look again in a moment."]}

_Route = Callable[..., Awaitable[web.StreamResponse]]
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
        guard: OperatorGuard,
        assets: Assets,
        steady: Clock,
        plan: Plan | None = None,
        request_s: float = REQUEST_S,
    ) -> None:
        """``request_s``: so long may the content of a request take to come."""
        self._watcher, self._hub, self._forwarding, self._guard = watcher, hub, forwarding, guard
        self._assets, self._steady, self._plan, self._request_s = assets, steady, plan, request_s
        #: Statements by digest: a document never changes, and cover takes seconds.
        self._statements: dict[str, asyncio.Future[dict[str, Any]]] = {}
        #: One after the other: visitors may ask for all of them at once.
        self._reckoning = asyncio.Lock()
        self._planning = asyncio.Semaphore(_PLANS_AT_ONCE)
        routes: list[tuple[str, str, _Route]] = [
            *(("GET", path, self._shell) for path in PAGES),
            ("GET", "/static/{name}", self._static),
            ("GET", "/favicon.ico", self._icon),
            ("GET", "/api/now", self._now),
            ("GET", "/api/experiments/{digest}", self._experiment),
            ("GET", "/api/experiments/{digest}/rounds", self._rounds),
            ("GET", "/api/events", self._events),
            ("POST", "/api/plan", self._planned),
            ("GET", "/api/admin/{name}", self._admin),
            ("POST", "/api/admin/{name}", self._admin),
        ]
        self._routes = [(method, _pattern(path), route) for method, path, route in routes]

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Guard, then the route of this path and method."""
        self._guard.check(request.method, request.path, fields_of(request.headers.items()))
        method = "GET" if request.method in READING else request.method
        matches = [
            (known, route, match)
            for known, path, route in self._routes
            if (match := path.fullmatch(request.path)) is not None
        ]
        if not matches:
            if method == "GET" and not request.path.startswith(_NO_PAGES) and _reads_html(request):
                # A person has mistyped an address: the page says so, in its own look.
                return as_file(request, self._assets[_SHELL], status=404)
            raise RefusedRequestError(404, "there is nothing here")
        for known, route, match in matches:
            if known == method:
                return await route(request, **match.groupdict())
        raise RefusedRequestError(405, "this has no meaning here")

    async def _shell(self, request: web.BaseRequest, **_parts: str) -> web.Response:
        return as_file(request, self._assets[_SHELL])

    async def _static(self, request: web.BaseRequest, name: str) -> web.Response:
        asset = self._assets.get(name)
        if asset is None or name == _SHELL:
            raise RefusedRequestError(404, "there is nothing here")
        return as_file(request, asset)

    async def _icon(self, request: web.BaseRequest) -> web.Response:
        """What browsers ask for unasked."""
        return as_file(request, self._assets[_ICON]) if _ICON in self._assets else web.Response(status=204)

    async def _admin(self, request: web.BaseRequest, **_parts: str) -> web.Response:
        body = await self._body(request) if request.method == "POST" else None
        return await self._forwarding.answer(request, body)

    async def _body(self, request: web.BaseRequest) -> bytes:
        return await body_of(request, most=MOST_BODY_BYTES, within_s=self._request_s)

    async def _now(self, request: web.BaseRequest) -> web.Response:
        return await as_json(request, self._watcher.now())

    def _known(self, digest: str) -> Known:
        known = self._watcher.known(digest)
        if known is None:
            raise RefusedRequestError(404, "there is no such experiment")
        return known

    async def _experiment(self, request: web.BaseRequest, digest: str) -> web.Response:
        known = self._known(digest)
        content: dict[str, Any] = {"summary": self._watcher.summary(known)}
        if known.document is not None:
            content |= facts(known.document)
            content["privacy"] = await self._privacy(known)
        if known.log is not None:
            content["log"] = {**(content.get("log") or {}), **known.log.content()}
        status = known.status
        content["leakage"] = None if status is None else status.leakage.model_dump()
        content["notes"] = [] if status is None else list(status.notes)
        return await as_json(request, content)

    async def _privacy(self, known: Known) -> dict[str, Any]:
        digest, document = known.listed.digest, known.document
        assert document is not None
        if digest not in self._statements:
            for gone in [other for other in self._statements if self._watcher.known(other) is None]:
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

    async def _rounds(self, request: web.BaseRequest, digest: str) -> web.Response:
        known = self._known(digest)
        if known.status is None or known.document is None:
            raise RefusedRequestError(404, "nothing is known of its rounds yet")
        asked = [self._number(request, name) for name in ("from", "to")]
        first, last = view.stretch(known.status, *asked)
        content = {"from": first, "to": last, **self._watcher.rounds(known, range(first, last + 1))}
        return await as_json(request, content)

    @staticmethod
    def _number(request: web.BaseRequest, name: str) -> int | None:
        text = request.query.get(name)
        if not text:
            return None
        if not _NUMBER.fullmatch(text):
            raise RefusedRequestError(422, f"'{name}' is the number of a round")
        return int(text)

    async def _planned(self, request: web.BaseRequest) -> web.Response:
        plan, body = self._plan, await self._body(request)
        if plan is None:
            raise RefusedRequestError(404, "nothing is planned here")
        try:
            content = orjson.loads(body)
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise RefusedRequestError(422, "a plan is a JSON object")
        try:
            async with self._planning:
                planned = await in_background(lambda: plan(content))
            return await as_json(request, planned)
        except BadInputError as fault:
            raise RefusedRequestError(422, str(fault)) from None

    async def _events(self, request: web.BaseRequest) -> web.StreamResponse:
        """An answer that goes on until somebody has enough."""
        try:
            listener = self._hub.listen(request.headers.get("last-event-id") or request.query.get("after"))
        except TooManyListenersError:
            return problem(503, "too many are listening already")
        listener.put(self._hub.frame("now", orjson.dumps(self._watcher.now())))
        listener.task = asyncio.current_task()
        response = web.StreamResponse(
            headers={"content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no"}
        )
        try:
            await response.prepare(request)
            while request.method != "HEAD" and not listener.gone.is_set():
                frame = await listener.next()
                if frame:
                    await response.write(frame)
        except asyncio.CancelledError:
            # They left, were too slow, or all is over: nobody reads what is still to be written.
            if request.transport is not None:
                request.transport.abort()
            raise
        finally:
            self._hub.leave(listener)
        return response


def _reads_html(request: web.BaseRequest) -> bool:
    return "text/html" in request.headers.get("accept", "")


def _pattern(path: str) -> re.Pattern[str]:
    """What a path such as ``/experiment/{digest}`` matches, its parts by name."""
    return re.compile(re.sub(r"\{(\w+)\}", lambda part: f"(?P<{part[1]}>{_PARTS[part[1]]})", path.replace(".", r"\.")))
