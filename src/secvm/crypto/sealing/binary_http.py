"""Binary HTTP (RFC 9292): a request or a response as bytes, known-length or indeterminate-length, padded.

Reading is strict. What the RFC calls invalid is refused whole: unknown framing, a length that points beyond the end,
field names that are no lower-case tokens, values HTTP/2 would call malformed, pseudo-fields out of place, statuses out
of range, padding that is not zero. What it allows is read: integers longer than needed, chunks, truncation.

Writing has one way for each choice of framing, truncation and length: shortest integers, content as one chunk.

Decoders raise ``MalformedMessageError``, encoders ``LocalProtocolError``, and neither anything else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from secvm.errors import LocalProtocolError, MalformedMessageError, ProtocolError

MEDIA_TYPE = "message/bhttp"

#: A field line: name in lower case, value.
Field = tuple[bytes, bytes]

_KNOWN_REQUEST, _KNOWN_RESPONSE, _INDETERMINATE_REQUEST, _INDETERMINATE_RESPONSE = range(4)
_MAX_INTEGER = 2**62 - 1

_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
#: HTTP/2 (RFC 9113 §8.2.1) allows no upper case; pseudo-fields begin with a colon.
_NAME = re.compile(rb":?[!#$%&'*+\-.^_`|~0-9a-z]+")
_BAD_VALUE = re.compile(rb"[\0\n\r]|\A[ \t]|[ \t]\Z")
_SCHEME = re.compile(rb"[A-Za-z][A-Za-z0-9+\-.]*")
_VISIBLE = re.compile(rb"[\x21-\x7e]*")
#: These stand in the control data; as fields they would say it twice.
_CONTROL_FIELDS = {b":method", b":scheme", b":authority", b":path", b":status"}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Request:
    """An HTTP request. Prints no more than its sizes: what travels under a seal stays out of logs."""

    method: bytes
    scheme: bytes
    #: Empty where the request has a Host field instead.
    authority: bytes
    path: bytes
    headers: tuple[Field, ...] = ()
    content: bytes = b""
    trailers: tuple[Field, ...] = ()

    def __repr__(self) -> str:
        return f"Request({len(self.headers)} headers, {len(self.content)} bytes, {len(self.trailers)} trailers)"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class InformationalResponse:
    """A response 1xx, before the one that counts."""

    status: int
    headers: tuple[Field, ...] = ()

    def __repr__(self) -> str:
        return f"InformationalResponse({self.status}, {len(self.headers)} headers)"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Response:
    """An HTTP response. Prints no more than its status and sizes."""

    status: int
    headers: tuple[Field, ...] = ()
    content: bytes = b""
    trailers: tuple[Field, ...] = ()
    informational: tuple[InformationalResponse, ...] = ()

    def __repr__(self) -> str:
        sizes = f"{len(self.headers)} headers, {len(self.content)} bytes, {len(self.trailers)} trailers"
        return f"Response({self.status}, {sizes})"


# ── what HTTP allows ─────────────────────────────────────────────────────────────────────────────────────────────────
# Both ways use these: whoever writes is to blame for a LocalProtocolError, whoever sent for a MalformedMessageError.


def _check_control_data(request: Request, blame: type[ProtocolError]) -> None:
    """RFC 9113 §8.3.1, as RFC 9292 §3.4 asks."""
    if not _TOKEN.fullmatch(request.method):
        raise blame("the method is no token")
    if not (_VISIBLE.fullmatch(request.authority) and _VISIBLE.fullmatch(request.path)):
        raise blame("authority or path hold a byte that is not visible ASCII")
    if request.method == b"CONNECT":
        if request.scheme or request.path or not request.authority:
            raise blame("CONNECT has an authority and neither scheme nor path")
        return
    if not _SCHEME.fullmatch(request.scheme):
        raise blame("the scheme is no scheme")
    if request.scheme.lower() not in {b"http", b"https"}:
        return
    if b"@" in request.authority:
        raise blame("the authority names a user")
    if not request.path.startswith(b"/") and (request.method, request.path) != (b"OPTIONS", b"*"):
        raise blame("the path does not begin with a slash")


def _check_fields(fields: tuple[Field, ...], blame: type[ProtocolError], *, trailers: bool = False) -> None:
    """RFC 9292 §3.6, with RFC 9113 §8.2.1."""
    ordinary = trailers
    for name, value in fields:
        if not _NAME.fullmatch(name):
            raise blame("a field's name is no token in lower case")
        if not name.startswith(b":"):
            ordinary = True
        elif ordinary or name in _CONTROL_FIELDS:
            raise blame("a pseudo-field where none may be")
        if _BAD_VALUE.search(value):
            raise blame("a field's value begins or ends with a blank, or holds a line end or a zero byte")


def _check_status(status: int, lowest: int, highest: int, blame: type[ProtocolError]) -> None:
    if not lowest <= status <= highest:
        raise blame(f"a status that is not from {lowest} to {highest}")


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def encode_request(
    request: Request, *, indeterminate: bool = False, truncated: bool = False, padded_to: int | None = None
) -> bytes:
    """Write a request. ``truncated`` leaves out the empty parts at its end; ``padded_to`` fills up to so many bytes."""
    _check_control_data(request, LocalProtocolError)
    control = [request.method, request.scheme, request.authority, request.path]
    head = _integer(_INDETERMINATE_REQUEST if indeterminate else _KNOWN_REQUEST) + b"".join(map(_prefixed, control))
    return _finish(request, head, indeterminate=indeterminate, truncated=truncated, padded_to=padded_to)


def encode_response(
    response: Response, *, indeterminate: bool = False, truncated: bool = False, padded_to: int | None = None
) -> bytes:
    """Write a response; the arguments are those of ``encode_request``."""
    head = _integer(_INDETERMINATE_RESPONSE if indeterminate else _KNOWN_RESPONSE)
    for early in response.informational:
        _check_status(early.status, 100, 199, LocalProtocolError)
        _check_fields(early.headers, LocalProtocolError)
        head += _integer(early.status) + _field_section(early.headers, indeterminate=indeterminate)
    _check_status(response.status, 200, 599, LocalProtocolError)
    head += _integer(response.status)
    return _finish(response, head, indeterminate=indeterminate, truncated=truncated, padded_to=padded_to)


def _finish(
    message: Request | Response, head: bytes, *, indeterminate: bool, truncated: bool, padded_to: int | None
) -> bytes:
    _check_fields(message.headers, LocalProtocolError)
    _check_fields(message.trailers, LocalProtocolError, trailers=True)
    # An empty part is one zero byte in either framing.
    chunk = _prefixed(message.content)
    parts = [
        _field_section(message.headers, indeterminate=indeterminate),
        chunk + b"\0" if indeterminate and message.content else chunk,
        _field_section(message.trailers, indeterminate=indeterminate),
    ]
    while truncated and parts and parts[-1] == b"\0":
        parts.pop()
    encoded = head + b"".join(parts)
    if padded_to is None:
        return encoded
    if len(encoded) > padded_to:
        raise LocalProtocolError(f"a message of {len(encoded)} bytes cannot be padded to {padded_to}")
    return encoded.ljust(padded_to, b"\0")


def _integer(value: int) -> bytes:
    """QUIC's variable-length integer (RFC 9000 §16), on the fewest bytes."""
    if value < 2**6:
        return value.to_bytes(1, "big")
    if value < 2**14:
        return (value | 1 << 14).to_bytes(2, "big")
    if value < 2**30:
        return (value | 2 << 30).to_bytes(4, "big")
    if value > _MAX_INTEGER:
        raise LocalProtocolError("an integer beyond 2^62 - 1")
    return (value | 3 << 62).to_bytes(8, "big")


