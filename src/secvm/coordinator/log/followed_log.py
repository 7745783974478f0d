"""A logbook that follows: the log as the driver keeps it in the store, never appended to and never signed here.

The log's lines are in the store, and how far a quorum has seen them is stored beside them. So a node that does not
drive comes to the same tree, shows the same notes, and needs neither the log's key nor a word from any witness. Notes
are read **before** the lines: what a note covers is then in what is read after it.
"""

from __future__ import annotations

from collections.abc import Sequence

from secvm.coordinator.log.logbook import Logbook
from secvm.coordinator.log.logged_experiments import LoggedExperiment
from secvm.coordinator.store.port import CoordinatorStore
from secvm.protocol.log.terms import LogTerms


class FollowedLogbook(Logbook):
    """The log of one coordinator, as a node sees it that does not drive."""

    def __init__(self, store: CoordinatorStore, terms: LogTerms) -> None:
        super().__init__(store, None, terms)

    def read_notes(self) -> None:
        """Before the books are read."""
        self._kept = {held.name: held for held in self._store.notes()}

    def follow(self, experiments: Sequence[LoggedExperiment]) -> None:
        """Read on in the log, then take up what was cosigned of it. Whether it goes on is the driver's question."""
        self._terms |= {one.digest: one.terms for one in experiments}
        self.log.append(self._store.entries(self.log.size))
        self._take_up()

    def may_grow(self, terms: LogTerms | None) -> bool:  # noqa: ARG002  (as the driver's has it)
        """Never: another one drives."""
        return False
