"""Epochs, and what a client may still do in the one of now.

A relay's epoch e ends at its deposit (docs/protocol.md §19.1): slot e begins at origin + e · period, and is deposited
``deposit_after`` later. What arrives after a deposit belongs to the next epoch: there is no gap, and nothing is ever
added to an epoch that was handed on.

1. An address or a credential (``identity``) is turned into a name at once: a keyed hash, with a key that is drawn for
   the epoch and destroyed with it. Names of two epochs have nothing in common, and no address is kept anywhere. After
   the client's own part, a name has a part for its network, where the client has one.
2. Each client may send so many *distinct* capsules in an epoch, and all clients of one network together so many more. A
   capsule that is already here is somebody's retry: it is free, and adds nothing. So a table has two things side by
   side, how many capsules each client sent and which capsules there are, and nothing that says whose is which.
3. When half of an epoch's room is taken, quotas shrink in proportion to the room that is left: a client that has sent
   little still finds some, however much a few others have sent.
4. Fetches have limits of their own. They are counted in memory only: a restart begins again.
5. Tables have a size. When one is full, newcomers are asked to come later; who is in it is not affected.
"""

from __future__ import annotations

import enum
import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from secvm.crypto.sealing.kem import RandomBytes
from secvm.relay.settings import GridPart
from secvm.runtime.http.messages import plain_address
from secvm.runtime.http.server import HttpRequest

KEY_BYTES = 32
#: Enough that no two of an epoch's clients share a name, or two capsules a digest.
NAME_BYTES = 16


