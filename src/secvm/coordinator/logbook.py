"""The coordinator's logs (docs/protocol.md §20): one for each experiment that has terms for it, and the directory.

 1. A log is **derived**: the experiment, its manifests in order, its ending. All of these are durable before they are
    entries here, and none of them ever changes, so after a crash the same log comes out again. It is never stored.
 2. What is durable besides is what witnesses said: the newest checkpoint that a quorum cosigned, and the first one.
 3. A document may be shown when a checkpoint that a quorum cosigned contains it (``visible``), not before.
 4. A log that somebody has seen otherwise is halted: nothing of it is signed any more, and its experiment is paused.
 5. After a start, a log that was there already grows when a quorum has said that what is stored is the newest it has
    seen (``may_grow``). An old copy of the store that was put back is found out before it signs anything else.

A round appends an entry; nothing is built again. A log whose ending has its quorum is closed: it costs nothing any
more, and its cosignatures are not renewed, because nothing can come after an ending.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from secvm.coordinator.books import Book, Books
from secvm.coordinator.showing import ending_of
from secvm.coordinator.store.port import CoordinatorStore, Standing, StoredNote
from secvm.crypto.merkle import Tree, leaf_hash
from secvm.crypto.notes import Note, NoteKey, NoteSignature
from secvm.crypto.signing import Envelope, SigningKey, VerifyKey
from secvm.errors import BadInputError, BadSignatureError, LocalProtocolError, ProtocolError, StaleCheckpointError
from secvm.protocol.checkpoints import MAX_AHEAD_S, Checkpoint, SignedCheckpoint, check_quorum, read_checkpoint
from secvm.protocol.experiment_document import ExperimentDocument
from secvm.protocol.log import LogEntry, LogTerms, ending_entry, experiment_entry, manifest_entry

#: The directory's place; an experiment's is its digest.
DIRECTORY = "directory"


@dataclass(frozen=True, slots=True)
class Cosigned:
    """One witness's line under the checkpoint of now."""

    line: NoteSignature
    #: When it came, in milliseconds by our clock; after a restart, when the witness says it was.
    at: int


class OneLog:
    """One log as it stands."""

    def __init__(self, place: str, key: NoteKey, terms: LogTerms, stored: StoredNote | None) -> None:
        #: Where it is served, below the log's name: an experiment's digest, or the directory.
        self.place = place
        #: The log's public key; its name is the origin.
        self.key = key
        self.terms = terms
        self.entries: list[bytes] = []
        self.tree = Tree()
        #: The newest checkpoint that a quorum cosigned.
        self.note = None if stored is None else read_checkpoint(stored.newest, log=key)
        #: The first one; never changes.
        self.first = None if stored is None else read_checkpoint(stored.first, log=key)
        #: Who has cosigned the checkpoint of this size, quorum or not.
        self.lines: dict[NoteKey, Cosigned] = {}
        #: Whether the last entry is an ending.
        self.ended = False
        #: Whether a witness has seen another log under this origin.
        self.halted = False
        #: Whether it was there when this process began. Then the store may be an old copy.
        self.found = False
        #: Who has cosigned it since this process began.
        self.asked: set[NoteKey] = set()

    @property
    def size(self) -> int:
        """Entries, cosigned or not."""
        return self.tree.size

    @property
    def cosigned(self) -> int:
        """So many of them may be shown."""
        return 0 if self.note is None else self.note.checkpoint.size

    @property
    def closed(self) -> bool:
        """Whether nothing more is to be done for it, ever."""
        return self.ended and self.cosigned == self.size

    @property
    def confirmed(self) -> bool:
        """Whether a quorum has seen no more of it than there is. Any quorum has a witness of any other."""
        return not self.found or len(self.asked) >= self.terms.quorum

    @property
    def waiting(self) -> bool:
        """Whether it cannot go on before witnesses answer."""
        return self.cosigned < self.size or not (self.closed or self.confirmed)

    def first_seen(self) -> int | None:
        """Since when, in milliseconds, a quorum had seen the first checkpoint."""
        if self.first is None:
            return None
        times = sorted(self.first.times(self.terms.witness_keys).values())
        return 1000 * times[self.terms.quorum - 1]

    def append(self, entries: list[LogEntry], *, ended: bool) -> None:
        """The log has grown: nobody has cosigned it as it is now."""
        self.ended = ended
        for entry in entries:
            self.entries.append(entry.to_bytes())
            self.tree.append(leaf_hash(self.entries[-1]))
        self.lines = {}

    def take_up(self) -> None:
        """After a restart: that the stored checkpoint is one of this log, and who cosigned it if it is that of now."""
        if self.note is None:
            return
        there = self.note.checkpoint
        if there.size > self.size or self.tree.root(there.size) != there.root:
            raise LocalProtocolError("witnesses have cosigned another log than the one that follows from this store")
        if there.size == self.size:
            for witness, time_s in self.note.times(self.terms.witness_keys).items():
                made = [line for line in self.note.note.signatures if (line.name, line.key_id) == _named(witness)]
                self.lines[witness] = Cosigned(made[-1], 1000 * time_s)


