"""HttpClient: how every party asks another over HTTP. No other module of the product opens a connection for that.

1. Nothing is followed. A redirect is an answer like any other, so that neither a question nor a key goes elsewhere.
2. The whole answer has one deadline, connecting, its head and the lengths of its chunks included.
3. No more is read than the caller allows.
4. A request carries what HTTP cannot do without and the caller's fields: no cookies, no user agent, no languages.
5. No proxy of the environment is used, except by ``ask_blocking``, for a person who sits at a terminal: there it is for
   the world outside, and this machine is asked directly. Where a circuit of Tor is given, everything takes it. Onion
   addresses always go to Tor (``tor.usual_circuit``), whoever asks.
"""

from __future__ import annotations

import asyncio
import os
import socket
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Required, Self, TypedDict, Unpack

import aiohttp

from secvm.errors import BadInputError, UnreachableError
from secvm.runtime.http.messages import is_loopback, is_onion
from secvm.runtime.http.tor import Circuit, TorConnector, usual_circuit

#: aiohttp would add these; versions and preferences of ours are nobody's business.
_UNSAID = ("Accept", "Accept-Encoding", "User-Agent")
_KEPT_ALIVE_S = 15.0


class SlowAnswerError(UnreachableError):
    """The answer did not come within its time."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What a server answered, whatever its status."""

    status: int
    #: Up to one byte more than the caller allows: a longer answer is cut there, and told by that byte.
    content: bytes = field(repr=False)
    #: Header fields; from a server, under names in any case.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def media_type(self) -> str:
        """The type of the content without its parameters, in lower case; empty where the server names none."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()


class HttpClient:
    """Asks servers over connections that are kept for the next question, until it is closed."""

    def __init__(
        self,
        *,
        answer_s: float = 30.0,
        connections: int = 100,
        environment_proxy: bool = False,
        circuit: Circuit | None = None,
    ) -> None:
        """``answer_s``: for one answer, all of it. ``connections``: as many at once; further questions wait.
        ``circuit``: of Tor.
        """
        self._answer_s, self._connections, self._environment_proxy = answer_s, connections, environment_proxy
        self._circuit = circuit
        #: For onion addresses, and for all others.
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of all connections."""
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()

    async def ask(
        self,
        url: str,
        *,
        most: int,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        answer_s: float | None = None,
    ) -> HttpAnswer:
        """The answer of the server at ``url``, at most ``most`` bytes of it. ``answer_s``: for this one.

        Raises
        ------
        UnreachableError
            There is no answer, no whole one, or none in time (``SlowAnswerError``); the message says which in a few
            words.
        """
        answer_s = self._answer_s if answer_s is None else answer_s
        onion = is_onion(url)
        session = self._sessions.get(onion)
        if session is None:
            session = self._sessions[onion] = self._open(usual_circuit() if onion else None)
        try:
            async with session.request(
                method,
                url,
                data=body,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=answer_s),
                proxy=_proxy(url) if self._environment_proxy else None,
                allow_redirects=False,
            ) as answer:
                pieces, left = [], most + 1
                while left and (piece := await answer.content.read(left)):
                    left -= len(piece)
                    pieces.append(piece)
                return HttpAnswer(answer.status, b"".join(pieces), answer.headers)
        except TimeoutError:
            raise SlowAnswerError(f"it answers too slowly, not within {answer_s:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise UnreachableError(_reason(error)) from None

    def _open(self, usual: Circuit | None) -> aiohttp.ClientSession:
        circuit, most = self._circuit or usual, self._connections
        connector = (
            aiohttp.TCPConnector(limit=most, keepalive_timeout=_KEPT_ALIVE_S)
            if circuit is None
            else TorConnector(circuit, limit=most, keepalive_timeout=_KEPT_ALIVE_S)
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_UNSAID,
            auto_decompress=False,
            # Whatever it would take from the environment, among it passwords from ~/.netrc.
            trust_env=False,
        )


class Question(TypedDict, total=False):
    """What ``HttpClient.ask`` takes besides an address and a deadline."""

    most: Required[int]
    method: str
    headers: Mapping[str, str] | None
    body: bytes | None


async def ask_once(
    url: str, *, answer_s: float, environment_proxy: bool = False, **question: Unpack[Question]
) -> HttpAnswer:
    """Ask as ``HttpClient.ask`` does, over a connection of its own."""
    async with HttpClient(answer_s=answer_s, connections=1, environment_proxy=environment_proxy) as client:
        return await client.ask(url, **question)


def ask_blocking(url: str, *, answer_s: float, **question: Unpack[Question]) -> HttpAnswer:
    """Ask as ``HttpClient.ask`` does, for whoever may block: the command line, an audit, a thread."""
    return asyncio.run(ask_once(url, answer_s=answer_s, environment_proxy=True, **question))


def checked_url(url: str, what: str = "a coordinator's address") -> str:
    """The address of a server without a slash at its end; refuses what is none. ``what`` it is, for the message."""
    parts = _split(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or "@" in url:
        raise BadInputError(f"{what} is a URL such as https://coordinator.example")
    return url.rstrip("/")


def goes_in_clear(url: str) -> bool:
    """Whether what is sent there can be read on the way: it goes to another machine, and not by https."""
    parts = _split(url)
    return parts.scheme != "https" and not is_loopback(parts.hostname or "")


def _split(url: str) -> urllib.parse.SplitResult:
    """The parts of an address; all of them empty where it is none."""
    try:
        parts = urllib.parse.urlsplit(url)
        _ = parts.port
    except ValueError:
        return urllib.parse.urlsplit("")
    return parts


def _proxy(url: str) -> str | None:
    """The proxy of the environment for this address; none for this machine."""
    parts = _split(url)
    host = parts.hostname or ""
    if is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(parts.scheme)


def _reason(error: Exception) -> str:
    """A few words for why there is no answer, without an address."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its certificate is not to be trusted"
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, socket.gaierror):
        return cause.strerror or "no such host"
    # asyncio writes its own text with the address in it.
    return os.strerror(cause.errno) if isinstance(cause, OSError) and cause.errno else "no answer"
