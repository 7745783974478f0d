"""What really happened, seen from above: every capsule that a device made, who took it, and what was counted.

A server gives a promise when its answer leaves it, whether or not anybody hears it:

- the **coordinator** takes a capsule, a batch or a deposit: each capsule in it is *due*, and its round must count it,
  once;
- the **relay** keeps a capsule: it is *kept*, and the epoch's deposit must hold it.

A refusal that leaves is a promise too: what was refused each time, and never anything else, is not counted. Whatever
else becomes of a request, no answer, a broken connection, "try later", leaves it open; such a capsule may be counted,
once, or not.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from secvm.coordinator.intake.running import gateway_key
from secvm.crypto.sealing.capsules import unpack
from secvm.crypto.sealing.oblivious import GatewayKeys
from secvm.errors import RemoteProtocolError
from secvm.protocol.codec import AddressedPackage, decode
from secvm.protocol.plain.sealed_requests import package_in
from secvm.runtime.http.server import HttpRequest, HttpResponse
from secvm_lab.simulation.machines.database import Database
from secvm_lab.simulation.question import GRACE_S, GRID, LENGTH_S


def digest_of(capsule: bytes) -> bytes:
    """What a capsule is known by."""
    return hashlib.sha256(capsule).digest()


@dataclass(slots=True)
class Fate:
    """What became of one capsule at the coordinator."""

    capsule: bytes
    #: The epoch whose key it names; None: nobody's.
    epoch: int | None
    due: bool = False
    refused: bool = False
    #: It was handed over at least once without a clear answer.
    open: bool = False


@dataclass(slots=True)
class Truth:
    """All of it."""

    database: Database
    #: Capsules that devices made, by device and key id, in the order in which they were first sent.
    sent: dict[tuple[str, int], dict[bytes, None]] = field(default_factory=dict)
    #: What the coordinator was handed, by digest.
    fates: dict[bytes, Fate] = field(default_factory=dict)
    #: What the relay has promised to keep, by epoch: capsules, and whose.
    kept: defaultdict[int, dict[bytes, str]] = field(default_factory=lambda: defaultdict(dict))
    #: What the relay has handed over as its deposit, by epoch.
    deposits: dict[int, set[bytes]] = field(default_factory=dict)
    #: Capsules that were changed on their way to somebody.
    done: Counter[str] = field(default_factory=Counter)
    _opened: dict[bytes, AddressedPackage | None] = field(default_factory=dict)

    def handed(self, request: HttpRequest, answer: HttpResponse | None, at: int) -> None:
        """The coordinator was handed something when its clock showed ``at``, and has answered this."""
        told = _told(answer)
        for capsule in capsules_in(request):
            digest = digest_of(capsule)
            fate = self.fates.get(digest)
            if fate is None:
                fate = self.fates[digest] = Fate(capsule, self.epoch_of(capsule))
            # Of a batch, only what belongs to an epoch that takes capsules is taken; the rest is dropped.
            dropped = told == "due" and request.path == "/v1/batch" and not takes(fate.epoch, at)
            fate.due |= told == "due" and not dropped
            fate.refused |= told == "refused"
            fate.open |= told == "open" or dropped
        self.done[told] += 1
        if request.path == "/v1/deposit":
            self.done["deposits"] += told == "due"
            capsules = capsules_in(request)
            epoch = self.epoch_of(capsules[0]) if capsules else None
            if epoch is not None:
                self.deposits.setdefault(epoch, set()).update(capsules)

    def epoch_of(self, capsule: bytes) -> int | None:
        """The epoch whose key a capsule names."""
        return next((epoch for epoch in self.database.keys if capsule and epoch % 256 == capsule[0]), None)

    def open(self, capsule: bytes, epoch: int) -> AddressedPackage | None:
        """What is in a capsule, by the key of the epoch; None: nothing that counts."""
        digest = digest_of(capsule)
        if digest not in self._opened:
            self._opened[digest] = None
            key = self.database.keys.get(epoch)
            if key is not None:
                (found,) = GatewayKeys([gateway_key(key)]).open_unanswered([capsule])
                try:
                    if not isinstance(found, RemoteProtocolError):
                        self._opened[digest] = decode(package_in(found))
                except RemoteProtocolError:
                    pass
        return self._opened[digest]


def _told(answer: HttpResponse | None) -> str:
    if answer is None or answer.status >= 500 or answer.status == 429:
        return "open"
    return "refused" if answer.status >= 400 else "due"


def takes(epoch: int | None, at: int) -> bool:
    """Whether an epoch takes capsules at this instant: all rounds of a slot have the same times here."""
    return epoch is not None and 0 <= at - GRID.start(epoch) < 1000 * (LENGTH_S + GRACE_S)


def capsules_in(request: HttpRequest) -> Sequence[bytes]:
    """What a request brings."""
    body = request.body
    try:
        if request.path == "/v1/batch":
            return list(unpack(body))
        if request.path == "/v1/deposit":
            length = int.from_bytes(body[:4], "little")
            return list(unpack(body[4 + length :]))
    except RemoteProtocolError:
        return []
    return [body] if request.path == "/v1/capsule" else []
