"""Forgetting batches: count seeds, capsules and what they came to, when nobody needs them any more (data-model.md).

An unopened round's batch is forgotten when it is concluded. An opened one's is public, digests and capsules alike, for
so many days after its ``open_by`` as the settings say, and then forgotten.
"""

from __future__ import annotations

from secvm.coordinator.relayed.relayed_history import KeptRound, RelayedBook
from secvm.coordinator.store.port import CoordinatorStore
from secvm.protocol.relays.counting.shards import DAY_MS


def kept_until(one: KeptRound, days: int) -> int | None:
    """Until when the shards of an opened round are public; None: it runs, or is unopened."""
    return one.manifest.instants.open_by + days * DAY_MS if one.is_opened else None


def forget_batches(store: CoordinatorStore, books: list[RelayedBook], days: int, now: int) -> list[tuple[str, int]]:
    """Forget what is due, and say which rounds that were. Blocks: millions of capsules are removed."""
    rounds = {one.place: one for book in books for one in book.rounds}
    forgotten = []
    for place in store.batches():
        one = rounds.get(place)
        # One without a round has a seed whose manifest is not signed yet.
        if one is not None and not one.is_live and now >= (kept_until(one, days) or 0):
            store.forget_batch(*place)
            forgotten.append(place)
    return forgotten
