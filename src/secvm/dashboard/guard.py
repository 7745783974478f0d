"""Guard of the operator's page: what every request must be, whatever route it takes (``pages.guarding`` has the rules).

The host is a loopback name, the address that is listened on, or what the operator named. Under /api/ a browser must ask
from a page of ours, and a POST there is JSON, and short.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from secvm.pages.guarding import READING, Fields, RefusedError, check_host, check_json, check_origin

#: As the coordinator's: an experiment's specification is a few kilobytes.
MOST_BODY_BYTES = 2**18
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


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


@dataclass(frozen=True, slots=True)
class Guard:
    """The rules above for a page of these names."""

    names: frozenset[str]

    def check(self, method: str, path: str, fields: Fields) -> None:
        """Raise ``RefusedError`` with 421, 403, 405 or 415, or let it in."""
        unknown = "this page is not known by that name; the operator can add one with --public-host"
        host = check_host(fields, lambda host: host[0] in self.names, sentence=unknown)
        if path.startswith("/api/"):
            # A proxy in front may have taken TLS off.
            others = "this is answered to pages of this address alone"
            check_origin(method, fields, host, schemes=("http", "https"), sentence=others)
        if method in READING:
            return
        if method != "POST" or not path.startswith("/api/"):
            raise RefusedError(405, "only GET has a meaning here, and POST under /api/")
        check_json(fields, sentence="this takes application/json alone")
