"""The vectors of pages that were visited, and their features. Written by generate.py."""
# ruff: noqa: INP001  (beside the package, not a part of it)

from __future__ import annotations

from collections.abc import Callable

from shared import JSON  # type: ignore[import-not-found]  # beside this program, not in a package

from secvm.participant.sources.pages import Page, as_excluded, features_of, host_of, words_of

#: Letters of the first planes that fold into others, so that no reader folds them in its own way.
_FOLDED = "".join(chr(code) for code in range(0x20000) if chr(code).isalpha() and chr(code).casefold() != chr(code))
_TEXTS = [
    "",
    "News of the day: 24 goals!",
    "Straße, STRASSE und Straẞe",
    "don't e-mail x y zz",
    "Cafe\u0301 caf\u00e9 \u0301mark",
    "ΟΔΥΣΣΕΥΣ Ὀδυσσεύς ᾳ ΐ",
    "İstanbul ISPARTA ısı",
    "हिन्दी में समाचार ١٢٣ ⅷ ²³",
    "日本語 の ニュース",
    "ᏣᎳᎩ ꮳꮃꭹ",
    "a" * 64 + " " + "b" * 65 + " " + "é" * 33,
    "ﬁne ﬀ ŉ ǰ",
    "emoji 😀 x😀yz 👨‍👩‍👧",
    *(" ".join(f"{letter}{letter}" for letter in _FOLDED[at : at + 64]) for at in range(0, len(_FOLDED), 64)),
]
_URLS = [
    "https://www.example.org/a?b#c",
    "http://user:secret@News.Example.org:80/",
    "https://example.org.:8443",
    "https://example.org:0443/",
    "http://example.org:",
    "https://example.org:65536/",
    "https://www.org/",
    "https://xn--strae-oqa.example/",
    "https://under_score.example/",
    "https://a..example/",
    "https://straße.example/",
    "https://",
    "https://?q",
    "ftp://example.org/",
    "about:blank",
    "file:///home/a",
    "moz-extension://0123/a.html",
    "HTTPS://EXAMPLE.ORG",
    "https://localhost:3000/",
    "https://printer.local/",
    "https://router.home.arpa/",
    "https://intranet/",
    "https://www.intranet/",
    "https://a.test/",
    "https://1.1.1.1/",
    "https://10.1.2.3/",
    "https://100.64.0.1/",
    "https://172.31.255.255/",
    "https://172.32.0.1/",
    "https://192.168.0.1:8080/",
    "https://224.0.0.1/",
    "https://255.255.255.255/",
    "https://256.1.1.1/",
    "https://01.1.1.1/",
    "https://[::1]/",
    "https://[2606:4700:0:0::1111]:8443/",
    "https://[fe80::1]/",
    "https://[fc00::1]/",
    "https://[2001:db8::1]/",
    "https://[ff02::1]/",
    "https://[::ffff:1.1.1.1]/",
    "https://[nothing]/",
    f"https://{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 61}/",
    f"https://{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 62}/",
]
_PAGES: list[Page] = [
    ("https://news.example/one", "News of the day"),
    ("https://news.example/two", "The news, the weather"),
    ("https://login.bank.example/", "Your account"),
    ("https://10.0.0.1/", "Router"),
    ("about:config", "Settings"),
    ("https://silent.example/", None),
]


def pages() -> JSON:
    """Titles, addresses, and what is excluded."""

    def features(**wanted: object) -> JSON:
        excluded = wanted.pop("excluded", [])
        counted = features_of(_PAGES, **wanted, excluded=frozenset(excluded))  # type: ignore[arg-type, call-overload]
        return {**wanted, "excluded": excluded, "features": dict(sorted(counted.items()))}

    excluded = [
        "https://www.Bank.example/login",
        "Straße",
        "bank.example",
        "localhost",
        "10.0.0.1:80",
        "http://intranet",
    ]
    return {
        "description": "Pages of a browser's history, and the features that a device reads of them.",
        "words": [{"text": text, "words": words_of(text)} for text in _TEXTS],
        "hosts": [{"url": url, "public": host_of(url), "local": host_of(url, local=True)} for url in _URLS],
        "excluded": [{"text": text, "as": as_excluded(text)} for text in excluded],
        "pages": [list(page) for page in _PAGES],
        "features": [
            features(titles=True, hosts=False, local=False),
            features(titles=False, hosts=True, local=False),
            features(titles=True, hosts=True, local=True),
            features(titles=True, hosts=True, local=False, excluded=["bank.example", "news"]),
        ],
    }


FILES: dict[str, Callable[[], JSON]] = {"pages": pages}
