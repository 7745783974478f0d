"""No client of the program goes where an answer sends it: not with a question, and never with a key."""

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast

import aiohttp
import pytest

from secvm.auditor.web import WebFiles
from secvm.cli.remote import Remote
from secvm.coordinator.cosigning import Cosigner
from secvm.coordinator.relayed.asking import AskedRelays
from secvm.dashboard.reading import Reader
from secvm.errors import BadInputError, BeaconUnavailableError, UnreachableError
from secvm.participant.transport import (
    Issued,
    RelayTransport,
    SendResult,
    Submitted,
    UnsafeDirectTransport,
    http_session,
)
from secvm.protocol.experiment_document import Relay
from secvm.relay.forwarding import GatewayClient
from secvm.runtime.beacons import WebBeacons
from secvm.runtime.clock import SteadyClock
from secvm.runtime.http_client import HttpClient
from tests.conftest import ROOT
from tests.unit.crypto.recorded_beacons import DRAND
from tests.unit.protocol.helpers import RELAY


class Servers:
    """Two servers: the first answers everything with a redirect to the second, where nobody should come."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.misled: list[str] = []
        self._elsewhere = self._server(self.misled, None)
        self._first = self._server(self.asked, f"http://127.0.0.1:{self._elsewhere.server_port}/elsewhere")
        self.url = f"http://127.0.0.1:{self._first.server_port}"

    @staticmethod
    def _server(seen: list[str], location: str | None) -> ThreadingHTTPServer:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                seen.append(self.path)
                self.rfile.read(int(self.headers.get("content-length", 0)))
                self.send_response(200 if location is None else 302)
                if location is not None:
                    self.send_header("location", location)
                self.send_header("content-length", "0")
                self.end_headers()

            def do_POST(self) -> None:
                self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return server

    def close(self) -> None:
        for server in (self._first, self._elsewhere):
            server.shutdown()
            server.server_close()


@pytest.fixture
def servers() -> Iterator[Servers]:
    made = Servers()
    yield made
    made.close()


def device(url: str, _folder: Path) -> None:
    async def ask() -> None:
        async with http_session(1) as session:
            relay = Relay(url=url, key=RELAY.public)
            for way in (
                RelayTransport(session, [url], bytes, credential="secret"),
                UnsafeDirectTransport(session, url),
            ):
                assert await way.send(b"capsule", relay) == SendResult(acknowledged=False)
                assert await way.fetch("/v1/experiments") is None
                assert await way.ask_token(b"blinded", b"l" * 32, relay) == Issued()
                assert await way.submit(b"capsules", b"l" * 32, relay) == Submitted()
                assert await way.relayed_terms(relay) is None

    asyncio.run(ask())


def relay_forwards(url: str, _folder: Path) -> None:
    async def ask() -> None:
        async with GatewayClient(url, token="secret") as client:
            assert (await client.post("/v1/capsule", b"capsule", "message/ohttp-req")).status == 302
            assert (await client.post("/v1/deposit", b"capsules", "application/octet-stream")).status == 302
            assert (await client.get("/v1/keys")).status == 302

    asyncio.run(ask())


def cosigner(url: str, _folder: Path) -> None:
    async def ask() -> None:
        async with aiohttp.ClientSession() as session:
            # It needs nothing of the cosigner itself; unit/coordinator/test_cosigning.py has a whole one.
            assert (await Cosigner._post(cast("Cosigner", None), session, url, b"checkpoint"))[0] == 302

    asyncio.run(ask())


def coordinator_asks_relays(url: str, _folder: Path) -> None:
    async def ask() -> None:
        relays = AskedRelays(HttpClient(SteadyClock(), answer_s=10), {url: "secret"})
        relay = Relay(url=url, key=RELAY.public)
        assert await relays.commitment(relay, 64 * "0", 1) is None
        assert await relays.shown(relay, bytes(32)) == {}

    asyncio.run(ask())


def operators_page(url: str, _folder: Path) -> None:
    async def ask() -> None:
        async with Reader(url) as reader:
            with pytest.raises(UnreachableError, match="302"):
                await reader.changed("/v1/experiments", most=100)
            headers = {"authorization": "Bearer secret"}
            assert (await reader.pass_on("POST", "/admin/experiments", headers, b"{}", most=100)).status == 302

    asyncio.run(ask())


def auditor(url: str, _folder: Path) -> None:
    with pytest.raises(BadInputError, match="302"):
        WebFiles(url, SteadyClock()).get("/v1/experiments", most=100)


def beacons(url: str, _folder: Path) -> None:
    with pytest.raises(BeaconUnavailableError):
        WebBeacons(SteadyClock(), drand_urls=[url]).fetch(DRAND, 7)


def command_line(url: str, folder: Path) -> None:
    key = folder / "admin.key"
    key.write_bytes(b"340cdc2bbf2c0bea7834308613e87c6d\n")
    key.chmod(0o600)
    remote = Remote(url, key)
    with pytest.raises(BadInputError, match="no redirect is followed"):
        remote.experiments()
    with pytest.raises(BadInputError, match="no redirect is followed"):
        remote.order("", {})


CLIENTS: dict[str, Callable[[str, Path], None]] = {
    "auditor/web.py": auditor,
    "cli/remote.py": command_line,
    "coordinator/cosigning.py": cosigner,
    "coordinator/relayed_assembly.py": coordinator_asks_relays,
    "dashboard/reading.py": operators_page,
    "participant/transport.py": device,
    "relay/forwarding.py": relay_forwards,
    "runtime/beacons.py": beacons,
}


@pytest.mark.parametrize("module", CLIENTS)
def test_repro_no_client_follows_a_redirect(module: str, servers: Servers, tmp_path: Path) -> None:
    CLIENTS[module](servers.url, tmp_path)
    assert servers.asked
    assert servers.misled == []


def test_every_module_that_opens_connections_is_in_the_list_above() -> None:
    source = ROOT / "src" / "secvm"
    opening = re.compile(r"\b(ClientSession|HttpClient|HTTPS?Connection|build_opener|urlopen)\(")
    found = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if opening.search(path.read_text()) and path.relative_to(source).parts[0] not in ("lab", "testing")
    }
    # The blocking client itself; everybody who asks through it is in the list.
    assert found - {"runtime/http_client.py"} == set(CLIENTS)
