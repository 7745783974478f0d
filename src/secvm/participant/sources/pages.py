"""Visited pages → features: words of titles, and hosts.

1. Only pages of ``http`` and ``https`` count. The browser's own pages (``about:``, ``chrome:``), extensions' pages and
   files on this device (``file:``) are no browsing.
2. Pages of this device and of private networks do not count: ``localhost``, names without a dot, names that are never
   public (``.local``, ``.internal``, ``.lan``, …), addresses that are not global. Such a name is shared by one home
   or one office: a model learns nothing from it, and it says where the person is.
3. A word of a title is the feature itself (below). A host is ``host:`` and its name: no word has a colon, so
   the two never meet.
4. A host is in lower case, without ``www.`` in front, a dot at its end, a user, or its scheme's own port (80, 443);
   another port stays (``host:example.org:8443``). Names in punycode stay as they are.
5. A feature's value is the number of pages that have it: two visits of a page, or a word twice in a title, count once.
   A page is one address, with its query and fragment, as the browser keeps it.

**Words.** There is one way in which built-in sources cut titles. The protocol never changes a feature (docs/protocol.md
§2.1): two devices agree on a word only if they cut alike. So:

 1. The text is put into Unicode's form NFC, case-folded (``Straße`` becomes ``strasse``), and put into NFC again.
 2. A word is a longest run of letters (L), decimal digits (Nd) and marks (M) that does not begin with a mark. Marks are
    part of words because most Indian words have them in the middle. All else separates: ``don't`` is ``don`` and ``t``.
 3. A word of one character, or of more than 64 bytes in UTF-8, is dropped. It is never cut short.

There are no lists of words to leave out, no stems, and no word breaks in scripts that write none (Chinese, Japanese,
Thai): there a run is one word. Which characters are letters is Python's Unicode version's to say; a character too new
for it separates.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable
from functools import lru_cache
from urllib.parse import urlsplit

from secvm.errors import BadInputError

MIN_CHARACTERS = 2
MAX_BYTES = 64

_ASCII_WORD = re.compile(r"[0-9a-z]+")
_SEPARATOR, _INNER, _MARK = range(3)


def words_of(text: str) -> list[str]:
    """The words of a text in its order, each as often as it comes."""
    # Most titles: for ASCII the three forms are the text in lower case.
    words = _ASCII_WORD.findall(text.lower()) if text.isascii() else _runs(text)
    return [word for word in words if len(word) >= MIN_CHARACTERS and len(word.encode()) <= MAX_BYTES]


def _runs(text: str) -> list[str]:
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
    runs: list[str] = []
    start = None
    for position, character in enumerate(folded):
        kind = _kind(character)
        if start is None:
            if kind == _INNER:
                start = position
        elif kind == _SEPARATOR:
            runs.append(folded[start:position])
            start = None
    if start is not None:
        runs.append(folded[start:])
    return runs


@lru_cache(maxsize=4096)
def _kind(character: str) -> int:
    category = unicodedata.category(character)
    if category[0] == "L" or category == "Nd":
        return _INNER
    return _MARK if category[0] == "M" else _SEPARATOR


#: What browsers call a page: its address and its title, where it has one.
Page = tuple[str, str | None]

_DEFAULT_PORTS = {"http": 80, "https": 443}
#: Names that RFC 6761, RFC 6762, RFC 8375, ICANN, or habit keep out of the public DNS.
_PRIVATE = ("localhost", "local", "internal", "intranet", "lan", "home", "corp", "home.arpa", "test", "invalid")
_PRIVATE_ENDINGS = tuple(f".{name}" for name in _PRIVATE)
_PORT = re.compile(r":\d+$")
_NAME = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")
#: A host name has at most 253 characters (RFC 1035).
_MAX_HOST = 253


def features_of(
    pages: Iterable[Page], *, titles: bool, hosts: bool, local: bool, excluded: Collection[str] = ()
) -> dict[str, int]:
    """Features of pages. ``local`` lets pages of this device and of private networks count as well.

    ``excluded`` are names of hosts, whose pages do not count at all, nor do those of hosts below them, and words.
    """
    counts: Counter[str] = Counter()
    for url, title in pages:
        host = host_of(url, local=local)
        if host is None or (excluded and _is_below(_PORT.sub("", host), excluded)):
            continue
        if hosts:
            counts[f"host:{host}"] += 1
        if titles and title:
            counts.update(set(words_of(title)).difference(excluded))
    return dict(counts)


def _is_below(host: str, excluded: Collection[str]) -> bool:
    """Whether a host, or one that it is below, is excluded: ``bank.example`` excludes ``login.bank.example``."""
    parts = host.split(".")
    return any(".".join(parts[i:]) in excluded for i in range(len(parts)))


def as_excluded(text: str) -> str:
    """What a person writes to exclude a word or a host, as it is compared: of an address its host, of a word its form.

    >>> as_excluded("https://www.Bank.example/login"), as_excluded("Straße"), as_excluded("bank.example")
    ('bank.example', 'strasse', 'bank.example')
    """
    address = text if "://" in text else f"https://{text}"
    host = host_of(address, local=True) if "." in text or "://" in text else None
    if host is not None:
        return _PORT.sub("", host)
    words = words_of(text)
    if len(words) != 1 or "://" in text:
        raise BadInputError("what is excluded is one word, or the name of one host")
    return words[0]


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
    # Most names: an address has a colon or ends with a digit.
    if ":" not in name and not name[-1].isdigit():
        return False
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
    if not local and ("." not in name or name.endswith(_PRIVATE_ENDINGS)):
        return None
    rest = name.removeprefix("www.")
    return rest if "." in rest else name
