"""The operator's API: experiments are made, paused, resumed and stopped here, by whoever has the admin key.

    GET  /admin/experiments                        all of them, with their standing
    POST /admin/experiments                        a specification (``coordinator.questions``) → a new experiment
    GET  /admin/experiments/D                      one of them
    POST /admin/experiments/D/pause|resume|stop    another standing
    GET  /admin/openapi.json                       all of this for programs (``admin_openapi``); needs no key

``Authorization: Bearer`` and the key; the coordinator keeps only its SHA-256, and compares in constant time. Wrong keys
are counted, and nobody is locked out: 256 random bits cannot be guessed, but a lock could be used against the operator.
JSON in and out; a refusal is ``application/problem+json`` whose ``detail`` is one sentence for the operator.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from secvm.coordinator.books import first_blobs
from secvm.coordinator.chosen_beacons import NewestPulse
from secvm.coordinator.cover_question import PlannedCover
from secvm.coordinator.epochs import Grid
from secvm.coordinator.publisher import JSON_MEDIA_TYPE
from secvm.coordinator.questions import Specification, ask, planned_cover
from secvm.coordinator.status import privacy_told
from secvm.coordinator.store.port import CoordinatorStore, Standing, StoredExperiment
from secvm.crypto.kem import RandomBytes
from secvm.crypto.signing import Envelope, SigningKey
from secvm.errors import BadInputError, LocalProtocolError, StoreError
from secvm.protocol.experiment_document import ExperimentDocument, publish
from secvm.protocol.log import LogTerms
from secvm.protocol.problems import MEDIA_TYPE as PROBLEM_MEDIA_TYPE
from secvm.runtime.clock import Clock
from secvm.runtime.http_server import Request, Response
from secvm.runtime.metrics import Metrics
from secvm.runtime.settings import parse_settings

PREFIX = "/admin/experiments"
#: Of a descent state. Every round several are held at once: beyond this a slip of the pen would end the coordinator.
MOST_STATE_BYTES = 2**32
#: What may become of an experiment by the operator's word.
_MOVES: dict[str, dict[Standing, Standing]] = {
    "pause": {Standing.RUNNING: Standing.PAUSED, Standing.PAUSED: Standing.PAUSED},
    "resume": {Standing.PAUSED: Standing.RUNNING, Standing.RUNNING: Standing.RUNNING},
    "stop": {
        Standing.RUNNING: Standing.STOPPED,
        Standing.PAUSED: Standing.STOPPED,
        Standing.STOPPED: Standing.STOPPED,
    },
}


class Admin:
    """Answers the operator."""

    def __init__(
        self,
        *,
        store: CoordinatorStore,
        key: SigningKey | None,
        admin_sha256: bytes,
        grid: Grid,
        clock: Clock,
        dice: RandomBytes,
        wake: Callable[[], None],
        only_tests: bool = False,
        log: LogTerms | None = None,
        newest: Callable[[], NewestPulse | None] | None = None,
        redeems: bool = False,
        metrics: Metrics | None = None,
        most_state_bytes: int = MOST_STATE_BYTES,
    ) -> None:
        """``wake`` tells the driver. ``key``: None at a node that cannot sign; there none are made.

        ``only_tests``: where the clock is steered, nothing but tests may run.

        ``log``: terms of the log of new experiments. ``newest`` asks NIST for its newest pulse, and blocks meanwhile.
        ``redeems``: whether experiments may have tokens. ``most_state_bytes``: a larger model is refused before any of
        its size is made.
        """
        self._most_state_bytes = most_state_bytes
        self._redeems = redeems
        self._refused = None
        if metrics is not None:
            self._refused = metrics.counter("admin_refused", "Requests to the operator's API without the admin key.")
        self._store = store
        self._key = key
        self._admin_sha256 = admin_sha256
        self._grid = grid
        self._clock = clock
        self._dice = dice
        self._wake = wake
        self._only_tests = only_tests
        self._log = log
        self._newest = newest

    def answer(self, request: Request) -> Response | Awaitable[Response]:
        """Answer one request under ``PREFIX``; later, where NIST must be asked first, or cover be planned."""
        if request.method != "POST" or self.before_body(request.headers) is not None:
            return self.handle(request)
        asks = self._newest if b'"beacon_delay_s"' in request.body else None
        if asks is None and b'"privacy"' not in request.body:
            return self.handle(request)
        return self._after_thinking(request, asks)

    async def _after_thinking(self, request: Request, ask_newest: Callable[[], NewestPulse | None] | None) -> Response:
        newest = None if ask_newest is None else await asyncio.to_thread(ask_newest)
        try:
            cover = await asyncio.to_thread(lambda: planned_cover(_specification(request)))
        except BadInputError as fault:
            return refusal(422, str(fault))
        return self.handle(request, newest, cover)

    def handle(
        self, request: Request, newest: NewestPulse | None = None, cover: PlannedCover | None = None
    ) -> Response:
        """Answer at once. ``newest``: NIST's newest pulse, where it is known; ``cover``: what was planned already."""
        refused = self.before_body(request.headers)
        if refused is not None:
            return refused
        digest, _, action = request.path.removeprefix(PREFIX).strip("/").partition("/")
        try:
            if not digest:
                return self._all(request, newest, cover)
            found = next((one for one in self._store.experiments() if one.digest == digest), None)
            if found is None:
                return refusal(404, "there is no such experiment")
            if not action:
                return _answer(_told(found)) if request.method == "GET" else _only("GET")
            return self._move(request, found, action)
        except BadInputError as fault:
            return refusal(422, str(fault))
        except StoreError:
            return refusal(503, "the store does not answer: ask again")

    def before_body(self, headers: Mapping[str, str]) -> Response | None:
        """For ``HttpServer``: who has no key need not send a specification, and shall not fill our memory with one."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        digest = hashlib.sha256(given.strip().encode("latin-1")).digest()
        if hmac.compare_digest(digest, self._admin_sha256) and scheme.lower() == "bearer":
            return None
        if self._refused is not None:
            self._refused.add()
        return refusal(401, "this needs the admin key", ("www-authenticate", "Bearer"))

    def _all(self, request: Request, newest: NewestPulse | None, cover: PlannedCover | None) -> Response:
        if request.method == "GET":
            return _answer({"experiments": [_told(one) for one in self._store.experiments()]})
        if request.method != "POST":
            return _only("GET", "POST")
        if self._key is None:
            return refusal(409, "this node has no key that signs: make experiments at one that drives")
        told = _specification(request)
        if self._only_tests and not told.test:
            raise BadInputError("this coordinator has a steered clock: only experiments marked as a test may run")
        document, own = ask(
            told,
            key=self._key.public,
            grid=self._grid,
            dice=self._dice,
            now=self._clock.now(),
            log=self._log,
            newest=newest,
            cover=cover,
            redeems=self._redeems,
        )
        if document.state_bytes > self._most_state_bytes:
            raise BadInputError(
                f"the model would have {document.state_bytes} bytes, and {self._most_state_bytes} are the most here:"
                " fewer bins or labels"
            )
        stored = StoredExperiment(
            digest=document.digest,
            envelope=publish(document, keys=(self._key,)),
            settings=own.model_dump_json().encode(),
            standing=Standing.RUNNING,
        )
        self._store.add_experiment(stored, first_blobs(document))
        self._wake()
        return _answer(_told(stored), status=201)

    def _move(self, request: Request, found: StoredExperiment, action: str) -> Response:
        if action not in _MOVES:
            return refusal(404, "an experiment can be paused, resumed and stopped")
        if request.method != "POST":
            return _only("POST")
        standing = _MOVES[action].get(found.standing)
        if standing is None:
            return refusal(409, f"the experiment is {found.standing.value}")
        if standing is not found.standing:
            try:
                self._store.set_standing(found.digest, standing)
            except LocalProtocolError:
                # Its last round, or the operator at another node, was quicker.
                return refusal(409, "the experiment is over since this instant")
            self._wake()
        return _answer({**_told(found), "standing": standing.value})


def _specification(request: Request) -> Specification:
    return parse_settings(request.body, Specification, "the specification")


def _told(stored: StoredExperiment) -> dict[str, Any]:
    document = ExperimentDocument.from_bytes(Envelope.from_bytes(stored.envelope).payload)
    return {
        "digest": stored.digest,
        "title": document.title,
        "standing": stored.standing.value,
        "rounds": document.rounds,
        "budget": document.budget,
        "floor": document.floor,
        "privacy": privacy_told(document),
        "test": document.test,
        "settings": json.loads(stored.settings),
    }


def _answer(content: dict[str, Any], *, status: int = 200) -> Response:
    return Response(status, json.dumps(content).encode(), JSON_MEDIA_TYPE, (("cache-control", "no-store"),))


def refusal(status: int, sentence: str, *fields: tuple[str, str]) -> Response:
    """A problem with one sentence for the operator; ``fields`` are further header fields."""
    content = {"type": "about:blank", "status": status, "detail": sentence}
    return Response(status, json.dumps(content).encode(), PROBLEM_MEDIA_TYPE, (("cache-control", "no-store"), *fields))


def _only(*methods: str) -> Response:
    verb = "has" if len(methods) == 1 else "have"
    return refusal(405, f"only {' and '.join(methods)} {verb} a meaning here", ("allow", ", ".join(methods)))
