"""What of the books is public: every signed document, every blob that one of them names, and what follows from those.

Of an experiment that has a log, only what witnesses have seen is public: ``Veil`` says how far that goes.

How a round ended becomes public with the manifest after it, or with the ending; until then its tally and the state
after it stay in the store. An ending follows from the store too, and Ed25519 signs equal content with equal bytes; the
driver keeps what it signed, for nodes that show it and have no key.
"""

from __future__ import annotations

from typing import Protocol

from secvm.coordinator.experiments.history import Book, Books
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


class Veil(Protocol):
    """What logs leave to be seen (``coordinator.log.log_files``)."""

    def lift(self, books: Books, read: list[Book]) -> list[Book]:
        """The books as far as they may be shown; those of which nothing may be are left out."""
        ...

    def may_grow(self, book: Book) -> bool:
        """Whether this experiment may go on: enough witnesses have said that nothing of it is missing here."""
        ...


def show(
    publisher: Publisher,
    books: Books,
    key: SigningKey | None,
    veil: Veil | None = None,
    *,
    read: list[Book] | None = None,
) -> list[Book]:
    """Put all that is public now, and return the books as they are public. What is there already costs nothing.

    Without ``key``, where somebody else drives, an ending is shown once the driver has kept it. ``read``: the books as
    they were just read.
    """
    read = books.read() if read is None else read
    if veil is not None:
        read = veil.lift(books, read)
    for book in read:
        _show_experiment(publisher, books, book, key)
    listed: list[dict[str, object]] = [
        {"digest": book.stored.digest, "title": book.document.title, "standing": book.stored.standing.value}
        for book in read
    ]
    publisher.put_listing("plain", listed)
    return read


def _show_experiment(publisher: Publisher, books: Books, book: Book, key: SigningKey | None) -> None:
    digest = book.stored.digest
    if publisher.is_shown(ending_path(digest)):
        return
    signed = books.kept_ending(digest) if book.is_over and key is None else None
    if book.is_over and key is None and signed is None:
        # Its counts are told together with its ending.
        return
    publisher.put(experiment_path(digest), book.stored.envelope, lasting=True)
    for index, record in book.beacon_records().items():
        publisher.put(beacon_path(digest, index), record, lasting=True)
    for one in book.rounds:
        _show_blobs(publisher, one.manifest)
        publisher.put(manifest_path(digest, one.stored.number), one.stored.envelope, lasting=True)
    if book.rounds:
        publisher.put(manifest_path(digest, None), book.rounds[-1].stored.envelope)
    publisher.put_json(f"{experiment_path(digest)}/status", _status(books, book))
    if book.is_over:
        # The last thing that is ever shown of it.
        ending = ending_of(books, book)
        _show_blobs(publisher, ending)
        publisher.put(ending_path(digest), signed or ending.signed([] if key is None else [key]), lasting=True)


def ending_of(books: Books, book: Book) -> Ending:
    """The ending of an experiment that is over."""
    before = book.rounds[-1] if book.rounds else None
    model = book.model(before)
    return make_ending(
        book.document,
        why=_WHY[book.stored.standing],
        state=model.state,
        training_weights=model.training,
        evaluation_weights=model.evaluation,
        before=None if before is None else before.manifest,
        last=None if before is None else books.how_it_ended(before),
    )


def _show_blobs(publisher: Publisher, named_in: RoundManifest | Ending) -> None:
    for digest in (named_in.state, named_in.training_weights, named_in.evaluation_weights):
        publisher.put_blob(digest)
    if named_in.last is not None and named_in.last.tally is not None:
        publisher.put_blob(named_in.last.tally)


def _status(books: Books, book: Book) -> bytes:
    book.watch(len(book.rounds) if book.is_over else len(book.rounds) - 1)
    ends: list[LastRound | None] = [one.manifest.last for one in book.rounds[1:]]
    if book.rounds:
        ends.append(books.how_it_ended(book.rounds[-1]) if book.is_over else None)
    rounds = [
        TellableRound(
            number=one.stored.number,
            state=book.public_state(one),
            opens_at=one.manifest.opens_at,
            closes_at=one.manifest.closes_at,
            accept_until=one.manifest.accept_until,
            last=last,
        )
        for one, last in zip(book.rounds, ends, strict=True)
    ]
    return status(book.document, standing=book.stored.standing, rounds=rounds, watchers=book.watchers)
