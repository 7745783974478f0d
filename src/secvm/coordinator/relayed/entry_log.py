"""Which entries an experiment with two relays has in the coordinator's log, and which of them are public (§33).

The driver, or a node that follows, hands over each experiment each time; the log appends the entries that it lacks and
answers which of them enough witnesses have seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from secvm.coordinator.log.log_files import LogFiles
from secvm.coordinator.log.logbook import LoggedExperiment, named
from secvm.coordinator.relayed.relayed_history import RelayedHistory
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

    def follow(self, history: RelayedHistory) -> Sequence[EntryKind]:
        """Append the entries that an experiment has and the log lacks; the kinds of those that may be shown, in order.

        Of an experiment without terms for a log everything may be shown.
        """
        digest, terms, kinds = history.stored.digest, history.document.log, kinds_of(history)
        if self._files is None:
            return kinds
        if terms is None:
            self._files.follow([named(digest)])
            return kinds
        self._files.follow([LoggedExperiment(digest, terms, len(kinds), partial(entries_of, history))])
        return [entry.kind for entry in self._files.logbook.shown(digest)]

    def may_grow(self, history: RelayedHistory) -> bool:
        """Whether something new may be stored that will be an entry (``Logbook.may_grow``)."""
        return self._files is None or self._files.logbook.may_grow(history.document.log)


def kinds_of(history: RelayedHistory) -> list[EntryKind]:
    """Kinds of all entries that follow from what is stored: the experiment, each round's manifest and opening, the
    ending.
    """
    entries = [EntryKind.EXPERIMENT]
    for known in history.rounds:
        entries.append(EntryKind.MANIFEST)
        if known.opening is not None:
            entries.append(EntryKind.OPENING)
    return [*entries, EntryKind.ENDING] if history.is_over else entries


def entries_of(history: RelayedHistory) -> list[Entry]:
    """The entries of these kinds."""
    digest = history.stored.digest
    entries = [experiment_entry(digest)]
    for known in history.rounds:
        entries.append(manifest_entry(digest, known.stored.number, known.manifest.digest))
        if known.opening is not None:
            entries.append(opening_entry(digest, known.stored.number, known.opening.digest))
    return [*entries, ending_entry(digest, history.ending().digest)] if history.is_over else entries
