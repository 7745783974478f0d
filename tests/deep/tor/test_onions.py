"""Relays and coordinator as onion services: nobody needs TLS, an exit or an address, and the bytes are the same."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from secvm.runtime.http.tor import VARIABLE
from secvm.testing.federation_settings import COORDINATOR, ENTRY, MIX
from secvm_lab.rigs.tor_network import OnionDoor, TorClient
from tests.seeds import seed_for
from tests.system.covered_federation import SWIFT, a_case, check, play

PEOPLE = 6


@pytest.mark.takes(minutes=3)
def test_everybody_is_reached_over_an_onion_service(
    tor: TorClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Servers and the auditor ask each other so; devices as their settings say.
    monkeypatch.setenv(VARIABLE, str(tor.proxy))
    # A token stands for a submission: the entry relay counts by no address, and the request says no name.
    case = a_case(random.Random(seed_for("onions")), ("a", "b"), people=PEOPLE, further={**SWIFT, "tokens": True})

    def onion(name: str, behind: Sequence[tuple[str, int]], _port: int) -> OnionDoor | None:
        return OnionDoor(tor.control, behind[0][1]) if name in (COORDINATOR, ENTRY, MIX) else None

    way = {"relay": {"via": "tor", "tor_proxy": str(tor.proxy)}}
    with tor.control.watch() as watching:
        deployed, experiment = play(tmp_path, case, doors=onion, host_tables=way, rate=2.0, patience_s=400.0)
        streams = watching.streams()
    check(case, deployed, experiment, learns=False)
    assert {stream.target.rpartition(":")[0][-6:] for stream in streams} == {".onion"}
    # Devices say random bytes; the others say none.
    own = [(stream.isolation, stream.circuit) for stream in streams if stream.isolation.strip("0")]
    assert len({circuit for _, circuit in own}) == len({isolation for isolation, _ in own}) > 3 * PEOPLE
