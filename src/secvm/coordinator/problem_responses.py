"""Problems as HTTP answers in clear: ``application/problem+json`` (RFC 9457), and when to come again."""

from __future__ import annotations

from http import HTTPStatus

from secvm.protocol.canonical import encode_document
from secvm.protocol.problems import MEDIA_TYPE, PROBLEMS, Problem
from secvm.runtime.http.server import HttpResponse

#: Seconds after which somebody who was told "try-later" may come again; devices add dice of their own (§16).
RETRY_AFTER_S = 2

#: Without content: stored.
ACCEPTED = HttpResponse(202)


def problem_response(problem: Problem) -> HttpResponse:
    """The HTTP answer that tells a problem."""
    return _WRITTEN[problem.name]


def plain_response(status: int) -> HttpResponse:
    """A fault that is HTTP's own, without a type (RFC 9457 §4.2.1)."""
    content = {"status": status, "title": HTTPStatus(status).phrase, "type": "about:blank"}
    return HttpResponse(status, encode_document(content), MEDIA_TYPE)


def too_large() -> HttpResponse:
    """The answer to a request with more bytes than the limit."""
    return problem_response(PROBLEMS["too-large"])


def _write(problem: Problem) -> HttpResponse:
    headers = (("retry-after", str(RETRY_AFTER_S)),) if problem.retry else ()
    return HttpResponse(problem.status, problem.to_bytes(), MEDIA_TYPE, headers)


_WRITTEN = {problem.name: _write(problem) for problem in PROBLEMS.values()}
