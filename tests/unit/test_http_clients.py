"""Every client of the product, at a server that means no good: one that sends it elsewhere, one whose answer is longer
than it may be, and one whose answer does not come to an end.
"""

import asyncio
import contextlib
import re
import threading
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest

from secvm.auditor.files import WebFiles
from secvm.cli.experiment.remote import Remote
from secvm.coordinator.log.cosigning import Cosigner
from secvm.coordinator.relayed.relay_statements import RelayClient
from secvm.coordinator.webhook import Webhook
from secvm.dashboard.coordinator_client import Reader
from secvm.errors import (
    BadBeaconError,
    BadInputError,
    BeaconUnavailableError,
    MalformedMessageError,
    UnreachableError,
)
from secvm.participant.sending.transport import RelayTransport, SendReply, UnsafeDirectTransport
from secvm.protocol.documents.experiment import Relay
from secvm.relay.gateway import GatewayClient
from secvm.runtime.beacons import WebBeacons
from secvm.runtime.clock import SteadyClock
from secvm.runtime.http.client import HttpClient
from tests.conftest import ROOT
from tests.unit.crypto.recorded_beacons import DRAND
from tests.unit.protocol.helpers import RELAY

#: For one answer of a server that drips.
_ANSWER_S = 0.05
#: A byte well before that.
_DRIP_S = 0.01


#: Where an answer can begin to come byte by byte.
HALVES = {
    "dripping head": b"HTTP/1.1 200 OK\r\nx: ",
    "dripping length of a chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
    "dripping body": b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n",
}


class Server:
    """A server that answers everything with a redirect to another one, with bytes without an end, or byte by byte."""

    def __init__(self, manner: str) -> None:
        self.asked: list[str] = []
        self.misled: list[str] = []
        self.over = threading.Event()
        self._elsewhere = self._serve(self.misled, "endless", "")
        self._first = self._serve(self.asked, manner, f"http://127.0.0.1:{self._elsewhere.server_port}/elsewhere")
        self.url = f"http://127.0.0.1:{self._first.server_port}"

    def _serve(self, seen: list[str], manner: str, location: str) -> ThreadingHTTPServer:
        over = self.over

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                seen.append(self.path)
                self.rfile.read(int(self.headers.get("content-length", 0)))
                with contextlib.suppress(OSError):
                    if manner in HALVES:
                        self.wfile.write(HALVES[manner])
                        while not over.wait(_DRIP_S):
                            self.wfile.write(b"0")
                        return
                    self.send_response(302 if manner == "elsewhere" else 200)
                    if manner == "elsewhere":
                        self.send_header("location", location)
                        self.send_header("content-length", "0")
                    self.end_headers()
                    while manner == "endless" and not over.is_set():
                        self.wfile.write(bytes(2**16))

            def do_POST(self) -> None:
                self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return server

    def close(self) -> None:
        self.over.set()
        for server in (self._first, self._elsewhere):
            server.shutdown()
            server.server_close()


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    made = Server(request.param)
    yield made
    made.close()


def device(url: str, _folder: Path) -> None:
    async def ask() -> None:
        async with HttpClient(connections=1) as client:
            relay = Relay(url=url, key=RELAY.public, role="entry")
            for way in (
                RelayTransport(client, [url], bytes, credential="secret"),
                UnsafeDirectTransport(client, url),
            ):
                assert await way.send(b"capsule", relay) == SendReply()
                assert await way.fetch("/v1/experiments") is None
                assert (await way.ask_token(b"blinded", b"l" * 32, relay)).content is None
                assert (await way.submit(b"capsules", b"l" * 32, relay)).content is None
                with contextlib.suppress(UnreachableError):
                    assert await way.relayed_terms(relay) is None

    asyncio.run(ask())


def relay_forwards(url: str, _folder: Path) -> None:
    async def ask() -> None:
        async with GatewayClient(url, token="secret", answer_bytes=100) as client:
            # Handed on as it is, given up, or too much: never followed, and never an answer that is none.
            assert (await client.post("/v1/capsule", b"capsule", "message/ohttp-req")).status in (302, 502, 504)
            assert (await client.post("/v1/deposit", b"capsules", "application/octet-stream")).status in (302, 502, 504)
            assert (await client.get("/v1/keys")).status in (302, 502, 504)

    asyncio.run(ask())


async def refused_or_redirected(asking: Awaitable[int]) -> None:
    """It is no answer, or one that says 302."""
    try:
        status = await asking
    except UnreachableError:
        return
    assert status == 302


def cosigner(url: str, _folder: Path) -> None:
    async def ask() -> None:
        async with HttpClient() as client:
            # It needs nothing of the cosigner itself; unit/coordinator/test_cosigning.py has a whole one.
            await refused_or_redirected(status(Cosigner._post(cast("Cosigner", None), client, url, b"checkpoint")))

    async def status(asking: Awaitable[tuple[int, bytes]]) -> int:
        return (await asking)[0]

    asyncio.run(ask())


