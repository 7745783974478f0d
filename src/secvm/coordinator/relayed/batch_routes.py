"""The routes by which a round's batch and its relays' statements arrive (docs/protocol.md §30, §31).

    PUT /v2/batch/LABEL/count       the mixing relay's count: 202 with the pieces that are here, 200 when it is whole
    PUT /v2/batch/LABEL/I           a piece: 200 when it is durable
    PUT /v2/counts/LABEL/NAME       a count or reveal, from anybody: it is signed

The first two need a relay's token: a piece is large, and is believed only when the batch is whole. What is refused is
told as a status and one sentence, which says nothing of what was sent.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping

from secvm.coordinator.problem_responses import plain_response, problem_response
from secvm.coordinator.publisher import decimal
from secvm.coordinator.relayed.batch_arrivals import Arrivals, RefusedBatchError
from secvm.coordinator.relayed.relay_statements import Papers
from secvm.coordinator.relayed.relayed_events import Telling
from secvm.coordinator.relayed.relayed_history import KeptRound, RelayedBook, RelayedBooks
from secvm.coordinator.store.port import CoordinatorStore
from secvm.errors import BadSignatureError, MalformedMessageError, StoreError
from secvm.protocol.problems import PROBLEMS
from secvm.protocol.relays.batches.label import INNER_BYTES, label_from_text
from secvm.protocol.relays.batches.pieces import PIECE_CAPSULES
from secvm.protocol.relays.public_counts import MAX_PAPER_BYTES
from secvm.runtime.clock import Clock
from secvm.runtime.http.server import Request, Response

PREFIX = "/v2/"
_BATCH, _COUNTS = "/v2/batch/", "/v2/counts/"
#: For ``HttpServer``.
BODY_LIMITS: Mapping[str, int] = {_BATCH: PIECE_CAPSULES * INNER_BYTES, _COUNTS: MAX_PAPER_BYTES}
#: Pieces that are compared or written at a time: the driver and the store need threads as well.
_AT_ONCE = 2

#: A round and its experiment, something that is brought of it, and the time → the answer.
_Take = Callable[[RelayedBook, KeptRound, int], Response]


class RelayedRoutes:
    """Requests → arrivals and papers → answers. For one event loop; the store is used in other threads."""

    def __init__(
        self,
        store: CoordinatorStore,
        clock: Clock,
        *,
        tokens: Iterable[bytes],
        most_bytes: int,
        telling: Telling,
        wake: Callable[[], None],
    ) -> None:
        """``tokens``: SHA-256 of each relay's token. ``most_bytes``: of a whole batch. ``wake`` tells the driver."""
        self._store = store
        self._clock = clock
        self._tokens = tuple(tokens)
        self._arrivals = Arrivals(store, most_bytes=most_bytes)
        self._telling = telling
        self._wake = wake
        self._books = RelayedBooks(store)
        self._busy = asyncio.Semaphore(_AT_ONCE)

    def before_body(self, path: str, headers: Mapping[str, str]) -> Response | None:
        """For ``HttpServer``: who has no token need not send a piece, and shall not fill our memory with one."""
        return plain_response(401) if path.startswith(_BATCH) and not self._has_token(headers) else None

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """Answer one request below ``PREFIX``."""
        if request.method != "PUT":
            return plain_response(405)
        if request.path.startswith(_BATCH) and not self._has_token(request.headers):
            return plain_response(401)
        match request.path.removeprefix(PREFIX).split("/"):
            case ["batch", label, "count"]:
                return self._taken(label, lambda book, one, now: self._count(book, one, request.body, now))
            case ["batch", label, named] if (index := decimal(named)) is not None:
                return self._taken(label, lambda book, one, now: self._piece(book, one, index, request.body, now))
            case ["counts", label, name]:
                return self._taken(label, lambda book, one, _now: self._paper(book, one, name, request.body))
        return plain_response(404)

    def _has_token(self, headers: Mapping[str, str]) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        digest = hashlib.sha256(token.encode("latin-1")).digest()
        # All are compared, each in constant time.
        found = [hmac.compare_digest(digest, known) for known in self._tokens]
        return scheme.lower() == "bearer" and any(found)

    async def _taken(self, label: str, take: _Take) -> Response:
        async with self._busy:
            answer = await asyncio.to_thread(self._answer, label, take)
        if answer.status == 200:
            self._wake()
        return answer

    def _answer(self, label: str, take: _Take) -> Response:
        try:
            found = self._books.find(label_from_text(label))
            if found is None:
                return plain_response(421)
            book, one = found
            try:
                return take(book, one, self._clock.now())
            except RefusedBatchError as refused:
                self._telling.refused(*one.place, status=refused.status)
                return plain_response(refused.status)
        except BadSignatureError:
            return plain_response(403)
        except MalformedMessageError:
            return plain_response(400)
        except StoreError:
            return problem_response(PROBLEMS["try-later"])

    def _count(self, book: RelayedBook, one: KeptRound, envelope: bytes, now: int) -> Response:
        have = self._arrivals.count(book, one, envelope, now)
        if have is None:
            return Response(200)
        return Response(202, json.dumps({"have": have}, separators=(",", ":")).encode(), "application/json")

    def _piece(self, book: RelayedBook, one: KeptRound, index: int, data: bytes, now: int) -> Response:
        self._arrivals.piece(book, one, index, data, now)
        self._telling.piece()
        return Response(200)

    def _paper(self, book: RelayedBook, one: KeptRound, name: str, envelope: bytes) -> Response:
        if not one.is_live:
            return plain_response(410)
        return Response(200) if Papers(self._store, book.document, one).offer(name, envelope) else plain_response(409)
