"""The coordinator's log in memory (``LogTree``), and what witnesses have seen of it (``CosignedLog``).

1. For each set of terms the newest checkpoint that its quorum cosigned is durable, and for each experiment the first
checkpoint that held it. The log itself is stored beside them (``log.logbook``).
2. Witnesses are asked about one checkpoint at a time (``asked_size``). It is replaced by a larger one when a quorum of
some terms has cosigned it: otherwise a log that grows quickly would never have a cosigned checkpoint.
3. After a start, an experiment's entries are appended only when a quorum of its witnesses has confirmed that the
stored log is the newest they have seen (``confirmed``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from secvm.coordinator.store.port import CoordinatorStore, StoredNote
from secvm.crypto.merkle import Tree, leaf_hash
from secvm.crypto.notes import Note, NoteKey, NoteSignature
from secvm.crypto.signing import SigningKey
from secvm.errors import BadSignatureError, LocalProtocolError, MalformedMessageError, StaleCheckpointError
from secvm.protocol.canonical import digest_of, encode_document
from secvm.protocol.log.checkpoints import MAX_AHEAD_S, Checkpoint, SignedCheckpoint, read_checkpoint
from secvm.protocol.log.entries import Entry, Placed, contradict
from secvm.protocol.log.policy import LogTerms
from secvm.protocol.log.proofs import LogProof
from secvm.protocol.log.tiles import TILE_HEIGHT, TILE_WIDTH, Tile, write_bundle, write_tile


class LogTree:
    """A log that only grows. Whoever appends to it has stored the lines before."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.tree = Tree()
        self._of: dict[str, list[Placed]] = {}

    @property
    def size(self) -> int:
        """The number of entries."""
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


@dataclass(frozen=True, slots=True)
class Cosigned:
    """One witness's line under the checkpoint that is asked about."""

    line: NoteSignature
    #: When it came, in milliseconds by our clock; after a restart, when the witness says it was.
    at: int


