"""Issuing anonymous tokens: ``POST R/tokens`` (docs/protocol.md §24).

The relay knows who asks, so it can count; the request is blinded, so it does not learn which tokens it gives, nor ever
where one ends up. A client has at most so many tokens of an epoch as the settings say. The same request again is free:
it gives the same tokens, and a device that lost the answer asks like that.

 1. The key that the request names is that of the epoch of now: a client is counted once for each key, because a table
    lasts as long as its epoch, and names of two epochs have nothing in common.
 2. What was issued is on the disk before it is answered: a relay that comes back from a crash still knows it.
 3. Every request counts as a fetch of its client: answering is work, also for the tenth time.
"""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Awaitable

from secvm.crypto.kem import RandomBytes
from secvm.crypto.tokens import ANSWER_MEDIA_TYPE, PUBLIC_KEY_BYTES, TokenKey, issue, tokens_wanted
from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.relay.admission import NAME_BYTES, Table, Verdict
from secvm.relay.refusals import garbage, over_quota, stale, try_later
from secvm.relay.store import RoundStore
from secvm.runtime.http_server import Response
from secvm.runtime.metrics import Metrics

#: Requests that are worked on or wait for it: each is some milliseconds of a core, or a second without compiled code.
_MOST_AT_ONCE = 64


class Issuing:
    """Gives tokens to clients."""

    def __init__(
        self, seed: bytes, *, quota: int, store: RoundStore, dice: RandomBytes, metrics: Metrics, retry_after_s: int
    ) -> None:
        self._seed = seed
        self._quota = quota
        self._store = store
        self._dice = dice
        self._retry_after_s = retry_after_s
        #: The keys of the epoch of now and of the next.
        self._keys: dict[int, TokenKey] = {}
        self._at_once = 0
        self._issued = metrics.counter("tokens_issued", "Tokens that were issued, each once.")

    def __repr__(self) -> str:
        return "Issuing(...)"

    @property
    def body_bytes(self) -> int:
        """The longest request that can be granted."""
        return PUBLIC_KEY_BYTES * (1 + self._quota)

    def take(self, table: Table, client: bytes, request: bytes) -> Response | Awaitable[Response]:
        """Answer a request for tokens, or refuse it."""
        try:
            count = tokens_wanted(request)
        except MalformedMessageError:
            return garbage()
        key = self._key(table.epoch)
        if request[:PUBLIC_KEY_BYTES] != key.public:
            # Of the next epoch: its clock is ahead of ours, or our deposit is not yet on its way.
            ahead = request[:PUBLIC_KEY_BYTES] == self._key(table.epoch + 1).public
            return try_later(self._retry_after_s) if ahead else stale()
        verdict = table.fetch(client)
        if verdict is Verdict.OVER_QUOTA:
            return over_quota()
        if verdict is Verdict.FULL or self._at_once >= _MOST_AT_ONCE:
            return try_later(self._retry_after_s)
        digest = hashlib.sha256(request).digest()[:NAME_BYTES]
        match table.issue(client, digest, count, quota=self._quota):
            case Verdict.OVER_QUOTA:
                return over_quota()
            case Verdict.FULL:
                return try_later(self._retry_after_s)
            case Verdict.NEW:
                self._issued.add(count)
        self._at_once += 1
        return self._answer(table, client, digest, count, request)

    async def _answer(self, table: Table, client: bytes, digest: bytes, count: int, request: bytes) -> Response:
        key = self._key(table.epoch)

        def work() -> bytes:
            # Also for one that was issued before: its first commit may still be under way.
            self._store.note_issued(table.epoch, table.key, client, digest, count)
            return issue(key, request, self._dice)

        try:
            return Response(200, await asyncio.to_thread(work), ANSWER_MEDIA_TYPE)
        except MalformedMessageError:
            # It stays counted: whoever sends no elements gets no tokens for them.
            return garbage()
        except LocalProtocolError:
            return stale()
        except sqlite3.Error:
            # A full disk, most likely. The same request again is free.
            return try_later(self._retry_after_s)
        finally:
            self._at_once -= 1

    def _key(self, epoch: int) -> TokenKey:
        found = self._keys.get(epoch)
        if found is None:
            self._keys = {number: key for number, key in self._keys.items() if number >= epoch - 1}
            found = self._keys[epoch] = TokenKey.of_epoch(self._seed, epoch)
        return found
