"""Entries of experiments with two relays in the coordinator's one log: the logbook behind the seam (``entry_log``)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from secvm.coordinator.log.log_files import LogFiles
from secvm.coordinator.log.logbook import Logbook
from secvm.coordinator.log.logged_experiments import LoggedExperiment, named
from secvm.coordinator.relayed.entry_log import entries_of, kinds_of
from secvm.coordinator.relayed.relayed_history import RelayedBook
from secvm.protocol.log.entries import EntryKind


class LoggedEntries:
    """An ``EntryLog`` on the logbook: of an experiment without terms for a log everything may be shown."""

    def __init__(self, logbook: Logbook, files: LogFiles) -> None:
        self._logbook = logbook
        self._files = files

    def follow(self, book: RelayedBook) -> Sequence[EntryKind]:
        """The experiment stands so; kinds of those of its entries that may be shown, in their order."""
        digest, terms, kinds = book.stored.digest, book.document.log, kinds_of(book)
        if terms is None:
            self._files.follow([named(digest)])
            return kinds
        self._files.follow([LoggedExperiment(digest, terms, len(kinds), partial(entries_of, book))])
        return [entry.kind for entry in self._logbook.shown(digest)]

    def may_grow(self, book: RelayedBook) -> bool:
        """Whether witnesses have said that nothing of the log is missing here."""
        return self._logbook.may_grow(book.document.log)
