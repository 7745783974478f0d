"""The coordinator's log, read whole: every line of every experiment, and one tree over them.

An auditor makes the tree itself, from the lines in the log's tiles. Every signed checkpoint that it meets (the newest,
each experiment's, the first of each, one with each proof) must be a beginning of that tree. Two checkpoints of one size
with different roots are a fork, and convict the log whoever cosigned them.

All experiments of a coordinator stand in the log, whether they were ever run or not. An author could write many, look
at the salts that fall to them, and run the one that pleases: here those are counted.
"""

from __future__ import annotations

from secvm.auditor.files import MOST_LOG_BYTES, MOST_TILE_BYTES, PublicFiles, log_path
from secvm.auditor.findings import Findings
from secvm.crypto.merkle import EMPTY_ROOT, Tree, leaf_hash
from secvm.errors import BadInputError, MalformedMessageError, RemoteProtocolError, StaleCheckpointError
from secvm.protocol.evidence.plain import LoggedEntry
from secvm.protocol.log.checkpoints import SignedCheckpoint, check_enough, read_checkpoint
from secvm.protocol.log.entries import MAX_LOG_ENTRIES, Entry, EntryKind, Placed
from secvm.protocol.log.policy import LogTerms
from secvm.protocol.log.proofs import LogProof
from secvm.protocol.log.tiles import TILE_WIDTH, Tile, read_bundle, tiles_of, write_bundle, write_tile

_MOST_KEPT_BYTES = 2**25
CHECKPOINT = "checkpoint"
STALE = "too few witnesses have cosigned it lately: it may be an old view"


