"""Receipts: an epoch's digests outlive its capsules for a while, so that devices can see that theirs were received.

 1. When an epoch is counted, its sorted digests and the nodes over them are put on a shelf, durably, before any of its
    rounds is concluded: a root that is signed has its receipts. After a crash the same is put there again.
 2. Receipts of a round are shown once the manifest or ending that names the root is public, never earlier: buckets tell
    how many capsules came. Whether it is public only the publisher knows, and it is asked each time.
 3. An abandoned round has none. Buckets would tell how few came, which nobody is told; and an abandoned round changes
    nothing, so to leave a capsule out of it gains nothing. An epoch of which nothing was tallied is not kept at all.
 4. An epoch is dropped when for each of its tallied rounds the round after the next is concluded; or, where what is
    left of it belongs to experiments that are over, two periods after that was first seen. Nothing is dropped before it
    was public. An epoch that no round is of is dropped at once.

Digests are of sealed bytes: docs/adr/0025 says what they tell, and to whom.
"""

from __future__ import annotations

from collections.abc import Callable

from secvm.coordinator.books import Book, LiveRound
from secvm.coordinator.epochs import Grid
from secvm.coordinator.publisher import BYTES_MEDIA_TYPE, JSON_MEDIA_TYPE, experiment_path, manifest_path
from secvm.coordinator.receipt_shelf import Shelf, decimal
from secvm.coordinator.showing import ending_path
from secvm.coordinator.store.port import CoordinatorStore
from secvm.errors import LocalProtocolError
from secvm.protocol.receipts import encode_bits, encode_receipt
from secvm.protocol.received import Digests, ReceivedTree

#: So many periods of the grid, for those who were away at the end.
_PERIODS_AFTER_THE_END = 2

IsShown = Callable[[str], bool]


class Receipts:
    """Says which receipts are public, and until when epochs are kept."""

    def __init__(self, shelf: Shelf, *, store: CoordinatorStore, grid: Grid) -> None:
        self._shelf = shelf
        self._store = store
        self._period_ms = 1000 * grid.period_s
        #: Epochs of rounds whose end is public, None where abandoned: nothing of that changes any more.
        self._epochs: dict[tuple[str, int], int | None] = {}

    def keep(self, epoch: int, digests: Digests, tree: ReceivedTree) -> None:
        """What an epoch came to, before any round of it is concluded."""
        self._shelf.keep(epoch, digests, tree)

    def find(self, path: str, is_shown: IsShown) -> tuple[bytes, str] | None:
        """What is at a path below ``/v1/experiment/D/received``, and its media type; None for anything else."""
        match path.split("/"):
            case ["", "v1", "experiment", digest, "received", number]:
                index: int | None = None
            case ["", "v1", "experiment", digest, "received", number, bucket]:
                index = decimal(bucket)
                if index is None:
                    return None
            case _:
                return None
        round_number = decimal(number)
        if round_number is None or not _is_told(digest, round_number, is_shown):
            return None
        epoch = self._epoch_of(digest, round_number)
        if epoch is None:
            return None
        if index is None:
            bits = self._shelf.bits(epoch)
            return None if bits is None else (encode_bits(bits), JSON_MEDIA_TYPE)
        receipt = self._shelf.receipt(epoch, index)
        try:
            return None if receipt is None else (encode_receipt(receipt), BYTES_MEDIA_TYPE)
        except LocalProtocolError:
            return None  # tens of thousands of capsules were ground into one bucket: no reader would take it

    def _epoch_of(self, digest: str, number: int) -> int | None:
        if (digest, number) not in self._epochs:
            for one in self._store.rounds(digest):
                if one.number == number:
                    self._epochs[digest, number] = None if one.tally is None else one.epoch
        return self._epochs.get((digest, number))

    def forget(self, books: list[Book], now: int, is_shown: IsShown) -> list[int]:
        """Drop what nobody needs any more; which epochs that were."""
        dropped = []
        for epoch in self._shelf.epochs():
            needed = [
                book
                for book in books
                for one in book.rounds
                if one.stored.epoch == epoch and _is_needed(book, one, is_shown)
            ]
            if needed:
                if not all(is_shown(ending_path(book.stored.digest)) for book in needed):
                    continue
                if now < self._shelf.over_since(epoch, now) + _PERIODS_AFTER_THE_END * self._period_ms:
                    continue
            self._shelf.drop(epoch)
            dropped.append(epoch)
        return dropped


def received_path(digest: str, number: int, index: int | None = None) -> str:
    """Where the receipt of a bucket is; without one, how many bits name a bucket."""
    return f"{experiment_path(digest)}/received/{number}" + ("" if index is None else f"/{index}")


def _is_told(digest: str, number: int, is_shown: IsShown) -> bool:
    """Whether a public document names the root of this round."""
    if is_shown(manifest_path(digest, number + 1)):
        return True
    return is_shown(ending_path(digest)) and is_shown(manifest_path(digest, number))


def _is_needed(book: Book, one: LiveRound, is_shown: IsShown) -> bool:
    if one.is_live:
        return True  # a crash came between its file and its conclusion
    if one.stored.tally is None:
        return False
    number = one.stored.number
    after_next = [other for other in book.rounds if other.stored.number == number + 2 and not other.is_live]
    return not (after_next and _is_told(book.stored.digest, number, is_shown))


__all__ = ["Receipts", "received_path"]
