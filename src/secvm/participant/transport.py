"""How capsules leave the device, and how public files come in: a port, the way through relays, and an unsafe one.

Through a relay (docs/protocol.md §19.6) a package is one POST of sealed bytes, and a fetch is one too: the relay learns
who asks, the gateway what is asked for. Rules of the way:

 1. A request carries what HTTP cannot do without, and the media type: no cookies, no user agent, no languages.
 2. No redirect is followed. No answer is read beyond what it may have. Everything has a time limit.
 3. Which relay a package takes is decided by the digest of its capsule: uniform, and the same when it is sent again, so
    that a relay can tell a re-send for what it is and no second relay hears of it.
 4. Which relay a fetch takes is thrown with the device's dice. A *fresh* fetch, by which a device checks what it was
    told before, takes a connection of its own, and another relay than the fetch before it where there are several.

``send`` and ``fetch`` never raise because of what the network or a server does.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Protocol

import aiohttp
import yarl

from secvm.crypto.oblivious import RequestSealer, decode_key_configurations
from secvm.crypto.tokens import ANSWER_MEDIA_TYPE as TOKEN_ANSWER
from secvm.crypto.tokens import REQUEST_MEDIA_TYPE as TOKEN_REQUEST
from secvm.errors import LocalProtocolError, RemoteProtocolError
from secvm.participant.dice import RandomBytes
from secvm.protocol.documents import is_integer
from secvm.protocol.experiment_document import ExperimentDocument, Relay
from secvm.protocol.schedule import Window
from secvm.protocol.sealed_requests import fetch_request, read_answer

SEALED_REQUEST = "message/ohttp-req"
SEALED_RESPONSE = "message/ohttp-res"
#: A manifest or an experiment in its envelope, with room for padding.
MOST_DOCUMENT_BYTES = 2**20 + 2**14
#: Keys of a gateway, see ``manifest.MAX_KEY_BYTES``.
_MOST_KEY_BYTES = 2**13
_MOST_TERMS_BYTES = 2**10
_TIMEOUT_S = 30.0
#: Asked to wait longer than this, a device does as if it were this.
_LONGEST_WAIT_MS = 86_400_000
#: What aiohttp would say about itself.
_UNSAID = ("User-Agent", "Accept", "Accept-Encoding")
_SEALED_HEADERS = {"Content-Type": SEALED_REQUEST}
_CREDENTIAL = "Secvm-Credential"
#: A request line, a few headers and the frames around them; what a transport counts on top of what it was given.
OVERHEAD_BYTES = 400


@dataclass(frozen=True, slots=True)
class SendResult:
    """What became of a capsule."""

    acknowledged: bool
    #: The server asked to wait so long.
    retry_after_ms: int = 0
    #: Sending it again will not help.
    final: bool = False


@dataclass(frozen=True, slots=True)
class Fetched:
    """A public file, and what the server's clock said."""

    content: bytes = field(repr=False)
    server_time: int | None = None


@dataclass(frozen=True, slots=True)
class Issued:
    """What an issuer of tokens said."""

    #: None: it gave none, or nobody answered.
    answer: bytes | None = field(default=None, repr=False)
    #: Asking again will not help.
    final: bool = False


@dataclass(frozen=True, slots=True)
class Deposits:
    """When a relay in mode round hands on what it has: from one such moment to the next is one batch. Milliseconds."""

    #: One of these moments.
    at: int
    period: int

    def together(self, window: Window) -> bool:
        """Whether all that is sent in the window is one batch."""
        return (window.opens_at - self.at) // self.period == (window.closes_at - 1 - self.at) // self.period


@dataclass(frozen=True, slots=True)
class RelayTerms:
    """What a relay says that it does, to everybody alike."""

    mode: str
    #: Mode round: with fewer distinct clients it hands nothing on.
    floor: int | None
    #: Mode round: when it does so.
    deposits: Deposits | None = None


