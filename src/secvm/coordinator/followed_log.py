"""A logbook that follows: the logs as the driver keeps them, worked out from the store, and never signed here.

The entries follow from the store (``coordinator.logbook``, rule 1), and how far a quorum has seen them is stored beside
them. So a node that does not drive comes to the same trees, shows the same notes, and needs neither the log's key nor a
word from any witness. Notes are read **before** the books: what a note covers is then in what is read after it.
"""

from __future__ import annotations

from secvm.coordinator.books import Book, Books
from secvm.coordinator.logbook import Logbook, OneLog
from secvm.coordinator.store.port import CoordinatorStore, StoredNote
from secvm.errors import LocalProtocolError
from secvm.protocol.checkpoints import read_checkpoint
from secvm.protocol.log import LogEntry, LogTerms


class FollowedLogbook(Logbook):
    """All logs of one coordinator, as a node sees them that does not drive."""

    def __init__(self, store: CoordinatorStore, terms: LogTerms) -> None:
        super().__init__(store, None, terms)
        # Not even at the start is a note believed that was read before what it covers.
        self._notes = {}
        self._directory = self._begin(self._directory.place, self._directory.key, terms)
        self._stored: dict[str, StoredNote] = {}

    def read_notes(self) -> None:
        """Before the books are read."""
        self._stored = {held.origin: held for held in self._store.notes()}

    def follow(self, books: Books, read: list[Book]) -> None:
        """Append what the store has, then take up what was cosigned of it."""
        super().follow(books, read)
        for log in self.logs():
            held = self._stored.get(log.key.name)
            if held is not None and (log.note is None or log.note.data != held.newest):
                self._take_up(log, held)

    def _take_up(self, log: OneLog, held: StoredNote) -> None:
        note = read_checkpoint(held.newest, log=log.key)
        there = note.checkpoint
        if there.size < log.cosigned:
            return
        if there.size > log.size or log.tree.root(there.size) != there.root:
            raise LocalProtocolError("witnesses have cosigned another log than the one that follows from this store")
        log.first = log.first or read_checkpoint(held.first, log=log.key)
        log.note = note

    def _grow(self, log: OneLog, new: list[LogEntry], *, ended: bool) -> bool:
        # Whether the driver may go on is the driver's question: what is stored is an entry.
        if new:
            log.append(new, ended=ended)
        return bool(new)

    def may_grow(self, book: Book) -> bool:  # noqa: ARG002  (as the driver's has it)
        """Never: another one drives."""
        return False
