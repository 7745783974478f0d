"""The operator's API: experiments are made, paused, resumed and stopped here, by whoever has the admin key.

    GET  /admin/experiments                        all of them, with their standing
    POST /admin/experiments                        a specification (``new_experiment``) → a new experiment
    POST /admin/experiments/draft                  the same → the document that it would get; nothing is published
    GET  /admin/experiments/D                      one of them
    POST /admin/experiments/D/pause|resume|stop    another standing
    GET  /admin/openapi.json                       all of this for programs (``openapi``); needs no key

``Authorization: Bearer`` and the key; the coordinator keeps only its SHA-256, and compares in constant time. Wrong keys
are counted, and nobody is locked out: 256 random bits cannot be guessed, but a lock could be used against the operator.
JSON in and out; a refusal is ``application/problem+json`` whose ``detail`` is one sentence for the operator.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import InitVar, dataclass, field
from functools import partial
from typing import Any

from secvm.coordinator.epochs import Grid
from secvm.coordinator.experiments.new_experiment import NewestPulse, make_document, private_plan
from secvm.coordinator.experiments.specification import Specification
from secvm.coordinator.experiments.status_document import privacy_told
from secvm.coordinator.publisher import JSON_MEDIA_TYPE
from secvm.coordinator.store.port import CoordinatorStore, Standing, StoredExperiment
from secvm.crypto.sealing.kem import RandomBytes
from secvm.crypto.signing import SigningKey
from secvm.errors import BadInputError, LocalProtocolError, StoreError
from secvm.privacy.planning.private_plan import Outlook, PrivatePlan
from secvm.protocol.documents.experiment import ExperimentDocument, publish
from secvm.protocol.documents.recomputation import first_model
from secvm.protocol.log.policy import LogTerms
from secvm.protocol.problems import MEDIA_TYPE as PROBLEM_MEDIA_TYPE
from secvm.runtime.clock import Clock
from secvm.runtime.http.server import HttpRequest, HttpResponse
from secvm.runtime.metrics import Metrics
from secvm.runtime.settings import parse_settings

PREFIX = "/admin/experiments"
DRAFT = "draft"
#: Of a descent state. Every round several are held at once: beyond this a slip of the pen would end the coordinator.
MOST_STATE_BYTES = 2**32
#: Of an answer to a device, beside a tally's counts: first lines, header fields, padding and the seal.
_BESIDE_COUNTS_BYTES = 2**13
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


@dataclass(eq=False, repr=False, kw_only=True)
class Admin:
    """Answers the operator.

    ``wake`` tells the driver. ``key``: None at a node that cannot sign; there none are made.

    ``only_tests``: where the clock is steered, nothing but tests may run.

    ``log``: terms of the log of new experiments. ``newest`` asks NIST for its newest pulse, and blocks meanwhile.
    ``relays``: URLs of those that can be asked. ``most_state_bytes``: a larger model is refused before any of its
    size is made. ``answer_bytes``: an experiment whose tallies relays would not pass on is refused.
    """

    store: CoordinatorStore
    key: SigningKey | None
    admin_sha256: bytes
    grid: Grid
    clock: Clock
    dice: RandomBytes
    wake: Callable[[], None]
    only_tests: bool = False
    log: LogTerms | None = None
    newest: Callable[[], NewestPulse | None] | None = None
    relays: InitVar[Iterable[str]] = ()
    metrics: Metrics = field(default_factory=partial(Metrics, "coordinator"))
    most_state_bytes: int = MOST_STATE_BYTES
    answer_bytes: int = 2**23

    def __post_init__(self, relays: Iterable[str]) -> None:
        self._relays = {url.rstrip("/") for url in relays}
        self._refused = self.metrics.counter("admin_refused", "Requests to the operator's API without the admin key.")

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer one request under ``PREFIX``. NIST is asked, and a guarantee planned, in threads."""
        refused = self.before_body(request.headers)
        if refused is not None:
            return refused
        digest, _, action = request.path.removeprefix(PREFIX).strip("/").partition("/")
        try:
            if not digest:
                return await self._all(request)
            if (digest, action) == (DRAFT, ""):
                return await self._new(request, draft=True) if request.method == "POST" else _only("POST")
            experiment = next((stored for stored in self.store.experiments() if stored.digest == digest), None)
            if experiment is None:
                return refusal(404, "there is no such experiment")
            if not action:
                return _answer(_told(experiment)) if request.method == "GET" else _only("GET")
            return self._move(request, experiment, action)
        except BadInputError as fault:
            return refusal(422, str(fault))
        except StoreError:
            return refusal(503, "the store does not answer: ask again")

    def before_body(self, headers: Mapping[str, str]) -> HttpResponse | None:
        """For ``HttpServer``: who has no key need not send a specification, and shall not fill our memory with one."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        digest = hashlib.sha256(given.strip().encode("latin-1")).digest()
        if hmac.compare_digest(digest, self.admin_sha256) and scheme.lower() == "bearer":
            return None
        self._refused.add()
        said = "this is not the admin key" if given else "this needs the admin key"
        return refusal(401, said, ("www-authenticate", "Bearer"))

    async def _all(self, request: HttpRequest) -> HttpResponse:
        if request.method == "GET":
            return _answer({"experiments": [_told(stored) for stored in self.store.experiments()]})
        if request.method != "POST":
            return _only("GET", "POST")
        return await self._new(request)

    async def _new(self, request: HttpRequest, *, draft: bool = False) -> HttpResponse:
        """Make an experiment of a specification; of a ``draft`` the document alone, which is kept nowhere."""
        if self.key is None:
            return refusal(409, "this node has no key that signs: make experiments at one that drives")
        spec = parse_settings(request.body, Specification, "the specification")
        if self.only_tests and not spec.test:
            raise BadInputError("this coordinator has a steered clock: only experiments marked as a test may run")
        asks = None if spec.binning.beacon_delay_s is None else self.newest
        newest = None if asks is None else await asyncio.to_thread(asks)
        plan = None if spec.privacy is None else await asyncio.to_thread(private_plan, spec)
        document, own = make_document(
            spec,
            key=self.key.public,
            grid=self.grid,
            dice=self.dice,
            now=self.clock.now(),
            log=self.log,
            newest=newest,
            plan=plan,
        )
        if document.state_bytes > self.most_state_bytes:
            raise BadInputError(
                f"the model would have {document.state_bytes} bytes, and {self.most_state_bytes} are the most here:"
                " fewer bins or labels"
            )
        if document.tally_bytes + _BESIDE_COUNTS_BYTES > self.answer_bytes:
            raise BadInputError(
                f"a round's tally can have {document.tally_bytes} bytes, and relays pass on no more than"
                f" {self.answer_bytes} to a device: take fewer bins or labels, or raise limits.answer_bytes of every"
                " relay and then of this coordinator"
            )
        remarks = self._remarks(document, plan)
        if draft:
            return _answer({"document": document.data.decode(), "remarks": remarks})
        stored = StoredExperiment(
            digest=document.digest,
            envelope=publish(document, keys=(self.key,)),
            settings=own.model_dump_json().encode(),
            standing=Standing.RUNNING,
        )
        self.store.add_experiment(stored, first_model(document).by_name)
        self.wake()
        return _answer({**_told(stored), "remarks": remarks}, status=201)

    def _remarks(self, document: ExperimentDocument, plan: PrivatePlan | None) -> list[str]:
        """What the operator should know of a new experiment: whether a model is left, and what its rounds wait for."""
        if plan is None:
            return []
        useful = plan.useful
        remarks = [] if useful.outlook is Outlook.USABLE else [useful.sentence]
        unknown = [relay.url for relay in document.relays if relay.url.rstrip("/") not in self._relays]
        if unknown:
            remarks.append(
                f"Rounds wait until this coordinator has a token for {' and '.join(unknown)}: [[relays]] with url and"
                " token_file in its settings, and a restart."
            )
        return remarks

    def _move(self, request: HttpRequest, experiment: StoredExperiment, action: str) -> HttpResponse:
        if action not in _MOVES:
            return refusal(404, "an experiment can be paused, resumed and stopped")
        if request.method != "POST":
            return _only("POST")
        standing = _MOVES[action].get(experiment.standing)
        if standing is None:
            return refusal(409, f"the experiment is {experiment.standing.value}")
        if standing is not experiment.standing:
            try:
                self.store.set_standing(experiment.digest, standing)
            except LocalProtocolError:
                # Its last round, or the operator at another node, was quicker.
                return refusal(409, "the experiment is over since this instant")
            self.wake()
        return _answer({**_told(experiment), "standing": standing.value})


def _told(stored: StoredExperiment) -> dict[str, Any]:
    document = stored.document
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


def _answer(content: dict[str, Any], *, status: int = 200) -> HttpResponse:
    return HttpResponse(status, json.dumps(content).encode(), JSON_MEDIA_TYPE, (("cache-control", "no-store"),))


def refusal(status: int, sentence: str, *fields: tuple[str, str]) -> HttpResponse:
    """A problem with one sentence for the operator; ``fields`` are further header fields."""
    content = {"type": "about:blank", "status": status, "detail": sentence}
    return HttpResponse(
        status, json.dumps(content).encode(), PROBLEM_MEDIA_TYPE, (("cache-control", "no-store"), *fields)
    )


def _only(*methods: str) -> HttpResponse:
    verb = "has" if len(methods) == 1 else "have"
    return refusal(405, f"only {' and '.join(methods)} {verb} a meaning here", ("allow", ", ".join(methods)))
