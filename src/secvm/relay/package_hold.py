"""What becomes of a package's capsule that was let in: kept on our own disk until the epoch's deposit (§19.6).

It is answered after our commit. A capsule that comes again while the first is under way waits for the same commit. The
number of capsules that wait is limited, and who is one too many is asked to come later.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from secvm.crypto.sealing.capsules import packed_size
from secvm.relay.admission import EpochTable, Verdict, digest_of
from secvm.relay.gateway import Answer
from secvm.relay.refusals import over_quota, stale, try_later
from secvm.relay.store import Arrival, RoundStore
from secvm.runtime.disk.group_commit import GroupCommit
from secvm.runtime.http.server import HttpResponse

#: A durable commit takes about as long.
_COMMIT_TICK_MS = 2.0
#: Capsules of one commit.
_LARGEST_GROUP = 2000


def accepted() -> HttpResponse:
    """It will not be lost."""
    return HttpResponse(202)


@dataclass(frozen=True, slots=True, repr=False)
class _Held:
    """A capsule that waits for its commit."""

    table: EpochTable
    client: bytes
    digest: bytes
    capsule: bytes


class Holding:
    """Keeps capsules until their epoch's deposit."""

    def __init__(self, store: RoundStore, *, waiting: int, retry_after_s: int) -> None:
        self._store = store
        self._retry_after_s = retry_after_s
        self._under_way: dict[tuple[int, bytes], asyncio.Future[HttpResponse]] = {}
        self._group: GroupCommit[_Held, HttpResponse] = GroupCommit(
            self._keep,
            _COMMIT_TICK_MS,
            largest=_LARGEST_GROUP,
            waiting=waiting,
            failed=lambda _error: try_later(retry_after_s),
            settled=self._settled,
        )

    def take(self, table: EpochTable, client: bytes, capsule: bytes) -> Answer:
        """Let it in, and answer."""
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

    def _keep(self, held: list[_Held]) -> list[HttpResponse]:
        self._store.append([Arrival(one.table.epoch, one.table.key, one.client, one.capsule) for one in held])
        return [accepted() for _ in held]

    def _settled(self, group: list[_Held], durable: bool) -> None:
        for one in group:
            self._under_way.pop((one.table.epoch, one.digest), None)
            if not durable:
                one.table.release(one.client, one.digest, packed_size(one.capsule))

    async def flush(self) -> None:
        """Return when everything taken before this call has its answer, without waiting for company."""
        await self._group.flush()

    async def close(self) -> None:
        """Nothing more will come."""
        await self._group.close()