def coordinator_asks_relays(url: str, _folder: Path) -> None:
    async def ask() -> None:
        relays = RelayClient({url: "secret"})
        relay = Relay(url=url, key=RELAY.public)
        assert await relays.commitment(relay, 64 * "0", 1) is None
        assert await relays.shown(relay, bytes(32)) == {}

    asyncio.run(ask())


def operators_page(url: str, _folder: Path) -> None:
    async def ask() -> None:
        async with Reader(url) as reader:
            with pytest.raises(UnreachableError):
                await reader.changed("/v1/experiments", most=100)
            headers = {"authorization": "Bearer secret"}
            await refused_or_redirected(status(reader, headers))

    async def status(reader: Reader, headers: dict[str, str]) -> int:
        return (await reader.pass_on("POST", "/admin/experiments", headers, b"{}", most=100)).status

    asyncio.run(ask())


def auditor(url: str, _folder: Path) -> None:
    with pytest.raises((BadInputError, MalformedMessageError)):
        WebFiles(url, SteadyClock()).get("/v1/experiments", most=100)


def beacons(url: str, _folder: Path) -> None:
    with pytest.raises((BeaconUnavailableError, BadBeaconError)):
        WebBeacons(drand_urls=[url]).fetch(DRAND, 7)


def command_line(url: str, folder: Path) -> None:
    key = folder / "admin.key"
    key.write_bytes(b"340cdc2bbf2c0bea7834308613e87c6d\n")
    key.chmod(0o600)
    remote = Remote(url, key)
    with pytest.raises(BadInputError, match=r"no redirect is followed|answers more than|too slowly"):
        remote.fetch("/v1/experiments", most=100)
    with pytest.raises(BadInputError, match=r"no redirect is followed|answers more than|too slowly"):
        remote.order("", {})


def webhook(url: str, _folder: Path) -> None:
    hook = Webhook(f"{url}/hook", coordinator="coordinator.example")

    async def post() -> None:
        async with HttpClient(answer_s=5, connections=1) as opened:
            await hook._post(opened, b"{}")

    asyncio.run(post())


CLIENTS: dict[str, Callable[[str, Path], None]] = {
    "auditor/files.py": auditor,
    "cli/experiment/remote.py": command_line,
    "coordinator/log/cosigning.py": cosigner,
    "coordinator/relayed/relay_statements.py": coordinator_asks_relays,
    "coordinator/webhook.py": webhook,
    "dashboard/coordinator_client.py": operators_page,
    "participant/sending/transport.py": device,
    "relay/gateway.py": relay_forwards,
    "runtime/beacons.py": beacons,
}
client = pytest.mark.parametrize("module", CLIENTS)


@client
@pytest.mark.parametrize("server", ["elsewhere"], indirect=True)
def test_repro_no_client_follows_a_redirect(module: str, server: Server, tmp_path: Path) -> None:
    CLIENTS[module](server.url, tmp_path)
    assert server.asked
    assert server.misled == []


@client
@pytest.mark.parametrize("server", ["endless"], indirect=True)
def test_every_client_refuses_an_answer_longer_than_it_may_be(module: str, server: Server, tmp_path: Path) -> None:
    CLIENTS[module](server.url, tmp_path)
    assert server.asked


@client
@pytest.mark.parametrize("server", HALVES, indirect=True)
def test_repro_answer_that_drips_anywhere_is_given_up_in_time(
    module: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The time that each client gives is its own, and longer than a test may take.
    ask = HttpClient.ask

    def impatient(self: HttpClient, url: str, **question: Any) -> Any:
        return ask(self, url, **{**question, "answer_s": _ANSWER_S})

    monkeypatch.setattr(HttpClient, "ask", impatient)
    CLIENTS[module](server.url, tmp_path)
    assert server.asked


def test_one_module_of_the_product_opens_connections_for_http() -> None:
    source = ROOT / "src" / "secvm"
    opening = re.compile(
        r"\b(ClientSession\(|HTTPS?Connection\(|build_opener\(|urlopen\(|urllib\.request|(?<!runtime\.)http\.client\b)"
    )
    asking = re.compile(r"\b(HttpClient\(|ask_once\b|ask_blocking\()")
    texts = {
        str(path.relative_to(source)): path.read_text()
        for path in source.rglob("*.py")
        if path.relative_to(source).parts[0] not in ("lab", "testing")
    }
    here = "runtime/http/client.py"
    assert [path for path, text in texts.items() if opening.search(text)] == [here]
    # Whoever puts a device together makes the client for its transport; who starts all parties asks whether they live;
    # the doctor looks at an answer's status alone.
    others = {here, "participant/main.py", "cli/doctor.py", "cli/federation.py"}
    assert {path for path, text in texts.items() if asking.search(text)} - others == set(CLIENTS)
