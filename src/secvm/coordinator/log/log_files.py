"""The log's public files: tiles, proofs and checkpoints, as far as a quorum has cosigned it (docs/protocol.md §19.2).

They are put in the order in which a reader needs them: tiles before the checkpoint that is computed from them, proofs
before the documents that they are of. Every experiment has the newest checkpoint that its own witnesses cosigned; one
that is over keeps the one with its ending. A proof stays as it is when the log grows; after a restart it may lead to a
newer checkpoint. Tiles are answered out of the tree, those that were not full in the past as
well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from secvm.coordinator.experiments.history import ExperimentHistory
from secvm.coordinator.log.logbook import Logbook
from secvm.coordinator.publisher import Publisher, experiment_path
from secvm.errors import MalformedMessageError
from secvm.protocol.log.checkpoints import SignedCheckpoint
from secvm.protocol.log.entries import EntryKind
from secvm.protocol.log.policy import LogTerms
from secvm.protocol.log.tiles import Tile, tiles_of
from secvm.protocol.version import LOG_ORIGIN

TEXT_MEDIA_TYPE = "text/plain; charset=utf-8"


def log_path(name: str) -> str:
    """Where a file of the log is: a tile, or the checkpoint that the coordinator's own witnesses cosigned."""
    return f"/{LOG_ORIGIN}/{name}"


def checkpoint_path(digest: str) -> str:
    """Where the newest checkpoint is that the witnesses of an experiment cosigned."""
    return f"{experiment_path(digest)}/checkpoint"


def proof_path(digest: str, number: int) -> str:
    """Where the proof of a round's manifest is."""
    return f"{experiment_path(digest)}/proof/{number}"


def first_path(digest: str) -> str:
    """Where the proof of the experiment under the first checkpoint is."""
    return f"{experiment_path(digest)}/first"


class LogFiles:
    """Publishes tiles, proofs and checkpoints of the log as it grows."""

    def __init__(self, logbook: Logbook, publisher: Publisher) -> None:
        self.logbook = logbook
        self._publisher = publisher
        #: Sizes whose tiles were put.
        self._sizes: set[int] = {0}
        #: The note of each experiment when it was put last, and how many of its entries were shown with it.
        self._put: dict[str, tuple[SignedCheckpoint, int]] = {}
        publisher.answer_also(self.find_tile)

    def close(self) -> None:
        """Stop answering requests for tiles."""
        self._publisher.no_longer_answer(self.find_tile)

    def follow(self, histories: Sequence[ExperimentHistory[Any]]) -> None:
        """Let the log follow what is stored of these experiments, and put what is new of it."""
        self.logbook.follow(histories)
        for history in histories:
            if history.document.log is not None:
                self._show(history.stored.digest, history.document.log)
        own = self.logbook.note()
        if own is not None:
            self._put_tiles(own.checkpoint.size)
            self._publisher.put(log_path("checkpoint"), own.data, media_type=TEXT_MEDIA_TYPE)

    def _show(self, digest: str, terms: LogTerms) -> None:
        """Put all of an experiment's that is new. What is there already costs nothing."""
        note, first, shown = self.logbook.note(terms), self.logbook.first(digest), self.logbook.shown(digest)
        before, known = self._put.get(digest, (None, 0))
        # Nothing comes after an ending: what shows it stays.
        over = bool(known) and shown[known - 1].kind is EntryKind.ENDING
        if note is None or first is None or not shown or note is before or over:
            return
        size, log = note.checkpoint.size, self.logbook.log
        self._put_tiles(size)
        places = log.of(digest)
        for placed in places[known : len(shown)]:
            number = placed.entry.round_number
            if placed.entry.kind is EntryKind.MANIFEST and number is not None:
                proof = log.proof(placed.index, size, note.data)
                self._publisher.put(proof_path(digest, number), proof, media_type=TEXT_MEDIA_TYPE)
        proof = log.proof(places[0].index, first.checkpoint.size, first.data)
        self._publisher.put(first_path(digest), proof, media_type=TEXT_MEDIA_TYPE, lasting=True)
        self._publisher.put(checkpoint_path(digest), note.data, media_type=TEXT_MEDIA_TYPE)
        self._put[digest] = (note, len(shown))

    def _put_tiles(self, size: int) -> None:
        if size in self._sizes:
            return
        for tile in tiles_of(size, since=max(put for put in self._sizes if put < size)):
            data = self.logbook.log.tile(tile, size)
            if data is not None:
                self._publisher.write(log_path(tile.path), data)
        self._sizes.add(size)

    def find_tile(self, path: str) -> bytes | None:
        """The tile at this path, if the cosigned log has it."""
        rest = path.removeprefix(log_path(""))
        if rest == path:
            return None
        try:
            return self.logbook.log.tile(Tile.from_path(rest), self.logbook.most_cosigned)
        except MalformedMessageError:
            return None


class EntryLog:
    """The log as those see it who show experiments. Without ``files`` there is none: what is durable is public."""

    def __init__(self, files: LogFiles | None = None) -> None:
        self._files = files

    def follow(self, histories: Sequence[ExperimentHistory[Any]]) -> None:
        """Append the entries that these experiments have and the log lacks."""
        if self._files is not None:
            self._files.follow(histories)

    def seen(self, history: ExperimentHistory[Any]) -> Sequence[EntryKind]:
        """Kinds of the documents that may be shown, in order. Of an experiment without terms for a log all may be."""
        if self._files is None or history.document.log is None:
            return history.kinds
        return [entry.kind for entry in self._files.logbook.shown(history.stored.digest)]

    def may_grow(self, history: ExperimentHistory[Any]) -> bool:
        """Whether something new may be stored that will be an entry (``Logbook.may_grow``)."""
        return self._files is None or self._files.logbook.may_grow(history.document.log)
