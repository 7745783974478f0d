"""An experiment's log, held to what the coordinator shows: one tree, signed, cosigned by a quorum, and lately.

The auditor makes the tree itself, from the documents that it has read. Every signed checkpoint that it meets (the
newest, the first, one with each proof) must be a beginning of that tree; tiles must be its hashes, byte for byte. Two
checkpoints of one size with different roots are a fork, and convict the log whoever cosigned them.
"""

from __future__ import annotations

from secvm.auditor.files import MOST_LOG_BYTES, MOST_TILE_BYTES, PublicFiles, experiment_path, log_path
from secvm.auditor.findings import Findings
from secvm.auditor.replay import Replay
from secvm.auditor.subject import Subject
from secvm.crypto.merkle import EMPTY_ROOT, Frontier, Tree, leaf_hash
from secvm.errors import BadSignatureError, MalformedMessageError, RemoteProtocolError, StaleCheckpointError
from secvm.protocol.checkpoints import MAX_AHEAD_S, SignedCheckpoint, check_times, read_checkpoint
from secvm.protocol.evidence import Evidence, Kind
from secvm.protocol.log import LogEntry, LogTerms
from secvm.protocol.log_proofs import LogProof
from secvm.protocol.salt import committed_at
from secvm.protocol.tiles import TILE_WIDTH, Tile, read_bundle, tiles_of, write_bundle, write_tile

_MOST_KEPT_BYTES = 2**25

STALE = "too few witnesses have cosigned it lately: it may be an old view"


