"""What the relay answers to what it does not take: problems (RFC 9457) as constant bytes (docs/protocol.md §17).

Those of these bytes that are the protocol's are held equal to it by a test. Faults that are HTTP's own have the type
``about:blank``, as the RFC wants it. ``answer_to`` says with which status the doors of rounds answer an error.
"""

from __future__ import annotations

from secvm.errors import BadSignatureError, MalformedMessageError, RemoteProtocolError
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


#: What a door answers, by the problem that an error names.
STATUSES = {
    "garbage": 400,
    "not-signed": 403,
    "unknown": 404,
    "conflict": 409,
    "stale": 410,
    "too-large": 413,
    "wrong-label": 421,
    "refused": 422,
    "too-early": 425,
    "over-quota": 429,
    "try-later": 503,
}
_TITLES = {
    400: "The content is not what belongs here.",
    401: "This is for the coordinator, and needs its token.",
    403: "The relay or token that this needs has not signed it.",
    404: "There is no such thing here.",
    405: "This is not done here.",
    409: "Something else was taken before, and stays.",
    410: "The round is over.",
    413: "The content does not have the length that it has here.",
    415: "The content is of another type.",
    421: "This relay does not serve such a round.",
    422: "This relay does not serve this experiment.",
    425: "The round has not begun.",
    429: "More submissions than one client may send.",
    503: "Nothing was stored; the same may come again.",
}


class RelayRefusalError(RemoteProtocolError):
    """The relay does not do it; ``why`` says with which status."""

    def __init__(self, message: str, *, why: str) -> None:
        super().__init__(message)
        self.why = why


def refusal(status: int, *, retry_after_s: int | None = None) -> HttpResponse:
    """The answer: a problem (RFC 9457) that says nothing of what was sent."""
    body = f'{{"status":{status},"title":"{_TITLES[status]}","type":"about:blank"}}'
    fields = () if retry_after_s is None else (("retry-after", str(retry_after_s)),)
    return HttpResponse(status, body.encode(), "application/problem+json", fields)


def answer_to(error: RemoteProtocolError, *, retry_after_s: int | None = None) -> HttpResponse:
    """What to answer to whoever sent what raised this."""
    if isinstance(error, BadSignatureError):
        return refusal(403)
    why = error.why if isinstance(error, RelayRefusalError) else error.problem
    status = STATUSES.get(why, 400) if isinstance(error, RelayRefusalError | MalformedMessageError) else 400
    return refusal(status, retry_after_s=retry_after_s if status == 503 else None)
