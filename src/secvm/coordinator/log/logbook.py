"""The coordinator's log (docs/protocol.md §20): one log for all experiments, whose order the store keeps.

 1. An entry names a document that is durable already: an experiment, a manifest, an opening, an ending. The line is
    **stored before** the tree has it, and nothing is signed that is not stored. So the same log comes out again after a
    crash.
 2. What witnesses said is durable too: for each set of terms the newest checkpoint that its quorum cosigned, and for
    each experiment the first that held it.
 3. A document may be shown when a checkpoint that a quorum of *its own* witnesses cosigned contains it (``shown``),
    not before. No experiment waits for another's witnesses.
 4. A log of which a witness has seen another version is halted: nothing of it is signed any more, and every experiment
    is paused.
 5. After a start, an experiment's entries are appended when a quorum of its witnesses has said that what is stored is
    the newest it has seen (``may_grow``). An old copy of the store that was put back is found out before anything else
    is signed.

The log is renewed as long as there are experiments that run, and for the coordinator's own terms always: an auditor
sees by that which experiments there are.

A node that does not drive reads the same log from the store (``FollowedLogbook``). It needs neither the log's key nor
an answer from any witness.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from secvm.coordinator.experiments.history import ExperimentHistory
from secvm.coordinator.log.cosigned_log import CosignedLog
from secvm.coordinator.store.port import CoordinatorStore, Standing
from secvm.crypto.notes import Note, NoteKey
from secvm.crypto.signing import VerifyKey
from secvm.errors import BadInputError, LocalProtocolError, ProtocolError
from secvm.protocol.log.checkpoints import Checkpoint, read_checkpoint
from secvm.protocol.log.entries import MAX_LOG_ENTRIES, Entry, EntryKind, experiment_entry
from secvm.protocol.log.policy import LogTerms

#: The last places of a log are for endings: whatever has begun can end.
_KEPT_FREE = 2**10


class Logbook(CosignedLog):
    """The log of one coordinator: what is entered, and what of it may be shown."""

    # ── entries ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def follow(self, histories: Sequence[ExperimentHistory[Any]]) -> None:
        """Append what the store has of these experiments and the log has not. Others stay as they were told last."""
        self._read_store(histories)
        new = [
            entry for history in histories if self._may_append(history.document.log) for entry in self._owed(history)
        ]
        if new:
            lines = [entry.to_bytes() for entry in new]
            self._store.append_entries(self.log.size, lines)
            self.log.append(lines)
        going_on = [
            terms for digest, terms in self._terms.items() if terms is not None and self._goes_on(digest, terms)
        ]
        self._active = list(dict.fromkeys([self.terms, *going_on]))
        if self._ask_about_all() and self.on_growth is not None:
            self.on_growth()

    def _read_store(self, histories: Sequence[ExperimentHistory[Any]]) -> None:
        """What is stored of the log, by this process or, when a commit was not heard of, without its knowing."""
        terms = {history.stored.digest: history.document.log for history in histories}
        new = terms.keys() - self._terms.keys()
        self._terms |= terms
        self.log.append(self._store.entries(self.log.size))
        if not self._followed:
            self.was_there, self.asked_size = self.log.size > 0, self.log.size
        if new or not self._followed:
            # Not all are told at once: those with two relays are told one by one.
            self._kept = {held.name: held for held in self._store.notes()}
            self._take_up()
        self._followed = True

    def _owed(self, history: ExperimentHistory[Any]) -> Sequence[Entry]:
        """Entries that follow from what is stored of an experiment, and are not in the log. One that has no witnesses
        is named in the log, no more.
        """
        known = len(self.log.of(history.stored.digest))
        if history.document.log is None:
            return [experiment_entry(history.stored.digest)][known:]
        # Nothing is built again that is there: an ending is dear.
        return history.entries()[known:] if known < len(history.kinds) else []

    def _may_append(self, terms: LogTerms | None) -> bool:
        """Whether entries that are owed of an experiment with these terms may be appended now."""
        return not self.halted and self.log.size < MAX_LOG_ENTRIES and self.confirmed(terms or self.terms)

    def may_grow(self, terms: LogTerms | None) -> bool:
        """Whether something new may be stored that will be an entry of an experiment with these terms: a manifest, or
        the end.
        """
        if terms is None:
            return True
        room = self.log.size < MAX_LOG_ENTRIES - _KEPT_FREE
        return self._followed and room and self._may_append(terms)

    def _goes_on(self, digest: str, terms: LogTerms) -> bool:
        """Whether witnesses are needed for an experiment: nothing comes after an ending that they have seen."""
        own = self.log.of(digest)
        ended = bool(own) and own[-1].entry.kind is EntryKind.ENDING
        return not ended or own[-1].index >= self.cosigned(terms)

    def halt(self) -> None:
        """A witness has seen another log of this origin: whatever is signed now could be the other half of a fork.

        All experiments are paused, so that also after a restart there is nothing else to sign, until a person says so.
        """
        self.halted = True
        for logged in self._store.experiments():
            if logged.standing is Standing.RUNNING and self._terms.get(logged.digest) is not None:
                # Refused where its operator has stopped it this instant, at another node.
                with contextlib.suppress(LocalProtocolError):
                    self._store.set_standing(logged.digest, Standing.PAUSED)

    # ── what may be shown ────────────────────────────────────────────────────────────────────────────────────────────

    def knows(self, digest: str) -> bool:
        """Whether an experiment is in the log."""
        return bool(self.log.of(digest))

    def shown(self, digest: str) -> list[Entry]:
        """The entries of an experiment that a quorum of its witnesses has seen; none before its first note is kept."""
        seen = self.cosigned(self._terms.get(digest)) if digest in self._firsts else 0
        return [logged.entry for logged in self.log.of(digest) if logged.index < seen]

    def health(self) -> dict[str, object]:
        """The state of the log, for /health."""
        return {
            "name": self.terms.name,
            "key": self.terms.key.data.hex(),
            "entries": self.log.size,
            "cosigned": self.most_cosigned,
            "waiting": int(self.waiting()),
            "silent": self.silent(),
            "halted": int(self.halted),
        }


def check_log(store: CoordinatorStore, key: VerifyKey, *, name: str | None) -> None:
    """That a state folder still has the log's key, and its settings the log of its experiments. ``name``: the log's in
    the settings; None where they have none.

    Raises
    ------
    BadInputError
        One sentence about what is missing.
    """
    for held in store.notes():
        try:
            origin = Checkpoint.from_text(Note.from_bytes(held.note).text).origin
            read_checkpoint(held.note, log=NoteKey(origin, key))
        except ProtocolError:
            raise BadInputError("the log's key is not the one of the log here; log.key must be restored") from None
    for logged in store.experiments():
        terms = logged.document.log
        if terms is not None and terms.key != key:
            raise BadInputError("the log's key is not the one of the experiments here; log.key must be restored")
        if terms is not None and name is None:
            raise BadInputError("experiments here have a log: the settings must keep their [log] and its witnesses")
        if terms is not None and terms.name != name:
            raise BadInputError(
                f"experiments here have the log {terms.name}, and the settings name {name}",
                next_step="A coordinator has one log: keep its name, or begin with a new state folder.",
            )


class FollowedLogbook(Logbook):
    """The log of one coordinator, as a node sees it that does not drive."""

    def __init__(self, store: CoordinatorStore, terms: LogTerms) -> None:
        super().__init__(store, None, terms)

    def read_notes(self) -> None:
        """Read the cosigned checkpoints; called before the experiments are read."""
        self._kept = {held.name: held for held in self._store.notes()}

    def follow(self, histories: Sequence[ExperimentHistory[Any]]) -> None:
        """Read on in the log, then take up what was cosigned of it. Whether it goes on is the driver's question."""
        self._terms |= {history.stored.digest: history.document.log for history in histories}
        self.log.append(self._store.entries(self.log.size))
        self._take_up()

    def may_grow(self, terms: LogTerms | None) -> bool:  # noqa: ARG002  (as the driver's has it)
        """Nothing new is stored here: another node drives."""
        return False
