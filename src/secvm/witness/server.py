"""The witness's doors: ``POST /add-checkpoint``, ``GET /…/checkpoint``, ``/v1/seen``, ``/health``, ``/metrics``.

A question is read and its log's signature checked when it comes. It is decided and remembered in the store's thread,
together with others of the same moment; cosigned and answered when that is on the disk. The statuses are C2SP's
(``decision.RefusalReason``).

``/H/checkpoint``, with H the SHA-256 of an origin in hexadecimal, is what was cosigned last of that log, under the
log's signature and ours: C2SP's way by which whoever watches a log compares what it shows with what witnesses saw.
``/v1/seen`` tells the same of all logs at once, without signatures, and shows both notes of every fork.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Awaitable
from dataclasses import KW_ONLY, dataclass, field

from secvm.crypto.notes import NoteKey, SignatureKind, cosign_note
from secvm.crypto.signing import SigningKey
from secvm.errors import StoreError
from secvm.protocol.log.checkpoints import Checkpoint
from secvm.protocol.log.proofs import SIZE_TYPE, write_cosignatures, write_size
from secvm.runtime.clock import Clock
from secvm.runtime.disk.group_commit import GroupCommit
from secvm.runtime.http.messages import refuse_names
from secvm.runtime.http.server import HttpRequest, HttpResponse
from secvm.runtime.logs import Log
from secvm.runtime.metrics import Metrics
from secvm.witness.decision import CosigningQuestion, Decision, Growth, Logs, RefusalReason, Refuse, read_question
from secvm.witness.store import WitnessStore

SUBMIT_PATH = "/add-checkpoint"
SEEN_PATH = "/v1/seen"
TEXT_TYPE = "text/plain; charset=utf-8"
_JSON_TYPE = "application/json"
_MONITORED = re.compile("/([0-9a-f]{64})/checkpoint")
#: It changes with the log; whoever is between may keep it for a moment.
_SHORT = (("cache-control", "max-age=5"),)
#: A refusal of one origin for one reason is logged once in this time, and counted always.
_QUIET_MS = 60_000

#: What was decided and is durable, and when, in seconds.
_Decided = tuple[Decision, int]


@dataclass(eq=False, repr=False)
class WitnessDoors:
    """Answers requests. Its ``handle`` is what ``HttpServer`` is given."""

    store: WitnessStore
    logs: Logs
    _: KW_ONLY
    name: str
    key: SigningKey
    clock: Clock
    log: Log
    metrics: Metrics
    waiting: int
    retry_after_s: int
    draining: bool = field(default=False, init=False)
    #: When a refusal of an origin was logged, in the last minute.
    _logged: dict[tuple[RefusalReason, str], int] = field(default_factory=dict, init=False)
    #: What ``/v1/seen`` answers, until something is decided.
    _kept: HttpResponse | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        # No tick: few ask, and whoever waits for a commit is in the next group anyway.
        self._group: GroupCommit[CosigningQuestion, _Decided | None] = GroupCommit(
            self._commit, tick_ms=0.0, waiting=self.waiting, failed=lambda _error: None
        )
        #: By the hash in its path: a log that is known, or was when it was cosigned.
        origins = (*self.logs, *(at.origin for at, _ in self.store.seen()))
        self._origins = {_hash(origin): origin for origin in origins}
        growths = {"growth": tuple(growth.value for growth in Growth)}
        self._cosigned = self.metrics.counter("cosigned", "Checkpoints that were cosigned.", growths)
        reasons = {"reason": (*(reason.word for reason in RefusalReason), "busy", "store")}
        self._refused = self.metrics.counter("refused", "Requests that were not answered with a cosignature.", reasons)

    def handle(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        """Answer one request."""
        gets = {SEEN_PATH: self._seen, "/health": self._health, "/metrics": self._page}
        if request.method == "POST" and request.path == SUBMIT_PATH:
            return self._submit(request.body)
        if request.method == "GET" and request.path in gets:
            # What it has seen is for everybody; the rest is for whoever runs it, and not under a name.
            refused = None if request.path == SEEN_PATH else refuse_names(request.headers)
            return refused or gets[request.path]()
        monitored = _MONITORED.fullmatch(request.path)
        if request.method == "GET" and monitored:
            return self._newest(monitored[1])
        if request.path == SUBMIT_PATH or request.path in gets or monitored:
            return HttpResponse(405, b"", headers=(("allow", "POST" if request.path == SUBMIT_PATH else "GET"),))
        return HttpResponse(404)

    async def close(self) -> None:
        """Answer what waits, and let the store's thread go."""
        await self._group.close()

    # ── add-checkpoint ───────────────────────────────────────────────────────────────────────────────────────────────

    def _submit(self, body: bytes) -> HttpResponse | Awaitable[HttpResponse]:
        asked = read_question(body, self.logs)
        if isinstance(asked, Refuse):
            return self._refuse(asked)
        if self._group.full:
            self._refused.add(reason="busy")
            return self._try_later()
        # Added here and now: a task would first let others be counted as if there were room for all of them.
        return self._decided(asked, self._group.add(asked))

    def _commit(self, questions: list[CosigningQuestion]) -> list[_Decided | None]:
        """In the store's thread."""
        time_s = self.clock.now() // 1000
        return [(decision, time_s) for decision in self.store.answer(questions, time_s=time_s)]

    async def _decided(self, asked: CosigningQuestion, waiting: Awaitable[_Decided | None]) -> HttpResponse:
        durable = await waiting
        if durable is None:
            self._refused.add(reason="store")
            self.log.tell("not-stored", size=asked.checkpoint.size, **_which(asked.checkpoint))
            return self._try_later()
        self._kept = None
        decision, time_s = durable
        if isinstance(decision, Refuse):
            if decision.fork or decision.reason is RefusalReason.BAD_PROOF:
                self._tell_of(_event(decision), asked.checkpoint)
            return self._refuse(decision)
        self._cosigned.add(growth=decision.value)
        if decision is not Growth.RENEWED:
            self.log.tell("cosigned", size=asked.checkpoint.size, **_which(asked.checkpoint))
        line = cosign_note(asked.text, name=self.name, key=self.key, time_s=time_s)
        return HttpResponse(200, write_cosignatures([line]), TEXT_TYPE)

    def _tell_of(self, reason: RefusalReason, checkpoint: Checkpoint) -> None:
        """Let whoever runs the witness look: the log signed it. Once a minute, because anybody may send it again."""
        now = self.clock.now()
        # Whatever lies ahead was written before the clock was set back.
        self._logged = {refusal: at for refusal, at in self._logged.items() if 0 <= now - at < _QUIET_MS}
        if (reason, checkpoint.origin) not in self._logged:
            self._logged[reason, checkpoint.origin] = now
            self.log.tell(reason.word, size=checkpoint.size, **_which(checkpoint))

    def _refuse(self, refused: Refuse) -> HttpResponse:
        self._refused.add(reason=_event(refused).word)
        if refused.size is not None:
            return HttpResponse(refused.reason.status, write_size(refused.size), SIZE_TYPE)
        return HttpResponse(refused.reason.status, f"{refused.reason.sentence}\n".encode(), TEXT_TYPE)

    def _try_later(self) -> HttpResponse:
        return HttpResponse(503, b"Come again later.\n", TEXT_TYPE, (("retry-after", str(self.retry_after_s)),))

    # ── what anybody may look at ─────────────────────────────────────────────────────────────────────────────────────

    def _newest(self, origin_hash: str) -> HttpResponse:
        origin = self._origins.get(origin_hash)
        try:
            newest = None if origin is None else self.store.cosigned(origin)
        except StoreError:
            return self._try_later()
        if newest is None:
            return HttpResponse(404, b"Nothing of such a log was cosigned here.\n", TEXT_TYPE)
        note, time_s = newest
        # Ed25519 gives the line that was answered then, to the byte.
        line = cosign_note(note.text, name=self.name, key=self.key, time_s=time_s)
        return HttpResponse(200, note.signed_by(line).to_bytes(), TEXT_TYPE, _SHORT)

    def _seen(self) -> HttpResponse:
        if self._kept is not None:
            return self._kept
        try:
            seen, forks = self.store.seen(), self.store.forks()
        except StoreError:
            return self._try_later()
        content = {
            "witness": NoteKey(self.name, self.key.public, SignatureKind.COSIGNATURE).to_text(),
            "seen": [
                {"origin": at.origin, "root": base64.b64encode(at.root).decode(), "size": at.size, "time": time_s}
                for at, time_s in seen
            ],
            "forks": [
                {
                    "cosigned": fork.cosigned.decode(),
                    "origin": fork.origin,
                    "refused": fork.refused.decode(),
                    "size": fork.size,
                    "time": fork.time_s,
                }
                for fork in forks
            ],
        }
        self._kept = HttpResponse(200, json.dumps(content, ensure_ascii=False).encode() + b"\n", _JSON_TYPE)
        return self._kept

    def _health(self) -> HttpResponse:
        well = not self.draining
        return HttpResponse(200 if well else 503, b'{"ok":%s}' % (b"true" if well else b"false"), _JSON_TYPE)

    def _page(self) -> HttpResponse:
        return HttpResponse(200, *self.metrics.page())


def _event(refused: Refuse) -> RefusalReason:
    """What whoever runs the witness is told: a fork is one, whatever the answer was."""
    return RefusalReason.FORK if refused.fork else refused.reason


def _which(checkpoint: Checkpoint) -> dict[str, str]:
    """Whose log it is, in words that a log line may hold: the hash in the path of its checkpoint."""
    return {"digest": _hash(checkpoint.origin)}


def _hash(origin: str) -> str:
    return hashlib.sha256(origin.encode()).hexdigest()