class LogCheck:
    """The log of one experiment."""

    def __init__(self, subject: Subject, terms: LogTerms) -> None:
        self._subject, self._terms = subject, terms
        self._document, self._envelope = subject.document, subject.envelope
        self._files, self._findings = subject.files, subject.findings
        self._log = terms.log_key(subject.document.digest)
        #: The first checkpoint met of each size.
        self._met: dict[int, SignedCheckpoint] = {}
        self._kept_bytes = 0
        self._read_at = subject.now
        #: When a quorum had cosigned the experiment.
        self.committed_at: int | None = None
        self.first: bytes | None = None

    # ── the newest checkpoint ────────────────────────────────────────────────────────────────────────────────────────

    def newest(self) -> SignedCheckpoint | None:
        """The checkpoint of now, if it can be believed; what is wrong with it is told by ``check``."""
        try:
            data = self._files.get(f"{log_path(self._document.digest)}/checkpoint", most=MOST_LOG_BYTES)
            self._read_at = self._subject.now
            return None if data is None else read_checkpoint(data, log=self._log)
        except RemoteProtocolError:
            return None

    def check(self, replay: Replay, signed: SignedCheckpoint | None) -> int | None:
        """Hold the log to the documents; how many entries it has, if that can be believed."""
        self._check_first()
        if signed is None:
            self._check_missing()
        else:
            self._check_quorum(signed, replay)
        entries = self._complete(replay, signed)
        tree = Tree(leaf_hash(entry.to_bytes()) for entry in entries)
        self._check_proofs(replay, entries, tree)
        self._check_first_in(tree)
        if signed is None:
            return None
        self._check_size(replay, signed)
        self._meet(signed, tree, replay, "the newest checkpoint", None)
        if signed.checkpoint.size <= tree.size:
            check_tiles(
                self._files, self._findings, log_path(self._document.digest), signed.checkpoint.size, tree, entries
            )
        return signed.checkpoint.size

    def _check_missing(self) -> None:
        """Why there is no checkpoint that can be believed."""
        try:
            data = self._files.get(f"{log_path(self._document.digest)}/checkpoint", most=MOST_LOG_BYTES)
            if data is None:
                self._findings.fault("log", "the experiment names a log, and its checkpoint is not served")
            else:
                read_checkpoint(data, log=self._log)
        except RemoteProtocolError as fault:
            self._findings.fault("log", f"the checkpoint cannot be believed: {fault}")

    def _check_quorum(self, signed: SignedCheckpoint, replay: Replay) -> None:
        check_witnesses(
            self._findings,
            signed,
            self._terms,
            now=self._read_at,
            snapshot=self._subject.snapshot,
            what="log",
            # Nothing comes after an ending, so nobody renews what is under it. That it is this tree is checked below.
            over=replay.ending is not None and signed.checkpoint.size == len(replay.entries),
        )

    def _check_size(self, replay: Replay, signed: SignedCheckpoint) -> None:
        size, shown = signed.checkpoint.size, len(replay.entries)
        if size < shown:
            for number in range(max(1, size), min(shown, replay.last_round + 1)):
                self._findings.fault("logged", "it is shown, and not in the log yet", round_number=number)
            if replay.ending is not None:
                self._findings.fault("ending", "the ending is shown, and not in the log yet")
        if size > shown:
            sentence = f"the log has {size} entries, and only {shown} of their documents are shown"
            self._findings.fault("log", sentence)

    def _remember(self, signed: SignedCheckpoint) -> SignedCheckpoint:
        """The checkpoint of this size that was met first; of very many large ones only some are kept."""
        found = self._met.setdefault(signed.checkpoint.size, signed)
        if found is signed:
            self._kept_bytes += len(signed.data)
        while self._kept_bytes > _MOST_KEPT_BYTES and len(self._met) > 1:
            oldest = next(iter(self._met))
            self._kept_bytes -= len(self._met.pop(oldest).data)
        return found

    # ── every checkpoint is a beginning of one tree ──────────────────────────────────────────────────────────────────

    def _complete(self, replay: Replay, signed: SignedCheckpoint | None) -> list[LogEntry]:
        """The entries that the documents say; one whose document is not shown is taken from the log's own tiles."""
        entries: list[LogEntry] = []
        for index, entry in enumerate(replay.entries):
            found = entry or (None if signed is None else self._entry(index, signed.checkpoint.size))
            if found is None:
                break
            entries.append(found)
        return entries

    def _entry(self, index: int, size: int) -> LogEntry | None:
        if index >= size:
            return None
        number = index // TILE_WIDTH
        tile = Tile(None, number, min(TILE_WIDTH, size - number * TILE_WIDTH))
        try:
            data = fetch_tile(self._files, log_path(self._document.digest), tile)
            found = read_bundle(b"" if data is None else data, width=tile.width)
            return LogEntry.from_bytes(found[index % TILE_WIDTH])
        except RemoteProtocolError:
            return None

    def _meet(self, signed: SignedCheckpoint, tree: Tree, replay: Replay, what: str, round_number: int | None) -> bool:
        """A signed checkpoint is a beginning of the tree, and no other of its size was signed."""
        found = signed.checkpoint
        check = "log" if round_number is None else "logged"
        other = self._remember(signed)
        if other.checkpoint.root != found.root:
            evidence = self._subject.evidence(Kind.FORKED_LOG, checkpoints=(other.data, signed.data))
            sentence = f"the log was forked: it signed two different trees of {found.size} entries"
            self._findings.fault(check, sentence, round_number=round_number, evidence=evidence)
            return False
        if found.size > tree.size or found.root == (tree.root(found.size) if found.size else EMPTY_ROOT):
            return True
        sentence = f"{what} is of a tree that does not hold the documents that are shown"
        self._findings.fault(
            check, sentence, round_number=round_number, evidence=self._not_in_log(signed, tree, replay)
        )
        return False

    def _not_in_log(self, signed: SignedCheckpoint, tree: Tree, replay: Replay) -> Evidence | None:
        """From the last checkpoint before it that fits, or from entry 0, on."""
        size = signed.checkpoint.size
        fitting = [n for n, met in self._met.items() if 0 < n < size and met.checkpoint.root == tree.root(n)]
        start = max(fitting, default=1)
        documents = [replay.shown.get(place) for place in range(start, size)]
        if any(shown is None for shown in documents):
            return None
        frontier = Frontier()
        for index in range(start):
            frontier = frontier.append(tree.node(0, index))
        old = (self._met[start].data,) if start in fitting else ()
        return Evidence(
            kind=Kind.NOT_IN_LOG,
            experiment=self._envelope,
            documents=tuple(shown.envelope for shown in documents if shown is not None),
            checkpoints=(*old, signed.data),
            frontier=frontier,
        )

    # ── proofs ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _check_proofs(self, replay: Replay, entries: list[LogEntry], tree: Tree) -> None:
        """The proof files that devices were given: one for each entry."""
        for index, entry in enumerate(entries):
            number = index if 1 <= index <= replay.last_round else None
            if replay.entries[index] is None:
                continue
            self._check_proof(replay, index, entry, tree, number)

    def _check_proof(self, replay: Replay, index: int, entry: LogEntry, tree: Tree, number: int | None) -> None:
        what = "its proof" if number is not None else f"the proof of {_name(index)}"
        check = "logged" if number is not None else "log"
        try:
            data = self._files.get(experiment_path(self._document.digest, "proof", index), most=MOST_LOG_BYTES)
            if data is None:
                raise MalformedMessageError("it is not served")
            signed = LogProof.from_bytes(data).check(entry.to_bytes(), index=index, log=self._log)
            times = signed.times(self._terms.witness_keys)
            if len(times) < self._terms.quorum:
                raise BadSignatureError("too few witnesses have cosigned its checkpoint")
        except RemoteProtocolError as fault:
            self._findings.fault(check, f"{what} proves nothing: {fault}", round_number=number)
            return
        good = self._meet(signed, tree, replay, f"the checkpoint of {what}", number)
        self._judge_times(replay, index, sorted(times.values()))
        newest = index == len(replay.entries) - 1
        if newest and replay.ending is None:
            # Devices ask for this one, and take it only while it is fresh.
            self._check_fresh(signed, what, index, number)
        elif not newest and index > 0 and signed.checkpoint.size != index + 1:
            # The experiment itself may have been logged together with its first round.
            self._findings.warn(f"the proof of entry {index} is not of the time when it was the newest of the log")
        if number is not None and good:
            self._findings.passed(number, "logged")

    def _check_fresh(self, signed: SignedCheckpoint, what: str, index: int, number: int | None) -> None:
        try:
            self._terms.check_quorum(signed, now=self._subject.now)
        except StaleCheckpointError:
            # Proofs are renewed while their entry is the newest, and the log may have grown since it was read.
            again = self.newest()
            grown = again is not None and again.checkpoint.size > index + 1
            if not self._subject.snapshot and not grown:
                check = "log" if number is None else "logged"
                self._findings.fault(check, f"{what} is stale: {STALE}", round_number=number)

    def _judge_times(self, replay: Replay, index: int, times: list[int]) -> None:
        """A manifest tells how the round before it ended, so nobody can have seen it before that one closed."""
        closed_at = replay.closed_at.get(index - 1)
        cosigned_at = 1000 * times[self._terms.quorum - 1]
        if closed_at is not None and cosigned_at + 1000 * MAX_AHEAD_S < closed_at:
            sentence = f"witnesses cosigned what follows round {index - 1} before its window had closed"
            self._findings.warn(sentence + ": either their clocks are wrong, or it was known how it would end")

    # ── the first checkpoint ─────────────────────────────────────────────────────────────────────────────────────────

    def _check_first(self) -> None:
        try:
            self.first = self._files.get(experiment_path(self._document.digest, "first"), most=MOST_LOG_BYTES)
            if self.first is None:
                raise MalformedMessageError("it is not served")
            self.committed_at = committed_at(self._document, self.first)
        except RemoteProtocolError as fault:
            self._findings.fault("first", f"the first checkpoint does not prove when the experiment was fixed: {fault}")

    def _check_first_in(self, tree: Tree) -> None:
        if self.first is None or self.committed_at is None:
            return
        signed = read_checkpoint(LogProof.from_bytes(self.first).checkpoint, log=self._log)
        found = signed.checkpoint
        if found.size <= tree.size and found.root != tree.root(found.size):
            self._findings.fault("first", "the first checkpoint is of another tree than the log's")
        other = self._remember(signed)
        if other.checkpoint.root != found.root:
            evidence = self._subject.evidence(Kind.FORKED_LOG, checkpoints=(other.data, signed.data))
            self._findings.fault("first", "the log was forked at its first checkpoint", evidence=evidence)


