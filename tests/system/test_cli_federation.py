"""A federation by its commands, as somebody types them who tries it: all parties start, answer and end together."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

from secvm.testing.processes import dying_with_parent
from tests.program import Program
from tests.rigs.federation_ports import move_to_free_ports


def test_all_parties_run_take_an_experiment_and_end_with_ctrl_c(tmp_path: Path, secvm: Program) -> None:
    # Where a shell runs the suite in the background SIGINT is ignored here, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = tmp_path / "trial"
    assert secvm("federation", "init", folder, "--people 10 --period 12 --witnesses 2") == 0
    coordinator = move_to_free_ports(folder)
    program = [sys.executable, "-P", "-m", "secvm.cli.main", "federation", "run", str(folder)]
    running = subprocess.Popen(dying_with_parent(program), stderr=subprocess.PIPE, text=True)
    try:
        assert running.stderr is not None
        said = ""
        while "All parties run" not in said:
            line = running.stderr.readline()
            assert line, said
            said += line
        given = f"--coordinator {coordinator} --admin-key-file {folder}/admin.key"
        assert secvm("experiment new", folder / "experiment.toml", given, "--yes --format json") == 0
        assert re.fullmatch("[0-9a-f]{64}", json.loads(secvm.out)["digest"])
        running.send_signal(signal.SIGINT)
        assert "Ending all parties." in running.communicate(timeout=30)[1]
        assert running.returncode == 0
    finally:
        running.kill()
        running.wait()
    logs = {path.stem: path.read_text() for path in folder.glob("*.log")}
    assert logs.keys() == {"coordinator", "entry", "mix", "witness-1", "witness-2"}
    # Each ended by itself.
    assert all(re.search('"event":"stopp(ed|ing)"', log) for log in logs.values())
