"""Accounts of a run: what was acknowledged, what was received and what was counted, held to each other.

Three records that do not know of each other:

 1. **Acknowledged**: digests of capsules whose acknowledgement went by on its way to a device (``Acknowledged``, which
    watches a passage before the relays). At least what devices know of: an answer may still die with its device.
 2. **Received**: the digests under the received root that the coordinator has signed, read from its public receipts,
    bucket by bucket (``read_received``).
 3. **Counted**: the published tally, and beside it the tally that the same people's packages add up to offline.

From these ``settle`` says, for each round, how many are **lost**: acknowledged and not under the root, or under the
root and missing from the tally; and how many **counted twice**: in the tally beyond all that was ever scheduled. After
a round with a wrong tally the model is another one, and what devices should have sent is not known any more: later
rounds are held to 1 and 2 alone, and ``identical`` is lost in any case.
"""

from __future__ import annotations

import hashlib
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from secvm.errors import MalformedMessageError
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.receipts import decode_bits, decode_receipt
from secvm.protocol.received import check_bucket, received_root, side_by_side
from secvm.testing.chaos.passage import Answer, Request

#: What a device takes for an acknowledgement: kept by the relay, or answered by the gateway.
_ACKNOWLEDGED = (200, 202)
#: Every count of a tally.
_COUNTS = ("plus", "minus", "participants", "cells")


class Acknowledged:
    """Watches a passage before a relay. Capsules are told apart by epoch: their first byte is its number modulo 256."""

    def __init__(self, path: str) -> None:
        """``path``: where capsules with packages are posted."""
        self._path = path
        self._lock = threading.Lock()
        self._digests: dict[int, set[bytes]] = defaultdict(set)
        #: Acknowledgements that went by, the same capsule's every time.
        self.answers = 0

    def __call__(self, request: Request, answer: Answer) -> None:
        if request.method == "POST" and request.path == self._path and answer.status in _ACKNOWLEDGED and request.body:
            with self._lock:
                self._digests[request.body[0]].add(hashlib.sha256(request.body).digest())
                self.answers += 1

    def of(self, epoch: int) -> set[bytes]:
        """Those of an epoch."""
        with self._lock:
            return set(self._digests.get(epoch % 256, ()))


def read_received(read: Callable[[str], bytes | None], place: str, root: bytes) -> set[bytes] | None:
    """All digests under the root, from the files below ``place``; None where the files are not there.

    Raises
    ------
    MalformedMessageError
        The files do not lead to the root.
    """
    told = read(place)
    if told is None:
        return None
    found: set[bytes] = set()
    for bucket in range(2 ** decode_bits(told)):
        data = read(f"{place}/{bucket}")
        if data is not None:  # an empty bucket has no file everywhere; the root tells whether it was one
            receipt = decode_receipt(data)
            found.update(check_bucket(root, bucket, receipt.bucket, receipt.path))
    if received_root(side_by_side(found)) != root:
        raise MalformedMessageError("the receipts do not lead to the received root")
    return found


@dataclass(frozen=True, slots=True, eq=False)
class RoundAccount:
    """What is known of one round."""

    #: Packages that devices scheduled, by their own history.
    scheduled: int
    acknowledged: set[bytes] = field(repr=False)
    #: None: the round was abandoned, and nobody is told what came.
    received: set[bytes] | None = field(repr=False)
    #: None: abandoned.
    tally: Tally | None = field(repr=False)
    expected: Tally | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the accounts say, all rounds together."""

    scheduled: int
    acknowledged: int
    received: int
    lost: int
    counted_twice: int


def settle(rounds: Sequence[RoundAccount]) -> Verdict:
    """Hold the records to each other."""
    lost = twice = 0
    comparable = True
    for one in rounds:
        if one.received is not None:
            missing = len(one.acknowledged - one.received)
        else:
            # A round that should be abandoned owes nobody anything.
            missing = 0 if one.expected is None else len(one.acknowledged)
        short, beyond = _difference(one.expected, one.tally) if comparable else (0, 0)
        # What nobody acknowledged may be missing from a tally, and need not be.
        unanswered = max(0, one.scheduled - len(one.acknowledged))
        # The same package is missing under the root and from the tally: it is lost once.
        lost += max(missing, short - unanswered)
        twice += beyond
        comparable = comparable and short == beyond == 0
    return Verdict(
        scheduled=sum(one.scheduled for one in rounds),
        acknowledged=sum(len(one.acknowledged) for one in rounds),
        received=sum(len(one.received or ()) for one in rounds),
        lost=lost,
        counted_twice=twice,
    )


def _difference(expected: Tally | None, found: Tally | None) -> tuple[int, int]:
    """By how much the tally is short of what was expected, and by how much beyond it, over all its counts."""
    if expected is None or found is None:
        return (0 if expected is None else _total(expected)), (0 if found is None else _total(found))
    short = beyond = 0
    for name in _COUNTS:
        change = getattr(found, name).astype(np.int64) - getattr(expected, name).astype(np.int64)
        short += int(-change[change < 0].sum())
        beyond += int(change[change > 0].sum())
    return short, beyond


def _total(tally: Tally) -> int:
    return sum(int(getattr(tally, name).sum()) for name in _COUNTS)


__all__ = ["Acknowledged", "RoundAccount", "Verdict", "read_received", "settle"]
