"""Who is a client, quotas of distinct capsules, and tables that do not grow for ever."""

from __future__ import annotations

import hashlib
import itertools
import os
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.relay.admission import (
    NAME_BYTES,
    Admission,
    Allowance,
    Begun,
    Epochs,
    EpochTable,
    Identity,
    Verdict,
    by_address,
    by_credential,
    digest_of,
)
from secvm.runtime.http.server import HttpRequest

EPOCHS = Epochs(origin=0, period=1000, deposit_after=700)


def table(*, quota: int = 3, fetches: int = 2, clients: int = 100, capsules: int = 1000) -> EpochTable:
    return EpochTable(0, Allowance(quota, fetches, clients, capsules), Begun(bytes(32)))


def request(peer: str = "192.0.2.7", **headers: str) -> HttpRequest:
    return HttpRequest(
        "POST", "/relay", "", {name.replace("_", "-"): value for name, value in headers.items()}, b"", peer
    )


def test_fetches_have_a_limit_of_their_own() -> None:
    admitted = table(quota=1, fetches=2)
    assert admitted.admit(b"ann", b"1") is Verdict.NEW
    assert [admitted.fetch(b"ann") for _ in range(3)] == [Verdict.NEW, Verdict.NEW, Verdict.OVER_QUOTA]
    assert admitted.admit(b"ann", b"1") is Verdict.AGAIN
    # Who only fetches is no client of the count.
    assert admitted.fetch(b"ben") is Verdict.NEW
    assert admitted.clients == 1


def test_a_full_table_sends_newcomers_away_and_nobody_else() -> None:
    admitted = table(clients=2, capsules=4)
    assert [admitted.admit(name, name) for name in (b"ann", b"ben", b"cem")] == [Verdict.NEW, Verdict.NEW, Verdict.FULL]
    assert admitted.admit(b"ann", b"2") is Verdict.NEW
    assert [admitted.fetch(name) for name in (b"x", b"y", b"z")] == [Verdict.NEW, Verdict.NEW, Verdict.FULL]
    assert admitted.admit(b"ben", b"3") is Verdict.NEW
    # So many capsules and no more, whoever's.
    assert admitted.admit(b"ben", b"4") is Verdict.FULL


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 6), st.booleans())))
def test_counts_are_those_of_what_is_there_whatever_comes_and_is_released(steps: list[tuple[str, int, bool]]) -> None:
    admitted = table(quota=3)
    owners: dict[bytes, bytes] = {}
    for who, what, release in steps:
        client, digest = who.encode(), bytes([what])
        held = sum(1 for owner in owners.values() if owner == client)
        verdict = admitted.admit(client, digest)
        if digest in owners:
            assert verdict is Verdict.AGAIN
        elif held >= 3:
            assert verdict is Verdict.OVER_QUOTA
        else:
            assert verdict is Verdict.NEW
            owners[digest] = client
            if release:
                admitted.release(client, digest)
                del owners[digest]
        assert admitted.clients == len(set(owners.values()))
        assert admitted.capsules == len(owners)


def test_ten_thousand_made_up_clients_take_no_more_memory_than_the_table_has() -> None:
    admission = Admission(EPOCHS, Allowance(10, 10, 1000, 1000), os.urandom)
    identify = by_address(header=None, proxies=(), first_64=False)

    def come(first: int) -> None:
        for number in range(first, first + 10_000):
            now = admission.table(0)
            identity = identify(request(f"10.0.{number >> 8 & 255}.{number & 255}"))
            assert identity is not None
            now.admit(now.name(identity), digest_of(b"%d" % number))
            now.fetch(now.name(identity))

    come(0)
    tracemalloc.start()
    come(20_000)
    grown = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert admission.table(0).clients == 1000
    assert grown < 20_000


def test_repro_few_addresses_leave_room_for_everybody_else() -> None:
    quota, size, greedy = 100, 258, 30
    allowance = Allowance(quota, 1, 1000, 10**6, packed_bytes=20 * quota * size)
    admitted = EpochTable(0, allowance, Begun(bytes(32)))
    numbers = itertools.count()

    def send_all_of(client: int) -> int:
        name = b"%d" % client
        verdicts = (admitted.admit(name, digest_of(b"%d" % next(numbers)), size) for _ in range(quota))
        return sum(verdict is Verdict.NEW for verdict in verdicts)

    # At their quotas, twenty would take all of the room.
    assert send_all_of(0) == quota
    taken = sum(send_all_of(client) for client in range(1, greedy))
    assert taken < 0.9 * 20 * quota
    assert send_all_of(greedy) > quota // 10


def test_repro_the_networks_of_one_line_are_not_as_many_clients() -> None:
    allowance = Allowance(quota=5, fetches=5, clients=1000, capsules=1000, network_quota=12)
    admission = Admission(EPOCHS, allowance, os.urandom)
    identify = by_address(header=None, proxies=(), first_64=True)

    def name(address: str) -> bytes:
        identity = identify(request(address))
        assert identity is not None
        return admission.table(0).name(identity)

    table = admission.table(0)
    line = [name(f"2001:db8:0:{number:x}::1") for number in range(256)]
    verdicts = [table.admit(client, digest_of(client)) for client in line]
    assert verdicts == [Verdict.NEW] * 12 + [Verdict.OVER_QUOTA] * 244
    assert [table.fetch(client) for client in line] == [Verdict.NEW] * 12 + [Verdict.OVER_QUOTA] * 244
    # The network next door, and everybody who has no such network, are not affected.
    others = [name("2001:db8:1::1"), *(name(f"192.0.2.{number}") for number in range(20))]
    assert {table.admit(client, digest_of(client)) for client in others} == {Verdict.NEW}
    assert {table.fetch(client) for client in others} == {Verdict.NEW}
    # A capsule that could not be kept counts for nobody.
    table.release(line[0], digest_of(line[0]))
    assert table.admit(line[200], digest_of(line[200])) is Verdict.NEW


