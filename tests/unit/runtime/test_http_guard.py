"""Who may connect, and what all connections together may hold: counted without a socket."""

from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network

import pytest

from secvm.errors import BadInputError
from secvm.runtime.http.guard import Guard
from secvm.runtime.http.messages import LOOPBACK, Limits
from secvm.runtime.http.server import HttpServer
from secvm.runtime.settings import parse_settings
from tests.unit.runtime.http_talk import echo


class One:
    """A connection, as a guard sees it."""

    def __init__(self, guard: Guard, *, works: bool = False) -> None:
        self.guard = guard
        self.works = works
        self.aborted = False
        self.held: list[bytes] = []

    def may_go(self) -> bool:
        return not self.works

    def hold(self, body: bytes) -> None:
        self.held.append(body)
        self.guard.hold(self, body)

    def abort(self) -> None:
        self.aborted = True
        for body in self.held:
            self.guard.release(self, body)
        self.held.clear()


def come(guard: Guard, peer: str, count: int = 1, *, works: bool = False) -> list[One]:
    """Those that were let in."""
    return [one for one in (One(guard, works=works) for _ in range(count)) if guard.admit(one, peer)]


def test_an_address_has_so_many_and_another_as_many() -> None:
    guard = Guard(Limits(per_address=3))
    first = come(guard, "192.0.2.1", 5)
    assert [len(first), len(come(guard, "192.0.2.2", 5))] == [3, 3]
    guard.gone(first[0])
    guard.gone(first[0])
    assert len(come(guard, "192.0.2.1", 5)) == 1


def test_an_ipv6_network_of_64_bits_is_one_address_and_a_mapped_one_is_ipv4() -> None:
    guard = Guard(Limits(per_address=3))
    assert sum(len(come(guard, f"2001:db8::{i:x}%eth0")) for i in range(9)) == 3
    assert len(come(guard, "2001:db8:0:1::1")) == 1
    assert len(come(guard, "::ffff:192.0.2.1", 2)) + len(come(guard, "192.0.2.1", 2)) == 3


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "", "198.51.100.7", "10.1.2.3"])
def test_loopback_a_local_socket_and_who_is_named_may_have_more(peer: str) -> None:
    exempt = (*LOOPBACK, IPv4Network("198.51.100.7/32"), IPv4Network("10.0.0.0/8"))
    assert len(come(Guard(Limits(per_address=3, exempt=exempt)), peer, 9)) == 9


def test_in_a_full_house_the_silent_give_way_and_the_working_stay() -> None:
    guard = Guard(Limits(connections=4))
    working = come(guard, "192.0.2.1", 2, works=True)
    silent = come(guard, "192.0.2.2", 2)
    assert len(come(guard, "192.0.2.3", 2, works=True)) == 2
    assert [one.aborted for one in (*working, *silent)] == [False, False, True, True]
    assert come(guard, "192.0.2.4") == []


def test_strangers_never_push_out_the_exempt() -> None:
    guard = Guard(Limits(connections=3))
    exempt = come(guard, "127.0.0.1", 3)
    assert come(guard, "192.0.2.1", 5) == []
    assert len(come(guard, "127.0.0.1")) == 1
    assert sum(one.aborted for one in exempt) == 1


def test_content_under_way_has_a_limit() -> None:
    guard = Guard(Limits(receiving_bytes=10))
    assert guard.take(6)
    assert not guard.take(5)
    guard.give(6)
    assert guard.take(10)
    assert guard.receiving == 10


def test_who_reads_nothing_goes_first_and_one_body_counts_once() -> None:
    guard = Guard(Limits(unread_bytes=25))
    first, second, third, fourth = (One(guard) for _ in range(4))
    shared = bytes(10)
    first.hold(shared)
    second.hold(shared)
    assert guard.unread == 10
    third.hold(bytes(11))
    # The first has read some since: now the second is the slowest.
    guard.moved(first)
    fourth.hold(bytes(12))
    assert [one.aborted for one in (first, second, third, fourth)] == [False, True, True, False]
    assert guard.unread == 22


async def test_the_limit_of_connections_is_no_more_than_the_system_gives() -> None:
    server = HttpServer(echo, limits=Limits(connections=10**9))
    await server.start("127.0.0.1", 0)
    assert 1 <= server.guard.connections < 10**9
    await server.drain(patience_s=0)


# ── settings ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_all_parties_have_the_same_limits_with_the_same_defaults() -> None:
    from secvm.coordinator.settings import LimitsPart as Coordinators
    from secvm.relay.settings import RelayLimits as Relays
    from secvm.runtime.http.guard import HttpLimits
    from secvm.witness.settings import WitnessLimits as Witnesses

    for kind in (Coordinators, Relays, Witnesses):
        assert issubclass(kind, HttpLimits)
        own = replace(kind().server_limits(), connections=Limits().connections)
        assert own == Limits()


def test_limits_are_read_from_settings() -> None:
    from secvm.relay.settings import RelayLimits as Relays

    told = parse_settings('{"per_address": 7, "exempt": ["192.0.2.7", "2001:db8::/32"], "idle_s": 5}', Relays, "here")
    limits = told.server_limits(also_exempt=("198.51.100.1",), body_bytes=9)
    assert (limits.per_address, limits.idle_s, limits.body_bytes) == (7, 5, 9)
    networks = (IPv4Network("192.0.2.7/32"), IPv6Network("2001:db8::/32"), IPv4Network("198.51.100.1/32"))
    assert limits.exempt == (*LOOPBACK, *networks)


@pytest.mark.parametrize("text", ['{"exempt": ["example.org"]}', '{"per_address": 0}', '{"idle_s": 0}'])
def test_limits_that_are_none_are_refused(text: str) -> None:
    from secvm.relay.settings import RelayLimits as Relays

    with pytest.raises(BadInputError, match=r"here: (exempt|per_address|idle_s)"):
        parse_settings(text, Relays, "here")
