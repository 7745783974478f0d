"""The operator of a coordinator with two relays pauses, resumes and stops an experiment over the API."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

from secvm.protocol.relays.manifest import RelayedManifest, read_manifest
from secvm.protocol.relays.opening import RelayedEnding
from secvm.testing.federation import COORDINATOR, Federation
from tests.system.covered_federation import PACE, a_case

#: So long after a round was opened, in seconds of the machine, the next one is announced unless it is paused.
LONG_ENOUGH_S = 5


def test_a_paused_experiment_announces_nothing_and_a_stopped_one_ends_with_its_round(tmp_path: Path) -> None:
    case = a_case(random.Random(0), ("a", "b"), people=16)
    with Federation(tmp_path, hosts=[], seed=case.seed, pace=PACE, witnesses=1, covered=True) as federation:
        federation.start_servers()
        digest = federation.begin({**case.specification(), "rounds": 3})
        of = federation.document
        assert of is not None

        def order(action: str) -> str:
            path = f"/admin/experiments/{digest}/{action}"
            standing: str = json.loads(federation.ask(COORDINATOR, "POST", path, b"{}", admin=True))["standing"]
            return standing

        def shown(path: str) -> bytes | None:
            return federation.public(f"/v1/experiment/{digest}/{path}")

        def awaited(path: str) -> bytes:
            return federation.patiently(lambda: shown(path), path)

        def manifest(number: int) -> RelayedManifest:
            return read_manifest(awaited(f"manifest/{number}"), of)

        first = manifest(1)
        assert order("pause") == "paused"
        # The round that runs ends, and no other follows while it is paused.
        federation.clock.leap_to(first.instants.open_by)
        awaited("opening/1")
        time.sleep(LONG_ENOUGH_S)
        assert shown("manifest/2") is None
        assert order("resume") == "running"
        second = manifest(2)
        assert order("stop") == "stopped"
        assert shown("ending") is None
        federation.clock.leap_to(second.instants.open_by)
        ending = of.read(RelayedEnding, awaited("ending"))
        assert (ending.why, ending.round_number) == ("stopped", 2)
