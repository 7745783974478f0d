"""Devices take part over a private Tor network: counted once, bit for bit as if they had come directly, and each fetch
and each submission on a circuit that no other shares.
"""

import random
from collections import Counter
from pathlib import Path

import pytest

from secvm_lab.rigs.tor_network import TorClient
from tests.seeds import seed_for
from tests.system.covered_federation import ROUNDS, SWIFT, a_case, check, play

PEOPLE = 8


@pytest.mark.takes(minutes=2)
def test_devices_over_tor_are_counted_once_on_circuits_of_their_own(tor: TorClient, tmp_path: Path) -> None:
    dice = random.Random(seed_for("devices over tor"))
    further = {**SWIFT, "privacy": {"epsilon": 1, "delta": "1/1000", "parts": 4}}
    case = a_case(dice, ("a", "b"), people=PEOPLE, further=further)
    with tor.control.watch() as watching:
        deployed, experiment = play(
            tmp_path, case, host_tables={"relay": {"via": "tor", "tor_proxy": str(tor.proxy)}}, rate=5.0
        )
        streams = watching.streams()
    # Every package counts once, and the states are those of the same people and dice without any network.
    check(case, deployed, experiment, learns=False)
    # A device fetches for each round, looks again, and submits: a circuit for each.
    assert len(streams) >= 3 * ROUNDS * PEOPLE
    circuits = {(stream.isolation, stream.circuit) for stream in streams}
    assert max(Counter(circuit for _, circuit in circuits).values()) == 1
    assert len({stream.isolation for stream in streams}) >= 3 * ROUNDS * PEOPLE
