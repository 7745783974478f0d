"""Tor's client, one of its relays and an exit die in mid-round: nothing is lost, nothing is counted twice."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from secvm.testing.federation import Federation
from secvm_lab.rigs.tor_network import TorClient, TorNetwork
from tests.seeds import seed_for
from tests.system.covered_federation import a_case, check, play

PEOPLE = 8


def kill_client(network: TorNetwork, client: TorClient) -> None:
    """It comes back at once, and builds its circuits anew."""
    network.children.kill(client.name)
    network.children.restart(client.name)


def kill_first_relay(network: TorNetwork, client: TorClient) -> None:
    """The guard of the newest circuit, for the rest of the rounds."""
    network.children.kill(_name(client, 0))


def kill_exit(network: TorNetwork, client: TorClient) -> None:
    """The last relay of the newest circuit, for the rest of the rounds."""
    network.children.kill(_name(client, -1))


def _name(client: TorClient, hop: int) -> str:
    circuits = client.control.paths()
    return next(path[hop] for _, path in sorted(circuits.items(), reverse=True) if len(path) == 3)


@pytest.fixture(autouse=True)
def all_relays(tor_network: TorNetwork) -> Iterator[None]:
    yield
    tor_network.revive()


@pytest.mark.takes(minutes=3)
@pytest.mark.parametrize("kill", [kill_client, kill_first_relay, kill_exit])
def test_what_dies_of_tor_in_mid_round_costs_nobody_a_package(
    kill: Callable[[TorNetwork, TorClient], None], tor_network: TorNetwork, tor: TorClient, tmp_path: Path
) -> None:
    case = a_case(random.Random(seed_for("tor dies")), ("a", "b"), people=PEOPLE)
    killed: list[int] = []

    def disturb(federation: Federation, step: str) -> None:
        if step != "joined" or killed:
            return

        def meanwhile() -> None:
            # Some have been taken and some have not.
            if not killed and any(one["acknowledged"] and one["waiting"] for one in federation.status()):
                killed.append(1)
                kill(tor_network, tor)

        federation.clock.meanwhile = meanwhile

    way = {"relay": {"via": "tor", "tor_proxy": str(tor.proxy)}}
    deployed, experiment = play(tmp_path, case, between=disturb, host_tables=way, rate=2.0)
    check(case, deployed, experiment, learns=False)
    assert killed
