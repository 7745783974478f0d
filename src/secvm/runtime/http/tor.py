"""Tor as the way to a server: a proxy of this machine, asked for a circuit that nobody else's connection shares.

Tor keeps connections apart that come with different user names or passwords (``IsolateSOCKSAuth``, its default). So a
circuit here is 16 random bytes, said as a password. The user name marks them as that for Tor from 0.4.9 on, which has
reserved names with this beginning, and is an ordinary name for an older one. A proxy that does without passwords would
put everything on one circuit in silence, so nothing else is offered to it (RFC 1928, RFC 1929), and such a proxy is
refused. SOCKS libraries offer both, which is why these lines are here (docs/adr/0064-own-socks-greeting.md).

Host names go to Tor as they are: this machine looks up none, and an onion address has nothing to look up.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import struct
from dataclasses import dataclass, field
from ssl import CertificateError
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from secvm.errors import BadInputError, UnreachableError

#: Where Debian's Tor listens.
DEFAULT_PROXY = "127.0.0.1:9050"
#: A variable of the environment that names another place, for whoever asks onion addresses and has no settings for it.
VARIABLE = "SECVM_TOR"
#: A circuit through three relays, or six to an onion service, takes its time, and the first of a start takes longer.
ANSWER_S = 60.0
ISOLATION_BYTES = 16
_USER = b"<torS0X>0"
_VERSION, _PASSWORD_VERSION, _BY_PASSWORD, _CONNECT = 5, 1, 2, 1
#: Kinds of addresses; a name has its length in front.
_IPV4, _NAME, _IPV6 = 1, 3, 4
_ADDRESS_BYTES = {_IPV4: 4, _IPV6: 16}
_REFUSED = 5
_WHY = {
    1: "Tor could not build a circuit",
    2: "Tor may not connect there",
    3: "Tor reached no network",
    4: "no exit of Tor reached it",
    6: "the circuit of Tor was too slow",
}
#: Of an onion service, where Tor says it (proposal 304).
_WHY_ONION = "Tor reached no such onion service"


class NoCircuitError(UnreachableError):
    """Tor has not reached the server, which says nothing about the server."""


class NoTorError(NoCircuitError):
    """There is no Tor at the proxy's address, or one that does not keep circuits apart."""


@dataclass(frozen=True, slots=True)
class TorProxy:
    """A Tor client's SOCKS port."""

    host: str
    port: int

    @classmethod
    def from_text(cls, text: str) -> TorProxy:
        """An address and a port, such as 127.0.0.1:9050. Raises ``ValueError`` for anything else."""
        host, _, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not ipaddress.ip_address(host).is_loopback:
            raise ValueError("what is said to Tor's proxy is not encrypted")
        if not port.isascii() or not port.isdigit() or not 0 < int(port) < 2**16:
            raise ValueError("needs a port")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Circuit:
    """A way through Tor that only those connections share which bring the same random bytes."""

    proxy: TorProxy
    isolation: bytes = field(repr=False)

    async def connect(self, host: str, port: int) -> socket.socket:
        """A connection to a server.

        Raises
        ------
        UnreachableError
            The server refuses; ``NoCircuitError``: Tor has not reached it; ``NoTorError``: there is no Tor to ask.
        """
        raw = _socket_for(self.proxy)
        try:
            await self._connect(raw, host, port)
        except BaseException:
            raw.close()
            raise
        return raw

    async def _connect(self, raw: socket.socket, host: str, port: int) -> None:
        await _greet(raw, self.proxy)
        password = self.isolation.hex().encode()
        await _say(raw, bytes([_PASSWORD_VERSION, len(_USER)]) + _USER + bytes([len(password)]) + password)
        if (await _hear(raw, 2))[1] != 0:
            raise NoTorError(f"the proxy at {self.proxy} does not keep circuits apart: it refuses a password")
        await _say(raw, bytes([_VERSION, _CONNECT, 0]) + _destination(host) + struct.pack(">H", port))
        _, code, _, kind = await _hear(raw, 4)
        if code == _REFUSED:
            raise UnreachableError("it refuses connections through Tor")
        if code:
            raise NoCircuitError(_WHY_ONION if 0xF0 <= code <= 0xF7 else _WHY.get(code, "Tor refused"))
        await _hear(raw, (_ADDRESS_BYTES[kind] if kind in _ADDRESS_BYTES else (await _hear(raw, 1))[0]) + 2)