class Transport(Protocol):
    """The network, as a device sees it."""

    def check(self, document: ExperimentDocument) -> None:
        """Raise ``LocalProtocolError`` where this way is not good enough for the experiment."""
        ...

    async def send(self, capsule: bytes, relay: Relay | None) -> SendResult:
        """Send one capsule."""
        ...

    async def fetch(self, path: str, *, most: int = MOST_DOCUMENT_BYTES, fresh: bool = False) -> Fetched | None:
        """A public file of at most so many bytes; None where it could not be had. ``fresh``: over a path of its own."""
        ...

    async def ask_issuer(self, issuer: str, request: bytes) -> Issued:
        """Ask for anonymous tokens, as the client that this device is to relays."""
        ...

    async def relay_terms(self, relay: Relay) -> RelayTerms | None:
        """What a relay promises; None where it does not say."""
        ...

    async def close(self) -> None:
        """Let go of all connections."""
        ...


def relay_for(capsule: bytes, relays: Sequence[Relay]) -> Relay | None:
    """The relay that this capsule takes, now and whenever it is sent again."""
    if not relays:
        return None
    return relays[int.from_bytes(hashlib.sha256(capsule).digest()[:8], "big") % len(relays)]


def http_session(connections: int) -> aiohttp.ClientSession:
    """A session that says nothing about itself. Only where a loop runs."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections, keepalive_timeout=15.0),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S),
        skip_auto_headers=_UNSAID,
        auto_decompress=False,
        trust_env=False,
    )


class RelayTransport:
    """Through relays: the way for people. ``relays`` are the URLs that fetches take."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        relays: Sequence[str],
        random_bytes: RandomBytes,
        *,
        credential: str | None = None,
    ) -> None:
        if not relays:
            raise LocalProtocolError("fetches need at least one relay")
        #: Where a relay knows its clients by credential, this is said to it, and to nobody behind it.
        self._headers = _SEALED_HEADERS if credential is None else {**_SEALED_HEADERS, _CREDENTIAL: credential}
        self._session = session
        self._relays = [_Urls.of(url) for url in relays]
        self._random_bytes = random_bytes
        self._urls: dict[str, yarl.URL] = {}
        #: Which relay the last fetch took.
        self._took = 0
        #: Sealers by relay: keys are asked for once, and again when the gateway does not know them any more.
        self._sealers: dict[yarl.URL, RequestSealer] = {}

    def check(self, document: ExperimentDocument) -> None:
        if not document.relays:
            raise LocalProtocolError("this experiment has no relay to send packages to")
        # The gateway's key for fetches comes from there: whoever may change it on the way reads what is asked for.
        if not document.test and not all(urls.keys.scheme == "https" or _is_here(urls.keys) for urls in self._relays):
            raise LocalProtocolError(
                "the relays in the settings must begin with https, for this experiment is not marked as a test"
            )

    async def send(self, capsule: bytes, relay: Relay | None) -> SendResult:
        if relay is None:
            raise LocalProtocolError("a package needs a relay")
        url = self._urls.get(relay.url)
        if url is None:
            url = self._urls[relay.url] = yarl.URL(relay.url)
        return await _post_capsule(self._session, url, capsule, self._headers)

    def for_client(self, credential: str) -> RelayTransport:
        """The same connections and keys, for another client of the relay."""
        other = copy.copy(self)
        other._headers = {**_SEALED_HEADERS, _CREDENTIAL: credential}  # noqa: SLF001  (its own kind)
        return other

    async def fetch(self, path: str, *, most: int = MOST_DOCUMENT_BYTES, fresh: bool = False) -> Fetched | None:
        self._took = self._next_relay(other=fresh)
        urls = self._relays[self._took]
        if not fresh:
            return await self._fetch(self._session, urls, path, most)
        async with http_session(1) as session:
            return await self._fetch(session, urls, path, most)

    async def ask_issuer(self, issuer: str, request: bytes) -> Issued:
        return await _ask_issuer(self._session, issuer, request, self._headers)

    async def relay_terms(self, relay: Relay) -> RelayTerms | None:
        return await _relay_terms(self._session, relay)

    def _next_relay(self, *, other: bool) -> int:
        """Thrown; with ``other``, among those that the fetch before did not take."""
        word, count = int.from_bytes(self._random_bytes(8), "big"), len(self._relays)
        if not other or count == 1:
            return word % count
        return (self._took + 1 + word % (count - 1)) % count

    async def _fetch(self, session: aiohttp.ClientSession, urls: _Urls, path: str, most: int) -> Fetched | None:
        for _ in range(2):
            new = urls.keys not in self._sealers
            sealer = await self._sealer(session, urls)
            if sealer is None:
                return None
            status, fetched = await self._fetch_sealed(session, urls, sealer, path, most)
            if status != 400 or new:
                return fetched
            # The key of another epoch, most likely: ask once more.
            self._sealers.pop(urls.keys, None)
        return None

    async def _fetch_sealed(
        self, session: aiohttp.ClientSession, urls: _Urls, sealer: RequestSealer, path: str, most: int
    ) -> tuple[int, Fetched | None]:
        sealed = sealer.seal(fetch_request(path), self._random_bytes)
        try:
            async with session.post(
                urls.fetch, data=sealed.capsule, headers=self._headers, allow_redirects=False
            ) as response:
                if response.status != 200 or response.content_type != SEALED_RESPONSE:
                    return response.status, None
                # Padding, seal and fields come on top of the file.
                data = await _read(response, most + 2**12)
        except _NETWORK_ERRORS:
            return 0, None
        try:
            answer = read_answer(sealed.open_response(data))
        except RemoteProtocolError:
            return 0, None
        # The status of the relay's answer: under the seal, 400 would mean something else.
        return 200, Fetched(answer.content, _instant(answer.date)) if answer.status == 200 else None

    async def _sealer(self, session: aiohttp.ClientSession, urls: _Urls) -> RequestSealer | None:
        known = self._sealers.get(urls.keys)
        if known is not None:
            return known
        try:
            async with session.get(urls.keys, allow_redirects=False) as response:
                data = await _read(response, _MOST_KEY_BYTES) if response.status == 200 else b""
            configurations = decode_key_configurations(data)
            if configurations:
                return self._sealers.setdefault(urls.keys, RequestSealer(configurations[0]))
        except (*_NETWORK_ERRORS, RemoteProtocolError):
            pass
        return None

    async def close(self) -> None:
        await self._session.close()


