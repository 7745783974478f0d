"""The gateway's key for fetches, at ``GET R/keys``: one a slot, the same for everybody (docs/protocol.md §19.6).

A gateway that could hand out a key of its own to each device would know every fetch of that device again by the key it
is sealed to. So the relay asks once a slot, and keeps the first answer that is this slot's key, by its id, until the
slot ends; nothing else is ever asked for or handed out in that time. Where the relay holds packages, or has a role in
rounds of two relays, the answer is on the disk before anybody sees it, so that a restart gives the gateway no second
try. A relay that has no disk forgets it with its process.

Clocks differ, and a coordinator may be busy when a slot begins: until it has the new key, the one of the slot before,
which it still opens, is handed out.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from secvm.crypto.sealing.oblivious import KEYS_MEDIA_TYPE, decode_key_configurations, encode_key_configurations
from secvm.errors import MalformedMessageError
from secvm.relay.epochs import Epochs
from secvm.relay.forwarding import KEYS_PATH, Answer, GatewayClient
from secvm.relay.refusals import plain
from secvm.runtime.clock import Clock
from secvm.runtime.http.server import HttpResponse
from secvm.runtime.metrics import Metrics


class KeyStore(Protocol):
    """Where the key of the slot outlives the process. Called from any thread."""

    def fetch_keys(self) -> tuple[int, bytes] | None:
        """The key that was kept last, and its slot."""
        ...

    def keep_fetch_keys(self, slot: int, keys: bytes) -> None:
        """Keep the key of this slot, in place of the one before."""
        ...


class FetchKeys:
    """Hands out the key of the slot."""

    def __init__(
        self, gateway: GatewayClient, epochs: Epochs, clock: Clock, metrics: Metrics, store: KeyStore | None = None
    ) -> None:
        self._gateway = gateway
        self._epochs = epochs
        self._clock = clock
        self._store = store
        #: The slot that was asked in, and the answer.
        self._kept: tuple[int, bytes] | None = None if store is None else store.fetch_keys()
        self._asking: asyncio.Task[HttpResponse] | None = None
        self._refused = metrics.counter(
            "keys_refused", "Answers of the gateway that are not the key of the slot: its clock or its grid differs."
        )

    def answer(self) -> Answer:
        """What a client is told."""
        if self._kept is not None and self._kept[0] == self._epochs.slot(self._clock.now()):
            return _handed_out(self._kept[1])
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._ask())
        return asyncio.shield(self._asking)

    async def _ask(self) -> HttpResponse:
        try:
            slot = self._epochs.slot(self._clock.now())
            told = await self._gateway.get(KEYS_PATH)
            if told.status != 200:
                return told
            if _is_key_of(slot, told.body):
                if self._store is not None:
                    await asyncio.to_thread(self._store.keep_fetch_keys, slot, told.body)
                self._kept = (slot, told.body)
            elif self._kept is None or told.body != self._kept[1]:
                self._refused.add()
                return plain(502)
            return _handed_out(told.body)
        finally:
            self._asking = None


def _is_key_of(slot: int, data: bytes) -> bool:
    """Whether this is one key, and its id that of the slot after this one. Of several, machines would take different
    ones, and be told apart by that.
    """
    try:
        found = decode_key_configurations(data)
    except MalformedMessageError:
        return False
    return len(found) == 1 and found[0].key_id == (slot + 1) % 256 and encode_key_configurations(found) == data


def _handed_out(data: bytes) -> HttpResponse:
    return HttpResponse(200, data, KEYS_MEDIA_TYPE)
