"""A network in memory that loses what its script says, for tests of devices.

Public files are a dictionary; capsules that arrive are kept with the relay they took and the time. What a script says
is used up one capsule after the other; after its end everything arrives.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from secvm.participant.sending.transport import Fetched, SendReply
from secvm.protocol.documents.experiment import ExperimentDocument, Relay
from secvm.protocol.relays.news import make_news, read_news_path
from secvm.protocol.relays.statements import RelayedTerms


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
    #: Nobody is there to take it.
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class SentCapsule:
    """A capsule on the wire."""

    capsule: bytes = field(repr=False)
    relay: Relay | None
    at: int
    fate: Fate


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A device's request on the wire."""

    body: bytes = field(repr=False)
    label: bytes
    relay: Relay
    at: int
    fate: Fate


def found_in(files: Mapping[str, bytes], path: str) -> bytes | None:
    """What a coordinator with these files answers: a file, or news made of them."""
    asked = read_news_path(path)
    if asked is None or path in files:
        return files.get(path)
    made = make_news(files.get, *asked)
    return None if made is None else made.to_bytes()


def _reply(fate: Fate, content: bytes | None) -> SendReply:
    said = {
        Fate.ARRIVES: SendReply(content),
        Fate.BUSY: SendReply(retry_after_ms=2000),
        Fate.REFUSED: SendReply(final=True),
        Fate.UNREACHABLE: SendReply(answered=False),
    }
    return said.get(fate, SendReply())


class MemoryTransport:
    """The network as a dictionary and a list."""

    def __init__(self, now: Callable[[], int], script: Iterable[Fate] = ()) -> None:
        self.now = now
        self.refused_with: int | None = None
        self.shut: str | None = None
        self.script = iter(script)
        #: Public files by path.
        self.files: dict[str, bytes] = {}
        #: Paths that were asked for, and when.
        self.fetches: list[tuple[str, int]] = []
        #: To which keys of the log each of ``fetches`` was to be sealed.
        self.sealed_to: list[bytes | None] = []
        #: Everything that left a device, in order.
        self.seen: list[SentCapsule] = []
        #: How far the server's clock is ahead; None: it tells no time.
        self.server_ahead_ms: int | None = 0
        #: Requests to the entry relay, in order; who gives receipts for them; and the terms of both relays by URL.
        self.requests: list[SentRequest] = []
        self.entry: Callable[[bytes, bytes], bytes | None] = lambda _label, _body: None
        self.both_terms: dict[str, RelayedTerms] = {}
        #: Who gives a round's token; nobody answers without.
        self.giver: Callable[[bytes, bytes], SendReply] = lambda _label, _request: SendReply()

    @property
    def arrived(self) -> set[bytes]:
        """Distinct capsules that arrived: what a coordinator would count."""
        arriving = (Fate.ARRIVES, Fate.ANSWER_LOST)
        return {sent.capsule for sent in self.seen if sent.fate in arriving}

    def check(self, document: ExperimentDocument) -> None:
        """Good enough for everything: nothing leaves the process."""

    async def send(self, capsule: bytes, relay: Relay | None, *, label: bytes = b"") -> SendReply:  # noqa: ARG002
        fate = next(self.script, Fate.ARRIVES)
        self.seen.append(SentCapsule(capsule, relay, self.now(), fate))
        if fate is Fate.HANGS:
            await asyncio.get_running_loop().create_future()
        return _reply(fate, b"")

    async def fetch(self, path: str, *, most: int = 2**30, gateway_keys: bytes | None = None) -> Fetched | None:
        self.fetches.append((path, self.now()))
        self.sealed_to.append(gateway_keys)
        content = found_in(self.files, path)
        if content is None or len(content) > most:
            return None
        ahead = self.server_ahead_ms
        return Fetched(content, None if ahead is None else self.now() + ahead)

    async def ask_token(self, request: bytes, label: bytes, relay: Relay) -> SendReply:  # noqa: ARG002  (there is one)
        return self.giver(label, request)

    async def submit(self, body: bytes, label: bytes, relay: Relay, *, anonymous: bool = False) -> SendReply:  # noqa: ARG002  (nobody has a name here)
        fate = next(self.script, Fate.ARRIVES)
        self.requests.append(SentRequest(body, label, relay, self.now(), fate))
        if fate is Fate.HANGS:
            await asyncio.get_running_loop().create_future()
        receipt = self.entry(label, body) if fate in (Fate.ARRIVES, Fate.ANSWER_LOST) else None
        return _reply(fate, receipt)

    async def relayed_terms(self, relay: Relay) -> RelayedTerms | None:
        return self.both_terms.get(relay.url)

    async def close(self) -> None:
        """Nothing to let go of."""
