"""A log as static files (c2sp.org/tlog-tiles): hashes and entries in tiles of 256, which never change again.

    tile/L/N             hashes of the complete subtrees of 256^L leaves, from 256 · N on, side by side
    tile/entries/N       the entries 256 · N and on, each after its length in two bytes, big-endian
    … .p/W               a tile that is not full yet: its first W

N is written in groups of three digits, all but the last with an x before them: 1234067 is x001/x234/067. Whoever has
the tiles of a size computes every root and proof up to it (``crypto.merkle``). Tiles are not
signed: what follows from them is held to a checkpoint, or it is worth nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from secvm.crypto.merkle import MAX_SIZE, NodeReader
from secvm.errors import LocalProtocolError, MalformedMessageError

TILE_WIDTH = 256
TILE_HEIGHT = 8
#: The hashes of a level stand for 256^level leaves; above this no tree has any.
MAX_LEVEL = 7
MAX_ENTRY_BYTES = 2**16 - 1

_PATH = re.compile(r"tile/(entries|0|[1-9][0-9]?)/((?:x[0-9]{3}/){0,6}[0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?")


@dataclass(frozen=True, slots=True)
class Tile:
    """One file of a log."""

    #: None: entries.
    level: int | None
    index: int
    #: How many hashes or entries; fewer than 256 at the end of the log.
    width: int = TILE_WIDTH

    def __post_init__(self) -> None:
        if not 0 <= (self.level or 0) <= MAX_LEVEL or not 1 <= self.width <= TILE_WIDTH or self._end > MAX_SIZE:
            raise LocalProtocolError("no log has such a tile")

    @property
    def _end(self) -> int:
        """The log has at least so many leaves."""
        return (self.index * TILE_WIDTH + self.width) << TILE_HEIGHT * (self.level or 0) if self.index >= 0 else 2**64

    @property
    def path(self) -> str:
        """Where it is served, below the log's own place."""
        digits = str(self.index)
        digits = digits.zfill(-(-len(digits) // 3) * 3)
        groups = [digits[at : at + 3] for at in range(0, len(digits), 3)]
        number = "".join(f"x{group}/" for group in groups[:-1]) + groups[-1]
        part = "" if self.width == TILE_WIDTH else f".p/{self.width}"
        return f"tile/{'entries' if self.level is None else self.level}/{number}{part}"

    @classmethod
    def from_path(cls, path: str) -> Tile:
        """The tile that is served there; a path that is not written in the one way is refused."""
        match = _PATH.fullmatch(path)
        if match:
            level, number, width = match.groups()
            try:
                tile = cls(
                    None if level == "entries" else int(level),
                    int(number.replace("x", "").replace("/", "")),
                    TILE_WIDTH if width is None else int(width),
                )
            except LocalProtocolError:
                raise MalformedMessageError("no log has such a tile") from None
            if tile.path == path:
                return tile
        raise MalformedMessageError("this is no path of a tile")


def tiles_of(size: int, *, since: int = 0) -> list[Tile]:
    """All tiles of a log of this size that it did not have at the size ``since``."""
    if not 0 <= since <= size <= MAX_SIZE:
        raise LocalProtocolError("a log does not shrink")
    tiles: list[Tile] = []
    for level in (None, *range(MAX_LEVEL + 1)):
        now, before = (count >> TILE_HEIGHT * (level or 0) for count in (size, since))
        tiles += [Tile(level, index) for index in range(before // TILE_WIDTH, now // TILE_WIDTH)]
        if now % TILE_WIDTH and now != before:
            tiles.append(Tile(level, now // TILE_WIDTH, now % TILE_WIDTH))
    return tiles


def write_tile(tile: Tile, read: NodeReader) -> bytes:
    """A tile of hashes, side by side."""
    if tile.level is None:
        raise LocalProtocolError("a tile of entries is a bundle")
    start, level = tile.index * TILE_WIDTH, TILE_HEIGHT * tile.level
    return b"".join(read(level, start + i) for i in range(tile.width))


def write_bundle(entries: Iterable[bytes]) -> bytes:
    """A tile of entries."""
    bundle = list(entries)
    if not 1 <= len(bundle) <= TILE_WIDTH or any(len(entry) > MAX_ENTRY_BYTES for entry in bundle):
        raise LocalProtocolError("these entries do not fit into a tile")
    return write_entries(bundle)


def read_bundle(data: bytes, *, width: int = TILE_WIDTH) -> list[bytes]:
    """The entries of a tile."""
    entries = read_entries(data)
    if len(entries) != width:
        raise MalformedMessageError(f"a tile of {len(entries)} entries that should have {width}")
    return entries


def write_entries(entries: Iterable[bytes]) -> bytes:
    """Entries side by side, each after its length."""
    return b"".join(len(entry).to_bytes(2, "big") + entry for entry in entries)


def read_entries(data: bytes) -> list[bytes]:
    """What ``write_entries`` wrote."""
    entries: list[bytes] = []
    at = 0
    while at < len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        if at + 2 > len(data) or end > len(data):
            raise MalformedMessageError("an entry of a tile is not whole")
        entries.append(data[at + 2 : end])
        at = end
    return entries