def _socket_for(proxy: TorProxy) -> socket.socket:
    raw = socket.socket(socket.AF_INET6 if ":" in proxy.host else socket.AF_INET, socket.SOCK_STREAM)
    raw.setblocking(False)
    return raw


def _destination(host: str) -> bytes:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = host.encode("ascii")
        return bytes([_NAME, len(name)]) + name
    return bytes([_IPV4 if address.version == 4 else _IPV6]) + address.packed


def usual_circuit() -> Circuit:
    """For servers and commands, which have nothing to keep apart. Raises ``BadInputError`` if the variable is wrong."""
    text = os.environ.get(VARIABLE, DEFAULT_PROXY)
    try:
        return Circuit(TorProxy.from_text(text), bytes(ISOLATION_BYTES))
    except ValueError:
        raise BadInputError(
            f"{VARIABLE} is '{text}', and should be an address of this machine and a port, such as {DEFAULT_PROXY}"
        ) from None


async def greet(proxy: TorProxy) -> None:
    """Return if a Tor client, or what speaks like one, takes passwords at this address; else ``NoTorError``."""
    with _socket_for(proxy) as raw:
        await _greet(raw, proxy)


async def _greet(raw: socket.socket, proxy: TorProxy) -> None:
    try:
        await asyncio.get_running_loop().sock_connect(raw, (proxy.host, proxy.port))
        await _say(raw, bytes([_VERSION, 1, _BY_PASSWORD]))
        version, method = await _hear(raw, 2)
    except OSError:
        raise NoTorError(f"there is no Tor at {proxy}: start it, or name its SOCKS port in tor_proxy") from None
    if version != _VERSION or method != _BY_PASSWORD:
        raise NoTorError(f"the proxy at {proxy} does not keep circuits apart, as Tor's SOCKS port does")


async def _say(raw: socket.socket, said: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(raw, said)


async def _hear(raw: socket.socket, count: int) -> bytes:
    """So many bytes, and none beyond: what follows belongs to the server."""
    heard = b""
    while len(heard) < count:
        piece = await asyncio.get_running_loop().sock_recv(raw, count - len(heard))
        if not piece:
            raise ConnectionResetError("the proxy closed the connection")
        heard += piece
    return heard


class _Unresolved(AbstractResolver):
    """Names stay names."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [ResolveResult(hostname=host, host=host, port=port, family=family, proto=0, flags=0)]

    async def close(self) -> None:
        """Nothing is open."""


class TorConnector(aiohttp.TCPConnector):
    """Connections of one circuit, for ``HttpClient``."""

    def __init__(self, circuit: Circuit, *, limit: int, keepalive_timeout: float) -> None:
        super().__init__(limit=limit, keepalive_timeout=keepalive_timeout, resolver=_Unresolved())
        self._circuit = circuit

    # aiohttp has no public place for a connection that somebody else makes.
    async def _wrap_create_connection(  # type: ignore[override]
        self, *args: Any, addr_infos: Any, req: aiohttp.ClientRequest, ssl: Any, server_hostname: str | None, **_: Any
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        host, port = addr_infos[0][4][:2]
        raw = await self._circuit.connect(host, port)
        loop = asyncio.get_running_loop()
        try:
            return await loop.create_connection(*args, sock=raw, ssl=ssl, server_hostname=server_hostname)
        except CertificateError as error:
            raw.close()
            raise aiohttp.ClientConnectorCertificateError(req.connection_key, error) from None
        except BaseException:
            raw.close()
            raise
