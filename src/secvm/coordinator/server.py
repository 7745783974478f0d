"""All routes of a coordinator behind one handler.

/v1/gateway, /v1/fetch, /v1/capsule, /v1/batch, /v1/deposit    ``package_routes``
/admin/…                                                      ``admin``
/health, /metrics                                             for whoever runs it
everything else                                               ``publisher``: the public files
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping

from secvm.coordinator import admin, admin_openapi
from secvm.coordinator.admin import Admin
from secvm.coordinator.answers import problem_response
from secvm.coordinator.package_routes import PackageRoutes
from secvm.coordinator.publisher import JSON_MEDIA_TYPE, Publisher
from secvm.errors import StoreError
from secvm.protocol.problems import PROBLEMS
from secvm.runtime.http_server import Request, Response
from secvm.runtime.metrics import Metrics

_NOT_FOUND = 404
NO_STORE = (("cache-control", "no-store"),)
_NO_OPERATOR = admin.refusal(403, "no admin key was made for this coordinator")


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
        self._before_body = packages.before_body
        self._admin = administration
        self._publisher = publisher
        self._metrics = metrics
        self._described: Response | None = None

    def before_body(self, path: str, headers: Mapping[str, str]) -> Response | None:
        """For ``HttpServer``: may refuse a request before its content has come."""
        if _is_admin(path):
            return _NO_OPERATOR if self._admin is None else self._admin.before_body(headers)
        return self._before_body(path, headers)

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """Answer one request."""
        route = self._packages.get(request.path)
        if route is not None:
            return route(request)
        if _is_admin(request.path):
            return _NO_OPERATOR if self._admin is None else self._admin.answer(request)
        if request.path == admin_openapi.PATH:
            if request.method not in {"GET", "HEAD"}:
                return admin.refusal(405, "only GET has a meaning here", ("allow", "GET, HEAD"))
            if self._described is None:
                self._described = admin_openapi.answer()
            return self._described
        if request.path == "/health":
            told = {"status": "ok", **({} if self._health is None else self._health())}
            return Response(200, json.dumps(told).encode(), JSON_MEDIA_TYPE, NO_STORE)
        if request.path == "/metrics":
            page, media_type = self._metrics.page()
            return Response(200, page, media_type, NO_STORE)
        if self._refresh is None or self._publisher.at_hand(request.path):
            return self._publisher.handle(request)
        return self._look_twice(request, self._refresh)

    async def _look_twice(self, request: Request, refresh: Callable[[], Awaitable[None]]) -> Response:
        """Where the store is a database over the network: nobody else waits for it meanwhile."""
        try:
            found = await asyncio.to_thread(self._publisher.handle, request)
            if found.status != _NOT_FOUND:
                return found
            await refresh()
            return await asyncio.to_thread(self._publisher.handle, request)
        except StoreError:
            return problem_response(PROBLEMS["try-later"])
