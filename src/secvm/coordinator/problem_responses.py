"""Who may ask, and problems as HTTP answers in clear: ``application/problem+json`` (RFC 9457)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from http import HTTPStatus

from secvm.protocol.canonical import encode_document
from secvm.protocol.problems import MEDIA_TYPE, PROBLEMS, Problem
from secvm.runtime.http.server import HttpResponse

#: Seconds after which somebody who was told "try-later" may come again; devices add dice of their own (§16).
RETRY_AFTER_S = 2

#: Without content: stored.
ACCEPTED = HttpResponse(202)


def has_token(headers: Mapping[str, str], digests: Iterable[bytes]) -> bool:
    """Whether a request brings a token whose SHA-256 is among these."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    given = hashlib.sha256(token.encode("latin-1")).digest()
    # All are compared, each in constant time.
    matches = [hmac.compare_digest(given, digest) for digest in digests]
    return scheme.lower() == "bearer" and any(matches)


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
