"""What an HTTP server takes and gives: requests, responses, limits, and the bytes of an answer's head.

What a server tells its operator alone (/health, /metrics, /admin) is asked for by address, never by name
(``refuse_names``). A page in the operator's browser can point a name of its own at this machine, also through a tunnel,
and then read what is answered under that name (DNS rebinding). It cannot do so under an address or ``localhost``.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from secvm.errors import LocalProtocolError
from secvm.runtime.clock import Clock

Network = IPv4Network | IPv6Network
#: Where a reverse proxy on the same machine comes from.
LOOPBACK: tuple[Network, ...] = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))


def plain_address(text: str) -> IPv4Address | IPv6Address:
    """An address without its zone, and as IPv4 where it is one. Raises ``ValueError`` for anything else."""
    address = ip_address(text.partition("%")[0])
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address


def is_loopback(host: str) -> bool:
    """Whether the host of a URL is this machine, by its address or as ``localhost``; 127.example is somebody else."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def is_onion(url: str) -> bool:
    """Whether this is the address of an onion service: Tor alone reaches it, and encrypts to the key in the address."""
    try:
        return (urlsplit(url).hostname or "").endswith(".onion")
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server puts up with from its connections, in numbers."""

    #: Of one request's content; a larger one is answered 413.
    body_bytes: int = 2**14
    #: Of the request line and all header fields together: 431.
    head_bytes: int = 2**13
    #: Header fields of a request: 431. Browsers and proxies send about twenty.
    fields: int = 100
    #: Open connections; beyond, the one that has brought nothing for longest gives way.
    connections: int = 10_000
    #: Of these, from one address; more are closed at once. A household or an office is one address, too.
    per_address: int = 256
    #: Addresses and networks to which ``per_address`` does not apply: a reverse proxy, relays.
    exempt: tuple[Network, ...] = LOOPBACK
    #: From the first byte of a request to the end of its head: 408. It is looked at once a second.
    head_s: float = 15.0
    #: From there on until its last byte: 408.
    request_s: float = 15.0
    #: For every so many bytes of its content a request has a second more: a whole epoch's deposit takes its time.
    bytes_per_s: int = 2**16
    #: Content of requests under way, of all connections together: 503.
    receiving_bytes: int = 2**28
    #: Between two requests on one connection, and as long as nothing of an answer is read.
    idle_s: float = 75.0
    #: For every so many bytes that were read of a large answer, its reader has a second more.
    answer_bytes_per_s: int = 2**12
    #: Large answers that are being sent, of all connections together, each counted once however many read it; beyond,
    #: the slowest readers are cut off.
    unread_bytes: int = 2**28
    #: Requests of one connection that wait for their answers; beyond, the connection is not read from.
    pipelined: int = 64


@dataclass(slots=True)
class HttpRequest:
    """A request as a handler is given it: whole, with its content."""

    method: str
    #: As it was sent, nothing decoded; of a target in absolute form, what follows the host.
    path: str
    query: str
    #: Names in lower case; of a field that came twice, the values joined by a comma.
    headers: Mapping[str, str]
    body: bytes
    #: The address at the other end of the connection.
    peer: str


@dataclass(slots=True)
class HttpResponse:
    """One answer. Length, date and connection are the server's to tell, not among ``headers``."""

    status: int
    body: bytes = b""
    media_type: str = ""
    headers: tuple[tuple[str, str], ...] = field(default=())


#: Answers at once, or later. A future may be shared by many requests: it is never cancelled here.
Handler = Callable[[HttpRequest], HttpResponse | Awaitable[HttpResponse]]

#: Looks at the path and the header fields of a request whose content is still to come; an answer refuses it.
BeforeBody = Callable[[str, Mapping[str, str]], HttpResponse | None]

_PHRASES = {status.value: status.phrase for status in HTTPStatus}
#: Answers that have no content, whatever the handler says.
_EMPTY = frozenset({204, 304})
#: Heads are kept by status, media type and length; a server has few of them, but lengths may be many.
_MOST_HEADS = 512


def http_date(clock: Clock) -> Callable[[], str]:
    """What the Date field says by this clock; written anew once in a second."""
    second, text = -1, ""

    def date() -> str:
        nonlocal second, text
        now = clock.now() // 1000
        if now != second:
            second, text = now, formatdate(now, usegmt=True)
        return text

    return date


class Heads:
    """Status lines and header fields of answers; those that come again and again are made once."""

    def __init__(self, date: Callable[[], str] | None) -> None:
        self._date = date
        self._date_text = ""
        self._date_line = b""
        self._kept: dict[tuple[int, str, int, bool], bytes] = {}

    def head(self, response: HttpResponse, *, keep_alive: bool) -> bytes:
        """All that comes before the answer's content.

        Raises
        ------
        LocalProtocolError
            When a field would be more than one line.
        """
        if response.headers:
            lines = self._lines(response, keep_alive=keep_alive)
        else:
            key = (response.status, response.media_type, len(response.body), keep_alive)
            kept = self._kept.get(key)
            lines = self._lines(response, keep_alive=keep_alive) if kept is None else kept
            if kept is None and len(self._kept) < _MOST_HEADS:
                self._kept[key] = lines
        if self._date is None:
            return lines + b"\r\n"
        text = self._date()
        if text is not self._date_text:
            self._date_text, self._date_line = text, f"date: {text}\r\n\r\n".encode("latin-1")
        return lines + self._date_line

    @staticmethod
    def _lines(response: HttpResponse, *, keep_alive: bool) -> bytes:
        lines = [f"HTTP/1.1 {response.status} {_PHRASES.get(response.status, '')}"]
        if response.media_type:
            lines.append(f"content-type: {response.media_type}")
        if response.status not in _EMPTY:
            lines.append(f"content-length: {len(response.body)}")
        lines += [f"{name}: {value}" for name, value in response.headers]
        if not keep_alive:
            lines.append("connection: close")
        if any("\r" in line or "\n" in line or "\0" in line for line in lines):
            raise LocalProtocolError("a header field is one line")
        try:
            return ("\r\n".join(lines) + "\r\n").encode("latin-1")
        except UnicodeEncodeError:
            raise LocalProtocolError("a header field is written in latin-1") from None

    def answer(self, response: HttpResponse, *, keep_alive: bool, head_only: bool) -> tuple[bytes, bytes]:
        """Head and content of an answer as it is sent; one that cannot be written is answered as a fault of ours."""
        try:
            head = self.head(response, keep_alive=keep_alive)
        except LocalProtocolError:
            response = HttpResponse(500)
            head = self.head(response, keep_alive=keep_alive)
        return head, b"" if head_only or response.status in _EMPTY else response.body


#: A name, or an address; IPv6 in brackets; perhaps a port.
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:]+))(?::[0-9]{1,5})?")

#: A problem (RFC 9457), as the operator's API writes them.
_REFUSED = HttpResponse(
    421,
    b'{"type":"about:blank","status":421,"detail":"this is answered under an address or localhost, not under a name;'
    b' ask http://127.0.0.1 and its port, from elsewhere through ssh"}',
    "application/problem+json",
    (("cache-control", "no-store"),),
)


def refuse_names(headers: Mapping[str, str]) -> HttpResponse | None:
    """The refusal of a request whose Host is a name; None where it may be answered, as it may without a Host."""
    return None if _is_address(headers.get("host", "localhost")) else _REFUSED


def _is_address(host: str) -> bool:
    parts = _HOST.fullmatch(host)
    if parts is None:
        return False
    text = parts[1] or parts[2]
    try:
        ip_address(text)
    except ValueError:
        return text.lower() == "localhost"
    return True
