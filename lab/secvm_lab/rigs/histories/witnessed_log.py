"""Logs in memory: the tree, its checkpoints with witnesses' lines under them, its files.

``KnownLog`` is a coordinator's with keys that everybody knows, for histories that sign with such keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from secvm.crypto.merkle import Tree, leaf_hash
from secvm.crypto.notes import NoteKey, NoteSignature
from secvm.crypto.signing import SigningKey
from secvm.protocol.log.checkpoints import Checkpoint, SignedCheckpoint, read_checkpoint
from secvm.protocol.log.entries import Entry, EntryKind
from secvm.protocol.log.policy import LogTerms, Witness
from secvm.protocol.log.proofs import CosigningRequest, LogProof
from secvm.protocol.log.tiles import TILE_WIDTH, Tile, tiles_of, write_bundle, write_tile
from secvm.protocol.version import LOG_ORIGIN
from secvm_lab.rigs.histories.random_experiments import HonestWitness
from secvm_lab.rigs.histories.relayed_rounds import START, known_key


class WitnessedLog:
    """One log, from its own side. It hides nothing and forgets nothing."""

    def __init__(self, origin: str, key: SigningKey, entries: Sequence[bytes] = ()) -> None:
        self.origin = origin
        self.key = key
        self.entries: list[bytes] = []
        self.tree = Tree()
        for entry in entries:
            self._append(entry)

    @property
    def note_key(self) -> NoteKey:
        """With what its checkpoints are checked."""
        return NoteKey(self.origin, self.key.public)

    def append(self, entry: Entry) -> None:
        """One more entry."""
        self._append(entry.to_bytes())

    def index_of(self, entry: Entry) -> int:
        """Where an entry stands; the first place of one that stands there twice."""
        return self.entries.index(entry.to_bytes())

    def branch(self, size: int | None = None) -> WitnessedLog:
        """A second log with the same beginning: from here on they may differ. Only liars need one."""
        return WitnessedLog(self.origin, self.key, self.entries[:size])

    def checkpoint(self, size: int | None = None) -> SignedCheckpoint:
        """The log of this size or of now, signed by itself and nobody else."""
        size = self.tree.size if size is None else size
        made = Checkpoint(self.origin, size, self.tree.root(size)).sign(self.key)
        return read_checkpoint(made, log=self.note_key)

    def cosigned(
        self, witnesses: Sequence[HonestWitness], *, time_s: Callable[[HonestWitness], int], size: int | None = None
    ) -> SignedCheckpoint:
        """The log with the lines of these witnesses, each asked with a proof from what it has seen."""
        signed = self.checkpoint(size)
        lines: list[NoteSignature] = []
        for witness in witnesses:
            old = witness.size_of(self.origin)
            path = self.tree.consistency_proof(old, signed.checkpoint.size)
            request = CosigningRequest(old=old, path=path, checkpoint=signed.data)
            lines.append(witness.cosign(request, log=self.note_key, time_s=time_s(witness)))
        return signed.cosigned(*lines)

    def proof(self, index: int, signed: SignedCheckpoint) -> bytes:
        """The proof file of an entry under a checkpoint of this log."""
        path = self.tree.inclusion_proof(index, signed.checkpoint.size)
        return LogProof(index=index, path=path, checkpoint=signed.data).to_bytes()

    def files(self, signed: SignedCheckpoint) -> dict[str, bytes]:
        """Checkpoint and tiles by path, below the place of the log."""
        size = signed.checkpoint.size
        tiles = {tile.path: self._tile(tile) for tile in tiles_of(size)}
        return {"checkpoint": signed.data, **tiles}

    def _tile(self, tile: Tile) -> bytes:
        if tile.level is not None:
            return write_tile(tile, self.tree.node)
        start = tile.index * TILE_WIDTH
        return write_bundle(self.entries[start : start + tile.width])

    def _append(self, entry: bytes) -> None:
        self.entries.append(entry)
        self.tree.append(leaf_hash(entry))


LOG = known_key("log")
WITNESSES = tuple(known_key(f"witness {i}") for i in range(3))


def known_log_terms(**changes: Any) -> LogTerms:
    """Two of three witnesses; what they have cosigned stays fresh as long as any test lasts."""
    told: dict[str, Any] = {
        "name": "log.example",
        "key": LOG.public,
        "witnesses": tuple(Witness(f"w{i}.example", key.public) for i, key in enumerate(WITNESSES)),
        "quorum": 2,
        "freshness_s": 7 * 86_400,
    }
    return LogTerms(**{**told, **changes})


class KnownLog(WitnessedLog):
    """The log of all experiments of such a coordinator. Nothing is public before ``show``."""

    def __init__(self, entries: Sequence[bytes] = ()) -> None:
        super().__init__(known_log_terms().log_key.name, LOG, entries)
        #: When witnesses are asked.
        self.time_s = START // 1000 - 3600

    def note(self, size: int | None = None, *, witnesses: int = 2) -> SignedCheckpoint:
        """The log of this size or of now, cosigned by so many."""
        signed = self.checkpoint(size)
        lines = [
            signed.checkpoint.cosign(key, name=f"w{i}.example", time_s=self.time_s)
            for i, key in enumerate(WITNESSES[:witnesses])
        ]
        return signed.cosigned(*lines)

    def show(self, files: dict[str, bytes], experiments: Sequence[str], **how: Any) -> None:
        """Put the log among the public files, and its checkpoint beside these experiments."""
        signed = self.note(**how)
        files |= {f"/{LOG_ORIGIN}/{name}": data for name, data in self.files(signed).items()}
        files |= {f"/v1/experiment/{digest}/checkpoint": signed.data for digest in experiments}

    def enter(self, files: dict[str, bytes], entry: Entry) -> None:
        """One more entry, cosigned and shown."""
        self.append(entry)
        self.show(files, [entry.experiment])
        names = {EntryKind.EXPERIMENT: "first", EntryKind.MANIFEST: f"proof/{entry.round_number}"}
        if entry.kind in names:
            proof = self.proof(self.tree.size - 1, self.note())
            files[f"/v1/experiment/{entry.experiment}/{names[entry.kind]}"] = proof
