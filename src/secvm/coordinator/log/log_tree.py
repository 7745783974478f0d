"""The coordinator's log in memory: its lines, its tree, and which of them are whose."""

from __future__ import annotations

from collections.abc import Sequence

from secvm.crypto.merkle import Tree, leaf_hash
from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.log.checkpoints import Checkpoint
from secvm.protocol.log.entries import Entry, Placed, contradict
from secvm.protocol.log.proofs import LogProof
from secvm.protocol.log.tiles import TILE_HEIGHT, TILE_WIDTH, Tile, write_bundle, write_tile


class OneLog:
    """A log that only grows. Whoever appends to it has stored the lines before."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.tree = Tree()
        self._of: dict[str, list[Placed]] = {}

    @property
    def size(self) -> int:
        """Entries so far."""
        return self.tree.size

    def append(self, lines: Sequence[bytes]) -> None:
        """The log goes on. Raises ``LocalProtocolError`` where no log could: the store was changed by somebody."""
        for line in lines:
            try:
                placed = Placed(self.size, Entry.from_bytes(line))
            except MalformedMessageError:
                raise LocalProtocolError("the store's log holds what is no entry") from None
            own = self._of.setdefault(placed.entry.experiment, [])
            if own and contradict(own[-1], placed):
                raise LocalProtocolError("the store's log holds an experiment's entries in an order that none has")
            own.append(placed)
            self.lines.append(line)
            self.tree.append(leaf_hash(line))

    def of(self, experiment: str) -> Sequence[Placed]:
        """The entries of an experiment, in their order."""
        return self._of.get(experiment, ())

    def root(self, size: int) -> bytes:
        """The root over so many entries; raises where there are fewer."""
        if size > self.size:
            raise LocalProtocolError("the log has fewer entries than that")
        return self.tree.root(size)

    def holds(self, checkpoint: Checkpoint) -> bool:
        """Whether a checkpoint is a beginning of this log."""
        return checkpoint.size <= self.size and self.tree.root(checkpoint.size) == checkpoint.root

    def proof(self, index: int, size: int, note: bytes) -> bytes:
        """The proof file of an entry under a checkpoint of this size."""
        return LogProof(index, self.tree.inclusion_proof(index, size), note).to_bytes()

    def tile(self, tile: Tile, size: int) -> bytes | None:
        """A tile of the log as it was at this size; None where it had none."""
        if tile.index * TILE_WIDTH + tile.width > size >> TILE_HEIGHT * (tile.level or 0):
            return None
        if tile.level is not None:
            return write_tile(tile, self.tree.node)
        start = tile.index * TILE_WIDTH
        return write_bundle(self.lines[start : start + tile.width])
