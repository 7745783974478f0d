"""A coordinator's public files over plain HTTP, with limits: on each answer, on all of them together, and on the time.

No redirects: an auditor that is sent elsewhere would audit somebody else. Answers are read piece by piece, because a
socket's own time limit begins anew with every byte that trickles in. Blocking, on purpose: it is called from the
command line, one file after another.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

from secvm.auditor.files import checked_length
from secvm.errors import BadInputError
from secvm.runtime.clock import Clock

_PIECE_BYTES = 2**16
_LOOPBACK = ("127.", "localhost", "[::1]")
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


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class WebFiles:
    """Public files of the coordinator at a URL."""

    def __init__(
        self,
        url: str,
        clock: Clock,
        *,
        limits: Limits | None = None,
        on_bytes: Callable[[int], None] = lambda _: None,
    ) -> None:
        """``on_bytes`` is told of every piece that has come."""
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise BadInputError("a coordinator's address is a URL such as https://coordinator.example")
        self._url = url.rstrip("/")
        self._clock, self._on_bytes = clock, on_bytes
        self._limits = limits or Limits()
        self._until = clock.now() + int(1000 * self._limits.audit_s)
        self._left = self._limits.total_bytes
        # A proxy of the environment is for the world outside.
        here = parts.netloc.rpartition("@")[2].startswith(_LOOPBACK)
        proxies = [urllib.request.ProxyHandler({})] if here else []
        self._opener = urllib.request.build_opener(_NoRedirects, *proxies)

    def get(self, path: str, *, most: int) -> bytes | None:
        reason = "no answer"
        for _ in range(_ATTEMPTS):
            if self._clock.now() > self._until:
                raise BadInputError("the audit takes longer than it may: the coordinator answers slowly, or too much")
            try:
                return self._ask(path, most)
            except BadInputError:
                # A limit of the whole audit: asking again does not help.
                raise
            except urllib.error.HTTPError as error:
                # It holds the connection.
                error.close()
                if error.code in (404, 410):
                    return None
                reason = f"it answers with status {error.code}"
            except (OSError, http.client.HTTPException, ValueError) as error:
                found = getattr(error, "reason", error)
                reason = getattr(found, "strerror", None) or "no answer"
        raise BadInputError(f"cannot reach the coordinator: {reason}")

    def _ask(self, path: str, most: int) -> bytes:
        deadline = self._clock.now() + int(1000 * self._limits.answer_s)
        # The scheme was looked at when the address was given.
        with self._opener.open(self._url + path, timeout=self._limits.answer_s) as answer:
            return self._read(answer, most, deadline)

    def _read(self, answer: IO[bytes], most: int, deadline: int) -> bytes:
        pieces: list[bytes] = []
        length = 0
        while piece := answer.read1(min(_PIECE_BYTES, most + 1)):  # type: ignore[attr-defined]
            length += len(piece)
            self._left -= len(piece)
            if self._left < 0:
                raise BadInputError("the coordinator serves more than an audit may read")
            if length > most:
                return checked_length(b"".join([*pieces, piece]), most)
            if self._clock.now() > deadline:
                raise TimeoutError
            pieces.append(piece)
            self._on_bytes(len(piece))
        data = b"".join(pieces)
        promised = answer.headers.get("content-length")  # type: ignore[attr-defined]
        if promised is not None and promised.isdecimal() and int(promised) != length:
            raise http.client.IncompleteRead(data)
        return data
