"""Experiments with two relays in public: their documents and status, and their entries in the coordinator's log (§33).

    /v1/experiment/D                the document            /v1/experiment/D/manifest/T     a round's manifest
    /v1/experiment/D/opening/T      how the round ended     /v1/experiment/D/ending         what remains
    /v1/experiment/D/status         figures of all rounds   /v1/blob/…                      states, weights, net tallies

The driver, or a node that follows, hands over each experiment each time. The log appends the entries that it lacks and
answers which of them enough witnesses have seen; every signed document among those is public, with its blobs. Shards of
opened rounds are made on request (``shard_files``); the public folder is told of them here.

In the status a round is ``opened`` or ``unopened`` once its opening is public, with its ``end``, counts and figures.
``participants`` and ``cells`` are of the net tally, with the cover that is left in it; ``people`` and the shares are
without its mean, and its noise is in the intervals.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from secvm.coordinator.experiments.status_document import as_text, end_told, heading, notes_of, round_heading, scores
from secvm.coordinator.log.log_files import EntryLog
from secvm.coordinator.public_documents import ending_path, listing, show_beginning, show_model
from secvm.coordinator.publisher import Publisher, experiment_path, manifest_path, opening_path
from secvm.coordinator.relayed.relayed_history import RelayedHistory, RelayedRound
from secvm.coordinator.relayed.shard_files import ShardFolder
from secvm.coordinator.store.port import CoordinatorStore, Standing
from secvm.crypto.signing import SigningKey
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.privacy_terms import relayed_terms_of
from secvm.protocol.log.entries import EntryKind
from secvm.protocol.relays.counts import MixCount
from secvm.protocol.relays.opening import clients_of


def status(history: RelayedHistory, rounds: int, opened: int, kept_days: int) -> bytes:
    """The document: so many rounds are public, and so many of their openings, shards for so many days."""
    document, standing = history.document, history.stored.standing
    content: dict[str, Any] = {
        **heading(document, standing),
        "rounds": [
            _told(history, known, kept_days, is_told=at < opened) for at, known in enumerate(history.rounds[:rounds])
        ],
        "leakage": _leakage(document, opened),
        "notes": notes_of(history.watchers, early=standing is Standing.FINISHED and rounds < document.rounds),
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


def _told(history: RelayedHistory, known: RelayedRound, kept_days: int, *, is_told: bool) -> dict[str, Any]:
    state = known.stored.state.value if known.is_live else "closing"
    content = round_heading(known.stored.number, state, known.times) | {"open_by": known.times.open_by}
    if not is_told or known.opening is None or known.figures is None:
        return content
    content["state"] = "opened" if known.opening.is_opened else "unopened"
    content |= end_told(known.figures.end) | {"reasons": list(known.figures.reasons)}
    if known.opening.mix_count is None or not known.opening.is_opened:
        return content
    net = history.tally(known)
    assert net is not None, "an opened round has a tally"
    content |= {
        "clients": clients_of(known.opening),
        "capsules": known.figures.capsules,
        "packages": known.figures.packages,
        "refused": MixCount.enclosed(known.opening.mix_count).refused,
        "junk": known.figures.junk,
        "stepped": known.figures.stepped,
        "kept_until": known.kept_until(kept_days),
        **scores(history.document.experiment, net),
    }
    return content


@dataclass(eq=False, repr=False)
class RelayedPublisher:
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

    def show(self, histories: list[RelayedHistory]) -> None:
        """Put all that may be seen now. What is there already costs nothing."""
        self.publisher.put_listing("relays", [listing(history) for history in histories if self._show(history)])
        public = {
            known.place for history in histories for known in history.rounds if known.is_opened and self.is_told(known)
        }
        kept = public & set(self.store.batches()) if public else set()
        self.folder.want(kept, public - kept)

    def is_public(self, history: RelayedHistory) -> bool:
        """Whether an experiment's document is public."""
        return self.publisher.is_shown(experiment_path(history.stored.digest))

    def is_told(self, known: RelayedRound) -> bool:
        """Whether a round's opening is public."""
        return self.publisher.is_shown(opening_path(*known.place))

    def _show(self, history: RelayedHistory) -> bool:
        digest = history.stored.digest
        self.log.follow([history])
        seen = self.log.seen(history)
        if self.publisher.is_shown(ending_path(digest)):
            return True
        if not seen:
            return False
        show_beginning(self.publisher, history)
        rounds, opened = (seen.count(kind) for kind in (EntryKind.MANIFEST, EntryKind.OPENING))
        for at, known in enumerate(history.rounds[:rounds]):
            self._show_round(known, is_told=at < opened)
        if rounds:
            self.publisher.put(manifest_path(digest, None), history.rounds[rounds - 1].stored.envelope)
        history.watch(opened)
        self.publisher.put_json(f"{experiment_path(digest)}/status", status(history, rounds, opened, self.kept_days))
        if EntryKind.ENDING in seen:
            self._show_ending(history)
        return True

    def _show_round(self, known: RelayedRound, *, is_told: bool) -> None:
        digest, number = known.place
        show_model(self.publisher, known.manifest)
        self.publisher.put(manifest_path(digest, number), known.stored.envelope, lasting=True)
        if is_told and known.opening is not None and known.envelope is not None:
            if known.opening.tally is not None:
                self.publisher.put_blob(known.opening.tally)
            self.publisher.put(opening_path(digest, number), known.envelope, lasting=True)

    def _show_ending(self, history: RelayedHistory) -> None:
        ending = history.ending()
        signed = history.kept_ending() if self.key is None else ending.signed([self.key])
        if signed is not None:
            show_model(self.publisher, ending)
            self.publisher.put(ending_path(history.stored.digest), signed, lasting=True)