def _prefixed(data: bytes) -> bytes:
    return _integer(len(data)) + data


def _field_section(fields: tuple[Field, ...], *, indeterminate: bool) -> bytes:
    lines = b"".join(_prefixed(name) + _prefixed(value) for name, value in fields)
    return lines + b"\0" if indeterminate else _prefixed(lines)


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def decode_request(data: bytes) -> Request:
    """Read a request. Raises ``MalformedMessageError`` and nothing else."""
    reader = _Reader(data)
    framing = reader.integer()
    if framing not in {_KNOWN_REQUEST, _INDETERMINATE_REQUEST}:
        raise MalformedMessageError("the framing is not that of a request")
    method, scheme, authority, path = (reader.prefixed() for _ in range(4))
    headers, content, trailers = _read_rest(reader, indeterminate=framing == _INDETERMINATE_REQUEST)
    request = Request(
        method=method,
        scheme=scheme,
        authority=authority,
        path=path,
        headers=headers,
        content=content,
        trailers=trailers,
    )
    _check_control_data(request, MalformedMessageError)
    return request


def decode_response(data: bytes) -> Response:
    """Read a response. Raises ``MalformedMessageError`` and nothing else."""
    reader = _Reader(data)
    framing = reader.integer()
    if framing not in {_KNOWN_RESPONSE, _INDETERMINATE_RESPONSE}:
        raise MalformedMessageError("the framing is not that of a response")
    indeterminate = framing == _INDETERMINATE_RESPONSE
    informational = []
    while 100 <= (status := reader.integer()) <= 199:
        early = InformationalResponse(status=status, headers=reader.field_section(indeterminate=indeterminate))
        _check_fields(early.headers, MalformedMessageError)
        informational.append(early)
    _check_status(status, 200, 599, MalformedMessageError)
    headers, content, trailers = _read_rest(reader, indeterminate=indeterminate)
    return Response(
        status=status, headers=headers, content=content, trailers=trailers, informational=tuple(informational)
    )


