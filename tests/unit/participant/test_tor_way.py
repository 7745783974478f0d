"""Over Tor: which of a device's connections share a circuit, and what is said where there is no Tor."""

from __future__ import annotations

import itertools
import os
from types import TracebackType
from typing import Any, Self

import pytest
from pydantic import ValidationError

from secvm.errors import BadInputError, LocalProtocolError, UnreachableError
from secvm.participant.invitation import fetch_experiment
from secvm.participant.sending import transport as module
from secvm.participant.sending.transport import NotNowError, RelayTransport
from secvm.participant.settings import RelaySettings
from secvm.protocol.documents.experiment import Relay
from secvm.runtime.http.client import HttpAnswer, HttpClient, SlowAnswerError
from secvm.runtime.http.tor import Circuit, NoCircuitError, NoTorError, TorProxy
from tests.unit.protocol.helpers import RELAY, document

PROXY = TorProxy("127.0.0.1", 9050)
ONION = f"http://{'a' * 56}.onion/relay"
WAY = Relay(url="https://relay.example/relay", key=RELAY.public)


class Clients:
    """Notes the circuit of every client that asks, and answers nothing, or that there is no Tor."""

    def __init__(self) -> None:
        self.circuits: list[Circuit | None] = []
        self.fault: UnreachableError | None = None

    def make(self, *, circuit: Circuit | None = None, **_: Any) -> Client:
        return Client(self, circuit)


class Client:
    def __init__(self, clients: Clients, circuit: Circuit | None) -> None:
        self._clients, self._circuit = clients, circuit

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    async def ask(self, *_: Any, **__: Any) -> HttpAnswer:
        self._clients.circuits.append(self._circuit)
        if self._clients.fault is not None:
            raise self._clients.fault
        return HttpAnswer(404, b"")


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Clients:
    clients = Clients()
    monkeypatch.setattr(module, "HttpClient", clients.make)
    return clients


def over_tor() -> RelayTransport:
    # What is pooled would go directly: asking it must fail.
    return RelayTransport(HttpClient(connections=1), [WAY.url], os.urandom, tor=PROXY)


async def test_every_fetch_and_every_request_has_a_circuit_of_its_own(clients: Clients) -> None:
    transport = over_tor()
    for _ in range(3):
        await transport.fetch("/v1/experiments")
        await transport.submit(b"body", b"label", WAY)
        await transport.ask_token(b"element", b"label", WAY)
        await transport.relayed_terms(WAY)
    assert all(circuit is not None and circuit.proxy == PROXY for circuit in clients.circuits)
    assert len({circuit.isolation for circuit in clients.circuits if circuit is not None}) == 12


async def test_packages_of_a_plain_round_share_three_circuits_that_no_other_round_and_no_other_device_takes(
    clients: Clients,
) -> None:
    one = over_tor()
    other = one.for_client(None)
    taken = []
    for device, label in itertools.product((one, other), (b"round 1", b"round 2")):
        clients.circuits.clear()
        for number in range(40):
            await device.send(b"%d" % number, WAY, label=label)
        taken.append({circuit.isolation for circuit in clients.circuits if circuit is not None})
    assert [len(circuits) for circuits in taken] == [3] * 4
    assert len(set().union(*taken)) == 12


async def test_a_package_that_is_sent_again_takes_the_same_circuit(clients: Clients) -> None:
    transport = over_tor()
    for _ in range(2):
        await transport.send(b"capsule", WAY, label=b"round 1")
    first, again = clients.circuits
    assert first == again


async def test_where_tor_is_away_nothing_goes_another_way_and_the_sentence_says_so(clients: Clients) -> None:
    clients.fault = NoTorError("there is no Tor at 127.0.0.1:9050: start it")
    transport = over_tor()
    with pytest.raises(BadInputError, match=r"cannot be fetched: there is no Tor at 127\.0\.0\.1:9050"):
        await fetch_experiment("0" * 64, transport)
    assert (await transport.submit(b"body", b"label", WAY)).content is None
    assert not (await transport.submit(b"body", b"label", WAY)).final
    assert all(circuit is not None for circuit in clients.circuits)
    # Tor is there again, and only the relay is not.
    clients.fault = UnreachableError("no exit of Tor reached it")
    await transport.fetch("/v1/experiments")
    assert transport.shut is None


async def test_a_relay_is_blamed_for_what_it_refuses_and_not_for_circuits_that_fail(clients: Clients) -> None:
    transport, direct = over_tor(), RelayTransport(HttpClient(connections=1), [WAY.url], os.urandom)
    circuit = (NoTorError("away"), NoCircuitError("Tor could not build a circuit"), SlowAnswerError("slow"))
    for fault in (*circuit, UnreachableError("it refuses connections through Tor")):
        clients.fault = fault
        for device in (transport, direct):
            answered = device is transport and fault in circuit
            assert (await device.submit(b"body", b"label", WAY)).answered == answered
            assert (await device.ask_token(b"element", b"label", WAY)).answered == answered
            with pytest.raises(NotNowError if answered else UnreachableError) as raised:
                await device.relayed_terms(WAY)
            assert isinstance(raised.value, NotNowError) == answered


def test_an_onion_service_is_joined_over_tor_alone() -> None:
    onion = Relay(url=ONION, key=RELAY.public)
    RelayTransport(HttpClient(), [ONION], os.urandom, tor=PROXY).check(document(relays=(onion,)))
    with pytest.raises(LocalProtocolError, match=r'aaa\.onion is reached over Tor alone: set via = "tor"'):
        RelayTransport(HttpClient(), [WAY.url], os.urandom).check(document(relays=(onion,)))
    with pytest.raises(ValidationError, match="onion address, which Tor alone reaches"):
        RelaySettings(urls=(ONION,))
    assert RelaySettings(urls=(ONION,), via="tor").tor() == PROXY
    assert RelaySettings(urls=(WAY.url,)).tor() is None


def test_a_proxy_on_another_machine_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"an address of this machine and a port, such as 127\.0\.0\.1:9050"):
        RelaySettings(urls=(WAY.url,), via="tor", tor_proxy="192.0.2.1:9050")
