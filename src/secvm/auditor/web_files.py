"""A coordinator's public files over plain HTTP, with limits: on each answer, on all of them together, and on the time.

No redirects: an auditor that is sent elsewhere would audit somebody else. Blocking, on purpose: it is called from the
command line, one file after another.
"""

from __future__ import annotations

from dataclasses import dataclass

from secvm.auditor.files import checked_length
from secvm.errors import BadInputError, UnreachableError
from secvm.runtime.clock import Clock
from secvm.runtime.http.client import ask_blocking, checked_url

#: A file that cannot be had at once is asked for again; a server that is restarting is no cheat.
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one audit may take."""

    #: For one answer, all of it.
    answer_s: float = 60.0
    #: For the whole audit.
    audit_s: float = 86_400.0
    #: All answers together.
    total_bytes: int = 2**38


class WebFiles:
    """Public files of the coordinator at a URL."""

    def __init__(self, url: str, clock: Clock, *, limits: Limits | None = None) -> None:
        limits = limits or Limits()
        self._url = checked_url(url)
        self._clock, self._answer_s = clock, limits.answer_s
        self._until = clock.now() + int(1000 * limits.audit_s)
        self._left = limits.total_bytes

    def get(self, path: str, *, most: int) -> bytes | None:
        reason = "no answer"
        for _ in range(_ATTEMPTS):
            if self._clock.now() > self._until:
                raise BadInputError("the audit takes longer than it may: the coordinator answers slowly, or too much")
            try:
                answer = ask_blocking(self._url + path, answer_s=self._answer_s, most=min(most, self._left))
            except UnreachableError as fault:
                reason = str(fault)
                continue
            if len(answer.content) > self._left:
                raise BadInputError("the coordinator serves more than an audit may read")
            self._left -= len(answer.content)
            if answer.status == 200:
                return checked_length(answer.content, most)
            if answer.status in (404, 410):
                return None
            reason = f"it answers with status {answer.status}"
        raise BadInputError(f"cannot reach the coordinator: {reason}")
