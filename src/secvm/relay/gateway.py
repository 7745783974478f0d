"""The way to the gateway: media type and content go out, status, media type and content come back, and nothing else.

All requests share one pool of connections, whoever's they are: a connection says nothing about a client. No header
field is made from anything a client sent; what goes out is host, content-type, content-length, and the relay's own
token. What fails on this hop is an answer too: 502 and 504, as HTTP has them.

``FetchKeys`` hands out the gateway's key for fetches, at ``GET R/keys``: one a slot, the same for everybody
(docs/protocol.md §19.6). A gateway that could hand out a key of its own to each device would know every fetch of that
device again by the key it is sealed to. So the relay asks once a slot, and keeps the first answer that is this slot's
key, by its id, until the slot ends; nothing else is ever asked for or handed out in that time. Where the relay holds
packages, or has a role in rounds of two relays, the answer is on the disk before anybody sees it, so that a restart
gives the gateway no second try. A relay that has no disk forgets it with its process.

Clocks differ, and a coordinator may be busy when a slot begins: until it has the new key, the one of the slot before,
which it still opens, is handed out.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Self

from secvm.crypto.sealing.oblivious import (
    KEYS_MEDIA_TYPE,
    REQUEST_MEDIA_TYPE,
    decode_key_configurations,
    encode_key_configurations,
)
from secvm.errors import MalformedMessageError, UnreachableError
from secvm.relay.admission import Epochs
from secvm.relay.database import RelayDatabase
from secvm.relay.refusals import plain
from secvm.runtime.clock import Clock
from secvm.runtime.http.client import HttpClient, SlowAnswerError
from secvm.runtime.http.server import HttpResponse
from secvm.runtime.metrics import Metrics

FETCH_PATH, KEYS_PATH, DEPOSIT_PATH = "/v1/fetch", "/v1/keys", "/v1/deposit"
_MOST_CONNECTIONS = 256
#: Longer media types are nobody's.
_MOST_MEDIA_TYPE = 100

Answer = HttpResponse | Awaitable[HttpResponse]


class GatewayClient:
    """Speaks to one gateway. To be used as ``async with``."""

    def __init__(
        self, url: str, *, token: str | None = None, timeout_s: float = 30.0, answer_bytes: int = 2**23
    ) -> None:
        self._url = url
        self._token = token
        self._answer_bytes = answer_bytes
        self._client = HttpClient(answer_s=timeout_s, connections=_MOST_CONNECTIONS)

    def __repr__(self) -> str:
        return "GatewayClient(...)"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    async def post(self, path: str, body: bytes, media_type: str, *, timeout_s: float | None = None) -> HttpResponse:
        """Hand something on; the relay says by its token who itself is, and not more."""
        headers = {"content-type": media_type, "authorization": f"Bearer {self._token}"}
        return await self.ask("POST", path, body, headers, timeout_s)

    async def get(self, path: str) -> HttpResponse:
        """What is public."""
        return await self.ask("GET", path, None, {})

    async def ask(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], timeout_s: float | None = None
    ) -> HttpResponse:
        """One request with these header fields and no others; what fails on the way is an answer too."""
        most = self._answer_bytes
        try:
            answer = await self._client.ask(
                self._url + path, most=most, method=method, headers=headers, body=body, answer_s=timeout_s
            )
        except SlowAnswerError:
            return plain(504)
        except UnreachableError:
            return plain(502)
        if len(answer.content) > most:
            return plain(502)
        return HttpResponse(answer.status, answer.content, answer.headers.get("Content-Type", "")[:_MOST_MEDIA_TYPE])


class Turnstile:
    """So many fetches at a time; of one client, never more than are left for all others."""

    def __init__(self, gateway: GatewayClient, limit: int, later: Callable[[], HttpResponse]) -> None:
        self._gateway = gateway
        self._left = limit
        self._later = later
        #: Under way for each client, by its name.
        self._clients: Counter[bytes] = Counter()

    def fetch(self, client: bytes, capsule: bytes) -> Answer:
        """Hand a client's fetch on and bring the answer back, or say at once that there is no room."""
        if self._clients[client] >= self._left:
            return self._later()
        # Taken here and not in the coroutine: many may be made before the first runs.
        self._left -= 1
        self._clients[client] += 1
        task = asyncio.get_running_loop().create_task(self._gateway.post(FETCH_PATH, capsule, REQUEST_MEDIA_TYPE))
        task.add_done_callback(lambda _task: self._returned(client))
        return task

    def _returned(self, client: bytes) -> None:
        self._left += 1
        # This subtraction also drops who has none left.
        self._clients -= Counter((client,))


class FetchKeys:
    """Hands out the key of the slot."""

    def __init__(
        self, gateway: GatewayClient, epochs: Epochs, clock: Clock, metrics: Metrics, store: RelayDatabase | None = None
    ) -> None:
        self._gateway = gateway
        self._epochs = epochs
        self._clock = clock
        self._store = store
        #: The slot that was asked in, and the answer.
        self._kept: tuple[int, bytes] | None = None
        if store is not None:
            self._kept = next(iter(store.rows("SELECT slot, keys FROM fetch_keys")), None)
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
            answer = await self._gateway.get(KEYS_PATH)
            if answer.status != 200:
                return answer
            if _is_key_of(slot, answer.body):
                if self._store is not None:
                    await asyncio.to_thread(_keep, self._store, slot, answer.body)
                self._kept = (slot, answer.body)
            elif self._kept is None or answer.body != self._kept[1]:
                self._refused.add()
                return plain(502)
            return _handed_out(answer.body)
        finally:
            self._asking = None


def _keep(store: RelayDatabase, slot: int, keys: bytes) -> None:
    with store.transaction() as db:
        db.execute("DELETE FROM fetch_keys")
        db.execute("INSERT INTO fetch_keys VALUES (?, ?)", (slot, keys))


def _is_key_of(slot: int, data: bytes) -> bool:
    """Whether this is one key, and its id that of the slot after this one. Of several, machines would take different
    ones, and be told apart by that.
    """
    try:
        configurations = decode_key_configurations(data)
    except MalformedMessageError:
        return False
    if len(configurations) != 1 or encode_key_configurations(configurations) != data:
        return False
    return configurations[0].key_id == (slot + 1) % 256


def _handed_out(data: bytes) -> HttpResponse:
    return HttpResponse(200, data, KEYS_MEDIA_TYPE)
