"""What the relay answers to what it does not take: problems (RFC 9457), which say nothing of what was sent.

``problem`` is one of the protocol's own (docs/protocol.md §17). Faults that are HTTP's own have the type
``about:blank``, as the RFC wants it: ``plain``, and ``refusal`` at the doors of rounds. ``answer_to`` says with which
status the doors of rounds answer an error.
"""

from __future__ import annotations

from secvm.errors import BadSignatureError, MalformedMessageError, RemoteProtocolError
from secvm.protocol.problems import MEDIA_TYPE, PROBLEMS
from secvm.runtime.http.server import HttpResponse

_PROBLEM_BYTES = {name: problem.to_bytes() for name, problem in PROBLEMS.items()}

_PLAIN = {
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    415: "Unsupported Media Type",
    502: "Bad Gateway",
    504: "Gateway Timeout",
}


def problem(name: str, *, retry_after_s: int | None = None) -> HttpResponse:
    """The protocol's problem of this name."""
    return HttpResponse(PROBLEMS[name].status, _PROBLEM_BYTES[name], MEDIA_TYPE, _retry_after(retry_after_s))


def try_later(seconds: int) -> HttpResponse:
    """The same bytes may come again: nothing was stored."""
    return problem("try-later", retry_after_s=seconds)


def plain(status: int) -> HttpResponse:
    """A fault that is HTTP's own."""
    return _blank(status, _PLAIN[status])


def _blank(status: int, title: str, retry_after_s: int | None = None) -> HttpResponse:
    body = f'{{"status":{status},"title":"{title}","type":"about:blank"}}'
    return HttpResponse(status, body.encode(), MEDIA_TYPE, _retry_after(retry_after_s))


def _retry_after(seconds: int | None) -> tuple[tuple[str, str], ...]:
    return () if seconds is None else (("retry-after", str(seconds)),)


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
    """What a door of rounds answers."""
    return _blank(status, _TITLES[status], retry_after_s)


def answer_to(error: RemoteProtocolError, *, retry_after_s: int | None = None) -> HttpResponse:
    """What to answer to whoever sent what raised this."""
    if isinstance(error, BadSignatureError):
        return refusal(403)
    why = error.why if isinstance(error, RelayRefusalError) else error.problem
    status = STATUSES.get(why, 400) if isinstance(error, RelayRefusalError | MalformedMessageError) else 400
    return refusal(status, retry_after_s=retry_after_s if status == 503 else None)
