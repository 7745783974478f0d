"""The side of a coordinator process that answers requests, and all routes behind it.

/v1/fetch, /v1/deposit                                        ``package_routes``; for tests /v1/capsule, /v1/batch
/v2/batch/…, /v2/counts/…                                     ``relayed.batch_routes``
/admin/…                                                      ``experiments.operator_routes``
/health, /metrics                                             for whoever runs it; these three not under a name
everything else                                               ``publisher``: the public files; those of experiments
                                                              also below /v2, where relays look for them

A path with a segment ``.`` or ``..`` is refused: a proxy that lets some paths through resolves it before it decides,
and others do not.

It is the same for a process that is the whole coordinator and for one node of many. It does not know who drives: it is
handed what runs (``update``), and calls ``wake`` when something has changed.
"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from secvm.coordinator.experiments import openapi as admin_openapi
from secvm.coordinator.experiments import operator_routes as admin
from secvm.coordinator.experiments.new_experiment import NewestPulse
from secvm.coordinator.experiments.operator_routes import Admin
from secvm.coordinator.intake.gateway import Gateway
from secvm.coordinator.intake.ingest import Ingest, IngestLimits
from secvm.coordinator.intake.package_routes import BODY_LIMITS, PackageRoutes
from secvm.coordinator.intake.running import CurrentRounds
from secvm.coordinator.problem_responses import plain_response, problem_response, too_large
from secvm.coordinator.publisher import JSON_MEDIA_TYPE, Publisher
from secvm.coordinator.relayed.batch_routes import BODY_LIMITS as RELAYED_LIMITS
from secvm.coordinator.relayed.batch_routes import PREFIX, RelayedRoutes
from secvm.coordinator.relayed.relayed_events import RelayedEvents
from secvm.coordinator.relayed.shard_files import ShardFiles, ShardFolder
from secvm.coordinator.settings import CoordinatorProgramSettings
from secvm.coordinator.store.port import CoordinatorStore
from secvm.crypto.sealing.kem import RandomBytes
from secvm.crypto.sealing.lanes import Lanes
from secvm.crypto.signing import SigningKey
from secvm.errors import StoreError
from secvm.protocol.log.policy import LogTerms
from secvm.protocol.problems import PROBLEMS
from secvm.runtime.clock import Clock
from secvm.runtime.http.messages import refuse_names
from secvm.runtime.http.server import HttpRequest, HttpResponse, HttpServer, http_date
from secvm.runtime.logs import Log
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


@dataclass(eq=False, repr=False, kw_only=True)
class Routes:
    """Hands each request to the part that answers it.

    ``administration``: None where no admin key was ever made; then nobody is the operator. ``health``: what else there
    is to tell: how the logs are, whether this node drives. ``refresh``: where another node may have more to show, what
    is not found is looked for once more.
    """

    packages: PackageRoutes
    administration: Admin | None
    publisher: Publisher
    metrics: Metrics
    relayed: RelayedRoutes | None = None
    health: Callable[[], dict[str, object]] = dict
    refresh: Callable[[], Awaitable[None]] | None = None

    def before_body(self, path: str, headers: Mapping[str, str]) -> HttpResponse | None:
        """For ``HttpServer``: may refuse a request, whatever its method, before its content has come."""
        if _has_dots(path):
            return plain_response(400)
        if path in ("/health", "/metrics") or path.startswith("/admin/"):
            refused = refuse_names(headers)
            if refused is not None:
                return refused
        if _is_admin(path):
            return _NO_OPERATOR if self.administration is None else self.administration.before_body(headers)
        if self.relayed is not None and path.startswith(PREFIX):
            return self.relayed.before_body(path, headers)
        return self.packages.before_body(path, headers)

    def handle(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        """Answer one request."""
        route = self.packages.routes.get(request.path)
        if route is not None:
            return route(request)
        if _is_admin(request.path):
            return _NO_OPERATOR if self.administration is None else self.administration.answer(request)
        if request.path.startswith(PREFIX):
            return self._version_2(request)
        if request.path == admin_openapi.PATH:
            if request.method not in {"GET", "HEAD"}:
                return admin.refusal(405, "only GET has a meaning here", ("allow", "GET, HEAD"))
            return admin_openapi.answer()
        if request.path == "/health":
            return HttpResponse(200, json.dumps(self._state()).encode(), JSON_MEDIA_TYPE, NO_STORE)
        if request.path == "/metrics":
            page, media_type = self.metrics.page()
            return HttpResponse(200, page, media_type, NO_STORE)
        return self._public(request)

    def _version_2(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        """What relays bring, and public files of experiments by the names that relays have for them."""
        if request.path.startswith(_EXPERIMENT_2):
            return self._public(replace(request, path="/v1/" + request.path.removeprefix(PREFIX)))
        return plain_response(404) if self.relayed is None else self.relayed.handle(request)

    def _public(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        return self.publisher.handle(request) if self.publisher.at_hand(request.path) else self._look(request)

    def _state(self) -> dict[str, object]:
        """What /health tells; 200 also when something is wrong, because requests are answered all the same."""
        state: dict[str, object] = {"status": "ok", **self.health()}
        if self.publisher.unwritten:
            state |= {"status": "degraded", "unwritten": self.publisher.unwritten}
        return state

    async def _look(self, request: HttpRequest) -> HttpResponse:
        """In a thread, for what the store has to be asked for: nobody else waits for it meanwhile."""
        try:
            response = await self.packages.in_thread(self.publisher.handle, request)
            if response.status != _NOT_FOUND or self.refresh is None:
                return response
            await self.refresh()
            return await self.packages.in_thread(self.publisher.handle, request)
        except StoreError:
            return problem_response(PROBLEMS["try-later"])


#: A specification is a page or two.
_ADMIN_BODY_BYTES = 2**18


@dataclass(frozen=True, kw_only=True)
class ProcessParts:
    """What a process has from its start to its end: settings, store, keys, clocks."""

    settings: CoordinatorProgramSettings
    store: CoordinatorStore
    clock: Clock
    dice: RandomBytes
    log: Log
    metrics: Metrics
    #: The folder into which public files are written; None: they are only answered.
    public: Path | None
    #: The key that signs manifests; None at a node that neither drives nor makes experiments.
    key: SigningKey | None
    #: The terms of the log that new experiments name; None without a log.
    terms: LogTerms | None
    #: SHA-256 of the admin key; None disables the operator's API.
    admin_sha256: bytes | None
    newest_pulse: Callable[[], NewestPulse | None]
    #: Code that opens eight capsules at once; None: they are opened one by one.
    lanes: Lanes | None = None
    #: Monotonic clock for timing commits; None disables the timing metric.
    steady: Clock | None = None
    #: Tokens that relays are asked with, by URL.
    relay_tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: Where events are posted; None: nowhere.
    webhook: str | None = field(default=None, repr=False)


def ingest_limits(settings: CoordinatorProgramSettings) -> IngestLimits:
    """Limits under which a whole deposit of a relay finds room; otherwise it would be refused for ever."""
    limits = IngestLimits()
    return replace(limits, content_bytes=max(limits.content_bytes, 2 * settings.limits.deposit_bytes))


class Frontend:
    """Takes requests and answers them, from ``open`` until ``close``."""

    def __init__(
        self,
        parts: ProcessParts,
        *,
        refresh: Callable[[], Awaitable[None]] | None = None,
        look_s: float | None = None,
        health: Callable[[], dict[str, object]],
    ) -> None:
        """``refresh`` (see ``package_routes``) and ``look_s`` (see ``opener``) are given where there are other nodes.
        ``health`` returns further content of /health.
        """
        settings, grid = parts.settings, parts.settings.epochs.grid
        #: Called when an operator or a relay has changed something; set by the process that uses this frontend.
        self.wake: Callable[[], None] = lambda: None
        shards = ShardFiles(parts.store)
        self.publisher = Publisher(parts.store, parts.public, further=shards.find, log=parts.log)
        self.shard_folder = ShardFolder(parts.public, shards, parts.log)
        self.ingest = Ingest(
            parts.store,
            parts.clock,
            metrics=parts.metrics,
            log=parts.log,
            limits=ingest_limits(settings),
            lanes=parts.lanes,
            look_s=look_s,
            fresh=refresh,
            steady=parts.steady,
        )
        parts.metrics.gauge("start_time_seconds", "When this process began, since 1970.").set(parts.clock.now() / 1000)
        gateway = Gateway(dice=parts.dice, public=self.publisher.public, date=http_date(parts.clock))
        tokens = [bytes.fromhex(relay.token_sha256) for relay in settings.relays]
        self._packages = PackageRoutes(
            gateway,
            self.ingest,
            parts.clock,
            tokens=tokens,
            tests=settings.testing is not None,
            refresh=refresh,
            metrics=parts.metrics,
        )
        self.events = RelayedEvents(parts.log, parts.metrics)
        relayed = RelayedRoutes(
            parts.store,
            parts.clock,
            tokens=tokens,
            most_bytes=settings.limits.deposit_bytes,
            events=self.events,
            wake=self._woken,
        )
        admin = None
        if parts.admin_sha256 is not None:
            admin = Admin(
                store=parts.store,
                key=parts.key,
                admin_sha256=parts.admin_sha256,
                grid=grid,
                clock=parts.clock,
                dice=parts.dice,
                wake=self._woken,
                only_tests=settings.testing is not None,
                log=parts.terms,
                newest=parts.newest_pulse,
                relays=parts.relay_tokens,
                metrics=parts.metrics,
                answer_bytes=settings.limits.answer_bytes,
            )
        routes = Routes(
            packages=self._packages,
            administration=admin,
            publisher=self.publisher,
            metrics=parts.metrics,
            relayed=relayed,
            health=health,
            refresh=refresh,
        )
        self._server = HttpServer(
            routes.handle,
            limits=settings.limits.server_limits(
                # A few deposits at a time must find room.
                receiving_bytes=max(settings.limits.receiving_bytes, 4 * settings.limits.deposit_bytes)
            ),
            body_limits={
                **BODY_LIMITS,
                **RELAYED_LIMITS,
                "/v1/deposit": settings.limits.deposit_bytes,
                "/admin/experiments": _ADMIN_BODY_BYTES,
            },
            date=http_date(parts.clock),
            refusals={413: too_large()},
            before_body=routes.before_body,
        )
        self._parts = parts

    def _woken(self) -> None:
        self.wake()

    def update(self, present: CurrentRounds) -> None:
        """Take packages for these rounds from now on."""
        self._packages.update(present)

    async def finish(self, epoch: int) -> None:
        """Return when nothing of this closed epoch is sealed any more."""
        await self.ingest.finish(epoch)

    async def open(self) -> None:
        """Take requests from now on."""
        settings = self._parts.settings
        port = await self._server.start(settings.listen.host, settings.listen.port)
        self._parts.log.tell("listening", port=port, test=settings.testing is not None)

    async def close(self) -> None:
        """Take no more requests; answer those under way, and commit what they brought."""
        await self._server.drain()
        await self.ingest.close()
