"""One connection's requests: bytes → requests, each whole, or one refusal.

Its rules, beside those of ``_connection``:

 1. A request whose end is not certain (two lengths, a length and chunks) is refused, never guessed.
 2. A head has a limit of bytes, of fields and of time, content has one of bytes and of pace, and what stands between
    chunks one of bytes; who breaks one is told so.
 3. Bytes are handed to the parser in pieces, and no further than requests may be owed: thousands of requests that come
    at once are not made into thousands of objects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import httptools

from secvm.runtime.http.messages import HttpRequest, HttpResponse

if TYPE_CHECKING:
    from secvm.runtime.http.server import HttpServer

#: So much is parsed at a time, where it may be requests: at most a hundred or two.
_PIECE_BYTES = 2**12
#: Spellings that nearly all requests use, so that they need not be made again for each.
_NAMES = {
    spelling.encode(): name
    for name in (
        "accept", "accept-encoding", "authorization", "connection", "content-length", "content-type", "date", "expect",
        "host", "secvm-credential", "transfer-encoding", "user-agent",
    )
    for spelling in (name, name.title())
}  # fmt: skip
#: What RFC 9112 allows as Host: a name or an address, and a port; nothing, too. A comma would be two fields joined.
_HOST = re.compile(r"(\[[0-9A-Za-z:.%_~-]+\]|([A-Za-z0-9._~!$&'()*+;=-]|%[0-9A-Fa-f]{2})*)(:[0-9]*)?")
#: A chunk of one byte has so many others around it: size and line ends.
_AROUND_A_BYTE = 5
_METHODS = {name.encode(): name for name in ("GET", "HEAD", "POST")}


class _Stop(Exception):  # noqa: N818  (no error: it only ends the parser's work)
    """Nothing more is read from this connection."""


class Reading:
    """The half of a connection that reads. The other half says what becomes of requests and refusals."""

    # A server has many thousands of these.
    __slots__ = (
        "_body",
        "_body_left",
        "_body_limit",
        "_completed",
        "_counted",
        "_ending",
        "_fields",
        "_framing",
        "_head_bytes",
        "_head_pieces",
        "_headers",
        "_in_head",
        "_owes_continue",
        "_parser",
        "_path",
        "_peer",
        "_query",
        "_receiving",
        "_server",
        "_since",
        "_target",
        "_unparsed",
    )

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._parser: Any = httptools.HttpRequestParser(self)
        self._peer = ""
        #: No request is taken any more; when all answers are given, the connection ends.
        self._ending = False
        #: When the present state began: a request, a pause, a farewell.
        self._since = 0.0
        self._receiving = self._in_head = self._owes_continue = False
        self._target = b""
        self._path = self._query = ""
        self._headers: dict[str, str] = {}
        self._fields = 0
        self._body: bytes | bytearray = b""
        #: So many of its bytes the guard knows of: none, where a request comes in one piece.
        self._counted = 0
        #: Of the head's finished parts; and of the pieces in which it came so far.
        self._head_bytes = self._head_pieces = 0
        self._body_limit = 0
        #: Bytes of a content that are none of it: sizes of chunks, their extensions, fields after them.
        self._framing = 0
        #: Of a content whose length is known, what is still to come.
        self._body_left = 0
        #: Whether the piece that is being read ended a request.
        self._completed = False
        #: What has come and waits until there is room for requests.
        self._unparsed = b""

    # ── what the other half does ─────────────────────────────────────────────────────────────────────────────────────

    def _has_room(self) -> bool:
        """Whether another request may be handed over now."""
        raise NotImplementedError

    def _requested(self, request: HttpRequest) -> None:
        """Take a request."""
        raise NotImplementedError

    def _refuse_with(self, response: HttpResponse) -> None:
        """Answer this, and understand nothing more."""
        raise NotImplementedError

    def _refuse(self, status: int, sentence: str) -> None:
        """The same, in a sentence."""
        raise NotImplementedError

    def _continue(self) -> None:
        """Ask for content, if somebody waits to be asked."""
        raise NotImplementedError

    # ── bytes ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self, data: bytes) -> None:
        """As far as there is room for requests; the rest waits, unparsed."""
        if self._unparsed:
            data, self._unparsed = self._unparsed + data, b""
        if len(data) <= _PIECE_BYTES:
            self._parse(data)
            return
        at = 0
        while at < len(data) and not self._ending:
            if not self._has_room():
                self._unparsed = data[at:]
                return
            # Content goes through in one piece, however large: it makes no more than one request.
            end = at + max(_PIECE_BYTES, self._body_left)
            self._parse(data[at:end])
            at = end

    def _parse(self, data: bytes) -> None:
        self._completed = False
        content = len(self._body) if self._receiving and not self._in_head else None
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if not self._ending:
                self._refuse(400, "this is no HTTP request")
        if not self._receiving:
            return
        if len(self._body) > self._counted:
            if not self._server.guard.take(len(self._body) - self._counted):
                self._refuse(503, "too much is under way")
                return
            self._counted = len(self._body)
        if content is not None and not self._completed:
            # All of this belongs to one content. The parser passes over extensions of chunks, however long.
            self._framing += len(data) - (len(self._body) - content)
            if self._framing > self._server.limits.head_bytes + _AROUND_A_BYTE * len(self._body):
                self._refuse(400, "too much between the chunks")
                return
        if self._in_head and not self._completed:
            # All of this belongs to one head. The parser keeps an unfinished field to itself: uncounted, it could grow
            # for ever.
            self._head_pieces += len(data)
            if self._head_pieces > self._server.limits.head_bytes:
                self._refuse(431, "too many header fields")

    def _forget_body(self) -> None:
        """What has come of a content is handed over, or of no use."""
        if self._counted:
            self._server.guard.give(self._counted)
            self._counted = 0
        self._body = b""
        self._body_left = 0

    def _is_slow(self, now: float) -> bool:
        """Whether the request under way takes too long."""
        limits, took = self._server.limits, now - self._since
        if self._in_head:
            return took > limits.head_s
        return took > limits.request_s + len(self._body) / limits.bytes_per_s

    # ── httptools ────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        if self._ending:
            raise _Stop
        self._receiving = self._in_head = True
        self._since = self._server.time()
        self._target = b""
        self._headers = {}
        self._head_bytes = self._head_pieces = self._fields = 0

    def on_url(self, url: bytes) -> None:
        self._target = self._target + url if self._target else url
        self._head_bytes += len(url)
        if self._head_bytes > self._server.limits.head_bytes:
            self._too_long()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value) + 4
        self._fields += 1
        limits = self._server.limits
        if self._head_bytes > limits.head_bytes or self._fields > limits.fields:
            self._too_long()
        if not self._in_head:
            # A field after the chunks: whoever looked at the head has not seen it.
            return
        known = _NAMES.get(name) or name.decode("latin-1").lower()
        text = value.decode("latin-1").rstrip(" \t")
        headers = self._headers
        headers[known] = f"{headers[known]}, {text}" if known in headers else text

    def _too_long(self) -> None:
        self._refuse(431, "too many header fields")
        raise _Stop

    def on_headers_complete(self) -> None:
        self._in_head = False
        headers = self._headers
        length = headers.get("content-length")
        problem = self._problem(headers, length)
        if problem is None and not self._take_target():
            problem = (400, "this is no target")
        self._body_left = self._framing = 0
        self._body_limit = self._server.body_limit(self._path)
        if problem is None and length is not None:
            self._body_left = int(length)
            if self._body_left > self._body_limit:
                problem = (413, "too large")
        if problem is not None:
            self._refuse(*problem)
            raise _Stop
        refusal = self._server.before_body(self._path, headers)
        if refusal is not None:
            self._refuse_with(refusal)
            raise _Stop
        # Whoever speaks HTTP/1.0 does not know what "100 Continue" means.
        if "expect" in headers and self._parser.get_http_version() != "1.0":
            self._owes_continue = True
            self._continue()

    def _problem(self, headers: Mapping[str, str], length: str | None) -> tuple[int, str] | None:
        """What is wrong with a head, apart from its target. The parser refuses some of it, too, in some versions."""
        version = self._parser.get_http_version()
        if version not in {"1.1", "1.0"}:
            return 505, "only HTTP/1.1 here"
        if self._parser.should_upgrade():
            return 400, "no upgrades here"
        # (1) The end of the request must be certain.
        coding = headers.get("transfer-encoding")
        if coding is not None and (length is not None or version == "1.0" or coding.lower() != "chunked"):
            return 400, "the length is not clear"
        if length is not None and not (length.isascii() and length.isdigit() and len(length) < 20):
            return 400, "the length is not clear"
        host = headers.get("host")
        if (host is None and version == "1.1") or (host is not None and not _HOST.fullmatch(host)):
            return 400, "one host, please"
        if "expect" in headers and headers["expect"].lower() != "100-continue":
            return 417, "only 100-continue is expected here"
        return None

    def _take_target(self) -> bool:
        target = self._target.decode("latin-1")
        if not target.startswith("/"):
            scheme, separator, rest = target.partition("://")
            if separator and scheme.lower() in {"http", "https"}:
                end = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
                target = rest[end:] if rest[end : end + 1] == "/" else "/" + rest[end:]
            elif target != "*":
                return False
        self._path, _, self._query = target.partition("?")
        return "#" not in target

    def on_body(self, body: bytes) -> None:
        self._owes_continue = False
        self._body_left -= len(body)
        if len(self._body) + len(body) > self._body_limit:
            self._refuse(413, "too large")
            raise _Stop
        if not self._body:
            self._body = body
        else:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += body

    def on_message_complete(self) -> None:
        self._receiving = self._owes_continue = False
        self._completed = True
        self._since = self._server.time()
        method = self._parser.get_method()
        request = HttpRequest(
            _METHODS.get(method) or method.decode("latin-1"),
            self._path,
            self._query,
            self._headers,
            self._body if isinstance(self._body, bytes) else bytes(self._body),
            self._peer,
        )
        self._body = b""
        if self._counted:
            self._forget_body()
        self._requested(request)