def _read_rest(reader: _Reader, *, indeterminate: bool) -> tuple[tuple[Field, ...], bytes, tuple[Field, ...]]:
    """Read headers, content, trailers and padding; parts that are missing at the end are empty."""
    headers = () if reader.at_end else reader.field_section(indeterminate=indeterminate)
    content = b"" if reader.at_end else reader.content(indeterminate=indeterminate)
    trailers = () if reader.at_end else reader.field_section(indeterminate=indeterminate)
    reader.padding()
    _check_fields(headers, MalformedMessageError)
    _check_fields(trailers, MalformedMessageError, trailers=True)
    return headers, content, trailers


class _Reader:
    """Bytes and how far they are read. Every method raises ``MalformedMessageError`` where they end too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._data)

    def take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if len(taken) != count:
            raise MalformedMessageError("the message ends too early")
        self._at += count
        return taken

    def integer(self) -> int:
        (first,) = self.take(1)
        value = (first & 0x3F).to_bytes(1, "big") + self.take((1 << (first >> 6)) - 1)
        return int.from_bytes(value, "big")

    def prefixed(self) -> bytes:
        return self.take(self.integer())

    def field_line(self, name_length: int) -> Field:
        return self.take(name_length), self.prefixed()

    def field_section(self, *, indeterminate: bool) -> tuple[Field, ...]:
        fields = []
        if indeterminate:
            while length := self.integer():
                fields.append(self.field_line(length))
            return tuple(fields)
        section = _Reader(self.prefixed())
        while not section.at_end:
            # A name of no bytes is refused with the other bad names.
            fields.append(section.field_line(section.integer()))
        return tuple(fields)

    def content(self, *, indeterminate: bool) -> bytes:
        if not indeterminate:
            return self.prefixed()
        chunks = []
        while length := self.integer():
            chunks.append(self.take(length))
        return b"".join(chunks)

    def padding(self) -> None:
        if any(self._data[self._at :]):
            raise MalformedMessageError("padding that is not zero")
