"""A federation by its commands, as somebody types them who tries it: all parties start, answer and end together."""

import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

from secvm.testing.processes import ChildDiedError, dying_with_parent
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


def test_when_one_party_ends_all_do_and_you_are_told_which_and_why(tmp_path: Path, secvm: Program) -> None:
    folder = tmp_path / "trial"
    assert secvm("federation", "init", folder, "--people 2 --witnesses 1") == 0
    move_to_free_ports(folder)
    # The last party to be started: all others run by then.
    (folder / "mix/relay.key").chmod(0o644)
    assert secvm("federation", "run", folder) == 2
    key = folder / "mix/relay.key"
    assert secvm.err.splitlines()[-2:] == [
        f"secvm: mix ended with exit code 2: the secret {key} is open to others than its owner",
        f"All other parties were ended too. See the end of {folder / 'mix.log'}.",
    ]
    ports = [
        int(port) for path in folder.glob("*/*.toml") for port in re.findall(r"(?m)^port = (\d+)", path.read_text())
    ]
    assert len(ports) == 4
    for port in ports:
        # Nobody listens there any more.
        socket.create_server(("127.0.0.1", port)).close()


def test_a_party_that_is_killed_is_told_by_its_name_and_the_signal() -> None:
    killed = ChildDiedError("entry", -signal.SIGKILL, ['{"event":"step"}'])
    assert (killed.how, killed.why) == ("entry was ended by SIGKILL", None)
