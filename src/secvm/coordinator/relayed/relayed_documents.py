"""What of an experiment with two relays is public: every signed document that the log lets be seen, and its blobs.

    /v1/experiment/D                the document            /v1/experiment/D/manifest/T     a round's manifest
    /v1/experiment/D/opening/T      how the round ended     /v1/experiment/D/ending         what remains
    /v1/experiment/D/status         figures of all rounds   /v1/blob/…                      states, weights, net tallies

Shards of opened rounds are made when they are asked for (``shard_files``); the public folder is told of them here.
"""

from __future__ import annotations

from secvm.coordinator.experiments.public_documents import beacon_path, ending_path
from secvm.coordinator.publisher import Publisher, experiment_path, manifest_path, opening_path
from secvm.coordinator.relayed.entry_log import EntryLog
from secvm.coordinator.relayed.relayed_history import KeptRound, RelayedBook
from secvm.coordinator.relayed.relayed_status import status
from secvm.coordinator.relayed.shard_folder import ShardFolder
from secvm.coordinator.store.port import CoordinatorStore
from secvm.crypto.signing import SigningKey
from secvm.protocol.log.entries import EntryKind
from secvm.protocol.relays.ending import RelayedEnding
from secvm.protocol.relays.manifest import RelayedManifest


class Showing:
    """Puts what is public. For whoever drives, and for nodes that follow, which have no key."""

    def __init__(
        self,
        publisher: Publisher,
        log: EntryLog,
        key: SigningKey | None,
        *,
        store: CoordinatorStore,
        folder: ShardFolder,
        kept_days: int,
    ) -> None:
        """``folder`` has the shards of opened rounds, for so many days after their ``open_by``."""
        self._publisher = publisher
        self._log = log
        self._key = key
        self._store = store
        self.folder = folder
        self._kept_days = kept_days

    def show(self, books: list[RelayedBook]) -> None:
        """Put all that may be seen now. What is there already costs nothing."""
        listed: list[dict[str, object]] = []
        for book in books:
            if self._show(book):
                standing = book.stored.standing.value
                listed.append({"digest": book.stored.digest, "title": book.document.title, "standing": standing})
        self._publisher.put_listing("relays", listed)
        told = {one.place for book in books for one in book.rounds if one.is_opened and self.is_told(one)}
        kept = told & set(self._store.batches()) if told else set()
        self.folder.want(kept, told - kept)

    def is_public(self, book: RelayedBook) -> bool:
        """Whether an experiment's document is."""
        return self._publisher.is_shown(experiment_path(book.stored.digest))

    def is_told(self, one: KeptRound) -> bool:
        """Whether a round's opening is public."""
        return self._publisher.is_shown(opening_path(*one.place))

    def _show(self, book: RelayedBook) -> bool:
        digest = book.stored.digest
        seen = self._log.follow(book)
        if self._publisher.is_shown(ending_path(digest)):
            return True
        if not seen:
            return False
        self._publisher.put(experiment_path(digest), book.stored.envelope, lasting=True)
        for index, record in book.beacon_records().items():
            self._publisher.put(beacon_path(digest, index), record, lasting=True)
        rounds, opened = (seen.count(kind) for kind in (EntryKind.MANIFEST, EntryKind.OPENING))
        for at, one in enumerate(book.rounds[:rounds]):
            self._show_round(one, is_told=at < opened)
        if rounds:
            self._publisher.put(manifest_path(digest, None), book.rounds[rounds - 1].stored.envelope)
        book.watch(opened)
        self._publisher.put_json(f"{experiment_path(digest)}/status", status(book, rounds, opened, self._kept_days))
        if EntryKind.ENDING in seen:
            self._show_ending(book)
        return True

    def _show_round(self, one: KeptRound, *, is_told: bool) -> None:
        digest, number = one.place
        self._show_model(one.manifest)
        self._publisher.put(manifest_path(digest, number), one.stored.envelope, lasting=True)
        if is_told and one.opening is not None and one.envelope is not None:
            if one.opening.tally is not None:
                self._publisher.put_blob(one.opening.tally)
            self._publisher.put(opening_path(digest, number), one.envelope, lasting=True)

    def _show_ending(self, book: RelayedBook) -> None:
        ending = book.ending()
        signed = book.kept_ending() if self._key is None else ending.signed([self._key])
        if signed is not None:
            self._show_model(ending)
            self._publisher.put(ending_path(book.stored.digest), signed, lasting=True)

    def _show_model(self, named_in: RelayedManifest | RelayedEnding) -> None:
        for digest in (named_in.state, named_in.training_weights, named_in.evaluation_weights):
            self._publisher.put_blob(digest)
