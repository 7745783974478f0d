"""What a server puts up with from all its connections together, so that no crowd of them shuts out the others.

1. So many connections at all; when there are as many, the one that has brought no request for longest gives way to the
   newcomer. So a crowd of silent ones does not keep out whoever has something to say.
2. So many from one address, an IPv6 network of 64 bits counting as one. Loopback and addresses that the operator names
   are exempt: a reverse proxy, or a relay, is one address for many people. They give way to each other alone.
3. So many bytes of requests whose content is under way.
4. So many bytes of answers that were not read yet. An answer that many are sent is one object, and counts once.

``HttpLimits`` is the table ``[limits]`` of a party's settings, where an operator changes these numbers.
docs/how-to/limit-a-server.md says what each is for, and what it costs.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any, Protocol

import pydantic

from secvm.errors import BadInputError
from secvm.runtime.http.messages import LOOPBACK, Limits, Network, plain_address
from secvm.runtime.settings import Count, Seconds, Settings

#: Connections that are asked whether they may go, for one that comes.
_MOST_ASKED = 64


class Guarded(Protocol):
    """What a guard knows of a connection."""

    def may_go(self) -> bool:
        """Whether it has no request under way, and has brought none since this was last asked."""
        ...

    def abort(self) -> None:
        """Hang up."""
        ...


def read_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Addresses or networks, as settings name them, and loopback. Raises ``BadInputError``."""
    try:
        return (*LOOPBACK, *(ipaddress.ip_network(text, strict=False) for text in texts))
    except ValueError:
        raise BadInputError("limits.exempt are addresses or networks, such as 192.0.2.7 or 10.0.0.0/8") from None


class Guard:
    """Counts, and says who has to go."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        #: Fewer than the limit where the system gives fewer file descriptors.
        self.connections = limits.connections
        self._exempt = limits.exempt
        #: Connections by the address they count for; None: for none.
        self._addresses: dict[Guarded, str | None] = {}
        self._from: dict[str, int] = {}
        #: Strangers, and exempt ones, in the order in which they are asked whether they may go.
        self._queue: tuple[dict[Guarded, None], dict[Guarded, None]] = ({}, {})
        #: Bytes of requests that are under way.
        self.receiving = 0
        #: Bodies of large answers that are being sent, by identity: how many are sent each, and its size.
        self._bodies: dict[int, tuple[int, int]] = {}
        #: Bytes of these; one that is sent to many counts once.
        self.unread = 0
        #: Who waits for a reader, the one that does for longest first.
        self._stuck: dict[Guarded, None] = {}

    # ── (1), (2) ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def admit(self, connection: Guarded, peer: str) -> bool:
        """Whether it may stay; then it is counted until it is ``gone``."""
        address = self._counted(peer)
        if address is not None and self._from.get(address, 0) >= self._limits.per_address:
            return False
        if len(self._addresses) >= self.connections:
            silent = self._silent(self._queue[0])
            if silent is None and address is None:
                silent = self._silent(self._queue[1])
            if silent is None:
                return False
            # Gone at once, whatever the loop does next: the newcomer has its place.
            self.gone(silent)
            silent.abort()
        self._addresses[connection] = address
        if address is not None:
            self._from[address] = self._from.get(address, 0) + 1
        self._queue[address is None][connection] = None
        return True

    @staticmethod
    def _silent(queue: dict[Guarded, None]) -> Guarded | None:
        """One that may go. Whoever may not goes to the end of the queue; few are asked, a newcomer shall be cheap."""
        for _ in range(min(_MOST_ASKED, len(queue))):
            oldest = next(iter(queue))
            if oldest.may_go():
                return oldest
            del queue[oldest]
            queue[oldest] = None
        return None

    def _counted(self, peer: str) -> str | None:
        try:
            address = plain_address(peer)
        except ValueError:
            # A local socket has no address.
            return None
        if any(address in network for network in self._exempt):
            return None
        if isinstance(address, ipaddress.IPv6Address):
            return str(ipaddress.ip_network((address, 64), strict=False))
        return str(address)

    def gone(self, connection: Guarded) -> None:
        """It is over; twice is once."""
        address = self._addresses.pop(connection, None)
        self._queue[address is None].pop(connection, None)
        self._stuck.pop(connection, None)
        if address is not None:
            left = self._from[address] - 1
            if left:
                self._from[address] = left
            else:
                del self._from[address]

    # ── (3) ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def take(self, count: int) -> bool:
        """Whether there is room for so many more bytes of a request; then they are counted until ``give``."""
        if self.receiving + count > self._limits.receiving_bytes:
            return False
        self.receiving += count
        return True

    def give(self, count: int) -> None:
        """They are handed over, or thrown away."""
        self.receiving -= count

    # ── (4) ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def hold(self, connection: Guarded, body: bytes) -> None:
        """A large answer is begun. When it is too much together, those go who have read nothing for longest."""
        copies, size = self._bodies.get(id(body), (0, len(body)))
        self._bodies[id(body)] = (copies + 1, size)
        self._stuck[connection] = None
        if not copies:
            self.unread += size
        while self.unread > self._limits.unread_bytes and len(self._stuck) > 1:
            slowest = next(iter(self._stuck))
            del self._stuck[slowest]
            # It lets go of its answers.
            slowest.abort()

    def moved(self, connection: Guarded) -> None:
        """Some of its answer was read."""
        if connection in self._stuck:
            del self._stuck[connection]
            self._stuck[connection] = None

    def release(self, connection: Guarded, body: bytes) -> None:
        """It is written, or given up."""
        self._stuck.pop(connection, None)
        copies, size = self._bodies[id(body)]
        if copies > 1:
            self._bodies[id(body)] = (copies - 1, size)
        else:
            del self._bodies[id(body)]
            self.unread -= size


_DEFAULT = Limits()


class HttpLimits(Settings):
    """What every server puts up with; a party's own limits stand beside these."""

    #: Open connections. Each takes a file descriptor, and a few kilobytes of memory while it is idle.
    connections: Count = _DEFAULT.connections
    #: Of these, from one address (IPv6: one network of 64 bits).
    per_address: Count = _DEFAULT.per_address
    #: Addresses and networks to which per_address does not apply, beside loopback: a reverse proxy, relays.
    exempt: tuple[str, ...] = ()
    #: From a request's first byte to the end of its head, and from the opening of a connection to its first request.
    head_s: Seconds = _DEFAULT.head_s
    #: From there on until its last byte; content that comes at bytes_per_s has longer.
    request_s: Seconds = _DEFAULT.request_s
    bytes_per_s: Count = _DEFAULT.bytes_per_s
    #: Between two requests of a connection, and as long as nothing of an answer is read.
    idle_s: Seconds = _DEFAULT.idle_s
    #: Content of requests under way, of all connections together; more is answered 503.
    receiving_bytes: Count = _DEFAULT.receiving_bytes
    #: Large answers on their way, of all connections together; beyond, the slowest readers are cut off.
    unread_bytes: Count = _DEFAULT.unread_bytes

    @pydantic.field_validator("exempt")
    @classmethod
    def _are_networks(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        read_networks(texts)
        return texts

    def server_limits(self, *, also_exempt: tuple[str, ...] = (), **others: Any) -> Limits:
        """As ``HttpServer`` takes them; ``others`` are limits that a party sets by itself."""
        own = {name: getattr(self, name) for name in HttpLimits.model_fields if name != "exempt"}
        return Limits(**{**own, "exempt": read_networks((*self.exempt, *also_exempt)), **others})
