"""Doors that both roles have: terms, commitments, and what was said of a round (docs/protocol.md §27, §30).

    GET  R/terms                        what we take on, signed
    POST R/commitment                   by a coordinator with its token: our one commitment for a round
    GET  R/counts/LABEL                 both counts and both reveals, as far as they are here
    PUT  R/counts/LABEL/NAME            a count or reveal of the other relay, from anybody: it is signed
    GET  R/leaves/LABEL/I               digests of the entry relay's batch

``RoleDoors`` answers a request that is for one of them, and hands the others to the role.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from secvm.errors import MalformedMessageError, RemoteProtocolError, SecVMError
from secvm.protocol.canonical import Fields, decode_document
from secvm.protocol.relays.batches import label_from_text
from secvm.protocol.relays.counts import NAMES, write_shown
from secvm.protocol.version import MAX_ROUND
from secvm.relay.batches.rounds import BatchRound
from secvm.relay.batches.running_rounds import RunningRounds
from secvm.relay.refusals import RelayRefusalError, answer_to, refusal
from secvm.runtime.http.server import HttpRequest, HttpResponse

#: Of a request for a commitment, and of a count or reveal in its envelope.
MOST_ASKED_BYTES, MOST_PAPER_BYTES = 512, 4096
_INDEX = re.compile(r"0|[1-9][0-9]{0,5}")
_OCTETS, _JSON = "application/octet-stream", "application/json"

Answer = HttpResponse | Awaitable[HttpResponse]
#: The coordinator's URL, an experiment and a round → our commitment. Raises ``RemoteProtocolError``.
Commit = Callable[[str, str, int], Awaitable[bytes]]
B = TypeVar("B", bound=BatchRound[Any])


def read_asked(body: bytes) -> tuple[str, int]:
    """Experiment and round of a request for a commitment. Raises ``MalformedMessageError`` and nothing else."""
    fields = Fields(decode_document(body, max_bytes=MOST_ASKED_BYTES), "the request for a commitment")
    asked = fields.digest("experiment"), fields.integer("round", 1, MAX_ROUND)
    fields.done()
    return asked


def read_index(text: str) -> int:
    """The number of a piece in a path. Raises ``MalformedMessageError`` and nothing else."""
    if not _INDEX.fullmatch(text):
        raise MalformedMessageError("a piece is named by a number, without zeros before it")
    return int(text)


@dataclass(kw_only=True, eq=False, repr=False)
class RoleDoors(ABC, Generic[B]):
    """The doors of one role. ``handle`` answers, or returns None where the path is none of them."""

    path: str
    running: RunningRounds[B]
    #: What we take on, signed.
    terms: bytes
    #: Of each coordinator, by URL.
    tokens: Mapping[str, str]
    commit: Commit
    retry_after_s: int

    def handle(self, request: HttpRequest) -> Answer | None:
        """Answer one request, or say that it is for somebody else."""
        if not request.path.startswith(f"{self.path}/"):
            return None
        parts = request.path[len(self.path) + 1 :].split("/")
        try:
            answer = self._common(request, parts) or self._role(request, parts)
        except RemoteProtocolError as error:
            answer = answer_to(error, retry_after_s=self.retry_after_s)
        if isinstance(answer, HttpResponse):
            self.running.meter.answered(parts[0], answer.status)
            return answer
        return None if answer is None else self._awaited(parts[0], answer)

    async def _awaited(self, door: str, waiting: Awaitable[HttpResponse]) -> HttpResponse:
        try:
            answer = await waiting
        except RemoteProtocolError as error:
            answer = answer_to(error, retry_after_s=self.retry_after_s)
        except (SecVMError, sqlite3.Error):
            answer = self._try_later()
        self.running.meter.answered(door, answer.status)
        return answer

    def _try_later(self) -> HttpResponse:
        return refusal(503, retry_after_s=self.retry_after_s)

    @abstractmethod
    def _role(self, request: HttpRequest, parts: list[str]) -> Answer | None:
        """A door that only this role has."""

    @abstractmethod
    def _take_paper(self, batch_round: B, name: str, envelope: bytes, now: int) -> None:
        """A statement of the other relay. Raises ``RemoteProtocolError``."""

    def _common(self, request: HttpRequest, parts: list[str]) -> Answer | None:
        match request.method, parts:
            case "GET", ["terms"]:
                return HttpResponse(200, self.terms, _OCTETS)
            case "POST", ["commitment"]:
                return self._commitment(request)
            case "GET", ["counts", label]:
                return self._counts(label_from_text(label))
            case "PUT", ["counts", label, name]:
                return self._paper(self._round(label), name, request.body)
            case "GET", ["leaves", label, index]:
                leaves = self.running.keeping.leaf_piece(label_from_text(label), read_index(index))
                return refusal(404) if leaves is None else HttpResponse(200, leaves, _OCTETS)
        return None

    def _round(self, label: str) -> B:
        batch_round = self.running.rounds.get(label_from_text(label))
        if batch_round is None:
            raise RelayRefusalError("no round of this label is served here", why="wrong-label")
        return batch_round

    def _commitment(self, request: HttpRequest) -> Answer:
        given = request.headers.get("authorization", "").encode()
        known = [url for url, token in self.tokens.items() if hmac.compare_digest(given, f"Bearer {token}".encode())]
        if not known:
            return refusal(401)
        experiment, round_number = read_asked(request.body)
        return self._committed(known[0], experiment, round_number)

    async def _committed(self, url: str, experiment: str, round_number: int) -> HttpResponse:
        return HttpResponse(200, await self.commit(url, experiment, round_number), _OCTETS)

    def _counts(self, label: bytes) -> HttpResponse:
        if label not in self.running.rounds:
            raise RelayRefusalError("no round of this label is served here", why="unknown")
        papers = {name: self._shown(self.running.rounds[label], name) for name in NAMES}
        return HttpResponse(200, write_shown({name: data for name, data in papers.items() if data is not None}), _JSON)

    def _shown(self, batch_round: B, name: str) -> bytes | None:
        """A paper as anybody may see it now."""
        return self.running.keeping.ledger.paper(batch_round.plan.label, name)

    def _paper(self, batch_round: B, name: str, envelope: bytes) -> Answer:
        if len(envelope) > MOST_PAPER_BYTES:
            return refusal(413)
        return self._kept(lambda: self._take_paper(batch_round, name, envelope, self.running.clock.now()), batch_round)

    async def _kept(self, act: Callable[[], None], batch_round: B) -> HttpResponse:
        """200 when the act is durable."""
        await asyncio.to_thread(act)
        self.running.wake(batch_round.plan.label)
        return HttpResponse(200)
