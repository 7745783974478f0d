"""On a machine whose cable is watched: a device over Tor says not a byte to anybody but Tor.

The devices' machine is a network namespace with one cable to a hub. Everybody else is in the hub, Tor's client too, and
the relays listen where the devices could reach them directly. What goes over the cable is read there.
"""

import random
import socket
import struct
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest

from secvm.runtime.http.tor import TorProxy
from secvm.testing.federation import Federation
from secvm_lab.chaos.network import HUB_ADDRESS, Network
from secvm_lab.rigs.tor_network import TorNetwork
from tests.conftest import ROOT
from tests.seeds import seed_for
from tests.system.covered_federation import a_case, check, play

PEOPLE = 6
#: What the kernel says of a packet that leaves by this device, of a raw socket, and of every protocol.
_OUTGOING, _RAW, _EVERYTHING = 4, socket.SOCK_RAW, 3
HOST = "host-0"
MACHINE = "devices"
#: On the devices' machine, where nobody else listens.
PROXY_PORT = 9050


class Cable:
    """Reads where packets go that come over a cable."""

    def __init__(self, device: str) -> None:
        self.reached: set[tuple[str, int]] = set()
        self.other: list[bytes] = []
        self._socket = socket.socket(socket.AF_PACKET, _RAW, socket.htons(_EVERYTHING))
        self._socket.bind((device, 0))
        self._socket.settimeout(0.2)
        self._over = threading.Event()
        self._reading = threading.Thread(target=self._read)

    def _read(self) -> None:
        while not self._over.is_set():
            try:
                frame, about = self._socket.recvfrom(65_536)
            except TimeoutError:
                continue
            if about[2] == _OUTGOING:
                continue
            kind, packet = frame[12:14], frame[14:]
            if kind == b"\x08\x00" and packet[9] == socket.IPPROTO_TCP:
                head = 4 * (packet[0] & 15)
                flags = packet[head + 13]
                # Who begins a connection says SYN, and nothing else with it.
                if flags & 0x12 == 0x02:
                    self.reached.add(
                        (socket.inet_ntoa(packet[16:20]), *struct.unpack(">H", packet[head + 2 : head + 4]))
                    )
            elif kind not in (b"\x08\x06", b"\x86\xdd"):
                self.other.append(frame)

    @contextmanager
    def reading(self) -> Iterator[Self]:
        self._reading.start()
        try:
            yield self
        finally:
            self._over.set()
            self._reading.join()
            self._socket.close()


class Apart(Federation):
    """A federation whose host is on a machine of its own, from which its status and Tor's proxy are handed on."""

    def __init__(self, *settings: Any, address: str, inside: Sequence[str], proxy: TorProxy, **options: Any) -> None:
        super().__init__(*settings, wrappers={HOST: inside}, **options)
        self._address, self._inside, self._proxy = address, inside, proxy

    def start_host(self, name: str) -> None:
        status = f":{self.port(name)}"
        pairs = [f"127.0.0.1:{PROXY_PORT}", str(self._proxy), self._address + status, "127.0.0.1" + status]
        program = (sys.executable, "-P", str(ROOT / "tests/rigs/forwarding.py"))
        self.children.start("handing on inside", pairs, program=program, wrapper=self._inside)
        self.children.start("handing on", ["127.0.0.1" + status, self._address + status], program=program)
        super().start_host(name)


@pytest.mark.takes(minutes=2)
@pytest.mark.parametrize("over_tor", [True, False])
def test_only_tor_hears_from_a_device_over_tor(over_tor: bool, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    case = a_case(random.Random(seed_for("no other way")), ("a", "b"), people=PEOPLE)
    keys = pytestconfig.cache.mkdir("tor-authorities")
    with Network() as network, TorNetwork(tmp_path / "tor", keys=keys) as tor_network:
        address = network.add(MACHINE)
        inside = ("nsenter", f"--net={network.place(MACHINE)}")
        proxy = tor_network.client(host=HUB_ADDRESS).proxy
        way = {"relay": {"via": "tor", "tor_proxy": f"127.0.0.1:{PROXY_PORT}"}} if over_tor else {}
        with Cable(network.cable(MACHINE)).reading() as cable:
            deployed, experiment = play(
                tmp_path,
                case,
                made=partial(Apart, address=address, inside=inside, proxy=proxy),
                rate=5.0,
                host_tables=way,
                addresses={"entry": HUB_ADDRESS, "mix": HUB_ADDRESS},
            )
    check(case, deployed, experiment, learns=False)
    if over_tor:
        assert cable.reached == {(proxy.host, proxy.port)}
    else:
        # Devices that go directly are seen at the relays: the cable would have told.
        assert len(cable.reached) == 2
        assert all(host == HUB_ADDRESS and port != proxy.port for host, port in cable.reached)
    assert cable.other == []
