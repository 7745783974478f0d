"""The public documents and the status of experiments with two relays.

    /v1/experiment/D                the document            /v1/experiment/D/manifest/T     a round's manifest
    /v1/experiment/D/opening/T      how the round ended     /v1/experiment/D/ending         what remains
    /v1/experiment/D/status         figures of all rounds   /v1/blob/…                      states, weights, net tallies

Every signed document that the log lets be seen is public, with its blobs. Shards of opened rounds are made on request
(``shard_files``); the public folder is told of them here.

In the status a round is ``opened`` or ``unopened`` once its opening is public, with its counts and figures.
``participants`` and ``cells`` are of the net tally, with the cover that is left in it; ``people`` and the shares are
without its mean, and its noise is in the intervals.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from secvm.coordinator.experiments.public_documents import beacon_path, ending_path
from secvm.coordinator.experiments.status_document import as_text, heading, notes_of, scores
from secvm.coordinator.publisher import Publisher, experiment_path, manifest_path, opening_path
from secvm.coordinator.relayed.entry_log import EntryLog
from secvm.coordinator.relayed.relayed_history import KeptRound, RelayedBook
from secvm.coordinator.relayed.shard_files import ShardFolder
from secvm.coordinator.store.port import CoordinatorStore, Standing
from secvm.crypto.signing import SigningKey
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.privacy_terms import relayed_terms_of
from secvm.protocol.log.entries import EntryKind
from secvm.protocol.relays.batches.counts import MixCount
from secvm.protocol.relays.judgement import clients_of
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import RelayedEnding


def status(book: RelayedBook, rounds: int, opened: int, kept_days: int) -> bytes:
    """The document: so many rounds are public, and so many of their openings, shards for so many days."""
    document, standing = book.document, book.stored.standing
    content: dict[str, Any] = {
        **heading(document, standing),
        "rounds": [_told(book, one, kept_days, is_told=at < opened) for at, one in enumerate(book.rounds[:rounds])],
        "leakage": _leakage(document, opened),
        "notes": notes_of(book.watchers, early=standing is Standing.FINISHED and rounds < document.rounds),
    }
    return as_text(content).encode()


def _leakage(document: ExperimentDocument, opened: int) -> dict[str, Any]:
    """Of tallies under a guarantee nobody has a number but ε, as the document claims it for all rounds."""
    terms = relayed_terms_of(document)
    numbers = ("planned_d_prime", "planned_auc", "d_prime", "auc", "epsilon")
    return {
        **dict.fromkeys(numbers),
        "formal_guarantee": terms.operators.why_no_guarantee(one_relay=False) is None,
        "rounds_told": opened,
        "epsilon_planned": float(terms.claimed.epsilon),
        "delta": float(terms.claimed.delta),
        "per_round": [],
    }


def _told(book: RelayedBook, one: KeptRound, kept_days: int, *, is_told: bool) -> dict[str, Any]:
    times = one.manifest.instants
    told: dict[str, Any] = {
        "number": one.stored.number,
        "state": one.stored.state.value if one.is_live else "closing",
        "opens_at": times.opens_at,
        "closes_at": times.closes_at,
        "accept_until": times.accept_until,
        "open_by": times.open_by,
    }
    if not is_told or one.opening is None or one.figures is None:
        return told
    told["state"] = "opened" if one.opening.is_opened else "unopened"
    told["reasons"] = list(one.figures.reasons)
    if one.opening.mix_count is None or not one.opening.is_opened:
        return told
    net = book.tally(one)
    assert net is not None, "an opened round has a tally"
    told |= {
        "clients": clients_of(one.opening),
        "capsules": one.figures.capsules,
        "packages": one.figures.packages,
        "refused": MixCount.enclosed(one.opening.mix_count).refused,
        "junk": one.figures.junk,
        "stepped": one.figures.stepped,
        "kept_until": one.kept_until(kept_days),
        **scores(book.document.experiment, net),
    }
    return told


@dataclass(eq=False, repr=False)
class Showing:
    """Puts what is public. For whoever drives, and for nodes that follow, which have no key.

    ``folder`` has the shards of opened rounds, for so many days after their ``open_by``.
    """

    publisher: Publisher
    log: EntryLog
    key: SigningKey | None
    _: KW_ONLY
    store: CoordinatorStore
    folder: ShardFolder
    kept_days: int

    def show(self, books: list[RelayedBook]) -> None:
        """Put all that may be seen now. What is there already costs nothing."""
        listed: list[dict[str, object]] = []
        for book in books:
            if self._show(book):
                standing = book.stored.standing.value
                listed.append({"digest": book.stored.digest, "title": book.document.title, "standing": standing})
        self.publisher.put_listing("relays", listed)
        told = {one.place for book in books for one in book.rounds if one.is_opened and self.is_told(one)}
        kept = told & set(self.store.batches()) if told else set()
        self.folder.want(kept, told - kept)

    def is_public(self, book: RelayedBook) -> bool:
        """Whether an experiment's document is."""
        return self.publisher.is_shown(experiment_path(book.stored.digest))

    def is_told(self, one: KeptRound) -> bool:
        """Whether a round's opening is public."""
        return self.publisher.is_shown(opening_path(*one.place))

    def _show(self, book: RelayedBook) -> bool:
        digest = book.stored.digest
        seen = self.log.follow(book)
        if self.publisher.is_shown(ending_path(digest)):
            return True
        if not seen:
            return False
        self.publisher.put(experiment_path(digest), book.stored.envelope, lasting=True)
        for index, record in book.beacon_records().items():
            self.publisher.put(beacon_path(digest, index), record, lasting=True)
        rounds, opened = (seen.count(kind) for kind in (EntryKind.MANIFEST, EntryKind.OPENING))
        for at, one in enumerate(book.rounds[:rounds]):
            self._show_round(one, is_told=at < opened)
        if rounds:
            self.publisher.put(manifest_path(digest, None), book.rounds[rounds - 1].stored.envelope)
        book.watch(opened)
        self.publisher.put_json(f"{experiment_path(digest)}/status", status(book, rounds, opened, self.kept_days))
        if EntryKind.ENDING in seen:
            self._show_ending(book)
        return True

    def _show_round(self, one: KeptRound, *, is_told: bool) -> None:
        digest, number = one.place
        self._show_model(one.manifest)
        self.publisher.put(manifest_path(digest, number), one.stored.envelope, lasting=True)
        if is_told and one.opening is not None and one.envelope is not None:
            if one.opening.tally is not None:
                self.publisher.put_blob(one.opening.tally)
            self.publisher.put(opening_path(digest, number), one.envelope, lasting=True)

    def _show_ending(self, book: RelayedBook) -> None:
        ending = book.ending()
        signed = book.kept_ending() if self.key is None else ending.signed([self.key])
        if signed is not None:
            self._show_model(ending)
            self.publisher.put(ending_path(book.stored.digest), signed, lasting=True)

    def _show_model(self, named_in: RelayedManifest | RelayedEnding) -> None:
        for digest in (named_in.state, named_in.training_weights, named_in.evaluation_weights):
            self.publisher.put_blob(digest)
