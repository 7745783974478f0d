"""Whom a request comes from: an address or a credential, and the network that it is part of.

Nothing of this is kept: ``admission`` turns it into names that mean nothing after the epoch.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Callable, Collection
from dataclasses import dataclass

from secvm.runtime.http.server import HttpRequest

CREDENTIAL_FIELD = "secvm-credential"
#: Of an IPv6 address, what a site is usually given: 65,536 networks of 64 bits.
_NETWORK_BYTES = 6


@dataclass(frozen=True, slots=True, repr=False)
class Identity:
    """What a client is known by."""

    client: bytes
    #: What it has in common with its neighbours; empty: nothing.
    network: bytes = b""


#: None: the client does not say who it is, and cannot be let in.
Identify = Callable[[HttpRequest], Identity | None]


def by_address(*, header: str | None, proxies: Collection[str], first_64: bool) -> Identify:
    """The address at the other end, or the one that a proxy of ours names."""
    trusted = {_plain_address(proxy) for proxy in proxies}

    def identify(request: HttpRequest) -> Identity | None:
        try:
            address = _plain_address(request.peer)
            if header is not None and address in trusted:
                # The last one, if it is a list: that one our proxy wrote itself.
                address = _plain_address(request.headers.get(header, "").rpartition(",")[2].strip())
        except ValueError:
            return None
        if address.version == 4:
            return Identity(address.packed)
        return Identity(address.packed[:8] if first_64 else address.packed, address.packed[:_NETWORK_BYTES])

    return identify


def _plain_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def by_credential(known: Collection[bytes] | None) -> Identify:
    """The credential, if its SHA-256 is ``known``; None: any will do, which is for tests."""

    def identify(request: HttpRequest) -> Identity | None:
        credential = request.headers.get(CREDENTIAL_FIELD, "")
        if not credential:
            return None
        digest = hashlib.sha256(credential.encode("latin-1")).digest()
        return Identity(digest) if known is None or digest in known else None

    return identify