class CosignedLog:
    """The log, and how far witnesses have seen it."""

    def __init__(self, store: CoordinatorStore, key: SigningKey | None, terms: LogTerms) -> None:
        """``terms`` are those of new experiments. Without ``key`` nothing is signed here."""
        if key is not None and terms.key != key.public:
            raise LocalProtocolError("a log's terms name the key that signs its checkpoints")
        self.terms = terms
        #: The log's public key; its name is the origin.
        self.key = terms.log_key
        self.log = LogTree()
        self._store = store
        self._key = key
        #: Experiments that are in the log, with their terms; None: they have none, and stand there all the same.
        self._terms: dict[str, LogTerms | None] = {}
        #: Terms of experiments that go on, and the coordinator's own.
        self._active: list[LogTerms] = [terms]
        #: The newest checkpoint that a quorum of these terms cosigned.
        self._notes: dict[LogTerms, SignedCheckpoint] = {}
        #: The first one that held an experiment; never changes.
        self._firsts: dict[str, SignedCheckpoint] = {}
        self._kept: dict[str, StoredNote] = {}
        #: Of the checkpoint that witnesses are asked about, and who has cosigned it.
        self.asked_size = 0
        self.lines: dict[NoteKey, Cosigned] = {}
        self._signed: SignedCheckpoint | None = None
        #: Whether a witness has seen another log under this origin.
        self.halted = False
        #: Whether the log was there when this process began. Then the store may be an old copy.
        self.was_there = False
        #: Who has cosigned it since this process began.
        self.asked: set[NoteKey] = set()
        #: Whether the store was looked at since this process began.
        self._followed = False
        #: Told when there is something new to ask witnesses about.
        self.on_growth: Callable[[], None] | None = None
        #: Told what time a witness says it is, when it has cosigned something.
        self.on_time: Callable[[NoteKey, int], None] | None = None

    # ── how far ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def active(self) -> list[LogTerms]:
        """Terms whose witnesses are asked."""
        return [] if self.halted or not self.asked_size else list(self._active)

    def cosigned(self, terms: LogTerms | None = None) -> int:
        """So many entries a quorum of these terms has seen; of the coordinator's own without."""
        note = self._notes.get(terms or self.terms)
        return 0 if note is None else note.checkpoint.size

    @property
    def most_cosigned(self) -> int:
        """The most that a quorum of any terms has seen."""
        # In one go: whoever asks how it is may be in another thread than what takes a first note.
        return max((note.checkpoint.size for note in tuple(self._notes.values())), default=0)

    def confirmed(self, terms: LogTerms) -> bool:
        """Whether a quorum has seen no more of the log than there is. Any quorum has a witness of any other."""
        return not self.was_there or len(self.asked & set(terms.witness_keys)) >= terms.quorum

    def waiting(self) -> bool:
        """Whether some experiment cannot go on before witnesses answer."""
        return any(self.cosigned(terms) < self.log.size or not self.confirmed(terms) for terms in self.active())

    def silent(self) -> list[str]:
        """Witnesses that were asked and have not cosigned the newest checkpoint, by name."""
        wanted = {witness.note_key for terms in self.active() for witness in terms.witnesses}
        # Copied in one go: as above.
        heard = set(self.lines)
        if self.was_there:
            heard &= set(self.asked)
        return sorted(key.name for key in wanted - heard)

    def note(self, terms: LogTerms | None = None) -> SignedCheckpoint | None:
        """The newest checkpoint that a quorum of these terms cosigned; of the coordinator's own without."""
        return self._notes.get(terms or self.terms)

    def first(self, digest: str) -> SignedCheckpoint | None:
        """The first checkpoint with an experiment in it that a quorum of its witnesses cosigned."""
        return self._firsts.get(digest)

    def first_seen(self, digest: str) -> int | None:
        """Since when, in milliseconds, a quorum had seen an experiment."""
        first, terms = self._firsts.get(digest), self._terms.get(digest)
        if first is None or terms is None:
            return None
        return 1000 * sorted(first.times(terms.witness_keys).values())[terms.quorum - 1]

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def checkpoint(self) -> SignedCheckpoint:
        """What witnesses are asked to cosign, signed by the log alone. Equal content gets an equal signature."""
        if self.halted or self._key is None:
            raise LocalProtocolError("this log is halted, or another's to sign: nothing of it is signed here")
        if self._signed is None or self._signed.checkpoint.size != self.asked_size:
            made = Checkpoint(self.key.name, self.asked_size, self.log.root(self.asked_size))
            self._signed = read_checkpoint(made.sign(self._key), log=self.key)
        return self._signed

    def _ask_about_all(self) -> bool:
        """Let witnesses be asked about the log as it is, unless they are still busy with less."""
        busy = self.asked_size > 0 and all(self.cosigned(terms) < self.asked_size for terms in self._active)
        if busy or self.asked_size == self.log.size:
            return False
        self.asked_size, self.lines = self.log.size, {}
        return True

    def ask_anew(self) -> None:
        """Have witnesses asked about the log, as after a start. Of an empty one they know nothing: the first entry need
        not wait for them, and comes to them by itself.
        """
        self.was_there, self.asked = self.log.size > 0, set()
        if self.on_growth is not None:
            self.on_growth()

    def take(self, size: int, witness: NoteKey, line: NoteSignature, *, now: int) -> bool:
        """A witness's line under the checkpoint of this size; whether there is a newer note to show now.

        Raises
        ------
        BadSignatureError
            It is not this witness's, or not of this checkpoint.
        StaleCheckpointError
            Its time is not of now.
        """
        if size != self.asked_size or self.halted:
            # Another quorum was quicker: this one is asked again.
            return False
        signed = self.checkpoint()
        if (line.name, line.key_id) != _named(witness):
            raise BadSignatureError("this is another witness's cosignature")
        time_s = witness.check(Note(signed.note.text, (line,)))
        assert time_s is not None
        if self.on_time is not None:
            # Also if that is not our time: then one of us is wrong.
            self.on_time(witness, time_s)
        counting = [terms for terms in self._active if witness in terms.witness_keys]
        freshness_s = max((terms.freshness_s for terms in counting), default=self.terms.freshness_s)
        if not now - 1000 * freshness_s <= 1000 * time_s <= now + 1000 * MAX_AHEAD_S:
            raise StaleCheckpointError
        self.lines[witness] = Cosigned(line, now)
        self.asked.add(witness)
        news = [self._note(signed, terms, now=now) for terms in counting]
        if any(news) and self._ask_about_all() and self.on_growth is not None:
            self.on_growth()
        return any(news)

    def _note(self, signed: SignedCheckpoint, terms: LogTerms, *, now: int) -> bool:
        """Keep the checkpoint for these terms, if their quorum has cosigned it."""
        lines = [self.lines[known].line for known in terms.witness_keys if known in self.lines]
        whole = signed.cosigned(*lines)
        try:
            terms.check_quorum(whole, now=now)
        except (BadSignatureError, StaleCheckpointError):
            return False
        size, root = whole.checkpoint.size, whole.checkpoint.root
        # First what makes an experiment public for the first time, then that it is.
        for digest, own in self._terms.items():
            if own == terms and digest not in self._firsts and self._begins_before(digest, size):
                self._store.keep_note(first_name(digest), size=size, root=root, note=whole.data)
                self._firsts[digest] = whole
        self._store.keep_note(newest_name(terms), size=size, root=root, note=whole.data)
        self._notes[terms] = whole
        return True

    def _begins_before(self, digest: str, size: int) -> bool:
        own = self.log.of(digest)
        return bool(own) and own[0].index < size

    # ── after a start ────────────────────────────────────────────────────────────────────────────────────────────────

    def _take_up(self) -> None:
        """After a start, or at a node that follows: what is stored of what witnesses said."""
        for digest in self._terms:
            kept = self._kept.get(first_name(digest))
            if kept is not None and digest not in self._firsts:
                self._firsts[digest] = self._read_note(kept)
        for terms in dict.fromkeys([self.terms, *self._terms.values()]):
            kept = None if terms is None else self._kept.get(newest_name(terms))
            before = None if terms is None else self._notes.get(terms)
            if terms is None or kept is None or (before is not None and before.data == kept.note):
                continue
            note = self._read_note(kept)
            if note.checkpoint.size < self.cosigned(terms):
                continue
            self._notes[terms] = note
            if note.checkpoint.size == self.asked_size:
                self._take_up_lines(note, terms)

    def _take_up_lines(self, note: SignedCheckpoint, terms: LogTerms) -> None:
        for witness, time_s in note.times(terms.witness_keys).items():
            made = [line for line in note.note.signatures if (line.name, line.key_id) == _named(witness)]
            self.lines[witness] = Cosigned(made[-1], 1000 * time_s)

    def _read_note(self, kept: StoredNote) -> SignedCheckpoint:
        note = read_checkpoint(kept.note, log=self.key)
        if not self.log.holds(note.checkpoint):
            raise LocalProtocolError("witnesses have cosigned another log than the one that is in this store")
        return note


def newest_name(terms: LogTerms) -> str:
    """Under which name the newest checkpoint of these terms is kept."""
    return f"newest {digest_of(encode_document(terms.to_content()))}"


def first_name(digest: str) -> str:
    """Under which name the first checkpoint of an experiment is kept."""
    return f"first {digest}"


def _named(witness: NoteKey) -> tuple[str, bytes]:
    return witness.name, witness.key_id
