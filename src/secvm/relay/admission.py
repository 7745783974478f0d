"""Who is a client, and what it may still do in this epoch.

1. An address or a credential is turned into a name at once: a keyed hash, with a key that is drawn for the epoch and
   destroyed with it. Names of two epochs have nothing in common, and no address is kept anywhere.
2. Each client may send so many *distinct* capsules in an epoch. A capsule that is already here is somebody's retry: it
   is free, and adds nothing. So a table has two things side by side, how many capsules each client sent and which
   capsules there are, and nothing that says whose is which.
3. Fetches have a limit of their own. They are counted in memory only: a restart begins again.
4. Anonymous tokens have a limit of their own too (``issuing``): of each client it is known which requests were granted,
   by digest, and for how many tokens.
5. Tables have a size. When one is full, newcomers are asked to come later; who is in it is not affected.
"""

from __future__ import annotations

import enum
import hashlib
import ipaddress
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from secvm.crypto.kem import RandomBytes
from secvm.relay.epochs import Epochs
from secvm.runtime.http_server import Request

KEY_BYTES = 32
#: Enough that no two of an epoch's clients share a name, or two capsules a digest.
NAME_BYTES = 16
CREDENTIAL_FIELD = "secvm-credential"


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
    #: Of all capsules together, as they are packed: more than the coordinator takes at once would be lost.
    packed_bytes: int = 2**62


def digest_of(capsule: bytes) -> bytes:
    """What a capsule is known by, in an epoch's table."""
    return hashlib.sha256(capsule).digest()[:NAME_BYTES]


class Table:
    """The clients of one epoch."""

    def __init__(
        self,
        epoch: int,
        key: bytes,
        allowance: Allowance,
        *,
        sent: Mapping[bytes, int] | None = None,
        digests: Collection[bytes] = (),
        packed_bytes: int = 0,
        issued: Mapping[bytes, Mapping[bytes, int]] | None = None,
    ) -> None:
        """``sent``, ``digests``, ``packed_bytes``, ``issued``: what is known already, after a restart."""
        self.epoch = epoch
        self.key = key
        self._allowance = allowance
        self._sent: dict[bytes, int] = dict(sent or {})
        self._fetched: dict[bytes, int] = {}
        self._digests: set[bytes] = set(digests)
        self._packed_bytes = packed_bytes
        self._handed_on: set[bytes] = set()
        #: Of each client: digests of requests for tokens, and how many each was for.
        self._issued = {client: dict(granted) for client, granted in (issued or {}).items()}

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

    def name(self, identity: bytes) -> bytes:
        """What this client is called in this epoch."""
        return hashlib.blake2b(identity, key=self.key, digest_size=NAME_BYTES).digest()

    def admit(self, client: bytes, digest: bytes, packed_bytes: int = 0) -> Verdict:
        """A capsule of this client, and what it takes packed. When it is NEW, it is counted from now on."""
        if digest in self._digests:
            return Verdict.AGAIN
        sent = self._sent.get(client, 0)
        if sent >= self._allowance.quota:
            return Verdict.OVER_QUOTA
        newcomer = sent == 0 and len(self._sent) >= self._allowance.clients
        too_much = self._packed_bytes + packed_bytes > self._allowance.packed_bytes
        if newcomer or too_much or len(self._digests) >= self._allowance.capsules:
            return Verdict.FULL
        self._sent[client] = sent + 1
        self._digests.add(digest)
        self._packed_bytes += packed_bytes
        return Verdict.NEW

    def release(self, client: bytes, digest: bytes, packed_bytes: int = 0) -> None:
        """That capsule could not be kept after all."""
        self._digests.discard(digest)
        self._packed_bytes -= packed_bytes
        left = self._sent.get(client, 0) - 1
        if left > 0:
            self._sent[client] = left
        else:
            self._sent.pop(client, None)

    def hand_on(self, digest: bytes) -> None:
        """That capsule is with the coordinator: sent again, it need not go there again."""
        self._handed_on.add(digest)

    def is_handed_on(self, digest: bytes) -> bool:
        """Whether the coordinator has it."""
        return digest in self._handed_on

    def fetch(self, client: bytes) -> Verdict:
        """A fetch of this client."""
        fetched = self._fetched.get(client, 0)
        if fetched >= self._allowance.fetches:
            return Verdict.OVER_QUOTA
        if fetched == 0 and len(self._fetched) >= self._allowance.clients:
            return Verdict.FULL
        self._fetched[client] = fetched + 1
        return Verdict.NEW

    def issue(self, client: bytes, digest: bytes, count: int, *, quota: int) -> Verdict:
        """A request of this client for so many tokens. When it is NEW, it is counted from now on."""
        granted = self._issued.get(client, {})
        if digest in granted:
            return Verdict.AGAIN
        if sum(granted.values()) + count > quota:
            return Verdict.OVER_QUOTA
        if not granted and len(self._issued) >= self._allowance.clients:
            return Verdict.FULL
        self._issued.setdefault(client, {})[digest] = count
        return Verdict.NEW


@dataclass(frozen=True, slots=True, repr=False)
class Begun:
    """What is known of an epoch that had begun before: its key, what each client sent, which capsules there are, and
    which tokens each client has.
    """

    key: bytes
    sent: Mapping[bytes, int]
    digests: Collection[bytes]
    packed_bytes: int = 0
    issued: Mapping[bytes, Mapping[bytes, int]] = field(default_factory=dict)


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
        self._table: Table | None = None
        self._begun = begun
        #: No capsule is put into an epoch before this one, even if somebody sets the clock back.
        self.lowest = 0

    def table(self, now: int) -> Table:
        """Of the epoch to which this moment belongs."""
        epoch = max(self._epochs.at(now), self.lowest)
        if self._table is None or self._table.epoch != epoch:
            known = self._begun(epoch) or Begun(self._dice(KEY_BYTES), {}, ())
            self._table = Table(
                epoch,
                known.key,
                self._allowance,
                sent=known.sent,
                digests=known.digests,
                packed_bytes=known.packed_bytes,
                issued=known.issued,
            )
        return self._table


# ── who is it? ───────────────────────────────────────────────────────────────────────────────────────────────────────

#: What a client is known by; None: it does not say, and cannot be let in.
Identify = Callable[[Request], bytes | None]


def by_address(*, header: str | None, proxies: Collection[str], first_64: bool) -> Identify:
    """The address at the other end, or the one that a proxy of ours names."""
    trusted = {_plain_address(proxy) for proxy in proxies}

    def identify(request: Request) -> bytes | None:
        try:
            address = _plain_address(request.peer)
            if header is not None and address in trusted:
                # The last one, if it is a list: that one our proxy wrote itself.
                address = _plain_address(request.headers.get(header, "").rpartition(",")[2].strip())
        except ValueError:
            return None
        packed = address.packed
        return packed[:8] if first_64 and len(packed) == 16 else packed

    return identify


def _plain_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def by_credential(known: Collection[bytes] | None) -> Identify:
    """The credential, if its SHA-256 is ``known``; None: any will do, which is for tests."""

    def identify(request: Request) -> bytes | None:
        credential = request.headers.get(CREDENTIAL_FIELD, "")
        if not credential:
            return None
        digest = hashlib.sha256(credential.encode("latin-1")).digest()
        return digest if known is None or digest in known else None

    return identify
