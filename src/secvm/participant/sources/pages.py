"""Visited pages → features: words of titles, and hosts.

1. Only pages of ``http`` and ``https`` count. The browser's own pages (``about:``, ``chrome:``), extensions' pages and
   files on this device (``file:``) are no browsing.
2. Pages of this device and of private networks do not count: ``localhost``, names without a dot, names that are never
   public (``.local``, ``.internal``, ``.lan``, …), addresses that are not global. Such a name is shared by one home
   or one office: a model learns nothing from it, and it says where the person is.
3. A word of a title is the feature itself (``words.py``). A host is ``host:`` and its name: no word has a colon, so
   the two never meet.
4. A host is in lower case, without ``www.`` in front, a dot at its end, a user, or its scheme's own port (80, 443);
   another port stays (``host:example.org:8443``). Names in punycode stay as they are.
5. A feature's value is the number of pages that have it: two visits of a page, or a word twice in a title, count once.
   A page is one address, with its query and fragment, as the browser keeps it.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable
from urllib.parse import urlsplit

from secvm.participant.sources.words import words_of

#: What browsers call a page: its address and its title, where it has one.
Page = tuple[str, str | None]

_DEFAULT_PORTS = {"http": 80, "https": 443}
#: Names that RFC 6761, RFC 6762, RFC 8375, ICANN, or habit keep out of the public DNS.
_PRIVATE_ENDINGS = ("localhost", "local", "internal", "intranet", "lan", "home", "corp", "home.arpa", "test", "invalid")
_NAME = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")
#: A host name has at most 253 characters (RFC 1035).
_MAX_HOST = 253


def features_of(pages: Iterable[Page], *, titles: bool, hosts: bool, local: bool) -> dict[str, int]:
    """Features of pages. ``local`` lets pages of this device and of private networks count as well."""
    counts: Counter[str] = Counter()
    for url, title in pages:
        host = host_of(url, local=local)
        if host is None:
            continue
        if hosts:
            counts[f"host:{host}"] += 1
        if titles and title:
            counts.update(set(words_of(title)))
    return dict(counts)


def host_of(url: str, *, local: bool = False) -> str | None:
    """The host of a page that counts, or none for one that does not."""
    try:
        parts = urlsplit(url)
        name, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in _DEFAULT_PORTS or not name:
        return None
    shown = _public_address(name, local=local) if _is_address(name) else _public_name(name, local=local)
    if shown is None:
        return None
    return shown if port in (None, _DEFAULT_PORTS[parts.scheme]) else f"{shown}:{port}"


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _public_address(name: str, *, local: bool) -> str | None:
    address = ipaddress.ip_address(name)
    if not (local or (address.is_global and not address.is_multicast)):
        return None
    return f"[{address}]" if address.version == 6 else str(address)


def _public_name(name: str, *, local: bool) -> str | None:
    name = name.removesuffix(".")
    if len(name) > _MAX_HOST or not _NAME.fullmatch(name):
        return None
    if not local and ("." not in name or any(name.endswith(f".{ending}") for ending in _PRIVATE_ENDINGS)):
        return None
    rest = name.removeprefix("www.")
    return rest if "." in rest else name
