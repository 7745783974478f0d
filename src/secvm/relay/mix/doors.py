"""The mixing relay's doors: ``PUT R/batch/LABEL/count`` and ``…/I``, beside those of both roles (§30)."""

from __future__ import annotations

import asyncio
import sqlite3

from secvm.errors import RemoteProtocolError, SecVMError
from secvm.protocol.relays.batches.pieces import FIELD, MEDIA_TYPE, check_ticket
from secvm.relay.batches.doors import MOST_PAPER_BYTES, Answer, RoleDoors, read_index
from secvm.relay.batches.handover import have_json
from secvm.relay.batches.ledger import ENTRY_REVEAL, MIX_COUNT
from secvm.relay.mix.rounds import MixRound
from secvm.relay.refusals import RelayRefusalError, answer_to, refusal
from secvm.runtime.http.server import HttpRequest, HttpResponse


class MixDoors(RoleDoors[MixRound]):
    """The doors of a mixing relay."""

    def _role(self, request: HttpRequest, parts: list[str]) -> Answer | None:
        match request.method, parts:
            case "PUT", ["batch", label, "count"]:
                if len(request.body) > MOST_PAPER_BYTES:
                    return refusal(413)
                return self._count(self._round(label), request.body)
            case "PUT", ["batch", label, index]:
                return self._piece(self._round(label), read_index(index), request)
        return None

    async def _count(self, mix_round: MixRound, envelope: bytes) -> HttpResponse:
        """Announces the batch (202), and ends it where all pieces are there (200)."""
        try:
            have = await asyncio.to_thread(mix_round.announce, envelope, self._clock.now())
            if not mix_round.has_batch(have):
                return HttpResponse(202, have_json(have), "application/json")
            await asyncio.to_thread(mix_round.complete, envelope, self._clock.now())
        except RemoteProtocolError as error:
            return answer_to(error, retry_after_s=self._retry_after_s)
        except (SecVMError, sqlite3.Error):
            return refusal(503, retry_after_s=self._retry_after_s)
        self._wake(mix_round.plan.label)
        return HttpResponse(200)

    def _piece(self, mix_round: MixRound, index: int, request: HttpRequest) -> Answer:
        if request.headers.get("content-type", "") != MEDIA_TYPE:
            return refusal(415)

        def act() -> None:
            ticket, label, key = request.headers.get(FIELD, ""), mix_round.plan.label, mix_round.plan.entry_key
            check_ticket(ticket, key, label=label, piece=index, data=request.body)
            mix_round.put(index, request.body, self._clock.now())

        return self._kept(act, mix_round)

    def _take_paper(self, mix_round: MixRound, name: str, envelope: bytes, now: int) -> None:
        if name != ENTRY_REVEAL:
            raise RelayRefusalError("a mixing relay takes the entry relay's reveal", why="unknown")
        mix_round.answer(envelope, now)

    def _shown(self, mix_round: MixRound, name: str) -> bytes | None:
        # Our count is told when the batch is handed on, and not before.
        if name == MIX_COUNT and self._clock.now() < mix_round.plan.instants.mix_by:
            return None
        return super()._shown(mix_round, name)