class UnsafeDirectTransport:
    """Straight to the coordinator, which then knows who sends. For experiments that are marked as a test."""

    def __init__(self, session: aiohttp.ClientSession, coordinator: str) -> None:
        self._session = session
        self._base = coordinator.rstrip("/")
        self._capsules = yarl.URL(self._base + "/v1/capsule")

    def check(self, document: ExperimentDocument) -> None:
        if not document.test:
            raise LocalProtocolError("sending without a relay is for experiments that are marked as a test")

    async def send(self, capsule: bytes, relay: Relay | None) -> SendResult:  # noqa: ARG002  (there is none on this way)
        return await _post_capsule(self._session, self._capsules, capsule, _SEALED_HEADERS)

    async def fetch(self, path: str, *, most: int = MOST_DOCUMENT_BYTES, fresh: bool = False) -> Fetched | None:
        if not fresh:
            return await self._fetch(self._session, path, most)
        async with http_session(1) as session:
            return await self._fetch(session, path, most)

    async def ask_issuer(self, issuer: str, request: bytes) -> Issued:
        return await _ask_issuer(self._session, issuer, request, {})

    async def relay_terms(self, relay: Relay) -> RelayTerms | None:
        return await _relay_terms(self._session, relay)

    async def _fetch(self, session: aiohttp.ClientSession, path: str, most: int) -> Fetched | None:
        try:
            async with session.get(self._base + path, allow_redirects=False) as response:
                if response.status != 200:
                    return None
                return Fetched(await _read(response, most), _instant(response.headers.get("Date")))
        except _NETWORK_ERRORS:
            return None

    async def close(self) -> None:
        await self._session.close()


