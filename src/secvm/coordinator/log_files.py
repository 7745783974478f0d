"""A log's public files: tiles, proofs and checkpoint, as far as a quorum has cosigned it (docs/protocol.md §19.2).

They are put in the order in which a reader needs them: tiles before the checkpoint that is computed from them, proofs
before the documents that they are of. A proof of an entry leads to the newest checkpoint while it is the newest entry,
and stays as it was when the log grows; after a restart it may lead to a newer one. Tiles are answered out of the tree,
those that were not full in the past as well.
"""

from __future__ import annotations

from secvm.coordinator.books import Book, Books
from secvm.coordinator.logbook import DIRECTORY, Logbook, OneLog
from secvm.coordinator.publisher import Publisher, experiment_path
from secvm.errors import MalformedMessageError
from secvm.protocol.checkpoints import SignedCheckpoint
from secvm.protocol.log_proofs import LogProof
from secvm.protocol.tiles import TILE_HEIGHT, TILE_WIDTH, Tile, tiles_of, write_bundle, write_tile
from secvm.protocol.version import LOG_ORIGIN

TEXT_MEDIA_TYPE = "text/plain; charset=utf-8"


def log_path(place: str, name: str) -> str:
    """Where a file of a log is: of an experiment's digest, or of the directory."""
    return f"/{LOG_ORIGIN}/{place}/{name}"


def proof_path(digest: str, index: int) -> str:
    """Where the proof of an entry is: 0 the experiment, t the manifest of round t, the last one perhaps the ending."""
    return f"{experiment_path(digest)}/proof/{index}"


def first_path(digest: str) -> str:
    """Where the proof of the experiment under the first checkpoint is."""
    return f"{experiment_path(digest)}/first"


class LogFiles:
    """Puts what is new of each log."""

    def __init__(self, logbook: Logbook, publisher: Publisher) -> None:
        self._logbook = logbook
        self._publisher = publisher
        #: The size of each log, and its note, when it was put last.
        self._put: dict[str, tuple[int, SignedCheckpoint]] = {}
        publisher.answer_also(self.find_tile)

    def close(self) -> None:
        """Nothing is answered from here any more."""
        self._publisher.no_longer_answer(self.find_tile)

    def lift(self, books: Books, read: list[Book]) -> list[Book]:
        """Let the logs follow the store, put what is new of them, and say what may be shown with it."""
        self._logbook.follow(books, read)
        self._show(DIRECTORY)
        for book in read:
            self._show(book.stored.digest)
        seen = [self._logbook.visible(book) for book in read]
        return [book for book in seen if book is not None]

    def may_grow(self, book: Book) -> bool:
        """See ``Logbook.may_grow``."""
        return self._logbook.may_grow(book)

    def _show(self, place: str) -> None:
        """Put all of a log that is new. What is there already costs nothing."""
        log = self._logbook.log(place)
        if log is None or log.note is None:
            return
        since, before = self._put.get(place, (0, None))
        if log.note is before:
            return
        note, size = log.note.data, log.cosigned
        for tile in tiles_of(size, since=since):
            self._publisher.write(log_path(place, tile.path), _tile(log, tile))
        if place != DIRECTORY:
            # The newest entry's proof is renewed with its checkpoint.
            for index in range(min(since, size - 1), size):
                proof = LogProof(index, log.tree.inclusion_proof(index, size), note)
                self._publisher.put(proof_path(place, index), proof.to_bytes(), media_type=TEXT_MEDIA_TYPE)
            assert log.first is not None
            path = log.tree.inclusion_proof(0, log.first.checkpoint.size)
            first = LogProof(0, path, log.first.data).to_bytes()
            self._publisher.put(first_path(place), first, media_type=TEXT_MEDIA_TYPE, lasting=True)
        self._publisher.put(log_path(place, "checkpoint"), note, media_type=TEXT_MEDIA_TYPE)
        self._put[place] = (size, log.note)

    def find_tile(self, path: str) -> bytes | None:
        """The tile at this path, if the cosigned log has it."""
        place, _, rest = path.removeprefix(f"/{LOG_ORIGIN}/").partition("/")
        log = self._logbook.log(place)
        if log is None or not path.startswith(f"/{LOG_ORIGIN}/"):
            return None
        try:
            tile = Tile.from_path(rest)
        except MalformedMessageError:
            return None
        known = log.cosigned >> TILE_HEIGHT * (tile.level or 0)
        return _tile(log, tile) if tile.index * TILE_WIDTH + tile.width <= known else None


def _tile(log: OneLog, tile: Tile) -> bytes:
    if tile.level is not None:
        return write_tile(tile, log.tree.node)
    start = tile.index * TILE_WIDTH
    return write_bundle(log.entries[start : start + tile.width])
