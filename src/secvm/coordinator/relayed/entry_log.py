"""Which entries an experiment with two relays has in the coordinator's log, and which of them are public (§33).

The driver, or a node that follows, hands over each experiment each time; the log appends the entries that it lacks and
answers which of them enough witnesses have seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from secvm.coordinator.log.log_files import LogFiles
from secvm.coordinator.log.logbook import LoggedExperiment, named
from secvm.coordinator.relayed.relayed_history import RelayedBook
from secvm.protocol.log.entries import (
    Entry,
    EntryKind,
    ending_entry,
    experiment_entry,
    manifest_entry,
    opening_entry,
)


class EntryLog:
    """The log as the driver of such experiments sees it. Without ``files`` there is none: what is durable is public."""

    def __init__(self, files: LogFiles | None = None) -> None:
        self._files = files

    def follow(self, book: RelayedBook) -> Sequence[EntryKind]:
        """Append the entries that an experiment has and the log lacks; the kinds of those that may be shown, in order.

        Of an experiment without terms for a log everything may be shown.
        """
        digest, terms, kinds = book.stored.digest, book.document.log, kinds_of(book)
        if self._files is None:
            return kinds
        if terms is None:
            self._files.follow([named(digest)])
            return kinds
        self._files.follow([LoggedExperiment(digest, terms, len(kinds), partial(entries_of, book))])
        return [entry.kind for entry in self._files.logbook.shown(digest)]

    def may_grow(self, book: RelayedBook) -> bool:
        """Whether something new may be stored that will be an entry (``Logbook.may_grow``)."""
        return self._files is None or self._files.logbook.may_grow(book.document.log)


def kinds_of(book: RelayedBook) -> list[EntryKind]:
    """Kinds of all entries that follow from what is stored: the experiment, each round's manifest and opening, the
    ending.
    """
    found = [EntryKind.EXPERIMENT]
    for one in book.rounds:
        found.append(EntryKind.MANIFEST)
        if one.opening is not None:
            found.append(EntryKind.OPENING)
    return [*found, EntryKind.ENDING] if book.is_over else found


def entries_of(book: RelayedBook) -> list[Entry]:
    """The entries of these kinds."""
    digest = book.stored.digest
    found = [experiment_entry(digest)]
    for one in book.rounds:
        found.append(manifest_entry(digest, one.stored.number, one.manifest.digest))
        if one.opening is not None:
            found.append(opening_entry(digest, one.stored.number, one.opening.digest))
    return [*found, ending_entry(digest, book.ending().digest)] if book.is_over else found
