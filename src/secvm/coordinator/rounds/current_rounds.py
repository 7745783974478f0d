"""What runs now, as it follows from the books, the keys and the clock: the same on every node, whoever drives.

The driver tells it to its own gateway, a node that follows works it out for itself (``nodes.node_view``). Both
ask here, so that two nodes with one store never differ in what they take.
"""

from __future__ import annotations

from collections.abc import Sequence

from secvm.coordinator.counting.epoch_count import RoundToCount
from secvm.coordinator.epochs import Grid
from secvm.coordinator.experiments.history import Book, LiveRound
from secvm.coordinator.intake.running import OpenRound, Present, published
from secvm.coordinator.store.port import CoordinatorStore, StoredKey
from secvm.crypto.sealing.kem import RandomBytes, X25519PrivateKey


def is_over(books: Sequence[Book], epoch: int, *, grid: Grid, now: int) -> bool:
    """Whether an epoch is needed no more: its rounds are concluded, or it had none and has passed."""
    rounds = [one for book in books for one in book.rounds if one.stored.epoch == epoch]
    return not any(one.is_live for one in rounds) if rounds else now >= grid.end(epoch)


def present_of(
    books: Sequence[Book], keys: Sequence[StoredKey], fetch_keys: Sequence[StoredKey], *, grid: Grid, now: int
) -> Present:
    """All rounds that run, and all keys that are still needed."""
    return Present(
        rounds=tuple(_open_round(book, one) for book in books for one in book.live),
        keys=tuple(key for key in keys if not is_over(books, key.epoch, grid=grid, now=now)),
        fetch_keys=tuple(fetch_keys),
    )


def keys_of_now(present: Present, *, grid: Grid, now: int) -> bytes | None:
    """The fetch key as it is published: all through a slot that of the next slot, for everybody the same. None where it
    is not made yet.
    """
    wanted = fetch_epoch(grid, now)
    return next((published(key) for key in present.fetch_keys if key.epoch == wanted), None)


def fetch_epoch(grid: Grid, now: int) -> int:
    """The epoch whose fetch key is handed out now."""
    return max(0, grid.slot_of(now) + 1)


def make_fetch_key(store: CoordinatorStore, grid: Grid, now: int, dice: RandomBytes) -> StoredKey:
    """The fetch key that is handed out now, durably: the one that is there, or a new one."""
    epoch = fetch_epoch(grid, now)
    return store.add_fetch_key(StoredKey(epoch, epoch % 256, X25519PrivateKey.generate(dice).secret_bytes()))


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
