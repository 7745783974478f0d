"""What runs now, as it follows from the books, the keys and the clock: the same on every node, whoever drives.

The driver tells it to its own gateway, a node that follows works it out for itself (``coordinator.following``). Both
ask here, so that two nodes with one store never differ in what they take.
"""

from __future__ import annotations

from collections.abc import Sequence

from secvm.coordinator.books import Book, LiveRound
from secvm.coordinator.counting import RoundToCount
from secvm.coordinator.epochs import Grid
from secvm.coordinator.present import OpenRound, Present, gateway_key
from secvm.coordinator.store.port import StoredKey
from secvm.crypto.oblivious import encode_key_configurations


def is_over(books: Sequence[Book], epoch: int, *, grid: Grid, now: int) -> bool:
    """Whether an epoch is needed no more: its rounds are concluded, or it had none and has passed."""
    rounds = [one for book in books for one in book.rounds if one.stored.epoch == epoch]
    return not any(one.is_live for one in rounds) if rounds else now >= grid.end(epoch)


def present_of(books: Sequence[Book], keys: Sequence[StoredKey], *, grid: Grid, now: int) -> Present:
    """All rounds that run, and all keys that are still needed."""
    return Present(
        rounds=tuple(_open_round(book, one) for book in books for one in book.live),
        keys=tuple(key for key in keys if not is_over(books, key.epoch, grid=grid, now=now)),
    )


def keys_of_now(present: Present) -> bytes | None:
    """The first key that is still needed, for everybody the same, as it is published; None where there is none yet."""
    first = min(present.keys, key=lambda key: key.epoch, default=None)
    return None if first is None else encode_key_configurations([gateway_key(first).configuration])


def rounds_of_epoch(books: Sequence[Book], epoch: int) -> list[tuple[Book, LiveRound]]:
    """All rounds of an epoch, in the order of the books. Those that a crashed driver concluded already are among them:
    their packages are no strangers' there.
    """
    return [(book, one) for book in books for one in book.rounds if one.stored.epoch == epoch]


def rounds_to_count(ended: Sequence[tuple[Book, LiveRound]]) -> list[RoundToCount]:
    """The same as the count takes them."""
    return [
        RoundToCount(book.document.experiment_id, book.document.experiment, one.stored.number) for book, one in ended
    ]


def _open_round(book: Book, one: LiveRound) -> OpenRound:
    return OpenRound(
        document=book.document,
        number=one.stored.number,
        epoch=one.stored.epoch,
        opens_at=one.manifest.opens_at,
        closes_at=one.manifest.closes_at,
        accept_until=one.manifest.accept_until,
    )
