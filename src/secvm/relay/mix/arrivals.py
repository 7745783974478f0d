"""Arrivals: the file of one label at the mixing relay: pieces of the entry relay's batch, then what was in them.

A piece is kept as it came, once; nothing is opened before the batch is whole and is the one that was announced.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from secvm.errors import LocalProtocolError
from secvm.protocol.relays.batches.capsule_tree import capsule_root
from secvm.protocol.relays.batches.counts import EntryCount
from secvm.protocol.relays.batches.label import OUTER_BYTES, capsule_digest
from secvm.protocol.relays.batches.pieces import capsules_in_piece, piece_count, split_piece
from secvm.relay.batches.capsule_file import CapsuleFile
from secvm.relay.batches.refusing import RelayRefusalError

_MORE = "CREATE TABLE pieces (number INTEGER PRIMARY KEY, data BLOB NOT NULL)"


class IncomingBatch(CapsuleFile):
    """The file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _MORE)

    def have(self) -> list[int]:
        """The numbers of pieces that are here."""
        return [number for (number,) in self.rows("SELECT number FROM pieces ORDER BY number") if type(number) is int]

    def put(self, index: int, data: bytes, count: EntryCount) -> None:
        """Keep a piece of the batch that was announced by this count. The same again is nothing new.

        Raises
        ------
        RefusedError
            The batch has no such piece, the piece another length, or other bytes came before.
        """
        expected = capsules_in_piece(index, count.capsules) * OUTER_BYTES
        if not expected:
            raise RelayRefusalError(f"the batch has {piece_count(count.capsules)} pieces, not {index}", why="unknown")
        if len(data) != expected:
            raise RelayRefusalError(f"piece {index} has {len(data)} bytes, not {expected}", why="too-large")
        with self.transaction() as db:
            db.execute("INSERT OR IGNORE INTO pieces VALUES (?, ?)", (index, data))
            if db.execute("SELECT data FROM pieces WHERE number = ?", (index,)).fetchone()[0] != data:
                raise RelayRefusalError(f"piece {index} came before with other bytes", why="conflict")

    def piece_capsules(self, index: int) -> list[bytes]:
        """The outer capsules of a piece that is here."""
        data = self.value("SELECT data FROM pieces WHERE number = ?", (index,))
        if not isinstance(data, bytes):
            raise LocalProtocolError(f"there is no piece {index}")
        return split_piece(data, OUTER_BYTES)

    def outer_digests(self, pieces: int) -> Iterator[list[bytes]]:
        """Digests of all outer capsules as they stand in the pieces."""
        for index in range(pieces):
            yield [capsule_digest(capsule) for capsule in self.piece_capsules(index)]

    def is_batch_of(self, count: EntryCount) -> bool:
        """Whether the pieces are the batch that this count announced: ascending, under its root, as many as it says.

        All pieces are here.
        """
        last = b""
        for digests in self.outer_digests(piece_count(count.capsules)):
            if any(one >= other for one, other in pairwise([last, *digests])):
                return False
            last = digests[-1]
        found = self.outer_digests(piece_count(count.capsules))
        return capsule_root(digest for digests in found for digest in digests) == count.root

    def drop_pieces(self) -> None:
        """They are not what was announced: it may come again."""
        with self.transaction() as db:
            db.execute("DELETE FROM pieces")
        self.cut_log()
