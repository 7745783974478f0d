"""From nothing to a first counted round by the commands that 'federation init' says, with made-up people."""

import json
import time
from pathlib import Path

import pytest

from secvm.testing.processes import Children
from tests.program import Program
from tests.rigs.federation_ports import move_to_free_ports

#: From the first command to the first counted round.
MOST_S = 300.0


@pytest.mark.takes(minutes=3)
def test_a_first_round_is_counted_after_four_commands(tmp_path: Path, secvm: Program) -> None:
    begun, folder = time.monotonic(), tmp_path / "trial"
    assert secvm("federation", "init", folder) == 0
    assert [name in secvm.out for name in ("federation run", "experiment new", "federation people")] == [True] * 3
    coordinator = move_to_free_ports(folder)
    children = Children(tmp_path)
    try:
        children.start("run", ["federation", "run", str(folder)])
        while "All parties run" not in children.log("run").read_text():
            children.check()
            time.sleep(0.2)
        given = f"--coordinator {coordinator} --admin-key-file {folder}/admin.key"
        assert secvm("experiment new", folder / "experiment.toml", given, "--yes --format json") == 0
        digest = json.loads(secvm.out)["digest"]
        children.start("people", ["federation", "people", str(folder), digest])
        while True:
            # It is listed once witnesses have seen it.
            found = secvm("experiment show", digest, f"--coordinator {coordinator} --format json") == 0
            rounds = json.loads(secvm.out)["rounds"] if found else []
            if any(one["state"] == "opened" for one in rounds):
                break
            children.check()
            assert time.monotonic() - begun < MOST_S, secvm.said
            time.sleep(1)
    finally:
        children.stop()
    # Devices whose people have changed nothing take part; seven of ten train, and the noise is in the count.
    assert sum(rounds[0]["participants"].values()) > 200
