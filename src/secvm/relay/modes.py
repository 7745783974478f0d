"""The two modes: what becomes of a capsule that was let in (docs/protocol.md §19.6).

*Forward*: on to the gateway at once, and its sealed answer back; for any client of Oblivious HTTP.
*Round*: kept on our own disk until the epoch's deposit; answered after our commit.

A capsule that comes again while the first is under way waits for the same commit. In every mode the number of capsules
that wait is limited, and who is one too many is asked to come later.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from secvm.crypto.capsules import packed_size
from secvm.crypto.oblivious import REQUEST_MEDIA_TYPE
from secvm.relay.admission import Table, Verdict, digest_of
from secvm.relay.forwarding import GatewayClient
from secvm.relay.refusals import over_quota, stale, try_later
from secvm.relay.store import Arrival, RoundStore
from secvm.runtime.group_commit import GroupCommit
from secvm.runtime.http_server import Response

GATEWAY_PATH, FETCH_PATH, KEYS_PATH = "/v1/gateway", "/v1/fetch", "/v1/keys"
DEPOSIT_PATH = "/v1/deposit"
#: A durable commit takes about as long.
_COMMIT_TICK_MS = 2.0
#: Capsules of one commit.
_LARGEST_GROUP = 2000

Answer = Response | Awaitable[Response]


def accepted() -> Response:
    """It will not be lost."""
    return Response(202)


class Mode(Protocol):
    """What becomes of a capsule."""

    def take(self, table: Table, client: bytes, capsule: bytes) -> Answer:
        """Let it in, and answer."""
        ...

    async def flush(self) -> None:
        """Return when everything taken before this call has its answer, without waiting for company."""
        ...

    async def close(self) -> None:
        """Nothing more will come."""
        ...


class Turnstile:
    """So many requests to the gateway at a time; of one client, never more than are left for all others."""

    def __init__(self, gateway: GatewayClient, limit: int, later: Callable[[], Response]) -> None:
        self._gateway = gateway
        self._left = limit
        self._later = later
        #: Under way for each client, by its name.
        self._clients: Counter[bytes] = Counter()

    def post(self, client: bytes, path: str, capsule: bytes) -> Answer:
        """Hand a client's capsule on and bring the answer back, or say at once that there is no room."""
        if self._clients[client] >= self._left:
            return self._later()
        # Taken here and not in the coroutine: many may be made before the first runs.
        self._left -= 1
        self._clients[client] += 1
        task = asyncio.get_running_loop().create_task(self._gateway.post(path, capsule, REQUEST_MEDIA_TYPE))
        task.add_done_callback(lambda _task: self._returned(client))
        return task

    def _returned(self, client: bytes) -> None:
        self._left += 1
        # This subtraction also drops who has none left.
        self._clients -= Counter((client,))


class Forward:
    """At once."""

    def __init__(self, turnstile: Turnstile, *, retry_after_s: int) -> None:
        self._turnstile = turnstile
        self._retry_after_s = retry_after_s

    def take(self, table: Table, client: bytes, capsule: bytes) -> Answer:
        match table.admit(client, digest_of(capsule)):
            case Verdict.OVER_QUOTA:
                return over_quota()
            case Verdict.FULL:
                return try_later(self._retry_after_s)
        # Counted also when the hop fails: the same bytes again are free.
        return self._turnstile.post(client, GATEWAY_PATH, capsule)

    async def flush(self) -> None:
        """Answers that are under way are the server's to wait for."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True, repr=False)
class _Held:
    """A capsule that waits for its commit."""

    table: Table
    client: bytes
    digest: bytes
    capsule: bytes


class Round:
    """Kept until the epoch's deposit."""

    def __init__(self, store: RoundStore, *, waiting: int, retry_after_s: int) -> None:
        self._store = store
        self._retry_after_s = retry_after_s
        self._under_way: dict[tuple[int, bytes], asyncio.Future[Response]] = {}
        self._group: GroupCommit[_Held, Response] = GroupCommit(
            self._keep,
            _COMMIT_TICK_MS,
            largest=_LARGEST_GROUP,
            waiting=waiting,
            failed=lambda _error: try_later(retry_after_s),
            settled=self._settled,
        )

    def take(self, table: Table, client: bytes, capsule: bytes) -> Answer:
        # The first byte is the id of the gateway's key, which is the epoch's number modulo 256 (docs/protocol.md
        # §19.1). In another epoch's deposit nobody could open it: accepted, it would be lost.
        ahead = (capsule[0] - table.epoch) % 256
        if ahead:
            # Of the next epoch: its clock is ahead of ours, or ours was set back.
            return try_later(self._retry_after_s) if ahead == 1 else stale()
        digest = digest_of(capsule)
        known = self._under_way.get((table.epoch, digest))
        if known is not None:
            # One who hangs up must not take the other's answer away.
            return asyncio.shield(known)
        if self._group.full:
            return try_later(self._retry_after_s)
        match table.admit(client, digest, packed_size(capsule)):
            case Verdict.OVER_QUOTA:
                return over_quota()
            case Verdict.FULL:
                return try_later(self._retry_after_s)
            case Verdict.AGAIN:
                return accepted()
        future = self._group.add(_Held(table, client, digest, capsule))
        self._under_way[table.epoch, digest] = future
        return asyncio.shield(future)

    def _keep(self, held: list[_Held]) -> list[Response]:
        self._store.append([Arrival(one.table.epoch, one.table.key, one.client, one.capsule) for one in held])
        return [accepted() for _ in held]

    def _settled(self, group: list[_Held], durable: bool) -> None:
        for one in group:
            self._under_way.pop((one.table.epoch, one.digest), None)
            if not durable:
                one.table.release(one.client, one.digest, packed_size(one.capsule))

    async def flush(self) -> None:
        await self._group.flush()

    async def close(self) -> None:
        await self._group.close()
