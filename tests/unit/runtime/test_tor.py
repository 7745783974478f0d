"""Connections over Tor: what is said to its proxy, byte by byte, and what is done about a proxy that will not do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from secvm.errors import BadInputError, UnreachableError
from secvm.runtime.http.client import HttpClient
from secvm.runtime.http.tor import Circuit, NoCircuitError, NoTorError, TorProxy, greet, usual_circuit

ISOLATION = bytes(range(16))
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CONNECTED = b"\5\0\0\1\0\0\0\0\0\0"


@dataclass
class Proxy:
    """A SOCKS proxy that answers by heart, and is the server behind it too."""

    method: bytes = b"\5\2"
    password: bytes = b"\1\0"
    connected: bytes = CONNECTED
    heard: list[bytes] = field(default_factory=list)
    port: int = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def exchange(count: int, answer: bytes) -> None:
            self.heard.append(await reader.readexactly(count))
            writer.write(answer)

        try:
            await exchange(3, self.method)
            await exchange(2 + 9 + 1 + 32, self.password)
            head = await reader.readexactly(4)
            rest = await reader.readexactly({1: 4, 4: 16}.get(head[3]) or (await reader.readexactly(1))[0])
            self.heard += [head, rest, await reader.readexactly(2)]
            writer.write(self.connected)
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(ANSWER)
        except asyncio.IncompleteReadError:
            writer.close()

    @property
    def circuit(self) -> Circuit:
        return Circuit(TorProxy("127.0.0.1", self.port), ISOLATION)


@asynccontextmanager
async def proxying(proxy: Proxy) -> AsyncIterator[Proxy]:
    server = await asyncio.start_server(proxy.handle, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()


async def ask(proxy: Proxy, url: str = "http://relay.example/r") -> bytes:
    async with HttpClient(connections=1, circuit=proxy.circuit) as client:
        return (await client.ask(url, most=10)).content


@pytest.mark.parametrize(
    ("host", "kind", "name"),
    [
        ("relay.example", 3, b"relay.example"),
        (f"{'a' * 56}.onion", 3, b"a" * 56 + b".onion"),
        ("127.0.0.1", 1, bytes([127, 0, 0, 1])),
        ("[::1]", 4, bytes(15) + b"\1"),
    ],
)
async def test_names_go_to_tor_unresolved_with_a_password_that_names_the_circuit(
    host: str, kind: int, name: bytes
) -> None:
    async with proxying(Proxy()) as proxy:
        assert await ask(proxy, f"http://{host}:81/x") == b"ok"
    assert proxy.heard == [
        b"\5\1\2",
        b"\1\x09<torS0X>0\x20" + ISOLATION.hex().encode(),
        bytes([5, 1, 0, kind]),
        name,
        b"\0\x51",
    ]


@pytest.mark.parametrize("connected", [b"\5\0\0\3\x04name\0\0", b"\5\0\0\4" + bytes(18)])
async def test_an_answer_begins_behind_the_address_that_the_proxy_names(connected: bytes) -> None:
    async with proxying(Proxy(connected=connected)) as proxy:
        assert await ask(proxy) == b"ok"


@pytest.mark.parametrize("method", [b"\5\0", b"\5\xff", b"\4\2", b"HT"])
async def test_a_proxy_that_takes_no_password_is_refused_before_it_hears_where_to(method: bytes) -> None:
    # It would put everything on one circuit.
    async with proxying(Proxy(method=method)) as proxy:
        with pytest.raises(NoTorError, match="does not keep circuits apart"):
            await ask(proxy)
        with pytest.raises(NoTorError, match="does not keep circuits apart"):
            await greet(proxy.circuit.proxy)
    assert [said[0] for said in proxy.heard] == [5, 5]


async def test_a_password_that_is_refused_is_said() -> None:
    async with proxying(Proxy(password=b"\1\1")) as proxy:
        with pytest.raises(NoTorError, match="refuses a password"):
            await ask(proxy)
    assert len(proxy.heard) == 2


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (1, "could not build a circuit"),
        (4, "no exit of Tor"),
        (6, "too slow"),
        (0xF0, "no such onion"),
        (99, "refused"),
    ],
)
async def test_what_tor_says_about_a_server_is_no_fault_of_tor(code: int, why: str) -> None:
    async with proxying(Proxy(connected=bytes([5, code, 0, 1]) + bytes(6))) as proxy:
        with pytest.raises(UnreachableError, match=why) as fault:
            await ask(proxy)
    assert not isinstance(fault.value, NoTorError)
    assert isinstance(fault.value, NoCircuitError) == (code != 5)


async def test_where_there_is_no_tor_it_says_where_it_looked() -> None:
    async with proxying(Proxy()) as proxy:
        pass
    with pytest.raises(NoTorError, match=f"there is no Tor at 127.0.0.1:{proxy.port}: start it"):
        await ask(proxy)


async def test_onion_addresses_go_to_tor_whoever_asks_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxying(Proxy()) as proxy, HttpClient(connections=2) as client:
        monkeypatch.setenv("SECVM_TOR", f"127.0.0.1:{proxy.port}")
        assert (await client.ask(f"http://{'a' * 56}.onion/x", most=10)).content == b"ok"
        with pytest.raises(UnreachableError):
            await client.ask(f"http://127.0.0.1:{proxy.port}/x", most=10, answer_s=0.2)
        # What was said to the proxy as to a server is no greeting.
        assert [said[:2] for said in proxy.heard].count(b"\5\1") == 2
        monkeypatch.setenv("SECVM_TOR", "tor.example:9050")
        with pytest.raises(BadInputError, match=r"SECVM_TOR is 'tor\.example:9050'"):
            usual_circuit()


@pytest.mark.parametrize("text", ["127.0.0.1:9050", "[::1]:9150"])
def test_a_proxy_is_read_and_written(text: str) -> None:
    assert str(TorProxy.from_text(text)) == text


@pytest.mark.parametrize("text", ["", "9050", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:99999", "192.0.2.1:9050", "tor:1"])
def test_a_proxy_elsewhere_or_nowhere_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        TorProxy.from_text(text)


def test_what_names_a_circuit_is_not_printed() -> None:
    assert ISOLATION.hex() not in repr(Circuit(TorProxy("127.0.0.1", 1), ISOLATION))
    assert str(ISOLATION) not in repr(Circuit(TorProxy("127.0.0.1", 1), ISOLATION))
