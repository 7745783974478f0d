"""The client over real sockets: deadlines, limits, proxies, TLS; and which addresses are taken."""

import asyncio
import datetime as dt
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from secvm.errors import BadInputError, UnreachableError
from secvm.runtime.http.client import HttpAnswer, HttpClient, ask_blocking, ask_once, checked_url, goes_in_clear
from tests.serving import Server, serving


def ask(url: str, *, most: int) -> HttpAnswer:
    return ask_blocking(url, answer_s=10.0, most=most)


@pytest.fixture
def hello() -> Iterator[Server]:
    with serving() as server:
        server.answer = lambda _: (200, {}, b"hello")
        yield server


def test_longer_answer_is_cut_one_byte_after_what_it_may_have(hello: Server) -> None:
    assert [ask(hello.url, most=most).content for most in (5, 4, 1)] == [b"hello", b"hello", b"he"]


def test_proxy_of_the_environment_is_asked_for_other_machines_alone(
    hello: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        ask(hello.url + "/here", most=10)
        ask("http://127.example/there", most=10)
        with pytest.raises(UnreachableError):
            asyncio.run(ask_once("http://127.example/by-a-service", answer_s=10.0, most=10))
    assert hello.asked == ["/here"]
    assert proxy.asked == ["http://127.example/there"]


def test_tls_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = own_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with serving(tls=context) as server:
        with pytest.raises(UnreachableError):
            ask(server.url, most=10)
        # aiohttp reads the roots of trust when it is imported.
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        monkeypatch.setattr(aiohttp.connector, "_SSL_CONTEXT_VERIFIED", ssl.create_default_context())
        assert ask(server.url, most=10).status == 404


def own_certificate(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "here")])
    day = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(day - dt.timedelta(days=1))
        .not_valid_after(day + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "own.pem"
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(secret + certificate.public_bytes(pem))
    return path


def test_questions_of_one_client_share_its_connection_and_say_nothing_about_it() -> None:
    seen: list[tuple[int, list[str]]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            seen.append((self.client_address[1], self.headers.keys()))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.send_header("set-cookie", "who=you")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    async def twice(url: str) -> None:
        async with HttpClient() as client:
            for _ in range(2):
                await client.ask(url, most=0)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        url = f"http://127.0.0.1:{server.server_port}"
        asyncio.run(twice(url))
        ask(url, most=0)
        server.shutdown()
    assert [fields for _, fields in seen] == [["Host"]] * 3
    first, second, other = (port for port, _ in seen)
    assert first == second != other


@pytest.mark.parametrize(
    "url",
    ["", "here", "ftp://here", "https://", "https://here/?x=1", "https://here/#x", "https://me@here", "http://here:x"],
)
def test_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(BadInputError, match="a witness's address is a URL"):
        checked_url(url, "a witness's address")


def test_address_is_taken_without_the_slash_at_its_end() -> None:
    assert checked_url("https://here:8750/path/") == "https://here:8750/path"


@pytest.mark.parametrize(
    ("url", "clear"),
    [
        ("http://here", True),
        ("http://127.example", True),
        ("http://[::1", True),
        ("https://here", False),
        ("http://127.0.0.2:1", False),
        ("http://[::1]:1", False),
        ("http://localhost", False),
    ],
)
def test_http_to_another_machine_goes_in_clear(url: str, clear: bool) -> None:
    assert goes_in_clear(url) is clear


def test_nobody_at_the_address_is_said_without_the_address() -> None:
    with serving() as server:
        pass
    with pytest.raises(UnreachableError, match=r"^Connection refused$"):
        ask(server.url, most=1)
