"""Forgetting batches: count seeds, capsules and what they came to, when nobody needs them any more (data-model.md).

An unopened round's batch is forgotten when it is concluded. An opened one's is kept for those who look for their
capsule in its shards: until the round after the next is over, or, where the experiment ends before, for two periods of
the grid after its ending was first seen here.
"""

from __future__ import annotations

from secvm.coordinator.epochs import Grid
from secvm.coordinator.relayed.books import KeptRound, RelayedBook
from secvm.coordinator.store.port import CoordinatorStore
from secvm.coordinator.store.rules import agreed_name

#: So many periods of the grid, for those who were away at the end.
_PERIODS_AFTER_THE_END = 2


def forget_batches(store: CoordinatorStore, books: list[RelayedBook], grid: Grid, now: int) -> list[tuple[str, int]]:
    """Forget what is due, and say which rounds that were. Blocks: millions of capsules are removed."""
    rounds = {one.place: (book, one) for book in books for one in book.rounds}
    forgotten = []
    for place in store.batches():
        found = rounds.get(place)
        # One without a round has a seed whose manifest is not signed yet.
        if found is not None and _is_past(store, *found, grid, now):
            store.forget_batch(*place)
            forgotten.append(place)
    return forgotten


def _is_past(store: CoordinatorStore, book: RelayedBook, one: KeptRound, grid: Grid, now: int) -> bool:
    if one.is_live:
        return False
    if one.opening is None or not one.opening.is_opened:
        return True
    after_next = [other for other in book.rounds if other.stored.number >= one.stored.number + 2 and not other.is_live]
    if after_next:
        return True
    if not book.is_over:
        return False
    store.agree(_over(book), b"%d" % now)
    until = end_of_keeping(store, book, grid)
    return until is not None and now >= until


def end_of_keeping(store: CoordinatorStore, book: RelayedBook, grid: Grid) -> int | None:
    """Until when the last batches of an experiment are kept that is over; None: nobody has seen its end yet."""
    try:
        since = int(store.blob(agreed_name(_over(book))))
    except KeyError:
        return None
    return since + _PERIODS_AFTER_THE_END * 1000 * grid.period_s


def _over(book: RelayedBook) -> str:
    """Under which name all nodes know since when an experiment is over."""
    return f"relays over {book.stored.digest}"
