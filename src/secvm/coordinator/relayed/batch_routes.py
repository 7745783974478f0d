"""How a round's batch and its relays' statements arrive, at whichever node (docs/protocol.md §30, §31).

    PUT /v2/batch/LABEL/count       the mixing relay's count: 202 with the pieces that are here, 200 when it is whole
    PUT /v2/batch/LABEL/I           a piece: 200 when it is durable
    PUT /v2/counts/LABEL/NAME       a count or reveal, from anybody: it is signed

The count announces the batch: how many pieces it has and how long each is. Pieces come in any order, and again; the
count comes once more, and then the pieces are compared with it: their number, their order, their root. If they are what
was announced the batch is whole, durably, and never changes. If not they are dropped, and may come again. Nothing is
opened here.

The first two need a relay's token: a piece is large, and is believed only when the batch is whole. A refusal is a
status and one sentence, which says nothing of what was sent.
"""

from __future__ import annotations

import asyncio
import json
import operator
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, InitVar, dataclass

from secvm.coordinator.problem_responses import has_token, plain_response, problem_response
from secvm.coordinator.publisher import decimal
from secvm.coordinator.relayed.relay_statements import RelayStatements
from secvm.coordinator.relayed.relayed_events import RelayedEvents
from secvm.coordinator.relayed.relayed_history import OTHER_BATCH, RelayedHistories, RelayedHistory, RelayedRound
from secvm.coordinator.store.port import CoordinatorStore
from secvm.crypto.sealing.layers import INNER_BYTES
from secvm.errors import BadSignatureError, LocalProtocolError, MalformedMessageError, RemoteProtocolError, StoreError
from secvm.protocol.problems import PROBLEMS
from secvm.protocol.relays.batches import (
    PIECE_CAPSULES,
    capsule_digest,
    capsule_root,
    capsules_in_piece,
    cut,
    label_from_text,
    piece_count,
)
from secvm.protocol.relays.counts import MAX_PAPER_BYTES, MixCount
from secvm.runtime.clock import Clock
from secvm.runtime.http.server import HttpRequest, HttpResponse


