"""Targets: what strangers send to the parties' doors, down to HTTP itself."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
from typing import Any

from secvm.auditor.files import GivenFiles, listed_experiments
from secvm.auditor.findings import Findings
from secvm.coordinator.epochs import Grid
from secvm.coordinator.experiments.operator_routes import PREFIX, Admin
from secvm.coordinator.intake.gateway import open_block
from secvm.coordinator.intake.package_routes import _split
from secvm.coordinator.publisher import Publisher
from secvm.coordinator.store.memory import MemoryStore
from secvm.errors import BadInputError, RemoteProtocolError
from secvm.participant.sending.transport import _instant, _retry_after_ms
from secvm.participant.ui.offers import read_list
from secvm.protocol.codec import PACKAGE_BYTES
from secvm.relay.admission import by_address, by_credential
from secvm.runtime.http._connection import Connection
from secvm.runtime.http.server import HttpRequest, HttpResponse, HttpServer, Limits
from secvm.testing.clock import ManualClock
from secvm.witness.decision import KnownLog, Logs, read_question
from secvm.witness.settings import read_log_list
from secvm_lab.fuzz import world
from secvm_lab.fuzz.target import Target, expect
from secvm_lab.fuzz.targets.documents import TARGETS as DOCUMENT_TARGETS
from secvm_lab.fuzz.targets.files import SPECIFICATION
from secvm_lab.fuzz.targets.log import TARGETS as LOG_TARGETS
from secvm_lab.rigs.histories.random_experiments import START

_KEY = "key"


def _request(path: str, body: bytes = b"", method: str = "POST", *, field: tuple[str, str] = ("a", "b")) -> HttpRequest:
    fields = {"authorization": f"Bearer {_KEY}", field[0]: field[1]}
    return HttpRequest(method, path, "", fields, body, "127.0.0.1")


# ── HTTP ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Wire:
    """A transport that remembers."""

    def __init__(self) -> None:
        self.said = bytearray()
        self.closed = False

    def get_extra_info(self, _name: str) -> tuple[str, int]:
        return "127.0.0.1", 1

    def write(self, data: bytes) -> None:
        expect(not self.closed, "something was written after the end")
        self.said += data

    def write_eof(self) -> None:
        self.closed = True

    close = abort = write_eof

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, **_limits: int) -> None:
        pass


def _talk(pieces: list[bytes]) -> tuple[list[tuple[object, ...]], bytes]:
    """What a handler is asked, and what goes out, when these pieces come in."""
    asked: list[tuple[object, ...]] = []

    def handler(request: HttpRequest) -> HttpResponse:
        asked.append((request.method, request.path, request.query, dict(request.headers), request.body))
        return HttpResponse(200, b"yes", "text/plain")

    server = HttpServer(handler, limits=Limits(body_bytes=256, head_bytes=512))
    connection, wire = Connection(server), _Wire()
    connection.connection_made(wire)  # type: ignore[arg-type]  # all of a transport that is used
    for piece in pieces:
        connection.data_received(piece)
    server.sweep(10_000.0)
    connection.connection_lost(None)
    expect(not server.connections, "a connection that is lost stays")
    return asked, bytes(wire.said)


def _http(data: bytes) -> object:
    whole, said = _talk([data])
    cut = len(data) // 2
    parts, also_said = _talk([data[:cut], data[cut:]])
    expect(parts == whole, "what a request is depends on how it was cut")
    for _method, path, _query, headers, body in whole:
        expect(isinstance(body, bytes) and len(body) <= 256, "a body beyond the limit was handed over")
        expect(isinstance(path, str) and (path[:1] == "/" or path == "*"), "a target that is none was handed over")
        expect(isinstance(headers, dict) and len(str(headers)) < 4096, "a head beyond the limit was handed over")
    # Answers and at most one refusal; a request in its making may be called too slow at the end.
    count = said.count(b"HTTP/1.1 ")
    expect(len(whole) <= count <= 2 * len(whole) + 2, "answers are missing, or too many")
    return whole, also_said


_HTTP_SEEDS = (
    b"GET /a?b=c HTTP/1.1\r\nhost: a\r\n\r\n",
    b"POST /p HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nhost: a\r\n\r\n",
    b"POST /c HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nlate: x\r\n\r\n",
    b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\nab",
    b"GET http://h.example/x HTTP/1.0\r\nconnection: close\r\n\r\n",
)


# ── coordinator ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _admin(data: bytes) -> object:
    office = Admin(
        store=MemoryStore(),
        key=world.history().parties.coordinator,
        admin_sha256=hashlib.sha256(_KEY.encode()).digest(),
        grid=Grid(period_s=3600, lead_s=300),
        clock=ManualClock(START),
        dice=world.dice(),
        wake=lambda: None,
        most_state_bytes=2**20,
    )
    answer = asyncio.run(office.answer(_request(PREFIX, data)))
    expect(answer.status in {201, 422}, "a specification is answered otherwise")
    return answer.status


@functools.cache
def _publisher() -> Publisher:
    publisher = Publisher(MemoryStore())
    publisher.put("/v1/keys", b"keys")
    return publisher


def _path(data: bytes) -> object:
    path = data.decode("latin-1")
    answers = [_publisher().handle(_request(path, method=method)) for method in ("GET", "HEAD", "POST")]
    expect(all(answer.status in {200, 304, 404, 405} for answer in answers), "a path is answered otherwise")
    return answers


def _opened(data: bytes) -> object:
    capsule = world.sealed(data).capsule
    block = open_block(world.gateway_keys(), [capsule, data])
    expect(len(block.block) in {0, 32 + PACKAGE_BYTES}, "a record of another length")
    expect(sum(block.refused.values()) == 2 - len(block.block) // 64, "a capsule was neither kept nor refused")
    return block


def _deposit(data: bytes) -> object:
    envelope, packed = _split(data)
    expect(len(envelope) + len(packed) + 4 == len(data), "a deposit's parts do not make a whole")
    return envelope


def _listed(data: bytes) -> object:
    with contextlib.suppress(RemoteProtocolError):
        digests = read_list(data)
        expect(all(len(digest) == 64 for digest in digests), "an experiment has another name than its digest")
    return listed_experiments(GivenFiles({"/v1/experiments": data}), Findings())


# ── relay, witness, participant ──────────────────────────────────────────────────────────────────────────────────────


def _identity(data: bytes) -> object:
    text = data.decode("latin-1")
    for header in (None, "x-forwarded-for"):
        for first_64 in (False, True):
            identify = by_address(header=header, proxies=("127.0.0.1",), first_64=first_64)
            found = identify(_request("/", field=("x-forwarded-for", text)))
            expect(found is None or len(found.client) in {4, 8, 16}, "an address has another length")
    return by_credential(None)(_request("/", field=("secvm-credential", text)))


@functools.cache
def _logs() -> Logs:
    parties = world.history().parties
    log = KnownLog.of_coordinator(world.history().terms.name, parties.log.public)
    return {log.origin: log}


def _seeds_of(name: str, targets: tuple[Target, ...]) -> Any:
    return next(target.seeds for target in targets if target.name == name)


def _dates(data: bytes) -> object:
    text = data.decode("latin-1")
    return _instant(text), _retry_after_ms(text)


TARGETS = (
    Target("http", _http, lambda: list(_HTTP_SEEDS), allowed=()),
    Target("admin", _admin, world.texts(SPECIFICATION), allowed=()),
    Target("public-path", _path, world.texts("/v1/keys", "/v1/blob/" + "ab" * 32, "/v1/experiment/../x"), allowed=()),
    Target("gateway-content", _opened, _seeds_of("sealed-request", DOCUMENT_TARGETS), allowed=()),
    Target("deposit", _deposit, lambda: [b"\3\0\0\0env" + b"secvm-capsules-v1\n\0\0\0\0"]),
    Target("listed-experiments", _listed, lambda: world.files("/v1/experiments"), allowed=(BadInputError,)),
    Target(
        "client-identity",
        _identity,
        world.texts("192.0.2.1", "2001:db8::1%eth0", "1.1.1.1, ::ffff:192.0.2.1"),
        allowed=(),
    ),
    Target(
        "witness-question",
        lambda data: read_question(data, _logs()),
        _seeds_of("cosigning-request", LOG_TARGETS),
        allowed=(),
    ),
    Target(
        "log-list",
        read_log_list,
        world.texts(
            "# logs\nlogs/v0\n"
            "vkey PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW\norigin a\nqpd 24\ncontact b\n"
        ),
        allowed=(BadInputError,),
    ),
    Target("answer-dates", _dates, world.texts("Thu, 01 Jan 2026 00:00:00 GMT", "120"), allowed=()),
)
