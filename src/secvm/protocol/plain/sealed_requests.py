"""What stands under a seal: a package or a fetch as binary HTTP, and the answer to a fetch (docs/protocol.md §19.3).

Every request with a package has the same bytes but for the package itself, so the gateway reads ours by comparing and
slicing. A stranger's may be written in any way that RFC 9292 allows: another authority, further
fields, chunks; it is read by ``binary_http``, and means the same.

Lengths say nothing: all packages have one, and no answer under a seal. Requests for files come in steps of 256 bytes,
which every path of §19.2 fits into, and answers in steps of 4,096: a manifest, a proof and a checkpoint look alike to
a relay, so that it cannot tell what a device is looking for.

``read_request`` and ``read_answer`` raise ``MalformedMessageError`` and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from secvm.crypto.sealing import binary_http
from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.codec import PACKAGE_BYTES

#: A name that no resolver has (RFC 6761): the gateway is found by its key, not by this.
AUTHORITY = b"gateway.invalid"
PACKAGES_PATH = b"/v1/packages"
#: A fetch and its answer have multiples of these.
FETCH_REQUEST_STEP = 256
FETCH_ANSWER_STEP = 4096
#: What the seal of an answer adds: its nonce and its tag.
SEALED_ANSWER_BYTES = 32


@dataclass(frozen=True, slots=True)
class PackageRequest:
    """A package was sent: 32 bytes, or what a stranger sent for them."""

    plaintext: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """Somebody wants to read a public file."""

    path: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the gateway said."""

    status: int
    content: bytes = field(repr=False)
    #: The server's clock, as HTTP writes dates.
    date: str | None = None


def _request(method: bytes, path: bytes, content: bytes = b"") -> bytes:
    return binary_http.encode_request(
        binary_http.Request(method=method, scheme=b"https", authority=AUTHORITY, path=path, content=content)
    )


def _padded(encoded: bytes, step: int, *, around: int = 0) -> bytes:
    return encoded.ljust(-(-(len(encoded) + around) // step) * step - around, b"\0")


#: After the content, in a request of ours: the empty list of trailers.
_SUFFIX = b"\0"
_WHOLE = _request(b"POST", PACKAGES_PATH, bytes(PACKAGE_BYTES))
#: How long a request of ours is that carries a package.
REQUEST_BYTES = len(_WHOLE)
#: What it has before its package and after it; for whoever reads many at once.
REQUEST_PREFIX, REQUEST_SUFFIX = _WHOLE[: -PACKAGE_BYTES - len(_SUFFIX)], _SUFFIX


# ── the device ───────────────────────────────────────────────────────────────────────────────────────────────────────


def package_request(plaintext: bytes) -> bytes:
    """The request that carries a package; one length for all."""
    if len(plaintext) != PACKAGE_BYTES:
        raise LocalProtocolError(f"a package has {PACKAGE_BYTES} bytes")
    return REQUEST_PREFIX + plaintext + REQUEST_SUFFIX


def fetch_request(path: str) -> bytes:
    """The request for a public file, padded to the next multiple of ``FETCH_REQUEST_STEP``."""
    if not path.isascii():
        raise LocalProtocolError("the path of a public file is ASCII")
    return _padded(_request(b"GET", path.encode("ascii")), FETCH_REQUEST_STEP)


def read_answer(data: bytes) -> Answer:
    """What was in the gateway's answer."""
    response = binary_http.decode_response(data)
    dates = [value for name, value in response.headers if name == b"date"]
    if len(dates) > 1 or not all(date.isascii() for date in dates):
        raise MalformedMessageError("the answer has more than one date, or one that is none")
    return Answer(response.status, response.content, dates[0].decode("ascii") if dates else None)


# ── the gateway ──────────────────────────────────────────────────────────────────────────────────────────────────────


def read_request(data: bytes) -> PackageRequest | FetchRequest:
    """What somebody wants. A method or a path that is not known here is refused as "garbage"."""
    ours = _ours(data)
    if ours is not None:
        return PackageRequest(ours)
    request = binary_http.decode_request(data)
    if request.method == b"POST" and request.path == PACKAGES_PATH:
        return PackageRequest(request.content)
    if request.method == b"GET" and not request.content:
        # Decoding has seen to it that a path is visible ASCII.
        return FetchRequest(request.path.decode("ascii"))
    raise MalformedMessageError("a request that is neither a package nor a fetch")


def _ours(data: bytes) -> bytes | None:
    """The content of a request that ``package_request`` wrote."""
    if len(data) != REQUEST_BYTES or not data.startswith(REQUEST_PREFIX) or not data.endswith(REQUEST_SUFFIX):
        return None
    return data[len(REQUEST_PREFIX) : -len(REQUEST_SUFFIX)]


def package_in(data: bytes) -> bytes:
    """The package of a request that may be nothing else: what the opener asks for every capsule."""
    ours = _ours(data)
    if ours is not None:
        return ours
    request = read_request(data)
    if not isinstance(request, PackageRequest):
        raise MalformedMessageError("a fetch where only packages are taken")
    return request.plaintext


def fetch_answer(status: int, content: bytes, date: str) -> bytes:
    """What a fetch is answered, padded so that under its seal it has a multiple of ``FETCH_ANSWER_STEP`` bytes."""
    if not date.isascii():
        raise LocalProtocolError("a date is ASCII")
    response = binary_http.Response(status=status, headers=((b"date", date.encode("ascii")),), content=content)
    return _padded(binary_http.encode_response(response), FETCH_ANSWER_STEP, around=SEALED_ANSWER_BYTES)