@dataclass(frozen=True, slots=True)
class Epochs:
    """The grid of time that numbers epochs: its origin, its period, and when an epoch is deposited; milliseconds."""

    origin: int
    period: int
    deposit_after: int

    @classmethod
    def of(cls, grid: GridPart) -> Epochs:
        """As the settings say."""
        period = max(1, round(grid.period_s * 1000))
        after = period if grid.deposit_after_s is None else min(period, max(1, round(grid.deposit_after_s * 1000)))
        return cls(grid.origin_ms, period, after)

    def at(self, now: int) -> int:
        """The epoch of what arrives now: the one that is deposited next. Before the grid begins it is epoch 0."""
        return max(0, (now - self.origin - self.deposit_after) // self.period + 1)

    def opens_at(self, epoch: int) -> int:
        """When its slot begins, and the windows of its rounds open: what the relay's count calls it by."""
        return self.origin + epoch * self.period

    def slot(self, now: int) -> int:
        """The slot that this moment lies in; before the grid begins it is slot -1."""
        return max(-1, (now - self.origin) // self.period)

    def deposit_at(self, epoch: int) -> int:
        """When it is deposited: the first moment that does not belong to it."""
        return self.opens_at(epoch) + self.deposit_after

    def hopeless_at(self, epoch: int) -> int:
        """When no coordinator takes it any more, by a wide margin: a slot's rounds end within the slot."""
        return self.origin + (epoch + 3) * self.period


class Verdict(enum.Enum):
    """What becomes of a request."""

    NEW = "new"
    #: It has been here before.
    AGAIN = "again"
    OVER_QUOTA = "over-quota"
    #: The table is full.
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Allowance:
    """What clients may do in an epoch, and how many there may be."""

    quota: int
    fetches: int
    clients: int
    capsules: int
    #: The epoch's room, for all capsules as they are packed: more than the coordinator takes at once would be lost.
    packed_bytes: int = 2**62
    #: Distinct capsules, and fetches, of one network's clients together.
    network_quota: int = 2**62


def digest_of(capsule: bytes) -> bytes:
    """What a capsule is known by, in an epoch's table."""
    return hashlib.sha256(capsule).digest()[:NAME_BYTES]


@dataclass(frozen=True, slots=True, repr=False)
class Begun:
    """What is known of an epoch: its key, what each client sent, and which capsules there are."""

    #: Turns clients into names.
    key: bytes
    sent: Mapping[bytes, int] = field(default_factory=dict)
    digests: Collection[bytes] = ()
    packed_bytes: int = 0


class EpochTable:
    """The clients of one epoch."""

    def __init__(self, epoch: int, allowance: Allowance, begun: Begun) -> None:
        """``begun``: what is known already, after a restart."""
        self.epoch = epoch
        self.key = begun.key
        self._allowance = allowance
        self._sent = dict(begun.sent)
        self._fetched: dict[bytes, int] = {}
        #: The same by network.
        self._networks_sent: Counter[bytes] = Counter()
        self._networks_fetched: Counter[bytes] = Counter()
        for client, capsules in self._sent.items():
            self._networks_sent[_network_of(client)] += capsules
        self._digests = set(begun.digests)
        self._packed_bytes = begun.packed_bytes

    def __repr__(self) -> str:
        return f"Table(epoch={self.epoch}, ...)"

    @property
    def clients(self) -> int:
        """How many have sent a capsule."""
        return len(self._sent)

    @property
    def capsules(self) -> int:
        """How many distinct ones there are."""
        return len(self._digests)

    def name(self, identity: Identity) -> bytes:
        """What this client is called in this epoch."""
        parts = (identity.client, identity.network) if identity.network else (identity.client,)
        return b"".join(hashlib.blake2b(part, key=self.key, digest_size=NAME_BYTES).digest() for part in parts)

    def admit(self, client: bytes, digest: bytes, packed_bytes: int = 0) -> Verdict:
        """A capsule of this client, and what it takes packed. When it is NEW, it is counted from now on."""
        if digest in self._digests:
            return Verdict.AGAIN
        sent, network = self._sent.get(client, 0), _network_of(client)
        counted = [(sent, self._allowance.quota)]
        if network:
            counted.append((self._networks_sent[network], self._allowance.network_quota))
        if any(count >= quota for count, quota in counted):
            return Verdict.OVER_QUOTA
        newcomer = sent == 0 and len(self._sent) >= self._allowance.clients
        too_much = self._packed_bytes + packed_bytes > self._allowance.packed_bytes
        too_much = too_much or any(count >= self._share(quota) for count, quota in counted)
        if newcomer or too_much or len(self._digests) >= self._allowance.capsules:
            return Verdict.FULL
        self._sent[client] = sent + 1
        self._networks_sent[network] += 1
        self._digests.add(digest)
        self._packed_bytes += packed_bytes
        return Verdict.NEW

    def _share(self, quota: int) -> int:
        """What there is of a quota now: all of it until half of the room is taken, then less and less."""
        room = self._allowance.packed_bytes
        # Rounded up: whoever has sent nothing may send one, as long as it fits.
        return min(quota, -(-2 * quota * (room - self._packed_bytes) // room))

    def release(self, client: bytes, digest: bytes, packed_bytes: int = 0) -> None:
        """That capsule could not be kept after all."""
        self._digests.discard(digest)
        self._packed_bytes -= packed_bytes
        network = _network_of(client)
        self._networks_sent[network] -= 1
        if not self._networks_sent[network]:
            del self._networks_sent[network]
        left = self._sent.get(client, 0) - 1
        if left > 0:
            self._sent[client] = left
        else:
            self._sent.pop(client, None)

    def fetch(self, client: bytes) -> Verdict:
        """A fetch of this client."""
        fetched, network = self._fetched.get(client, 0), _network_of(client)
        of_network = self._networks_fetched[network] if network else 0
        if fetched >= self._allowance.fetches or of_network >= self._allowance.network_quota:
            return Verdict.OVER_QUOTA
        if fetched == 0 and len(self._fetched) >= self._allowance.clients:
            return Verdict.FULL
        self._fetched[client] = fetched + 1
        self._networks_fetched[network] += 1
        return Verdict.NEW


def _network_of(client: bytes) -> bytes:
    """The part of a client's name that it shares with others; empty where there are none."""
    return client[NAME_BYTES:]


class Admission:
    """The table of now. When an epoch ends, its table is forgotten with its key."""

    def __init__(
        self,
        epochs: Epochs,
        allowance: Allowance,
        dice: RandomBytes,
        begun: Callable[[int], Begun | None] = lambda _epoch: None,
    ) -> None:
        """``begun``: what a store has of an epoch, asked for once when the epoch becomes that of now."""
        self._epochs = epochs
        self._allowance = allowance
        self._dice = dice
        self._table: EpochTable | None = None
        self._begun = begun
        #: No capsule is put into an epoch before this one, even if somebody sets the clock back.
        self.lowest = 0

    def table(self, now: int) -> EpochTable:
        """Of the epoch to which this moment belongs."""
        epoch = max(self._epochs.at(now), self.lowest)
        if self._table is None or self._table.epoch != epoch:
            known = self._begun(epoch) or Begun(self._dice(KEY_BYTES))
            self._table = EpochTable(epoch, self._allowance, known)
        return self._table


CREDENTIAL_FIELD = "secvm-credential"
#: Of an IPv6 address, what a site is usually given: 65,536 networks of 64 bits.
_NETWORK_BYTES = 6


@dataclass(frozen=True, slots=True, repr=False)
class Identity:
    """What a client is known by."""

    client: bytes
    #: What it has in common with its neighbours; empty: nothing.
    network: bytes = b""


#: None: the client does not say who it is, and cannot be let in.
Identify = Callable[[HttpRequest], Identity | None]


def by_address(*, header: str | None, proxies: Collection[str], first_64: bool) -> Identify:
    """The address at the other end, or the one that a proxy of ours names."""
    trusted = {plain_address(proxy) for proxy in proxies}

    def identify(request: HttpRequest) -> Identity | None:
        try:
            address = plain_address(request.peer)
            if header is not None and address in trusted:
                # The last one, if it is a list: that one our proxy wrote itself.
                address = plain_address(request.headers.get(header, "").rpartition(",")[2].strip())
        except ValueError:
            return None
        if address.version == 4:
            return Identity(address.packed)
        return Identity(address.packed[:8] if first_64 else address.packed, address.packed[:_NETWORK_BYTES])

    return identify


def by_credential(known: Collection[bytes] | None) -> Identify:
    """The credential, if its SHA-256 is ``known``; None: any will do, which is for tests."""

    def identify(request: HttpRequest) -> Identity | None:
        credential = request.headers.get(CREDENTIAL_FIELD, "")
        if not credential:
            return None
        digest = hashlib.sha256(credential.encode("latin-1")).digest()
        return Identity(digest) if known is None or digest in known else None

    return identify