class Logbook:
    """All logs of one coordinator."""

    def __init__(self, store: CoordinatorStore, key: SigningKey | None, terms: LogTerms) -> None:
        """``terms`` are those of new experiments, and of the directory. Without ``key`` nothing is signed here."""
        if key is not None and terms.key != key.public:
            raise LocalProtocolError("a log's terms name the key that signs its checkpoints")
        self.terms = terms
        self._store = store
        self._key = key
        self._notes = {held.origin: held for held in store.notes()}
        self._logs: dict[str, OneLog] = {}
        self._signed: dict[str, SignedCheckpoint] = {}
        self._directory = self._begin(DIRECTORY, terms.directory_key, terms)
        #: Whether the store was looked at since this process began.
        self._followed = False
        #: Told when a log has grown: whoever asks witnesses.
        self.on_growth: Callable[[], None] | None = None

    # ── entries ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def follow(self, books: Books, read: list[Book]) -> None:
        """Append what the store has and the logs have not. ``read`` are all books, as they stand now."""
        grown = False
        for book in read:
            if book.document.log is not None:
                grown |= self._follow(books, book, book.document.log)
        known = len(self._directory.entries)
        new = [experiment_entry(book.stored.digest) for book in read[known:]]
        grown |= self._grow(self._directory, new, ended=False)
        self._followed = True
        if grown and self.on_growth is not None:
            self.on_growth()

    def _follow(self, books: Books, book: Book, terms: LogTerms) -> bool:
        digest = book.stored.digest
        log = self._logs.get(digest) or self._begin(digest, terms.log_key(digest), terms)
        if log.ended or (log.size == 1 + len(book.rounds) and not book.is_over):
            return False
        whole = [experiment_entry(digest), *(manifest_entry(one.manifest.digest) for one in book.rounds)]
        if book.is_over:
            whole.append(ending_entry(ending_of(books, book).digest))
        return self._grow(log, whole[log.size :], ended=book.is_over)

    def _begin(self, place: str, key: NoteKey, terms: LogTerms) -> OneLog:
        self._logs[place] = OneLog(place, key, terms, self._notes.pop(key.name, None))
        return self._logs[place]

    def _grow(self, log: OneLog, new: list[LogEntry], *, ended: bool) -> bool:
        fresh = log.size == 0
        # What the operator does meanwhile, an ending or a new experiment, waits as well.
        if not new or not (fresh or log.confirmed):
            return False
        log.append(new, ended=ended)
        if fresh:
            log.take_up()
            log.found = not self._followed
        return True

    def may_grow(self, book: Book) -> bool:
        """Whether something new may be stored that will be an entry: a manifest, or the end."""
        if book.document.log is None:
            return True
        log = self._logs.get(book.stored.digest)
        # One that is not known here is newer than this process.
        return self._followed and (log is None or (log.confirmed and not log.halted))

    # ── checkpoints ──────────────────────────────────────────────────────────────────────────────────────────────────

    def logs(self) -> Iterator[OneLog]:
        """All of them, the directory first."""
        return iter(self._logs.values())

    def log(self, place: str) -> OneLog | None:
        """The log of an experiment's digest, or the directory."""
        return self._logs.get(place)

    def unfinished(self) -> list[OneLog]:
        """Those that witnesses are asked about, now or later."""
        return [log for log in self._logs.values() if log.size and not log.closed and not log.halted]

    def checkpoint(self, log: OneLog) -> SignedCheckpoint:
        """What the log holds now, signed by it alone. Equal content gets an equal signature."""
        if log.halted or self._key is None:
            raise LocalProtocolError("this log is halted, or another's to sign: nothing of it is signed here")
        made = self._signed.get(log.place)
        if made is None or made.checkpoint.size != log.size:
            checkpoint = Checkpoint(log.key.name, log.size, log.tree.root())
            made = self._signed[log.place] = read_checkpoint(checkpoint.sign(self._key), log=log.key)
        return made

    def take(self, log: OneLog, size: int, witness: NoteKey, line: NoteSignature, *, now: int) -> bool:
        """A witness's line under the checkpoint of this size; whether there is a newer note to show now.

        Raises
        ------
        BadSignatureError
            It is not this witness's, or not of this checkpoint.
        StaleCheckpointError
            Its time is not of now.
        """
        if size != log.size or log.halted:
            # The log has grown meanwhile: this one is asked again.
            return False
        signed = self.checkpoint(log)
        if (line.name, line.key_id) != _named(witness):
            raise BadSignatureError("this is another witness's cosignature")
        time_s = witness.check(Note(signed.note.text, (line,)))
        assert time_s is not None
        if not now - 1000 * log.terms.freshness_s <= 1000 * time_s <= now + 1000 * MAX_AHEAD_S:
            raise StaleCheckpointError
        log.lines[witness] = Cosigned(line, now)
        log.asked.add(witness)
        lines = [log.lines[known].line for known in log.terms.witness_keys if known in log.lines]
        whole, terms = signed.cosigned(*lines), log.terms
        try:
            check_quorum(
                whole, witnesses=terms.witness_keys, quorum=terms.quorum, now=now, freshness_s=terms.freshness_s
            )
        except (BadSignatureError, StaleCheckpointError):
            return False
        self._store.keep_note(log.key.name, size=size, root=whole.checkpoint.root, note=whole.data)
        log.note = whole
        log.first = log.first or whole
        return True

    def halt(self, log: OneLog) -> None:
        """A witness has seen another log of this origin: whatever is signed now could be the other half of a fork.

        Its experiment is paused, so that also after a restart there is nothing else to sign, until a person says so.
        """
        log.halted = True
        standing = {one.digest: one.standing for one in self._store.experiments()}
        if standing.get(log.place) is Standing.RUNNING:
            # Refused where its operator has stopped it this instant, at another node.
            with contextlib.suppress(LocalProtocolError):
                self._store.set_standing(log.place, Standing.PAUSED)

    # ── what may be shown ────────────────────────────────────────────────────────────────────────────────────────────

    def visible(self, book: Book) -> Book | None:
        """The book as far as it may be shown; None: nothing of it."""
        if book.document.log is None:
            return book
        log = self._logs[book.stored.digest]
        if log.closed:
            return book
        if not log.cosigned:
            return None
        # That it is finished is told by its ending; that its operator has stopped it may be known at once.
        standing = Standing.RUNNING if book.stored.standing is Standing.FINISHED else book.stored.standing
        rounds = book.rounds[: log.cosigned - 1]
        return replace(book, stored=replace(book.stored, standing=standing), rounds=rounds, veiled=True)

    def health(self) -> dict[str, object]:
        """For whoever runs it."""
        # In one go: whoever asks is in another thread than what begins a log.
        logs = [log for log in tuple(self._logs.values()) if log.size]
        return {
            "name": self.terms.name,
            "key": self.terms.key.data.hex(),
            "cosigned": sum(log.cosigned for log in logs),
            "waiting": sum(log.waiting for log in logs),
            "halted": sum(log.halted for log in logs),
        }


def check_log(store: CoordinatorStore, key: VerifyKey, *, has_log: bool) -> None:
    """That a state folder still has the log's key, and its settings a log, where there is one already.

    Raises
    ------
    BadInputError
        One sentence about what is missing.
    """
    for held in store.notes():
        try:
            read_checkpoint(held.newest, log=NoteKey(held.origin, key))
        except ProtocolError:
            raise BadInputError("the log's key is not the one of the log here; log.key must be restored") from None
    for one in store.experiments():
        terms = ExperimentDocument.from_bytes(Envelope.from_bytes(one.envelope).payload).log
        if terms is not None and terms.key != key:
            raise BadInputError("the log's key is not the one of the experiments here; log.key must be restored")
        if terms is not None and not has_log:
            raise BadInputError("experiments here have a log: the settings must keep their [log] and its witnesses")


def _named(witness: NoteKey) -> tuple[str, bytes]:
    return witness.name, witness.key_id
