"""``secvm reproduce offline`` on scheduler and workers of dask, as docs/results/many-machines.md has them, over TLS."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import dask
import orjson
import pytest
from distributed import Security

from secvm.cli.main import run
from secvm.errors import ClusterError
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm_lab.cluster.sweep import ClusterSweep
from tests.system.parties import secvm
from tests.unit.lab.cluster.on_workers import some_rows

ROOT = Path(__file__).resolve().parents[2]
#: Far more than anything here takes.
BOUND_S = 120


@dataclass
class Machines:
    """Processes of dask's, each ended by its own id."""

    #: Paths by dask's names.
    certificates: Mapping[str, str]
    environment: Mapping[str, str]
    address: str = ""
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *command: str) -> subprocess.Popen[str]:
        options = ["--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0"]
        options += [word for name, file in self.certificates.items() for word in (f"--tls-{name}", file)]
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "dask", *command, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        )
        self.running.append(process)
        return process

    def stop(self) -> None:
        for process in self.running:
            process.kill()
            process.communicate()


def read_until(process: subprocess.Popen[str], pattern: str) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if match := re.search(pattern, line):
            return match[1]
    raise AssertionError(f"it ended without saying {pattern}")


@pytest.fixture
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Of each test its own: one of them kills the scheduler."""
    folder = tmp_path_factory.mktemp("machines")
    secret = Security.temporary()
    contents = {"ca-file": secret.tls_ca_file, "cert": secret.tls_client_cert, "key": secret.tls_client_key}
    for name, content in contents.items():
        (folder / name).write_text(content, encoding="utf-8")
    files = {name: str(folder / name) for name in contents}
    paths = [str(ROOT / "src"), str(ROOT / "lab"), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "DASK_DISTRIBUTED__COMM__TLS__CA_FILE": files["ca-file"],
        "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT": files["cert"],
        "DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY": files["key"],
    }
    machines = Machines(files, environment)
    try:
        scheduler = machines.start("scheduler", "--port", "0", "--protocol", "tls")
        machines.address = read_until(scheduler, r"Scheduler at:\s+(tls://127\.0\.0\.1:\d+)")
        worker = ["worker", machines.address, "--nthreads", "1", "--no-nanny"]
        machines.start(*worker, "--local-directory", str(folder))
        yield machines
    finally:
        machines.stop()


COMMAND = ["reproduce", "offline", "--people", "600", "--splits", "20", "--bins", "300", "--rounds", "8"]


def result(told: str) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(told)
    return {name: value for name, value in found.items() if name not in ("seconds", "peak_rss_mb", "folder")}


def test_figures_from_many_machines_are_those_of_one(
    machines: Machines, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    elsewhere = ("--folder", tmp_path / "there", "--engine", "dask", "--scheduler", machines.address)
    there = secvm(*COMMAND, *elsewhere, "--format", "json", env=machines.environment, timeout=BOUND_S)
    assert there.returncode == 0, there.stderr
    assert run([*COMMAND, "--folder", str(tmp_path / "here"), "--format", "json"]) == 0
    found = result(there.stdout)
    assert found["models"]["computed"] == 20
    assert found == result(capfd.readouterr().out)


def test_scheduler_that_is_killed_ends_the_sweep_in_a_sentence(machines: Machines, tmp_path: Path) -> None:
    rows, labels = some_rows(1, n=200, words=15, bins=60)
    experiment = Experiment(n_bins=60, labels=("n", "p"), rule=Pegasos(lambda_=Fraction(1, 1000), averaging=2))
    settings = {"ca-file": machines.certificates["ca-file"]}
    settings |= {f"client.{name}": machines.certificates[name] for name in ("cert", "key")}
    with (
        dask.config.set({f"distributed.comm.tls.{name}": file for name, file in settings.items()}),
        ClusterSweep(machines.address, connect_s=BOUND_S) as sweep,
    ):
        kill = machines.running[0].kill
        endless = sweep(rows, labels, [experiment], rounds=10**7, evaluate=[], progress=lambda *_: kill())
        with pytest.raises(ClusterError, match=f"the scheduler at {machines.address} does not answer any more"):
            next(endless)
