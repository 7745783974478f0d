"""Devices of the browser's code take part beside Python's: every party is a process of its own, and theirs is node."""

from __future__ import annotations

import random
from pathlib import Path

from secvm.protocol.canonical import digest_of
from secvm.testing.federation import Federation
from secvm_lab.published import Published
from tests.rigs.node_devices import MixedFederation
from tests.seeds import seed_for
from tests.system.covered_federation import ROUNDS, a_case, check, play

#: On each of two hosts, Python's and node's.
DEVICES = 6


def test_browser_devices_are_counted_once_across_a_kill_and_believe_what_all_believe(tmp_path: Path) -> None:
    case = a_case(random.Random(seed_for("browser devices")), ("a", "b"), people=2 * DEVICES)
    steps: list[str] = []

    def kill_once(federation: Federation, step: str) -> None:
        steps.append(step)
        if steps.count(step) == ROUNDS and step == "joined":
            # Each has stored its request whole, and none has sent it.
            federation.ask(federation.host_names[-1], "POST", "/kill")

    deployed, experiment = play(tmp_path, case, hosts=2, made=MixedFederation, between=kill_once, look=look_at_devices)
    # Counts and states are those of everybody's packages, each once.
    check(case, deployed, experiment, learns=False)


def look_at_devices(federation: MixedFederation, found: list[Published]) -> int:
    """Every device in node has found its canaries, keeps nothing of its rounds, and believes what was published."""
    devices = [federation.kept(number) for number in range(DEVICES, 2 * DEVICES)]
    assert sum(kept["checks"]["refetched"] for kept in devices) > 0
    for kept in devices:
        assert kept["rounds"] == [[federation.digest, ROUNDS]], kept
        assert kept["checks"]["seen"] == ROUNDS, kept
        assert (kept["canaries"], kept["request"], kept["distrust"], kept["abstentions"]) == (0, False, None, []), kept
        # The last manifest's state came of the round before; the model is the ending's.
        assert kept["believed"] == digest_of(found[-2].state), kept
        assert kept["model"] == {"rounds": ROUNDS, "weights": found[-1].evaluation_weights}, kept
    return DEVICES
