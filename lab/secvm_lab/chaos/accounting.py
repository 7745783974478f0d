"""Accounts of a run: what was acknowledged and what was counted, held to each other.

Two records that do not know of each other:

 1. **Acknowledged**: packages whose acknowledgement went by on its way to a device (``Acknowledged``, which watches
    passages before the relays). At least what devices know of: an answer may still die with its device.
 2. **Counted**: the published tally, and beside it the tally that the same people's packages add up to offline.

From these ``settle`` says, for each round, how many are **lost**: acknowledged and missing from the tally (a null is in
no tally, and its loss is not seen); and how many **counted twice**: in the tally beyond all that was ever scheduled.
After a round with a wrong tally the model is another one, and what devices should have sent is not known any more: no
later round is held to anything, and ``identical`` is lost in any case.
"""

from __future__ import annotations

import hashlib
import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from secvm.learning.aggregate.tally import Tally
from secvm_lab.chaos.passage import Answer, Request

#: What a device takes for an acknowledgement: kept by the relay, or answered by the gateway.
_ACKNOWLEDGED = (200, 202)
#: Every count of a tally.
_COUNTS = ("plus", "minus", "participants", "cells")


class Acknowledged:
    """Watches a passage before a relay. Capsules are told apart by epoch: their first byte is its number modulo 256.
    Requests with all packages of a device, at an entry relay, are told apart by their label.
    """

    def __init__(self, path: str) -> None:
        """``path``: where capsules with packages are posted; requests are posted below it."""
        self._path = path
        self._lock = threading.Lock()
        self._digests: dict[bytes, set[bytes]] = defaultdict(set)
        #: Acknowledgements that went by, the same capsule's every time.
        self.answers = 0

    def __call__(self, request: Request, answer: Answer) -> None:
        place = self.place_of(request)
        if place is not None and answer.status in _ACKNOWLEDGED:
            with self._lock:
                self._digests[place].add(hashlib.sha256(request.body).digest())
                self.answers += 1

    def place_of(self, request: Request) -> bytes | None:
        """The epoch's byte or the label for which packages are sent; None: this is another request."""
        before, _, label = request.path.rpartition("/submit/")
        if request.method != "POST" or not request.body or self._path not in (request.path, before):
            return None
        return bytes.fromhex(label) if before else request.body[:1]

    def of(self, place: bytes) -> int:
        """How many there were, each once, for an epoch's byte or a label."""
        with self._lock:
            return len(self._digests.get(place, ()))


@dataclass(frozen=True, slots=True, eq=False)
class RoundAccount:
    """What is known of one round."""

    #: Packages that devices scheduled, by their own history.
    scheduled: int
    #: Packages whose acknowledgement went by.
    acknowledged: int
    #: None: abandoned, or unopened.
    tally: Tally | None = field(repr=False)
    expected: Tally | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the accounts say, all rounds together."""

    scheduled: int
    acknowledged: int
    lost: int
    counted_twice: int


def settle(rounds: Sequence[RoundAccount]) -> Verdict:
    """Hold the records to each other."""
    lost = twice = 0
    comparable = True
    for one in rounds:
        short, beyond = _difference(one.expected, one.tally) if comparable else (0, 0)
        # What nobody acknowledged may be missing from a tally, and need not be.
        unanswered = max(0, one.scheduled - one.acknowledged)
        lost += max(0, short - unanswered)
        twice += beyond
        comparable = comparable and short == beyond == 0
    return Verdict(
        scheduled=sum(one.scheduled for one in rounds),
        acknowledged=sum(one.acknowledged for one in rounds),
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