def _is_here(url: yarl.URL) -> bool:
    """Whether it is this machine: a Tor client or another tunnel, say."""
    return url.host in ("localhost", "::1") or (url.host or "").startswith("127.")


class _AnswerTooLongError(Exception):
    """There was more to read than there may be."""


_NETWORK_ERRORS = (aiohttp.ClientError, TimeoutError, OSError, _AnswerTooLongError)


@dataclass(frozen=True, slots=True)
class _Urls:
    """Where a relay takes fetches."""

    fetch: yarl.URL
    keys: yarl.URL

    @classmethod
    def of(cls, url: str) -> _Urls:
        base = url.rstrip("/")
        return cls(fetch=yarl.URL(base + "/fetch"), keys=yarl.URL(base + "/keys"))


async def _post_capsule(
    session: aiohttp.ClientSession, url: yarl.URL, capsule: bytes, headers: dict[str, str]
) -> SendResult:
    try:
        async with session.post(url, data=capsule, headers=headers, allow_redirects=False) as response:
            status = response.status
            if status == 202 or (status == 200 and response.content_type == SEALED_RESPONSE):
                # The answer is not looked into: what would open it is not kept. Read, so that the connection lives on.
                await _read(response, 2**16)
                return SendResult(acknowledged=True)
            wait = _retry_after_ms(response.headers.get("Retry-After"))
    except _NETWORK_ERRORS:
        return SendResult(acknowledged=False)
    # Another 4xx is about these very bytes; anything else (a redirect, a proxy's page) may be gone the next time.
    return SendResult(
        acknowledged=False, retry_after_ms=wait, final=400 <= status < 500 and status not in (408, 425, 429)
    )


async def _ask_issuer(session: aiohttp.ClientSession, issuer: str, request: bytes, headers: dict[str, str]) -> Issued:
    url = yarl.URL(issuer.rstrip("/") + "/tokens")
    told = {**headers, "Content-Type": TOKEN_REQUEST}
    try:
        async with session.post(url, data=request, headers=told, allow_redirects=False) as response:
            status = response.status
            if status == 200 and response.content_type == TOKEN_ANSWER:
                # An element for each that was sent, and a proof in place of the key: a little more.
                return Issued(await _read(response, len(request) + 2**8))
    except _NETWORK_ERRORS:
        return Issued()
    return Issued(final=400 <= status < 500 and status not in (408, 425))


async def _relay_terms(session: aiohttp.ClientSession, relay: Relay) -> RelayTerms | None:
    url = yarl.URL(relay.url.rstrip("/") + "/terms")
    try:
        async with session.get(url, allow_redirects=False) as response:
            if response.status != 200:
                return None
            content = await _read(response, _MOST_TERMS_BYTES)
    except _NETWORK_ERRORS:
        return None
    return read_relay_terms(content)


def read_relay_terms(content: bytes) -> RelayTerms | None:
    """What a relay says it promises; None where it says something else."""
    try:
        match json.loads(content):
            case {"mode": str(mode), "floor": floor, "deposit_ms": at, "period_ms": period} if (
                all(map(is_integer, (floor, at, period))) and period > 0
            ):
                return RelayTerms(mode, floor, Deposits(at, period))
            case {"mode": str(mode), "floor": None}:
                return RelayTerms(mode, None)
    except (ValueError, RecursionError):
        pass
    return None


async def _read(response: aiohttp.ClientResponse, most: int) -> bytes:
    if response.content_length is not None and response.content_length > most:
        raise _AnswerTooLongError
    parts: list[bytes] = []
    async for part in response.content.iter_any():
        most -= len(part)
        if most < 0:
            raise _AnswerTooLongError
        parts.append(part)
    return b"".join(parts)


def _retry_after_ms(text: str | None) -> int:
    """Seconds, as our servers write them; a date is taken for no answer."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 9:
        return 0
    return min(1000 * int(text), _LONGEST_WAIT_MS)


def _instant(date: str | None) -> int | None:
    try:
        return None if date is None else int(parsedate_to_datetime(date).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
