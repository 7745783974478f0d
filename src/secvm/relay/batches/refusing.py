"""Refusals of a relay's doors: an error of the protocol, and the status with which it is answered."""

from __future__ import annotations

from secvm.errors import BadSignatureError, MalformedMessageError, RemoteProtocolError
from secvm.runtime.http.messages import HttpResponse

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
