"""What every page checks of a request and says with every answer, whoever looks at it. Pure.

A port of a machine can be reached by every web page that somebody looks at there. So:

1. The host that is named is one that the page is known by. A stranger's name that suddenly leads here (DNS rebinding)
   is refused.
2. A browser says from where a request comes (``Sec-Fetch-Site``, ``Origin``): from the page itself, or typed.
3. What changes something is JSON, which no form of another site can send unasked.
4. Answers run no script but ours, are framed by nobody, and are read by no other site.

Cookies play no part: none is set, none is read.
"""

from __future__ import annotations

import ipaddress
import urllib.parse
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self';"
    " form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
#: With every answer.
HEADERS: dict[str, str] = {
    "content-security-policy": POLICY,
    "cross-origin-embedder-policy": "require-corp",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
#: Methods that change nothing.
READING = ("GET", "HEAD")

#: Header fields by their names in lower case, each as often as it came.
Fields = Mapping[str, Sequence[str]]
#: Name and port of a host.
Host = tuple[str, int | None]


class RefusedRequestError(Exception):
    """A request that is not answered, with a status and one sentence. Carries nothing of the request."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def fields_of(headers: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The header fields of a request."""
    fields: dict[str, list[str]] = {}
    for name, value in headers:
        fields.setdefault(name.lower(), []).append(value.strip())
    return fields


def split_host(text: str) -> Host | None:
    """Name and port of a Host header, or of what follows the scheme of an Origin; None where it is neither."""
    if not text or any(letter in text for letter in "/?#@\\ \t"):
        return None
    try:
        parts = urllib.parse.urlsplit(f"//{text}")
        name, port = parts.hostname, parts.port
    except ValueError:
        return None
    return None if not name else (name.rstrip("."), port)


def is_loopback_address(host: str) -> bool:
    """Whether this is an address of this machine, without brackets; a name is none."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_host(fields: Fields, is_known: Callable[[Host], bool], *, sentence: str) -> Host:
    """The one host that is named; 421 with this sentence where it is not known."""
    named = fields.get("host", ())
    host = split_host(named[0]) if len(named) == 1 else None
    if host is None or not is_known(host):
        raise RefusedRequestError(421, sentence)
    return host


def check_origin(method: str, fields: Fields, host: Host, *, schemes: Collection[str], sentence: str) -> None:
    """403 with this sentence where a browser says that another page asks."""
    allowed = ("same-origin", "none") if method in READING else ("same-origin",)
    sites, origins = fields.get("sec-fetch-site", ()), fields.get("origin", ())
    if any(site.lower() not in allowed for site in sites) or not all(_is_own(text, host, schemes) for text in origins):
        raise RefusedRequestError(403, sentence)


def _is_own(origin: str, host: Host, schemes: Collection[str]) -> bool:
    scheme, _, rest = origin.partition("://")
    sender = split_host(rest)
    if scheme not in schemes or sender is None or sender[0] != host[0]:
        return False
    # A proxy may pass the host on without its port; then the name has to do.
    return host[1] is None or (sender[1] or (443 if scheme == "https" else 80)) == host[1]


def check_json(fields: Fields, *, sentence: str) -> None:
    """415 with this sentence where the content is not JSON."""
    if [value.partition(";")[0].strip().lower() for value in fields.get("content-type", ())] != ["application/json"]:
        raise RefusedRequestError(415, sentence)
