"""Deposits: a whole epoch, sorted, with the relay's signed count (docs/protocol.md §19.5).

``make_deposit`` says what is handed on. ``Depositor`` does it on time:

 1. At the deposit moment nothing more is put into the epoch, and what is still being committed is waited for.
 2. The epoch is sealed: sorted and written down, if anything came.
 3. The deposit is sent until the coordinator has it (202), always the same bytes; or until the epoch is over there
    (410), whereupon it is destroyed. Where the coordinator does not answer, it is destroyed when the epoch must be
    over, and our clock has said so for a whole period by the machine's steady one: a clock that is wrong for a moment
    destroys nothing.

Sealing does not wait for sending: names of clients are destroyed on time also when the coordinator is away.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import sqlite3
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field

from secvm.crypto.sealing.capsules import MEDIA_TYPE, pack
from secvm.crypto.signing import SigningKey
from secvm.protocol.documents.manifest import RelayCount
from secvm.relay.admission import Epochs
from secvm.relay.gateway import DEPOSIT_PATH, GatewayClient
from secvm.relay.store import Holding
from secvm.runtime.clock import Clock
from secvm.runtime.logs import Log
from secvm.runtime.metrics import Metrics

#: Bytes of a deposit beside its capsules, at most: the signed count is a few hundred.
MOST_BESIDE = 2**12
_LONGEST_PAUSE_S = 30.0
_LOOK_AGAIN_S = 60.0


def in_order(capsules: Sequence[bytes]) -> list[bytes]:
    """By digest: an order that was random before anybody sent anything, so that arrival leaves no trace in it."""
    return sorted(capsules, key=lambda capsule: hashlib.sha256(capsule).digest())


def make_deposit(opens_at: int, clients: int, capsules: Sequence[bytes], *, key: SigningKey) -> bytes | None:
    """The body of ``POST /v1/deposit`` for the slot that begins at ``opens_at``; None where nothing came."""
    if not capsules:
        return None
    count = RelayCount(opens_at=opens_at, clients=clients, capsules=len(capsules)).signed(key)
    return len(count).to_bytes(4, "little") + count + pack(in_order(capsules))


@dataclass(eq=False, repr=False)
class Depositor:
    """Seals epochs when they are due, and sends what is sealed."""

    holding: Holding
    epochs: Epochs
    gateway: GatewayClient
    _: KW_ONLY
    clock: Clock
    #: A clock that nobody sets.
    steady: Clock
    key: SigningKey
    log: Log
    metrics: Metrics
    first_pause_s: float
    #: For one deposit.
    timeout_s: float
    #: Since when, by the steady clock, there is no hope left for an epoch.
    _hopeless_since: dict[int, int] = field(default_factory=dict, init=False)
    _sealed: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def __post_init__(self) -> None:
        self._store, metrics = self.holding.store, self.metrics
        outcomes = {"outcome": ("sealed", "empty", "accepted", "stale", "given-up", "failed")}
        self._counted = metrics.counter("deposits", "Epochs, by what became of them.", outcomes)
        self._waiting = metrics.gauge("deposits_waiting", "Deposits that the coordinator has not acknowledged yet.")
        self._last = metrics.gauge("last_sealed_epoch", "The newest epoch that takes no more capsules.")
        self._show()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._seal_on_time())
            tasks.create_task(self._send_on())

    async def _seal_on_time(self) -> None:
        while True:
            current = self.epochs.at(self.clock.now())
            await self.holding.end_before(0)
            try:
                for epoch in self._store.begun():
                    if epoch < current:
                        await self.holding.end_before(epoch + 1)
                        await self._seal(epoch)
            except sqlite3.Error:
                # A full disk, most likely. What is there stays there, and somebody may make room.
                self._tell("failed", current - 1)
                await asyncio.sleep(self.first_pause_s)
                continue
            # Not for ever: a clock that was wrong for a moment must not put the next deposit off for years.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.clock.sleep_until(self.epochs.deposit_at(current)), _LOOK_AGAIN_S)

    async def _seal(self, epoch: int) -> None:
        def make(clients: int, capsules: Sequence[bytes]) -> bytes | None:
            opens_at = self.epochs.opens_at(epoch)
            return make_deposit(opens_at, clients, capsules, key=self.key)

        try:
            deposited = await asyncio.to_thread(self._store.seal, epoch, make)
        finally:
            self._sealed.set()
        self._tell("sealed" if deposited else "empty", epoch)

    async def _send_on(self) -> None:
        pause_s = self.first_pause_s
        while True:
            self._sealed.clear()
            try:
                left = [epoch for epoch in await asyncio.to_thread(self._store.waiting) if not await self._sent(epoch)]
            except sqlite3.Error:
                left = [-1]
                self._counted.add(outcome="failed")
                self.log.tell("store", state="failed")
            if not left:
                pause_s = self.first_pause_s
                await self._sealed.wait()
                continue
            # The machine's time: it is the network that is waited for, also while a steered clock stands still.
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _sent(self, epoch: int) -> bool:
        """Whether this epoch is off our hands."""
        body = await asyncio.to_thread(self._store.deposit, epoch)
        status = (await self.gateway.post(DEPOSIT_PATH, body, MEDIA_TYPE, timeout_s=self.timeout_s)).status
        outcome = {202: "accepted", 410: "stale"}.get(status, "given-up")
        if outcome == "given-up" and not self._is_hopeless(epoch):
            self._tell("failed", epoch, status)
            return False
        self._hopeless_since.pop(epoch, None)
        await asyncio.to_thread(self._store.forget, epoch)
        await asyncio.to_thread(self._show)
        self._tell(outcome, epoch)
        return True

    def _is_hopeless(self, epoch: int) -> bool:
        """Whether no coordinator can want this epoch any more, by both clocks."""
        if self.clock.now() < self.epochs.hopeless_at(epoch):
            self._hopeless_since.pop(epoch, None)
            return False
        now = self.steady.now()
        return now - self._hopeless_since.setdefault(epoch, now) >= self.epochs.period

    def _show(self) -> None:
        """What is in the store, as numbers to watch. In this order: who sees the epoch sealed sees its deposit too."""
        self._waiting.set(len(self._store.waiting()))
        self._last.set(self._store.sealed())

    def _tell(self, outcome: str, epoch: int, status: int = 0) -> None:
        self._counted.add(outcome=outcome)
        if status:
            self.log.tell("deposit", state=outcome, epoch=epoch, status=status)
        else:
            self.log.tell("deposit", state=outcome, epoch=epoch)
