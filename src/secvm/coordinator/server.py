"""All routes of a coordinator behind one handler.

/v1/fetch, /v1/deposit                                        ``package_routes``; for tests /v1/capsule, /v1/batch
/v2/batch/…, /v2/counts/…                                     ``relayed.routes``
/admin/…                                                      ``admin``
/health, /metrics                                             for whoever runs it; these three not under a name
everything else                                               ``publisher``: the public files; those of experiments
                                                              also below /v2, where relays look for them

A path with a segment ``.`` or ``..`` is refused: a proxy that lets some paths through resolves it before it decides,
and hands it on as it came.
"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from secvm.coordinator.experiments import openapi as admin_openapi
from secvm.coordinator.experiments import operator_routes as admin
from secvm.coordinator.experiments.operator_routes import Admin
from secvm.coordinator.intake.package_routes import PackageRoutes
from secvm.coordinator.problem_responses import plain_response, problem_response
from secvm.coordinator.publisher import JSON_MEDIA_TYPE, Publisher
from secvm.coordinator.relayed.batch_routes import PREFIX, RelayedRoutes
from secvm.errors import StoreError
from secvm.protocol.problems import PROBLEMS
from secvm.runtime.http.host_names import refuse_names
from secvm.runtime.http.server import Request, Response
from secvm.runtime.metrics import Metrics

_NOT_FOUND = 404
_EXPERIMENT_2 = f"{PREFIX}experiment/"
NO_STORE = (("cache-control", "no-store"),)
_NO_OPERATOR = admin.refusal(403, "no admin key was made for this coordinator")


def _has_dots(path: str) -> bool:
    """Whether a segment means another place, also where dots or slashes are percent-encoded."""
    return not {".", ".."}.isdisjoint(urllib.parse.unquote(path, "latin-1").split("/"))


def _is_admin(path: str) -> bool:
    return path == admin.PREFIX or path.startswith(admin.PREFIX + "/")


class Routes:
    """Requests → whoever answers them."""

    def __init__(
        self,
        *,
        packages: PackageRoutes,
        administration: Admin | None,
        publisher: Publisher,
        metrics: Metrics,
        relayed: RelayedRoutes | None = None,
        health: Callable[[], dict[str, object]] | None = None,
        refresh: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """``administration``: None where no admin key was ever made; then nobody is the operator.

        ``health``: what else there is to tell: how the logs are, whether this node drives.
        ``refresh``: where another node may have more to show, what is not found is looked for once more.
        """
        self._health = health
        self._refresh = refresh
        self._packages = packages.routes
        self._in_thread = packages.in_thread
        self._before_body = packages.before_body
        self._admin = administration
        self._publisher = publisher
        self._metrics = metrics
        self._relayed = relayed
        self._described: Response | None = None

    def before_body(self, path: str, headers: Mapping[str, str]) -> Response | None:
        """For ``HttpServer``: may refuse a request, whatever its method, before its content has come."""
        if _has_dots(path):
            return plain_response(400)
        if path in ("/health", "/metrics") or path.startswith("/admin/"):
            refused = refuse_names(headers)
            if refused is not None:
                return refused
        if _is_admin(path):
            return _NO_OPERATOR if self._admin is None else self._admin.before_body(headers)
        if self._relayed is not None and path.startswith(PREFIX):
            return self._relayed.before_body(path, headers)
        return self._before_body(path, headers)

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """Answer one request."""
        route = self._packages.get(request.path)
        if route is not None:
            return route(request)
        if _is_admin(request.path):
            return _NO_OPERATOR if self._admin is None else self._admin.answer(request)
        if request.path.startswith(PREFIX):
            return self._version_2(request)
        if request.path == admin_openapi.PATH:
            if request.method not in {"GET", "HEAD"}:
                return admin.refusal(405, "only GET has a meaning here", ("allow", "GET, HEAD"))
            if self._described is None:
                self._described = admin_openapi.answer()
            return self._described
        if request.path == "/health":
            return Response(200, json.dumps(self._state()).encode(), JSON_MEDIA_TYPE, NO_STORE)
        if request.path == "/metrics":
            page, media_type = self._metrics.page()
            return Response(200, page, media_type, NO_STORE)
        return self._public(request)

    def _version_2(self, request: Request) -> Response | Awaitable[Response]:
        """What relays bring, and public files of experiments by the names that relays have for them."""
        if request.path.startswith(_EXPERIMENT_2):
            return self._public(replace(request, path="/v1/" + request.path.removeprefix(PREFIX)))
        return plain_response(404) if self._relayed is None else self._relayed.handle(request)

    def _public(self, request: Request) -> Response | Awaitable[Response]:
        return self._publisher.handle(request) if self._publisher.at_hand(request.path) else self._look(request)

    def _state(self) -> dict[str, object]:
        """What /health tells; 200 also when something is wrong, because requests are answered all the same."""
        state: dict[str, object] = {"status": "ok", **({} if self._health is None else self._health())}
        if self._publisher.unwritten:
            state |= {"status": "degraded", "unwritten": self._publisher.unwritten}
        return state

    async def _look(self, request: Request) -> Response:
        """In a thread, for what the store has to be asked for: nobody else waits for it meanwhile."""
        try:
            found = await self._in_thread(self._publisher.handle, request)
            if found.status != _NOT_FOUND or self._refresh is None:
                return found
            await self._refresh()
            return await self._in_thread(self._publisher.handle, request)
        except StoreError:
            return problem_response(PROBLEMS["try-later"])