def test_what_a_network_sent_is_known_after_a_restart() -> None:
    here, there = bytes(NAME_BYTES) + b"network", b"\1" * NAME_BYTES + b"network"
    begun = Begun(bytes(32), {here: 2}, [b"1", b"2"])
    allowance = Allowance(quota=5, fetches=1, clients=10, capsules=10, network_quota=3)
    table = Admission(EPOCHS, allowance, os.urandom, {3: begun}.get).table(3000)
    assert [table.admit(there, digest) for digest in (b"3", b"4")] == [Verdict.NEW, Verdict.OVER_QUOTA]


def test_names_of_two_epochs_have_nothing_in_common_and_the_old_table_is_gone() -> None:
    admission = Admission(EPOCHS, Allowance(1, 1, 10, 10), os.urandom)
    first = admission.table(0)
    assert admission.table(699) is first
    second = admission.table(700)
    assert (first.epoch, second.epoch) == (0, 1)
    ann = Identity(b"ann")
    assert first.name(ann) != second.name(ann)
    assert second.admit(second.name(ann), b"1") is Verdict.NEW


def test_a_clock_that_is_set_back_does_not_open_a_sealed_epoch_again() -> None:
    admission = Admission(EPOCHS, Allowance(1, 1, 10, 10), os.urandom)
    admission.lowest = 5
    assert admission.table(0).epoch == 5
    assert admission.table(9000).epoch == 9
    assert admission.table(0).epoch == 5


def test_an_epoch_that_had_begun_goes_on_where_it_was() -> None:
    begun = Begun(bytes(range(32)), {b"ann": 2}, [b"1", b"2"])
    admission = Admission(EPOCHS, Allowance(2, 1, 10, 10), os.urandom, {3: begun}.get)
    table = admission.table(3000)
    assert (table.key, table.clients, table.capsules) == (bytes(range(32)), 1, 2)
    assert table.admit(b"ann", b"3") is Verdict.OVER_QUOTA
    assert table.admit(b"ann", b"2") is Verdict.AGAIN
    assert admission.table(4000).key != table.key


def test_a_table_does_not_print_its_clients() -> None:
    assert repr(table()) == "Table(epoch=0, ...)"


@given(st.integers(-10_000, 10**13), st.integers(0, 5000), st.integers(1, 10**6), st.data())
def test_every_moment_belongs_to_the_epoch_that_is_deposited_next(
    now: int, origin: int, period: int, data: st.DataObject
) -> None:
    epochs = Epochs(origin, period, data.draw(st.integers(1, period)))
    epoch = epochs.at(now)
    assert now < epochs.deposit_at(epoch)
    assert epoch == 0 or now >= epochs.deposit_at(epoch - 1)
    # The deposit lies in the epoch's own slot, or at its end.
    assert origin + epoch * period < epochs.deposit_at(epoch) <= origin + (epoch + 1) * period


@pytest.mark.parametrize(
    ("first", "second", "same", "same_64"),
    [
        ("192.0.2.7", "192.0.2.7", True, True),
        ("192.0.2.7", "192.0.2.8", False, False),
        ("192.0.2.7", "::ffff:192.0.2.7", True, True),
        ("2001:db8::1", "2001:db8::2", False, True),
        ("2001:db8::1", "2001:db8:0:1::1", False, False),
        ("fe80::1%eth0", "fe80::1%eth1", True, True),
    ],
)
def test_a_client_is_an_address_or_its_first_64_bits(first: str, second: str, same: bool, same_64: bool) -> None:
    for first_64, expected in ((False, same), (True, same_64)):
        identify = by_address(header=None, proxies=(), first_64=first_64)
        assert (identify(request(first)) == identify(request(second))) is expected


def test_only_our_proxy_is_believed_about_addresses() -> None:
    identify = by_address(header="x-real-ip", proxies=("127.0.0.1",), first_64=False)
    told = identify(request("127.0.0.1", x_real_ip="192.0.2.9"))
    assert told == identify(request("192.0.2.9"))
    assert identify(request("192.0.2.7", x_real_ip="192.0.2.9")) == identify(request("192.0.2.7"))
    assert identify(request("127.0.0.1", x_real_ip="192.0.2.1, 192.0.2.9")) == told
    assert identify(request("127.0.0.1")) is None
    assert identify(request("127.0.0.1", x_real_ip="nonsense")) is None


def test_a_credential_is_one_that_the_relay_knows() -> None:
    identify = by_credential({hashlib.sha256(b"good").digest()})
    assert identify(request(secvm_credential="good")) is not None
    assert identify(request(secvm_credential="bad")) is None
    assert identify(request()) is None
    anybody = by_credential(None)
    names = {anybody(request(secvm_credential=name)) for name in ("a", "b")}
    assert len(names) == 2
    assert anybody(request()) is None
