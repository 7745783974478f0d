"""What all experiments of a device share: its state, its way out, its dice, what it has checked, and its traffic.

A person sets a limit to the bytes that their device sends and fetches in a day. A round that has begun is finished:
exactly B packages, or the number would say something. So the limit is asked before a round, not during one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from secvm.crypto.sealing.layers import BulkSealer
from secvm.errors import OverLimitError
from secvm.participant.consent.policies import Consent
from secvm.participant.dice import RandomBytes
from secvm.participant.sending.transport import MOST_DOCUMENT_BYTES, OVERHEAD_BYTES, Fetched, Transport
from secvm.participant.storage.state import DeviceState
from secvm.participant.trust.model_files import ModelShelf
from secvm.participant.trust.shared_checks import SharedChecks
from secvm.participant.trust.trust_policy import TrustPolicy
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import RoundManifest
from secvm.protocol.plain.session_memory import Seal

_DAY_MS = 86_400_000
#: So many fetches at once for whoever has to catch up.
_AT_ONCE = 4
Name = TypeVar("Name")
Content = TypeVar("Content")


class Traffic:
    """Bytes by day, the machine's UTC days."""

    def __init__(self, state: DeviceState, *, daily_bytes: int) -> None:
        self._state = state
        self._limit = daily_bytes
        #: Not written yet.
        self._fresh: dict[int, int] = {}

    def add(self, count: int, now: int) -> None:
        """So many bytes went or came."""
        day = now // _DAY_MS
        self._fresh[day] = self._fresh.get(day, 0) + count

    def allows(self, count: int, now: int) -> bool:
        """Whether so many more stay within today's limit."""
        day = now // _DAY_MS
        return self._state.traffic(day) + self._fresh.get(day, 0) + count <= self._limit

    def check(self, count: int, now: int) -> None:
        """Raise ``OverLimitError`` where so many more would go beyond today's limit."""
        if not self.allows(count, now):
            raise OverLimitError

    @property
    def unwritten(self) -> bool:
        """Whether ``write`` has something to do."""
        return bool(self._fresh)

    def write(self) -> None:
        """Write what was counted, inside a transaction of the state."""
        for day, count in self._fresh.items():
            self._state.put_traffic(day, count)
        self._fresh.clear()


#: A clock's ``now``.
Now = Callable[[], int]


@dataclass(frozen=True, slots=True, repr=False)
class Surroundings:
    """What all experiments of a device share."""

    state: DeviceState
    transport: Transport
    shelf: ModelShelf
    checks: SharedChecks
    traffic: Traffic
    policy: TrustPolicy
    consent: Consent
    #: The system's dice, for times, orders and phases.
    words: Iterator[int]
    seal: Seal
    #: The same dice, for secrets.
    random_bytes: RandomBytes
    #: Seals all packages of a round with two relays.
    sealer: BulkSealer = field(default_factory=BulkSealer)
    #: The newest manifest that is believed of each experiment with a log.
    believed: dict[str, RoundManifest] = field(default_factory=dict)
    #: Within one experiment of two relays: the fetch keys of the newest manifest believed, None before the first.
    fetch_keys: Callable[[], bytes | None] | None = None

    def gateway_keys(self, now: int) -> bytes | None:
        """The keys that the log names for now, to which alone fetches are sealed; None where it names none: a first
        round is not believed yet, or, in version 1, no round is under way.

        Everybody sees the same log, so nobody has keys of their own.
        """
        if self.fetch_keys is not None:
            return self.fetch_keys()
        running = [manifest for manifest in self.believed.values() if now < manifest.accept_until]
        return min(running, key=lambda manifest: manifest.opens_at).gateway_keys if running else None

    async def fetch(self, path: str, now: Now, *, most: int = MOST_DOCUMENT_BYTES) -> Fetched | None:
        """A public file, counted in the traffic of the day, and the server's clock held to this one."""
        sent = now()
        keys = self.gateway_keys(sent)
        fetched = await self.transport.fetch(path, most=most, gateway_keys=keys)
        self.traffic.add(OVERHEAD_BYTES if fetched is None else len(fetched.content) + OVERHEAD_BYTES, now())
        return None if fetched is None else fetched.held_to(sent, now())

    async def content(self, path: str, now: Now, *, most: int = MOST_DOCUMENT_BYTES) -> bytes | None:
        """The same file, without the clock."""
        fetched = await self.fetch(path, now, most=most)
        return None if fetched is None else fetched.content

    async def fetch_missing(
        self,
        kept: dict[Name, Content],
        wanted: Iterable[Name],
        fetch: Callable[[Name], Awaitable[Content | None]],
        *,
        most: int,
        now: Now,
        unasked: int = 1,
    ) -> bool:
        """Fetch those wanted that are not kept yet, of at most so many bytes each, a few at once; False: one of them
        could not be had. So few as ``unasked`` are fetched whatever the limit of traffic is.

        Raises ``OverLimitError`` where there is more to fetch than may be fetched today.
        """
        missing = [name for name in wanted if name not in kept]
        for start in range(0, len(missing), _AT_ONCE):
            some = missing[start : start + _AT_ONCE]
            if len(missing) > unasked:
                self.traffic.check(len(some) * most, now())
            for name, content in zip(some, await asyncio.gather(*map(fetch, some)), strict=True):
                if content is None:
                    return False
                kept[name] = content
        return True

    async def fetch_tally(self, digest: str, document: ExperimentDocument, now: Now) -> bytes | None:
        """A tally of this digest, counted in the traffic of the day; None where it cannot be had now."""
        keys = self.gateway_keys(now())
        data = await self.checks.fetch_tally(digest, self.transport, document=document, gateway_keys=keys)
        self.traffic.add(OVERHEAD_BYTES + (0 if data is None else len(data)), now())
        return data
