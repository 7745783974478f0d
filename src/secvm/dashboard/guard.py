"""Guard: what every request must be, and what every answer says, whatever route it takes.

 1. The Host is one that this page is known by: loopback names, the address it listens on, or what the operator named.
    A name of somebody else's that points here (DNS rebinding) is refused.
 2. Under /api/ a browser must ask from a page of ours: ``Sec-Fetch-Site`` and ``Origin``, where they are told, say so.
 3. What changes something is a POST of ``application/json``, which no form of another site can send unasked.
 4. Bodies are short, or refused before they are read.
 5. Answers run no script but ours, are framed by nobody, read by no other site, and under /api/ kept by nobody.

Cookies play no part: none is set, none is read. So there is nothing that a browser adds by itself and that could be
misused; the checks stand there for the day when somebody adds such a thing.
"""

from __future__ import annotations

import ipaddress
import urllib.parse
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from secvm.dashboard.answers import problem

#: As the coordinator's: an experiment's specification is a few kilobytes.
MOST_BODY_BYTES = 2**18
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self';"
    " form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: dict[str, str] = {
    "content-security-policy": _CSP,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "x-frame-options": "DENY",
}
_READING = ("GET", "HEAD")


def names_of(listen_host: str, public_hosts: Iterable[str]) -> frozenset[str]:
    """The names that this page is known by."""
    names = {*_LOOPBACK_NAMES, *(name.lower() for name in public_hosts)}
    try:
        address = ipaddress.ip_address(listen_host)
        if not address.is_unspecified:
            names.add(str(address))
    except ValueError:
        names.add(listen_host.lower())
    return frozenset(names)


def split_host(text: str) -> tuple[str, int | None] | None:
    """Name and port of a Host header, or of what follows the scheme of an Origin; None where it is none."""
    if not text or any(letter in text for letter in "/?#@\\ \t"):
        return None
    try:
        parts = urllib.parse.urlsplit(f"//{text}")
        name, port = parts.hostname, parts.port
    except ValueError:
        return None
    return None if not name else (name.rstrip("."), port)


class Guard:
    """Around the whole application."""

    def __init__(self, app: ASGIApp, *, names: frozenset[str]) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on; in both cases the answer says what it must."""
        if scope["type"] != "http":
            # No websockets here, and lifespan is not asked for.
            return
        path: str = scope["path"]
        begun = False

        async def say(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                told = {name.lower() for name, _ in message["headers"]}
                added = dict(HEADERS)
                if path.startswith("/api/"):
                    added["cache-control"] = "no-store"
                message["headers"] = [
                    *message["headers"],
                    *((name.encode(), value.encode()) for name, value in added.items() if name.encode() not in told),
                ]
            await send(message)

        refused = self._refusal(scope["method"], path, Headers(scope=scope))
        if refused is not None:
            await problem(*refused)(scope, receive, say)
            return
        try:
            await self._app(scope, _Bounded(receive), say)
        except Exception:
            # What it is stays here: it may hold anything.
            if begun:
                raise
            await problem(500, "the page has a fault")(scope, receive, say)
            raise

    def _refusal(self, method: str, path: str, headers: Headers) -> tuple[int, str] | None:
        hosts = headers.getlist("host")
        host = split_host(hosts[0]) if len(hosts) == 1 else None
        if host is None or host[0] not in self._names:
            return 421, "this page is not known by that name; the operator can add one with --public-host"
        if path.startswith("/api/"):
            site = headers.get("sec-fetch-site")
            if site not in (None, "same-origin", "none") or (site == "none" and method not in _READING):
                return 403, "this is answered to pages of this address alone"
            if not self._own_origin(headers, host):
                return 403, "this is answered to pages of this address alone"
        if method in _READING:
            return None
        if method != "POST" or not path.startswith("/api/"):
            return 405, "only GET has a meaning here, and POST under /api/"
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != "application/json":
            return 415, "this takes application/json alone"
        length = headers.get("content-length")
        if length is not None and (not length.isdecimal() or len(length) > 9 or int(length) > MOST_BODY_BYTES):
            return 413, "this is too long"
        return None

    @staticmethod
    def _own_origin(headers: Headers, host: tuple[str, int | None]) -> bool:
        """Where an Origin is told, it is the host that was asked; a proxy in front may have taken TLS off."""
        told = headers.getlist("origin")
        if not told:
            return True
        scheme, _, rest = told[0].partition("://")
        found = split_host(rest)
        if len(told) != 1 or scheme not in ("http", "https") or found is None or found[0] != host[0]:
            return False
        default = 443 if scheme == "https" else 80
        # A proxy may pass the host on without its port; then the name has to do.
        return host[1] is None or (found[1] or default) == host[1]


class _Bounded:
    """Receives a body up to the limit."""

    def __init__(self, receive: Receive) -> None:
        self._receive, self._size = receive, 0

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            if self._size > MOST_BODY_BYTES:
                raise HTTPException(413, "this is too long")
        return message
