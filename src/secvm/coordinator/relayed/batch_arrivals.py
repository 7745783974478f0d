"""Arrivals: the mixing relay's batch of a round comes in, at whichever node (docs/protocol.md §30).

The count announces the batch and says how many pieces it has and how long each is; pieces come in any order, and again;
the count comes once more, and then the pieces are compared with it: their number, their order, their root. If they are
what was announced the batch is whole, durably, and never changes. If not they are dropped, and may come again: what one
relay signed is not changed by what was damaged on the way.

Nothing is opened here.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator

from secvm.coordinator.relayed.relay_statements import Papers
from secvm.coordinator.relayed.relayed_history import KeptRound, RelayedBook
from secvm.coordinator.relayed.round_figures import OTHER_BATCH
from secvm.coordinator.store.port import CoordinatorStore
from secvm.errors import LocalProtocolError, RemoteProtocolError
from secvm.protocol.relays.batches.capsule_tree import capsule_root
from secvm.protocol.relays.batches.counts import MixCount
from secvm.protocol.relays.batches.label import INNER_BYTES, capsule_digest
from secvm.protocol.relays.batches.pieces import capsules_in_piece, cut, piece_count


class RefusedBatchError(RemoteProtocolError):
    """The coordinator does not take it; ``status`` is HTTP's word for the reason."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Arrivals:
    """Takes batches. Blocks: its store does."""

    def __init__(self, store: CoordinatorStore, *, most_bytes: int) -> None:
        """``most_bytes``: of a whole batch."""
        self._store = store
        self._most = most_bytes // INNER_BYTES

    def count(self, book: RelayedBook, one: KeptRound, envelope: bytes, now: int) -> list[int] | None:
        """The mixing relay's count: which pieces are here already; None: the batch is whole.

        Raises
        ------
        MalformedMessageError, BadSignatureError
            It is no count of this round's mixing relay.
        RefusedBatchError
            Another count came before, the round is over, or the pieces are not what the count says.
        """
        _check_time(one, now)
        papers = Papers(self._store, book.document, one)
        count = MixCount.read(envelope, book.document.mix_relay.key)
        if count.capsules > self._most:
            raise RefusedBatchError(f"a batch of {count.capsules} capsules, and {self._most} are the most here", 413)
        if not papers.offer("mix_count", envelope):
            raise RefusedBatchError("the mixing relay has signed another count for this label", 409)
        state = self._store.batch(*one.place)
        if state is None:
            raise RefusedBatchError("this round is over: its batch is forgotten", 410)
        if state.whole:
            return None
        if len(state.have) < piece_count(count.capsules):
            return list(state.have)
        if not self._is_batch(one, count):
            self._store.agree(fault_mark(one.manifest.label), OTHER_BATCH.encode())
            self._store.drop_pieces(*one.place, state.attempt)
            raise RefusedBatchError("the pieces are not the batch of this count: they may come again", 400)
        if not self._store.finish_batch(*one.place, state.attempt):
            raise RefusedBatchError("the pieces were dropped meanwhile: they may come again", 409)
        return None

    def piece(self, book: RelayedBook, one: KeptRound, index: int, data: bytes, now: int) -> None:
        """A piece of a batch that was announced; durable when it returns.

        Raises
        ------
        RefusedBatchError
            There is no such piece, it has another length, or other bytes came before.
        """
        _check_time(one, now)
        count = Papers(self._store, book.document, one).mix_count
        if count is None:
            raise RefusedBatchError("a batch is announced by its count, and this one is not yet", 409)
        expected = capsules_in_piece(index, count.capsules) * INNER_BYTES
        if not expected:
            raise RefusedBatchError(f"the batch has {piece_count(count.capsules)} pieces, and none of {index}", 404)
        if len(data) != expected:
            raise RefusedBatchError(f"piece {index} has {expected} bytes, and these are {len(data)}", 413)
        try:
            taken = self._store.put_piece(*one.place, index, data)
        except LocalProtocolError:
            raise RefusedBatchError(f"piece {index} came before with other bytes", 409) from None
        if not taken:
            raise RefusedBatchError("this round is over: its batch is forgotten", 410)

    def _is_batch(self, one: KeptRound, count: MixCount) -> bool:
        """Whether the pieces are as many capsules as the count says, ascending and under its root."""
        before = b""
        for digests in self._digests(one, count):
            seen = [before, *digests]
            if not digests or not all(map(operator.lt, seen, seen[1:])):
                return False
            before = digests[-1]
        root = capsule_root(digest for digests in self._digests(one, count) for digest in digests)
        return root == count.root

    def _digests(self, one: KeptRound, count: MixCount) -> Iterator[list[bytes]]:
        for index in range(piece_count(count.capsules)):
            piece = self._store.piece(*one.place, index) or b""
            whole = len(piece) == capsules_in_piece(index, count.capsules) * INNER_BYTES
            yield [capsule_digest(capsule) for capsule in cut(piece, INNER_BYTES)] if whole else []


def fault_mark(label: bytes) -> str:
    """Under which name all nodes know that pieces of this round came that were not what was announced."""
    return f"relays {label.hex()} batch fault"


def _check_time(one: KeptRound, now: int) -> None:
    if not one.is_live or now >= one.manifest.instants.open_by:
        raise RefusedBatchError("this round is over", 410)
    if now < one.manifest.instants.accept_until:
        raise RefusedBatchError("nothing can be mixed before the entry relay has stopped taking submissions", 425)