class RefusedBatchError(RemoteProtocolError):
    """The coordinator does not take it; ``status`` is HTTP's word for the reason."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Arrivals:
    """Takes counts and pieces of batches. Blocks while the store works."""

    def __init__(self, store: CoordinatorStore, *, most_bytes: int) -> None:
        """``most_bytes`` is the limit on a whole batch."""
        self._store = store
        self._most = most_bytes // INNER_BYTES

    def count(self, history: RelayedHistory, known: RelayedRound, envelope: bytes, now: int) -> list[int] | None:
        """The mixing relay's count: which pieces are here already; None: the batch is whole.

        Raises
        ------
        MalformedMessageError, BadSignatureError
            It is no count of this round's mixing relay.
        RefusedBatchError
            Another count came before, the round is over, or the pieces are not what the count says.
        """
        _check_time(known, now)
        statements = RelayStatements(self._store, history.document, known)
        count = MixCount.read(envelope, history.document.mix_relay.key)
        if count.capsules > self._most:
            raise RefusedBatchError(f"a batch of {count.capsules} capsules, and {self._most} are the most here", 413)
        if not statements.offer("mix_count", envelope):
            raise RefusedBatchError("the mixing relay has signed another count for this label", 409)
        state = self._store.batch(*known.place)
        if state is None:
            raise RefusedBatchError("this round is over: its batch is forgotten", 410)
        if state.whole:
            return None
        if len(state.have) < piece_count(count.capsules):
            return list(state.have)
        if not self._is_batch(known, count):
            self._store.agree(fault_mark(known.manifest.label), OTHER_BATCH.encode())
            self._store.drop_pieces(*known.place, state.attempt)
            raise RefusedBatchError("the pieces are not the batch of this count: they may come again", 400)
        if not self._store.finish_batch(*known.place, state.attempt):
            raise RefusedBatchError("the pieces were dropped meanwhile: they may come again", 409)
        return None

    def piece(self, history: RelayedHistory, known: RelayedRound, index: int, data: bytes, now: int) -> None:
        """A piece of a batch that was announced; durable when it returns.

        Raises
        ------
        RefusedBatchError
            There is no such piece, it has another length, or other bytes came before.
        """
        _check_time(known, now)
        count = RelayStatements(self._store, history.document, known).mix_count
        if count is None:
            raise RefusedBatchError("a batch is announced by its count, and this one is not yet", 409)
        expected = capsules_in_piece(index, count.capsules) * INNER_BYTES
        if not expected:
            raise RefusedBatchError(f"the batch has {piece_count(count.capsules)} pieces, and none of {index}", 404)
        if len(data) != expected:
            raise RefusedBatchError(f"piece {index} has {expected} bytes, and these are {len(data)}", 413)
        try:
            taken = self._store.put_piece(*known.place, index, data)
        except LocalProtocolError:
            raise RefusedBatchError(f"piece {index} came before with other bytes", 409) from None
        if not taken:
            raise RefusedBatchError("this round is over: its batch is forgotten", 410)

    def _is_batch(self, known: RelayedRound, count: MixCount) -> bool:
        """Whether the pieces are as many capsules as the count says, ascending and under its root."""
        before = b""
        for digests in self._digests(known, count):
            seen = [before, *digests]
            if not digests or not all(map(operator.lt, seen, seen[1:])):
                return False
            before = digests[-1]
        root = capsule_root(digest for digests in self._digests(known, count) for digest in digests)
        return root == count.root

    def _digests(self, known: RelayedRound, count: MixCount) -> Iterator[list[bytes]]:
        for index in range(piece_count(count.capsules)):
            piece = self._store.piece(*known.place, index) or b""
            whole = len(piece) == capsules_in_piece(index, count.capsules) * INNER_BYTES
            yield [capsule_digest(capsule) for capsule in cut(piece, INNER_BYTES)] if whole else []


def fault_mark(label: bytes) -> str:
    """Under which name all nodes know that pieces of this round came that were not what was announced."""
    return f"relays {label.hex()} batch fault"


def _check_time(known: RelayedRound, now: int) -> None:
    if not known.is_live or now >= known.manifest.instants.open_by:
        raise RefusedBatchError("this round is over", 410)
    if now < known.manifest.instants.accept_until:
        raise RefusedBatchError("nothing can be mixed before the entry relay has stopped taking submissions", 425)


PREFIX = "/v2/"
_BATCH, _COUNTS = "/v2/batch/", "/v2/counts/"
#: For ``HttpServer``.
BODY_LIMITS: Mapping[str, int] = {_BATCH: PIECE_CAPSULES * INNER_BYTES, _COUNTS: MAX_PAPER_BYTES}
#: Pieces that are compared or written at a time: the driver and the store need threads as well.
_AT_ONCE = 2


@dataclass(eq=False, repr=False)
class RelayedRoutes:
    """Requests → arrivals and papers → answers. For one event loop; the store is used in other threads.

    ``tokens``: SHA-256 of each relay's token. ``most_bytes``: of a whole batch. ``wake`` tells the driver.
    """

    store: CoordinatorStore
    clock: Clock
    _: KW_ONLY
    tokens: InitVar[Iterable[bytes]]
    most_bytes: InitVar[int]
    events: RelayedEvents
    wake: Callable[[], None]

    def __post_init__(self, tokens: Iterable[bytes], most_bytes: int) -> None:
        self._tokens = tuple(tokens)
        self._arrivals = Arrivals(self.store, most_bytes=most_bytes)
        self._histories = RelayedHistories(self.store)
        self._busy = asyncio.Semaphore(_AT_ONCE)

    def before_body(self, path: str, headers: Mapping[str, str]) -> HttpResponse | None:
        """For ``HttpServer``: who has no token need not send a piece, and shall not fill our memory with one."""
        return plain_response(401) if path.startswith(_BATCH) and not has_token(headers, self._tokens) else None

    def handle(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        """Answer one request below ``PREFIX``."""
        if request.method != "PUT":
            return plain_response(405)
        if request.path.startswith(_BATCH) and not has_token(request.headers, self._tokens):
            return plain_response(401)
        match request.path.removeprefix(PREFIX).split("/"):
            case ["counts" as kind, label, name]:
                pass
            case ["batch" as kind, label, name] if name == "count" or decimal(name) is not None:
                pass
            case _:
                return plain_response(404)
        return self._taken(label, kind, name, request.body)

    async def _taken(self, label: str, kind: str, name: str, body: bytes) -> HttpResponse:
        async with self._busy:
            answer = await asyncio.to_thread(self._answer, label, kind, name, body)
        if answer.status == 200:
            self.wake()
        return answer

    def _answer(self, label: str, kind: str, name: str, body: bytes) -> HttpResponse:
        try:
            match = self._histories.find(label_from_text(label))
            if match is None:
                return plain_response(421)
            history, known = match
            try:
                return self._take(history, known, kind, name, body)
            except RefusedBatchError as refused:
                self.events.refused(*known.place, status=refused.status)
                return plain_response(refused.status)
        except BadSignatureError:
            return plain_response(403)
        except MalformedMessageError:
            return plain_response(400)
        except StoreError:
            return problem_response(PROBLEMS["try-later"])

    def _take(self, history: RelayedHistory, known: RelayedRound, kind: str, name: str, body: bytes) -> HttpResponse:
        if kind == "counts":
            if not known.is_live:
                return plain_response(410)
            kept = RelayStatements(self.store, history.document, known).offer(name, body)
            return HttpResponse(200) if kept else plain_response(409)
        now = self.clock.now()
        if name == "count":
            have = self._arrivals.count(history, known, body, now)
            if have is not None:
                content = json.dumps({"have": have}, separators=(",", ":")).encode()
                return HttpResponse(202, content, "application/json")
        else:
            self._arrivals.piece(history, known, int(name), body, now)
            self.events.piece()
        return HttpResponse(200)
