"""The part of a party's settings that all servers share: ``[limits]``, what it puts up with from connections.

docs/how-to/limit-a-server.md says what each number is for, and what it costs.
"""

from __future__ import annotations

from typing import Any

import pydantic

from secvm.errors import BadInputError
from secvm.runtime.http.guard import read_networks
from secvm.runtime.http.messages import Limits
from secvm.runtime.settings import Count, Seconds, Settings

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
        try:
            read_networks(texts)
        except BadInputError as error:
            raise ValueError(str(error)) from None
        return texts

    def server_limits(self, *, also_exempt: tuple[str, ...] = (), **others: Any) -> Limits:
        """As ``HttpServer`` takes them; ``others`` are limits that a party sets by itself."""
        own = {name: getattr(self, name) for name in HttpLimits.model_fields if name != "exempt"}
        return Limits(**{**own, "exempt": read_networks((*self.exempt, *also_exempt)), **others})
