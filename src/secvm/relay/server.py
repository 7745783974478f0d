"""The relay's doors: ``POST R``, ``POST R/fetch``, ``GET R/keys``, ``GET /health``, ``GET /metrics``.

A request is looked at in this order: is there such a door; is this the media type of a capsule; could it be one, by its
length; whose is it; may that client still send. A package is held, where this relay holds packages, and a fetch is
handed on. Nothing of a request but its content is handed to anybody.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field

from secvm.crypto.sealing.oblivious import REQUEST_MEDIA_TYPE
from secvm.relay.admission import Admission, Identify, Identity, Verdict
from secvm.relay.gateway import Answer, FetchKeys, Turnstile
from secvm.relay.refusals import plain, problem, try_later
from secvm.relay.store import Holding
from secvm.runtime.clock import Clock
from secvm.runtime.http.messages import refuse_names
from secvm.runtime.http.server import HttpRequest, HttpResponse
from secvm.runtime.metrics import Metrics

#: Header, the shortest ``enc`` and a tag (docs/protocol.md §18.5).
SHORTEST_CAPSULE_BYTES = 7 + 32 + 16
#: For whoever runs it, and not under a name.
_OPERATORS = ("/health", "/metrics")


@dataclass(eq=False, repr=False)
class FetchDoors:
    """Answers requests. Its ``handle`` is what ``HttpServer`` is given."""

    path: str
    #: None where the relay takes no packages.
    holding: Holding | None
    turnstile: Turnstile
    keys: FetchKeys
    _: KW_ONLY
    admission: Admission
    identify: Identify
    clock: Clock
    metrics: Metrics
    #: Of a capsule with a package, and of one with a fetch, at most.
    package_bytes: int
    capsule_bytes: int
    retry_after_s: int
    #: What the relay does besides carrying fetches.
    role: str
    draining: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        fetch = f"{self.path}/fetch"
        self._posts: dict[str, Callable[[Identity, bytes], Answer]] = {self.path: self._capsule, fetch: self._fetch}
        self._most_bytes = {self.path: self.package_bytes, fetch: self.capsule_bytes}
        self._gets: dict[str, Callable[[], Answer]] = {
            f"{self.path}/keys": self.keys.answer,
            "/health": self._health,
            "/metrics": self._page,
        }
        doors = {"door": ("capsule", "fetch")}
        self._arrived = self.metrics.counter("requests", "Capsules by the door they came to.", doors)
        statuses = {"status": ("400", "401", "404", "410", "413", "415", "429", "503")}
        self._refused = self.metrics.counter("refused", "Capsules that were refused at once, by status.", statuses)

    @property
    def paths(self) -> frozenset[str]:
        """Every path that is answered. A proxy hands on those below R; ``/health``, ``/metrics`` stay on its host."""
        return frozenset((*self._posts, *self._gets))

    def handle(self, request: HttpRequest) -> Answer:
        """Answer one request."""
        if request.method == "POST" and request.path in self._posts:
            answer = self._post(request)
            if isinstance(answer, HttpResponse) and answer.status >= 400:
                self._refused.add(status=str(answer.status))
            return answer
        if request.method == "GET" and request.path in self._gets:
            refused = refuse_names(request.headers) if request.path in _OPERATORS else None
            return refused or self._gets[request.path]()
        return plain(405 if request.path in self._posts or request.path in self._gets else 404)

    def _post(self, request: HttpRequest) -> Answer:
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != REQUEST_MEDIA_TYPE:
            return plain(415)
        if len(request.body) > self._most_bytes[request.path]:
            return problem("too-large")
        if len(request.body) < SHORTEST_CAPSULE_BYTES:
            return problem("garbage")
        identity = self.identify(request)
        if identity is None:
            return plain(401)
        return self._posts[request.path](identity, request.body)

    def _capsule(self, identity: Identity, capsule: bytes) -> Answer:
        self._arrived.add(door="capsule")
        if self.holding is None:
            return problem("no-packages")
        table = self.admission.table(self.clock.now())
        return self.holding.take(table, table.name(identity), capsule)

    def _fetch(self, identity: Identity, capsule: bytes) -> Answer:
        self._arrived.add(door="fetch")
        table = self.admission.table(self.clock.now())
        client = table.name(identity)
        match table.fetch(client):
            case Verdict.OVER_QUOTA:
                return problem("over-quota")
            case Verdict.FULL:
                return try_later(self.retry_after_s)
        return self.turnstile.fetch(client, capsule)

    def _health(self) -> HttpResponse:
        content = json.dumps({"ok": not self.draining, "role": self.role}, separators=(",", ":")).encode()
        return HttpResponse(503 if self.draining else 200, content, "application/json")

    def _page(self) -> HttpResponse:
        return HttpResponse(200, *self.metrics.page())
