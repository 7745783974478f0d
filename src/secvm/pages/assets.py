"""Files that a browser is given: read once from the package, with their kind, their digest and a smaller form.

Every folder of pages has a ``static`` beside its code. A server names the packages whose files it gives; a name that
two of them have is a mistake of ours. Nothing outside those folders can be named.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

#: What browsers must be told: under ``nosniff`` they believe nothing else.
_KINDS = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "png": "image/png",
    "svg": "image/svg+xml",
    "webmanifest": "application/manifest+json",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is sent."""

    name: str
    content: bytes
    media_type: str
    #: Of the content, in short: for ``ETag`` and for addresses that never change what they give.
    digest: str
    #: The same in gzip: made once, the same bytes each time.
    gzipped: bytes


class Assets(Mapping[str, Asset]):
    """The files of ``static`` beside each of these packages, all in memory, and those that were ``made`` by code."""

    def __init__(self, *packages: str, made: Mapping[str, bytes] | None = None) -> None:
        self._held: dict[str, Asset] = {
            name: _read(name, content, _KINDS[name.rpartition(".")[2]]) for name, content in (made or {}).items()
        }
        for package in packages:
            for file in sorted((files(package) / "static").iterdir(), key=lambda file: file.name):
                ending = file.name.rpartition(".")[2]
                if not file.is_file() or ending not in _KINDS:
                    continue
                if file.name in self._held:
                    raise ValueError(f"two folders have a file of the name {file.name}")
                self._held[file.name] = _read(file.name, file.read_bytes(), _KINDS[ending])

    def __getitem__(self, name: str) -> Asset:
        return self._held[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


def _read(name: str, content: bytes, media_type: str) -> Asset:
    digest = hashlib.sha256(content).hexdigest()[:16]
    return Asset(name, content, media_type, digest, gzip.compress(content, 9, mtime=0))


@cache
def shared() -> Assets:
    """The look and the charts, which all pages share."""
    return Assets("secvm.pages")


def asset(name: str) -> Asset:
    """One of the shared files."""
    return shared()[name]
