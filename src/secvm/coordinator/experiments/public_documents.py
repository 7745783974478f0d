"""What of the books is public: every signed document, every blob that one of them names, and what follows from those.

Of an experiment that has a log, only what witnesses have seen is public: ``LogVisibility`` says how far that goes.

How a round ended becomes public with the manifest after it, or with the ending; until then its tally and the state
after it stay in the store. An ending follows from the store too, and Ed25519 signs equal content with equal bytes; the
driver keeps what it signed, for nodes that show it and have no key.
"""

from __future__ import annotations

from typing import Protocol

from secvm.coordinator.experiments.history import PlainHistories, PlainHistory
from secvm.coordinator.experiments.status_document import TellableRound, status
from secvm.coordinator.publisher import Publisher, experiment_path, manifest_path
from secvm.coordinator.store.port import Standing
from secvm.crypto.signing import SigningKey
from secvm.protocol.documents.ending import Ending, Why, make_ending
from secvm.protocol.documents.manifest import LastRound, RoundManifest

_WHY = {Standing.FINISHED: Why.FINISHED, Standing.STOPPED: Why.STOPPED}


def ending_path(digest: str) -> str:
    """Where the ending of an experiment is, once it is over."""
    return f"/v1/experiment/{digest}/ending"


def beacon_path(digest: str, index: int) -> str:
    """Where the record of a beacon is that an experiment names in this place, from 0."""
    return f"{experiment_path(digest)}/beacon/{index}"


class LogVisibility(Protocol):
    """What logs leave to be seen (``coordinator.log.log_files``)."""

    def lift(self, histories: PlainHistories, read: list[PlainHistory]) -> list[PlainHistory]:
        """The books as far as they may be shown; those of which nothing may be are left out."""
        ...

    def may_grow(self, history: PlainHistory) -> bool:
        """Whether this experiment may go on: enough witnesses have said that nothing of it is missing here."""
        ...


def show(
    publisher: Publisher,
    histories: PlainHistories,
    key: SigningKey | None,
    veil: LogVisibility | None = None,
    *,
    read: list[PlainHistory] | None = None,
) -> list[PlainHistory]:
    """Put all that is public now, and return the books as they are public. What is there already costs nothing.

    Without ``key``, where somebody else drives, an ending is shown once the driver has kept it. ``read``: the books as
    they were just read.
    """
    read = histories.read() if read is None else read
    if veil is not None:
        read = veil.lift(histories, read)
    for history in read:
        _show_experiment(publisher, histories, history, key)
    listed: list[dict[str, object]] = [
        {"digest": history.stored.digest, "title": history.document.title, "standing": history.stored.standing.value}
        for history in read
    ]
    publisher.put_listing("plain", listed)
    return read


def _show_experiment(
    publisher: Publisher, histories: PlainHistories, history: PlainHistory, key: SigningKey | None
) -> None:
    digest = history.stored.digest
    if publisher.is_shown(ending_path(digest)):
        return
    signed = histories.kept_ending(digest) if history.is_over and key is None else None
    if history.is_over and key is None and signed is None:
        # Its counts are told together with its ending.
        return
    publisher.put(experiment_path(digest), history.stored.envelope, lasting=True)
    for index, record in history.beacon_records().items():
        publisher.put(beacon_path(digest, index), record, lasting=True)
    for known in history.rounds:
        _show_blobs(publisher, known.manifest)
        publisher.put(manifest_path(digest, known.stored.number), known.stored.envelope, lasting=True)
    if history.rounds:
        publisher.put(manifest_path(digest, None), history.rounds[-1].stored.envelope)
    publisher.put_json(f"{experiment_path(digest)}/status", _status(histories, history))
    if history.is_over:
        # The last thing that is ever shown of it.
        ending = ending_of(histories, history)
        _show_blobs(publisher, ending)
        publisher.put(ending_path(digest), signed or ending.signed([] if key is None else [key]), lasting=True)


def ending_of(histories: PlainHistories, history: PlainHistory) -> Ending:
    """The ending of an experiment that is over."""
    before = history.rounds[-1] if history.rounds else None
    model = history.model(before)
    return make_ending(
        history.document,
        why=_WHY[history.stored.standing],
        state=model.state,
        training_weights=model.training,
        evaluation_weights=model.evaluation,
        before=None if before is None else before.manifest,
        last=None if before is None else histories.how_it_ended(before),
    )


def _show_blobs(publisher: Publisher, named_in: RoundManifest | Ending) -> None:
    for digest in (named_in.state, named_in.training_weights, named_in.evaluation_weights):
        publisher.put_blob(digest)
    if named_in.last is not None and named_in.last.tally is not None:
        publisher.put_blob(named_in.last.tally)


def _status(histories: PlainHistories, history: PlainHistory) -> bytes:
    history.watch(len(history.rounds) if history.is_over else len(history.rounds) - 1)
    ends: list[LastRound | None] = [known.manifest.last for known in history.rounds[1:]]
    if history.rounds:
        ends.append(histories.how_it_ended(history.rounds[-1]) if history.is_over else None)
    rounds = [
        TellableRound(
            number=known.stored.number,
            state=history.public_state(known),
            opens_at=known.manifest.opens_at,
            closes_at=known.manifest.closes_at,
            accept_until=known.manifest.accept_until,
            last=last,
        )
        for known, last in zip(history.rounds, ends, strict=True)
    ]
    return status(history.document, standing=history.stored.standing, rounds=rounds, watchers=history.watchers)