# ── what logs of experiments and the directory share ─────────────────────────────────────────────────────────────────


def check_witnesses(
    findings: Findings,
    signed: SignedCheckpoint,
    terms: LogTerms,
    *,
    now: int,
    snapshot: bool,
    what: str,
    over: bool = False,
) -> None:
    """Enough of the witnesses cosigned it, and lately; at any time, where the log is ``over``."""
    name = "checkpoint" if what == "log" else f"{what}'s checkpoint"
    keys, freshness_s = terms.witness_keys, None if over else terms.freshness_s
    try:
        check_times(signed.times(keys), witnesses=keys, quorum=terms.quorum, now=now, freshness_s=freshness_s)
    except StaleCheckpointError:
        if snapshot:
            findings.warn(f"the {name} is old, as in any copy: fetch it anew to know whether the log is the same")
        elif what == "directory":
            # No device asks for it, so nobody may have had it renewed.
            findings.warn(f"the {name} is old: experiments that were logged since would not be seen")
        else:
            findings.fault(what, f"the {name} is stale: {STALE}")
    except RemoteProtocolError as fault:
        findings.fault(what, f"the {name} has no quorum: {fault}")


def check_tiles(
    files: PublicFiles, findings: Findings, base: str, size: int, tree: Tree, entries: list[LogEntry]
) -> None:
    """The tiles of a log are those of the tree, byte for byte."""
    what = "directory" if base.endswith("/directory") else "log"
    for tile in tiles_of(size):
        start = tile.index * TILE_WIDTH
        if tile.level is None:
            expected = write_bundle(entry.to_bytes() for entry in entries[start : start + tile.width])
        else:
            expected = write_tile(tile, tree.node)
        try:
            data = fetch_tile(files, base, tile)
        except RemoteProtocolError as fault:
            findings.fault(what, f"{tile.path} cannot be read: {fault}")
            continue
        if data is None:
            findings.fault(what, f"{tile.path} of the log is not served")
        elif data != expected:
            findings.fault(what, f"{tile.path} of the log does not hold what the log's documents say")


def fetch_tile(files: PublicFiles, base: str, tile: Tile) -> bytes | None:
    """A tile as wide as it is asked for; where only the full one is left by now, its beginning."""
    data = files.get(f"{base}/{tile.path}", most=MOST_TILE_BYTES)
    if data is not None or tile.width == TILE_WIDTH:
        return data
    full = files.get(f"{base}/{Tile(tile.level, tile.index).path}", most=MOST_TILE_BYTES)
    if full is None:
        return None
    if tile.level is None:
        return write_bundle(read_bundle(full)[: tile.width])
    return full[: tile.width * len(EMPTY_ROOT)]


def _name(index: int) -> str:
    return "the experiment" if index == 0 else "the ending"
