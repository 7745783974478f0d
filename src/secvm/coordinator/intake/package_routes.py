"""The routes by which packages arrive (docs/protocol.md §19.4, §19.5), and sealed fetches beside them.

    POST /v1/fetch       one capsule with a fetch, answered under its seal
    POST /v1/deposit     a relay's whole epoch, with its signed count
    POST /v1/capsule     one capsule, stored sealed; only where tests are
    POST /v1/batch       capsules side by side, for a steady load; only where tests are

Every refusal is a problem and says no more. Nothing here looks at who asks, and nothing but content and media type is
read of a request, and of a relay its token. Packages and fetches are taken from relays alone: quotas are the relay's
work, and who goes round it would go round them.

What is fetched may be large, and lie on a disk or in a database: it is read and sealed in threads, a few at a time, and
packages are taken meanwhile.

Where several nodes have one store, this one may not have heard yet of the newest round or key: before it refuses a
package for that, it looks once more. Before it answers a fetch it always does: what it holds in memory is not told
while the rest cannot be had.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import partial
from typing import TypeVar

from secvm.coordinator.intake.gateway import Gateway
from secvm.coordinator.intake.ingest import GROUP, Ingest
from secvm.coordinator.intake.running import CurrentRounds
from secvm.coordinator.problem_responses import ACCEPTED, has_token, plain_response, problem_response
from secvm.coordinator.store.port import Deposit
from secvm.crypto.sealing import capsules as packing
from secvm.crypto.sealing.oblivious import REQUEST_MEDIA_TYPE, RESPONSE_MEDIA_TYPE
from secvm.crypto.signing import Envelope
from secvm.errors import (
    BadSignatureError,
    MalformedMessageError,
    RemoteProtocolError,
    StoreError,
)
from secvm.protocol.documents.manifest import RelayCount, read_relay_count
from secvm.protocol.problems import PROBLEMS, Problem, problem_of
from secvm.runtime.clock import Clock
from secvm.runtime.http.server import Handler, HttpRequest, HttpResponse
from secvm.runtime.metrics import Metrics

#: For ``HttpServer``: these take more than one capsule. A deposit's limit is the operator's choice, and this one is for
#: 500,000 packages; a batch of 1,000 has 133 kB.
BODY_LIMITS: Mapping[str, int] = {"/v1/batch": 2**22, "/v1/deposit": 2**26}
#: A relay's count is a few hundred bytes.
_MAX_COUNT_BYTES = 2**12
#: Refusals that may only say that this node has not heard of the newest round yet.
_PERHAPS_NEWS = frozenset({"unknown-key", "unknown-experiment", "wrong-round", "stale"})

#: So many are read and sealed at a time: the driver and the store need threads as well.
_AT_ONCE = 4

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")
#: What becomes of a request's content.
_Route = Callable[[bytes], HttpResponse | Awaitable[HttpResponse]]


@dataclass(eq=False, repr=False)
class PackageRoutes:
    """Hands capsules to ingest and fetches to the gateway, and answers.

    ``tokens``: SHA-256 of each relay's token; the tokens themselves are not kept here. ``tests``: devices may come
    directly, and a load in batches. ``refresh`` makes what runs as new as the moment of the call; it raises
    ``StoreError``. Without it that is always so.
    """

    gateway: Gateway
    ingest: Ingest
    clock: Clock
    _: KW_ONLY
    tokens: Sequence[bytes] = ()
    tests: InitVar[bool] = False
    refresh: Callable[[], Awaitable[None]] | None = None
    metrics: Metrics = field(default_factory=partial(Metrics, "coordinator"))

    def __post_init__(self, tests: bool) -> None:
        self._refused = self.metrics.counter(
            "refused",
            "Requests with packages or for files that were refused, by what was wrong.",
            {"problem": tuple(PROBLEMS)},
        )
        self._present = CurrentRounds()
        self._reading = asyncio.Semaphore(_AT_ONCE)
        #: By path, for whoever dispatches.
        self.routes: dict[str, Handler] = {
            "/v1/fetch": self._guarded(self._fetch, REQUEST_MEDIA_TYPE, token=True),
            "/v1/deposit": self._guarded(self._deposit, packing.MEDIA_TYPE, token=True),
        }
        if tests:
            self.routes |= {
                "/v1/capsule": self._guarded(self._capsule, REQUEST_MEDIA_TYPE),
                "/v1/batch": self._guarded(self._batch, packing.MEDIA_TYPE, token=True),
            }

    def update(self, present: CurrentRounds) -> None:
        """From now on this is what runs, for the gateway and for ingest as well."""
        self._present = present
        self.gateway.update(present)
        self.ingest.update(present)

    def _guarded(self, handler: _Route, media_type: str, *, token: bool = False) -> Handler:
        """What all routes have in common."""

        def guarded(request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
            if request.method != "POST":
                return plain_response(405)
            if token and not has_token(request.headers, self.tokens):
                return plain_response(401)
            if not _is_of(media_type, request.headers.get("content-type", "")):
                return plain_response(415)
            try:
                answer = handler(request.body)
            except RemoteProtocolError as error:
                if self.refresh is not None and error.problem in _PERHAPS_NEWS:
                    return self._settled(self._look_again(self.refresh, handler, request.body))
                return self._refuse(problem_of(error))
            return self._settled(answer) if isinstance(answer, Coroutine) else answer

        return guarded

    async def _look_again(self, refresh: Callable[[], Awaitable[None]], handler: _Route, body: bytes) -> HttpResponse:
        await refresh()
        answer = handler(body)
        return await answer if isinstance(answer, Awaitable) else answer

    async def _settled(self, answer: Awaitable[HttpResponse]) -> HttpResponse:
        try:
            return await answer
        except RemoteProtocolError as error:
            return self._refuse(problem_of(error))
        except StoreError:
            # Nobody knows whether it has a place: it may come again.
            return self._refuse(PROBLEMS["try-later"])

    def before_body(self, path: str, headers: Mapping[str, str]) -> HttpResponse | None:
        """For ``HttpServer``: who has no token need not send a large body, and shall not fill our memory with one."""
        return None if path not in BODY_LIMITS or has_token(headers, self.tokens) else plain_response(401)

    def _refuse(self, problem: Problem) -> HttpResponse:
        self._refused.add(problem=problem.name)
        return problem_response(problem)

    def _accepted(self, problem: Problem | None) -> HttpResponse:
        return ACCEPTED if problem is None else self._refuse(problem)

    # ── from devices, by whatever way ────────────────────────────────────────────────────────────────────────────────

    async def _fetch(self, capsule: bytes) -> HttpResponse:
        if self.refresh is not None:
            # Also what lies in memory is not answered while the database is away: shards lie there alone, and devices
            # take it for ill will when those cannot be had and everything else can.
            await self.refresh()
        return HttpResponse(200, await self.in_thread(self.gateway.fetch, capsule), RESPONSE_MEDIA_TYPE)

    async def in_thread(self, act: Callable[[Asked], Answered], asked: Asked) -> Answered:
        """Do something that reads the store, beside the event loop, after the few that came before it."""
        async with self._reading:
            return await asyncio.to_thread(act, asked)

    def _capsule(self, capsule: bytes) -> Awaitable[HttpResponse]:
        return self.ingest.take_capsule(capsule, self._accepted)

    def _batch(self, packed: bytes) -> Awaitable[HttpResponse]:
        return self.ingest.take_batch(packed, self._accepted)

    # ── from relays ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _deposit(self, body: bytes) -> HttpResponse:
        self.ingest.check_room(len(body))
        envelope, packed = _split(body)
        try:
            relay, epoch, counted = self._counted(envelope)
        except RemoteProtocolError:
            if self.refresh is None:
                raise
            await self.refresh()
            relay, epoch, counted = self._counted(envelope)
        groups, match = [], 0
        for capsules in packing.unpack_in_groups(packed, GROUP):
            groups.append(packing.pack(capsules))
            match += len(capsules)
            await asyncio.sleep(0)
        if match != counted:
            raise MalformedMessageError("a deposit of which the count is not true")
        deposit = Deposit(epoch, relay, envelope)
        return await self.ingest.take_deposit(deposit, groups, self._accepted, packages=match)

    def _counted(self, envelope: bytes) -> tuple[str, int, int]:
        """Which relay counted, of which epoch, and how many capsules."""
        relay, count = self._relay_count(envelope)
        epoch = self._present.epoch_opened_at(count.opens_at)
        self._present.check_epoch(epoch, self.clock.now())
        return relay, epoch, count.capsules

    def _relay_count(self, envelope: bytes) -> tuple[str, RelayCount]:
        """The count, and the public key of the relay of a running experiment that signed it."""
        signers = {key_id for key_id, _ in Envelope.from_bytes(envelope).signatures}
        for running in self._present.rounds:
            for relay in running.document.relays:
                if relay.key.key_id in signers:
                    return relay.key.data.hex(), read_relay_count(envelope, running.document)
        raise BadSignatureError


def _is_of(media_type: str, header: str) -> bool:
    return header == media_type or header.partition(";")[0].strip().lower() == media_type


def _split(body: bytes) -> tuple[bytes, bytes]:
    length = int.from_bytes(body[:4], "little")
    if not 0 < length <= min(_MAX_COUNT_BYTES, len(body) - 4):
        raise MalformedMessageError("a deposit whose lengths do not add up")
    return body[4 : 4 + length], body[4 + length :]
