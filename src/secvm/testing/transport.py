"""A network in memory that loses what its script says, for tests of devices.

Public files are a dictionary; capsules that arrive are kept with the relay they took and the time. What a script says
is used up one capsule after the other; after its end everything arrives.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from secvm.participant.transport import Deposits, Fetched, Issued, RelayTerms, SendResult
from secvm.protocol.experiment_document import ExperimentDocument, Relay


class Fate(enum.Enum):
    """What becomes of a capsule."""

    #: It arrives, and is acknowledged.
    ARRIVES = "arrives"
    #: It never arrives.
    LOST = "lost"
    #: It arrives, but the device never hears of it.
    ANSWER_LOST = "answer lost"
    #: The server asks to wait.
    BUSY = "busy"
    #: The server will never take it.
    REFUSED = "refused"
    #: Nothing ever comes back.
    HANGS = "hangs"


@dataclass(frozen=True, slots=True)
class Seen:
    """A capsule on the wire."""

    capsule: bytes = field(repr=False)
    relay: Relay | None
    at: int
    fate: Fate


class MemoryTransport:
    """The network as a dictionary and a list."""

    def __init__(self, now: Callable[[], int], script: Iterable[Fate] = ()) -> None:
        self.now = now
        self.script = iter(script)
        #: Public files by path.
        self.files: dict[str, bytes] = {}
        #: Paths that were asked for, and when.
        self.fetches: list[tuple[str, int]] = []
        #: The same of those that were asked for over a path of their own.
        self.fresh_fetches: list[tuple[str, int]] = []
        #: Everything that left a device, in order.
        self.seen: list[Seen] = []
        #: How far the server's clock is ahead; None: it tells no time.
        self.server_ahead_ms: int | None = 0
        #: What the relay says that it does.
        self.terms: RelayTerms | None = RelayTerms("round", 10**6, Deposits(0, 2**60))
        #: Who issues tokens; nobody answers without.
        self.issuer: Callable[[bytes], Issued] = lambda _request: Issued()

    @property
    def arrived(self) -> set[bytes]:
        """Distinct capsules that arrived: what a coordinator would count."""
        arriving = (Fate.ARRIVES, Fate.ANSWER_LOST)
        return {one.capsule for one in self.seen if one.fate in arriving}

    def check(self, document: ExperimentDocument) -> None:
        """Good enough for everything: nothing leaves the process."""

    async def send(self, capsule: bytes, relay: Relay | None) -> SendResult:
        fate = next(self.script, Fate.ARRIVES)
        self.seen.append(Seen(capsule, relay, self.now(), fate))
        if fate is Fate.HANGS:
            await asyncio.get_running_loop().create_future()
        return {
            Fate.ARRIVES: SendResult(acknowledged=True),
            Fate.BUSY: SendResult(acknowledged=False, retry_after_ms=2000),
            Fate.REFUSED: SendResult(acknowledged=False, final=True),
        }.get(fate, SendResult(acknowledged=False))

    async def fetch(self, path: str, *, most: int = 2**30, fresh: bool = False) -> Fetched | None:
        self.fetches.append((path, self.now()))
        if fresh:
            self.fresh_fetches.append((path, self.now()))
        content = self.files.get(path)
        if content is None or len(content) > most:
            return None
        ahead = self.server_ahead_ms
        return Fetched(content, None if ahead is None else self.now() + ahead)

    async def ask_issuer(self, issuer: str, request: bytes) -> Issued:  # noqa: ARG002  (there is one)
        return self.issuer(request)

    async def relay_terms(self, relay: Relay) -> RelayTerms | None:  # noqa: ARG002  (there is one)
        return self.terms

    async def close(self) -> None:
        """Nothing to let go of."""
