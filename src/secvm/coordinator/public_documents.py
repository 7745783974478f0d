"""What of the books is public: every signed document, every blob that one of them names, and what follows from those.

Of an experiment that has a log, only what witnesses have seen is public: ``EntryLog`` says how far that goes.

How a round ended becomes public with the manifest after it, or with the ending; until then its tally and the state
after it stay in the store. An ending follows from the store too, and Ed25519 signs equal content with equal bytes; the
driver keeps what it signed, for nodes that show it and have no key.
"""

from __future__ import annotations

from typing import Any

from secvm.coordinator.experiments.history import ExperimentHistory, PlainHistory
from secvm.coordinator.experiments.status_document import TellableRound, status
from secvm.coordinator.log.log_files import EntryLog
from secvm.coordinator.publisher import Publisher, experiment_path, manifest_path
from secvm.crypto.signing import SigningKey
from secvm.protocol.documents.ending import Ending
from secvm.protocol.documents.manifest import LastRound, RoundManifest
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import RelayedEnding


def ending_path(digest: str) -> str:
    """Where the ending of an experiment is, once it is over."""
    return f"{experiment_path(digest)}/ending"


def beacon_path(digest: str, index: int) -> str:
    """Where the record of a beacon is that an experiment names in this place, from 0."""
    return f"{experiment_path(digest)}/beacon/{index}"


def show(publisher: Publisher, read: list[PlainHistory], key: SigningKey | None, log: EntryLog) -> list[PlainHistory]:
    """Put all that is public now, and return the books as they are public. What is there already costs nothing.

    Without ``key``, where somebody else drives, an ending is shown once the driver has kept it.
    """
    log.follow(read)
    seen = [history.seen(log.seen(history)) for history in read]
    public = [history for history in seen if history is not None]
    for history in public:
        _show_experiment(publisher, history, key)
    publisher.put_listing("plain", [listing(history) for history in public])
    return public


def listing(history: ExperimentHistory[Any]) -> dict[str, object]:
    """An experiment in the list of all."""
    standing = history.stored.standing.value
    return {"digest": history.stored.digest, "title": history.document.title, "standing": standing}


def show_beginning(publisher: Publisher, history: ExperimentHistory[Any]) -> None:
    """An experiment's document, and the records of its beacons."""
    digest = history.stored.digest
    publisher.put(experiment_path(digest), history.stored.envelope, lasting=True)
    for index, record in history.beacon_records().items():
        publisher.put(beacon_path(digest, index), record, lasting=True)


def show_model(publisher: Publisher, named_in: RoundManifest | Ending | RelayedManifest | RelayedEnding) -> None:
    """The blobs of a state and of its weights."""
    for digest in (named_in.state, named_in.training_weights, named_in.evaluation_weights):
        publisher.put_blob(digest)


def _show_experiment(publisher: Publisher, history: PlainHistory, key: SigningKey | None) -> None:
    digest = history.stored.digest
    if publisher.is_shown(ending_path(digest)):
        return
    signed = history.kept_ending() if history.is_over and key is None else None
    if history.is_over and key is None and signed is None:
        # Its counts are told together with its ending.
        return
    show_beginning(publisher, history)
    for known in history.rounds:
        _show_blobs(publisher, known.manifest)
        publisher.put(manifest_path(digest, known.stored.number), known.stored.envelope, lasting=True)
    if history.rounds:
        publisher.put(manifest_path(digest, None), history.rounds[-1].stored.envelope)
    publisher.put_json(f"{experiment_path(digest)}/status", _status(history))
    if history.is_over:
        # The last thing that is ever shown of it.
        ending = history.ending()
        _show_blobs(publisher, ending)
        publisher.put(ending_path(digest), signed or ending.signed([] if key is None else [key]), lasting=True)


def _show_blobs(publisher: Publisher, named_in: RoundManifest | Ending) -> None:
    show_model(publisher, named_in)
    if named_in.last is not None and named_in.last.tally is not None:
        publisher.put_blob(named_in.last.tally)


def _status(history: PlainHistory) -> bytes:
    history.watch(len(history.rounds) if history.is_over else len(history.rounds) - 1)
    ends: list[LastRound | None] = [known.manifest.last for known in history.rounds[1:]]
    if history.rounds:
        ends.append(history.how_it_ended(history.rounds[-1]) if history.is_over else None)
    rounds = [
        TellableRound(known.stored.number, history.public_state(known), known.times, last, known.end)
        for known, last in zip(history.rounds, ends, strict=True)
    ]
    return status(history.document, standing=history.stored.standing, rounds=rounds, watchers=history.watchers)
