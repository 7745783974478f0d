"""What the relay answers to what it does not take: problems (RFC 9457) as constant bytes (docs/protocol.md §17).

Those of these bytes that are the protocol's are held equal to it by a test.
Faults that are HTTP's own have the type ``about:blank``, as the RFC wants it.
"""

from __future__ import annotations

from secvm.runtime.http.server import HttpResponse

MEDIA_TYPE = "application/problem+json"

TOO_LARGE = (
    b'{"status":413,"title":"The content is larger than anything that is taken here.",'
    b'"type":"urn:secvm:problem:v1:too-large"}'
)
GARBAGE = b'{"status":400,"title":"The content is no package.","type":"urn:secvm:problem:v1:garbage"}'
OVER_QUOTA = (
    b'{"status":429,"title":"More packages than one participant may send in a round.",'
    b'"type":"urn:secvm:problem:v1:over-quota"}'
)
STALE = b'{"status":410,"title":"The round takes no more packages.","type":"urn:secvm:problem:v1:stale"}'
TRY_LATER = (
    b'{"status":503,"title":"Nothing is wrong with the package, but it could not be stored.",'
    b'"type":"urn:secvm:problem:v1:try-later"}'
)

NO_PACKAGES = b'{"status":404,"title":"This relay takes no single packages.","type":"urn:secvm:problem:v1:no-packages"}'

_PLAIN = {
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    415: "Unsupported Media Type",
    502: "Bad Gateway",
    504: "Gateway Timeout",
}


def plain(status: int) -> HttpResponse:
    """A fault that is HTTP's own."""
    body = f'{{"status":{status},"title":"{_PLAIN[status]}","type":"about:blank"}}'
    return HttpResponse(status, body.encode(), MEDIA_TYPE)


def garbage() -> HttpResponse:
    """These bytes are no capsule."""
    return HttpResponse(400, GARBAGE, MEDIA_TYPE)


def too_large() -> HttpResponse:
    """More bytes than a capsule has."""
    return HttpResponse(413, TOO_LARGE, MEDIA_TYPE)


def no_packages() -> HttpResponse:
    """Packages go to another relay: here are fetches alone, or a role to which devices send whole submissions."""
    return HttpResponse(404, NO_PACKAGES, MEDIA_TYPE)


def over_quota() -> HttpResponse:
    """The client has sent as many distinct capsules in this epoch as it may, or fetched as often."""
    return HttpResponse(429, OVER_QUOTA, MEDIA_TYPE)


def stale() -> HttpResponse:
    """A capsule of an epoch that was handed on."""
    return HttpResponse(410, STALE, MEDIA_TYPE)


def try_later(seconds: int) -> HttpResponse:
    """The same bytes may come again: nothing was stored."""
    return HttpResponse(503, TRY_LATER, MEDIA_TYPE, (("retry-after", str(seconds)),))
