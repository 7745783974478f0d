"""News of a round: all that a device needs to believe the next manifest, in one answer (docs/protocol.md §33).

    news = manifest ‖ opening ‖ tally ‖ checkpoint ‖ lines       each after its length, 4 bytes LE; 0: there is none
    lines = index of the first line, 8 bytes LE ‖ the lines as in a tile of entries

A device asks by the round that it expects next, T. The manifest is the experiment's newest. Where that is round T's,
the other parts are those that lead to it: the opening of round T - 1, its net tally, the newest checkpoint, and the
log's lines up to that checkpoint which stand after the manifest of round T - 1. Where the newest is still round T - 1's
and its opening is there already, they come without the tally. In all other cases they are missing, and the device
fetches what it needs by itself.

One padded answer takes two thirds of the bytes of five, and a relay learns less from it. **Nothing in it is checked.**
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from secvm.crypto.signing import Envelope
from secvm.errors import MalformedMessageError, RemoteProtocolError
from secvm.protocol.log.checkpoints import Checkpoint, text_of
from secvm.protocol.log.entries import manifest_entry
from secvm.protocol.log.tiles import TILE_WIDTH, Tile, read_bundle, read_entries, write_entries
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import Opening
from secvm.protocol.version import LOG_ORIGIN

_LENGTH_BYTES, _INDEX_BYTES = 4, 8

_PATH = re.compile(r"/v1/experiment/([0-9a-f]{64})/news/([1-9][0-9]{0,6})")

#: A public file by its path; None where there is none.
Find = Callable[[str], bytes | None]


@dataclass(frozen=True, slots=True)
class News:
    """The parts of one answer; empty ones are missing. **Nothing in it is checked.**"""

    manifest: bytes
    opening: bytes = field(default=b"", repr=False)
    tally: bytes = field(default=b"", repr=False)
    checkpoint: bytes = b""
    first_line: int = 0
    lines: tuple[bytes, ...] = field(default=(), repr=False)

    def to_bytes(self) -> bytes:
        """As it travels."""
        lines = b"" if not self.lines else self.first_line.to_bytes(_INDEX_BYTES, "little") + write_entries(self.lines)
        parts = (self.manifest, self.opening, self.tally, self.checkpoint, lines)
        return b"".join(len(part).to_bytes(_LENGTH_BYTES, "little") + part for part in parts)

    @classmethod
    def from_bytes(cls, data: bytes) -> News:
        """Raises ``MalformedMessageError`` and nothing else."""
        parts, at = list[bytes](), 0
        for _ in range(5):
            begin = at + _LENGTH_BYTES
            at = begin + int.from_bytes(data[at:begin], "little")
            parts.append(data[begin:at])
        if at != len(data):
            raise MalformedMessageError(f"news of {len(data)} bytes whose five parts end at {at}")
        manifest, opening, tally, checkpoint, lines = parts
        first = int.from_bytes(lines[:_INDEX_BYTES], "little")
        return cls(manifest, opening, tally, checkpoint, first, tuple(read_entries(lines[_INDEX_BYTES:])))

    def lines_between(self, since: int, size: int) -> tuple[bytes, ...] | None:
        """The log's lines from this index up to this size, where all of them are here."""
        if not self.first_line <= since <= size == self.first_line + len(self.lines):
            return None
        return self.lines[since - self.first_line :]


def news_path(experiment: str, number: int) -> str:
    """Where a device that expects this round asks."""
    return f"/v1/experiment/{experiment}/news/{number}"


def read_news_path(path: str) -> tuple[str, int] | None:
    """Which experiment and round are asked for at a path; None: it is not one of news."""
    match = _PATH.fullmatch(path)
    return None if match is None else (match[1], int(match[2]))


def make_news(find: Find, experiment: str, number: int) -> News | None:
    """What a coordinator with these files answers to a device that expects this round; None: no round was announced."""
    below = f"/v1/experiment/{experiment}"
    manifest = find(f"{below}/manifest/latest")
    if manifest is None:
        return None
    try:
        newest = RelayedManifest.from_bytes(Envelope.from_bytes(manifest).payload)
        announced = newest.round_number == number
        opening, tally = find(f"{below}/opening/{number - 1}"), None
        if not announced and (opening is None or newest.round_number != number - 1):
            return News(manifest)
        if opening is not None and announced:
            digest = Opening.from_bytes(Envelope.from_bytes(opening).payload).tally
            tally = None if digest is None else find(f"/v1/blob/{digest}")
        checkpoint = find(f"{below}/checkpoint")
        first, lines = (0, ()) if checkpoint is None else _lines(find, checkpoint, experiment, number - 1)
    except RemoteProtocolError:
        # Files that are not what they should be are for the device to judge, one by one.
        return News(manifest)
    return News(manifest, opening or b"", tally or b"", checkpoint or b"", first, lines)


def _lines(find: Find, checkpoint: bytes, experiment: str, before: int) -> tuple[int, tuple[bytes, ...]]:
    """The lines after the manifest of round ``before``, and the index of the first; none where they are too many."""
    size = Checkpoint.from_text(text_of(checkpoint).partition("\n\n")[0] + "\n").size
    if not before:
        return 0, ()
    mark = manifest_entry(experiment, before, experiment).to_bytes().rpartition(b" ")[0] + b" "
    lines = list[bytes]()
    # Of the last two tiles: in a log that grows by more in a round, a device fetches tiles.
    for index in range((size - 1) // TILE_WIDTH, -1, -1)[:2]:
        tile = Tile(None, index, min(TILE_WIDTH, size - index * TILE_WIDTH))
        for line in reversed(read_bundle(find(f"/{LOG_ORIGIN}/{tile.path}") or b"", width=tile.width)):
            if line.startswith(mark):
                return size - len(lines), tuple(reversed(lines))
            lines.append(line)
    return 0, ()