class WholeLog:
    """The log of one coordinator. What is wrong with it concerns all its experiments."""

    def __init__(self, terms: LogTerms, files: PublicFiles, findings: Findings) -> None:
        self.key = terms.log_key
        self._terms, self._files, self._findings = terms, files, findings
        self.tree = Tree()
        self._lines: list[bytes] = []
        self._of: dict[str, list[Placed]] = {}
        #: The first checkpoint met of each size.
        self._met: dict[int, SignedCheckpoint] = {}
        self._kept_bytes = 0
        self._noted: set[str] = set()

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, *, now: int, snapshot: bool) -> None:
        """The newest checkpoint that the coordinator's own witnesses cosigned, and everything under it."""
        signed = None
        try:
            data = self._files.get(log_path(CHECKPOINT), most=MOST_LOG_BYTES)
            signed = None if data is None else read_checkpoint(data, log=self.key)
            if signed is None:
                self._fault("there are experiments with a log, and its checkpoint is not served")
        except RemoteProtocolError as fault:
            self._fault(f"the log's own checkpoint cannot be believed: {fault}")
        if signed is None:
            return
        try:
            self._terms.check_quorum(signed, now=now)
        except StaleCheckpointError:
            # No device asks for it; in a copy it is as old as the copy.
            if not snapshot:
                self._findings.warn("the log's checkpoint is old: experiments that were logged since would not be seen")
        except RemoteProtocolError as fault:
            self._fault(f"the log's own checkpoint has no quorum: {fault}")
        why = self.meet(signed)
        if why:
            self._fault(f"the log's own checkpoint {why}")
        elif signed.checkpoint.size:
            self._check_tiles(signed.checkpoint.size)

    def meet(self, signed: SignedCheckpoint) -> str:
        """Hold a checkpoint to the log, reading on as far as it goes; what is wrong with it, or nothing."""
        size, signed_root = signed.checkpoint.size, signed.checkpoint.root
        if size > MAX_LOG_ENTRIES:
            raise BadInputError(f"the log is said to have {size} entries; none has more than {MAX_LOG_ENTRIES}")
        if self._remember(signed).checkpoint.root != signed_root:
            return f"is of another tree than a second one of {size} entries: the log was forked"
        try:
            self._read_on(size)
        except RemoteProtocolError as fault:
            return f"is of {size} entries, and they cannot be read: {fault}"
        root = self.tree.root(size) if size else EMPTY_ROOT
        return "" if root == signed_root else "is of a tree that the log's lines do not lead to"

    def fork(self, signed: SignedCheckpoint) -> SignedCheckpoint | None:
        """Another checkpoint of this size that the log has signed, if one was met."""
        other = self._met.get(signed.checkpoint.size)
        return None if other is None or other.checkpoint.root == signed.checkpoint.root else other

    def of(self, experiment: str, size: int) -> list[Placed]:
        """The entries of an experiment among the first ``size``."""
        return [placed for placed in self._of.get(experiment, ()) if placed.index < size]

    def experiments(self) -> dict[str, bool]:
        """All experiments that stand in the log, in their order, and whether a round of theirs does."""
        return {
            digest: any(placed.entry.kind is EntryKind.MANIFEST for placed in entries)
            for digest, entries in self._of.items()
            if any(placed.entry.kind is EntryKind.EXPERIMENT for placed in entries)
        }

    def proof(self, placed: Placed, signed: SignedCheckpoint) -> LoggedEntry:
        """That an entry stands under a checkpoint, for others."""
        path = self.tree.inclusion_proof(placed.index, signed.checkpoint.size)
        return LoggedEntry(placed.entry.to_bytes(), LogProof(placed.index, path, signed.data).to_bytes())

    # ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _read_on(self, size: int) -> None:
        while self.tree.size < size:
            number, start = divmod(self.tree.size, TILE_WIDTH)
            tile = Tile(None, number, min(TILE_WIDTH, size - number * TILE_WIDTH))
            data = fetch_tile(self._files, tile)
            if data is None:
                raise MalformedMessageError(f"{tile.path} is not served")
            for line in read_bundle(data, width=tile.width)[start:]:
                self._append(line)

    def _append(self, line: bytes) -> None:
        index = self.tree.append(leaf_hash(line))
        self._lines.append(line)
        try:
            entry = Entry.from_bytes(line)
        except MalformedMessageError:
            self._fault(f"entry {index} of the log is no line that an entry can be: no device believes this log")
            return
        self._of.setdefault(entry.experiment, []).append(Placed(index, entry))

    def _check_tiles(self, size: int) -> None:
        """The tiles of the log are those of the tree, byte for byte."""
        for tile in tiles_of(size):
            start = tile.index * TILE_WIDTH
            if tile.level is None:
                expected = write_bundle(self._lines[start : start + tile.width])
            else:
                expected = write_tile(tile, self.tree.node)
            try:
                data = fetch_tile(self._files, tile)
            except RemoteProtocolError as fault:
                self._fault(f"{tile.path} of the log cannot be read: {fault}")
                continue
            if data is None:
                self._fault(f"{tile.path} of the log is not served")
            elif data != expected:
                self._fault(f"{tile.path} of the log does not hold what the log's lines say")

    def _remember(self, signed: SignedCheckpoint) -> SignedCheckpoint:
        """The checkpoint of this size that was met first; of very many large ones only some are kept."""
        first = self._met.setdefault(signed.checkpoint.size, signed)
        if first is signed:
            self._kept_bytes += len(signed.data)
        while self._kept_bytes > _MOST_KEPT_BYTES and len(self._met) > 1:
            oldest = next(iter(self._met))
            self._kept_bytes -= len(self._met.pop(oldest).data)
        return first

    def _fault(self, sentence: str) -> None:
        if sentence not in self._noted:
            self._noted.add(sentence)
            self._findings.fault("log", sentence)


def fetch_tile(files: PublicFiles, tile: Tile) -> bytes | None:
    """A tile as wide as it is asked for; where only the full one is left by now, its beginning."""
    data = files.get(log_path(tile.path), most=MOST_TILE_BYTES)
    if data is not None or tile.width == TILE_WIDTH:
        return data
    full = files.get(log_path(Tile(tile.level, tile.index).path), most=MOST_TILE_BYTES)
    if full is None:
        return None
    if tile.level is None:
        return write_bundle(read_bundle(full)[: tile.width])
    return full[: tile.width * len(EMPTY_ROOT)]


def check_witnesses(
    findings: Findings, signed: SignedCheckpoint, terms: LogTerms, *, now: int, snapshot: bool, over: bool
) -> None:
    """Enough of an experiment's witnesses cosigned it, and lately; at any time, where the experiment is ``over``."""
    freshness_s = None if over else terms.freshness_s
    try:
        check_enough(signed.times(terms.witness_keys), terms.rule, now=now, freshness_s=freshness_s)
    except StaleCheckpointError:
        if snapshot:
            findings.warn("the checkpoint is old, as in any copy: fetch it anew to know whether the log is the same")
        else:
            findings.fault("log", f"the checkpoint is stale: {STALE}")
    except RemoteProtocolError as fault:
        findings.fault("log", f"the checkpoint has no quorum: {fault}")
