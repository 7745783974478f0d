"""The relay's doors: ``POST R``, ``POST R/fetch``, ``GET R/keys``, ``GET R/terms``, ``GET /health``, ``GET /metrics``;
``POST R/tokens`` where it issues some.

A request is looked at in this order: is there such a door; is this the media type of a capsule; could it be one, by its
length; whose is it; may that client still send. What passes goes to the mode. Nothing of a request but its content is
handed to anybody.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from secvm.crypto.oblivious import REQUEST_MEDIA_TYPE
from secvm.crypto.tokens import REQUEST_MEDIA_TYPE as TOKEN_REQUEST_MEDIA_TYPE
from secvm.relay.admission import Admission, Identify, Verdict
from secvm.relay.epochs import Epochs
from secvm.relay.forwarding import GatewayClient
from secvm.relay.issuing import Issuing
from secvm.relay.modes import FETCH_PATH, KEYS_PATH, Answer, Mode, Turnstile
from secvm.relay.refusals import garbage, over_quota, plain, too_large, try_later
from secvm.runtime.clock import Clock
from secvm.runtime.http_server import Request, Response
from secvm.runtime.metrics import Metrics

#: Header, the shortest ``enc`` and a tag (docs/protocol.md §18.5).
SHORTEST_CAPSULE_BYTES = 7 + 32 + 16
#: The gateway's keys are asked for again after so long, by the relay's clock and by the machine's.
_KEYS_MS = 1000


class Doors:
    """Answers requests. Its ``handle`` is what ``HttpServer`` is given."""

    def __init__(
        self,
        path: str,
        mode: Mode,
        turnstile: Turnstile,
        gateway: GatewayClient,
        *,
        admission: Admission,
        identify: Identify,
        clock: Clock,
        metrics: Metrics,
        capsule_bytes: int,
        retry_after_s: int,
        kind: str,
        floor: int | None = None,
        epochs: Epochs | None = None,
        issuing: Issuing | None = None,
    ) -> None:
        """``kind``: what the mode is called in experiments; ``floor``, ``epochs``: what mode round keeps to."""
        self._issuing = issuing
        self._mode = mode
        self._kind = kind
        self._floor = floor
        self._epochs = epochs
        self._turnstile = turnstile
        self._keys = _Keys(gateway, clock)
        self._admission = admission
        self._identify = identify
        self._clock = clock
        self._metrics = metrics
        self._capsule_bytes = capsule_bytes
        self._retry_after_s = retry_after_s
        self._posts: dict[str, Callable[[bytes, bytes], Answer]] = {path: self._capsule, f"{path}/fetch": self._fetch}
        self._tokens_path = f"{path}/tokens"
        if issuing is not None:
            self._posts[self._tokens_path] = self._tokens
        self._gets = {
            f"{path}/keys": self._keys.answer,
            f"{path}/terms": self._terms,
            "/health": self._health,
            "/metrics": self._page,
        }
        self._arrived = metrics.counter(
            "requests", "Capsules by the door they came to.", {"door": ("capsule", "fetch", "tokens")}
        )
        statuses = {"status": ("400", "401", "410", "413", "415", "429", "503")}
        self._refused = metrics.counter("refused", "Capsules that were refused at once, by status.", statuses)
        self.draining = False

    def handle(self, request: Request) -> Answer:
        """Answer one request."""
        if request.method == "POST" and request.path in self._posts:
            answer = self._post(request)
            if isinstance(answer, Response) and answer.status >= 400:
                self._refused.add(status=str(answer.status))
            return answer
        if request.method == "GET" and request.path in self._gets:
            return self._gets[request.path]()
        return plain(405 if request.path in self._posts or request.path in self._gets else 404)

    def _post(self, request: Request) -> Answer:
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        tokens = request.path == self._tokens_path
        if media_type != (TOKEN_REQUEST_MEDIA_TYPE if tokens else REQUEST_MEDIA_TYPE):
            return plain(415)
        if len(request.body) > self._capsule_bytes and not tokens:
            return too_large()
        if len(request.body) < SHORTEST_CAPSULE_BYTES:
            return garbage()
        identity = self._identify(request)
        if identity is None:
            return plain(401)
        return self._posts[request.path](identity, request.body)

    def _capsule(self, identity: bytes, capsule: bytes) -> Answer:
        self._arrived.add(door="capsule")
        table = self._admission.table(self._clock.now())
        return self._mode.take(table, table.name(identity), capsule)

    def _fetch(self, identity: bytes, capsule: bytes) -> Answer:
        self._arrived.add(door="fetch")
        table = self._admission.table(self._clock.now())
        match table.fetch(table.name(identity)):
            case Verdict.OVER_QUOTA:
                return over_quota()
            case Verdict.FULL:
                return try_later(self._retry_after_s)
        return self._turnstile.post(FETCH_PATH, capsule)

    def _tokens(self, identity: bytes, request: bytes) -> Answer:
        assert self._issuing is not None
        self._arrived.add(door="tokens")
        table = self._admission.table(self._clock.now())
        return self._issuing.take(table, table.name(identity), request)

    def _health(self) -> Response:
        told = {"ok": not self.draining, "mode": self._kind}
        return Response(503 if self.draining else 200, json.dumps(told, separators=(",", ":")).encode(), _JSON)

    def _terms(self) -> Response:
        """What this relay promises everybody: devices whose guarantee rests on it ask for it."""
        told: dict[str, int | str | None] = {"floor": self._floor, "mode": self._kind}
        if self._epochs is not None:
            told |= {"deposit_ms": self._epochs.deposit_at(0), "period_ms": self._epochs.period}
        return Response(200, json.dumps(told, separators=(",", ":")).encode(), _JSON)

    def _page(self) -> Response:
        return Response(200, *self._metrics.page())


_JSON = "application/json"


class _Keys:
    """The gateway's keys, the same for everybody, asked for once in a while."""

    def __init__(self, gateway: GatewayClient, clock: Clock) -> None:
        self._gateway = gateway
        self._clock = clock
        self._answer: Response | None = None
        self._until = (0, 0.0)
        self._asking: asyncio.Task[Response] | None = None

    def answer(self) -> Answer:
        loop = asyncio.get_running_loop()
        # Both clocks: a steered one may stand still, or run through a day in a second.
        if self._answer is not None and self._clock.now() < self._until[0] and loop.time() < self._until[1]:
            return self._answer
        if self._asking is None:
            self._asking = loop.create_task(self._ask())
        return asyncio.shield(self._asking)

    async def _ask(self) -> Response:
        try:
            answer = await self._gateway.get(KEYS_PATH)
            if answer.status == 200:
                self._answer = answer
                self._until = (self._clock.now() + _KEYS_MS, asyncio.get_running_loop().time() + _KEYS_MS / 1000)
            return answer
        finally:
            self._asking = None
