"""Experiments as the coordinator's log sees them: how many entries each has, whose witnesses count, and the entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from secvm.coordinator.experiments.history import Book, Books
from secvm.coordinator.experiments.public_documents import ending_of
from secvm.protocol.log.entries import Entry, ending_entry, experiment_entry, manifest_entry
from secvm.protocol.log.terms import LogTerms


@dataclass(frozen=True, slots=True)
class LoggedExperiment:
    """An experiment, and the entries that follow from what is stored of it."""

    digest: str
    #: None: it has no witnesses; it is named in the log, no more.
    terms: LogTerms | None
    #: How many entries there are.
    count: int
    #: All of them, in their order. Asked only when some are not in the log: an ending is dear.
    entries: Callable[[], Sequence[Entry]]


def named(digest: str) -> LoggedExperiment:
    """An experiment without terms of its own."""
    return LoggedExperiment(digest, None, 1, lambda: [experiment_entry(digest)])


def logged_books(books: Books, read: Sequence[Book]) -> list[LoggedExperiment]:
    """Experiments without relays' cover, of which these books are read; others are told by ``coordinator.relayed``."""
    return [_logged(books, book) for book in read]


def _logged(books: Books, book: Book) -> LoggedExperiment:
    digest, terms = book.stored.digest, book.document.log
    if terms is None:
        return named(digest)
    return LoggedExperiment(digest, terms, 1 + len(book.rounds) + book.is_over, partial(_entries, books, book))


def _entries(books: Books, book: Book) -> list[Entry]:
    digest = book.stored.digest
    rounds = [manifest_entry(digest, one.stored.number, one.manifest.digest) for one in book.rounds]
    ending = [ending_entry(digest, ending_of(books, book).digest)] if book.is_over else []
    return [experiment_entry(digest), *rounds, *ending]
