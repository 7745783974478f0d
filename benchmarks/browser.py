"""What a round costs the browser's device, beside Python's: CPU time, memory and the size of the packages.

One device of each kind takes part in the same rounds with two relays, and another one checks such rounds and joins
none, because no relay has signed terms. Coordinator and relays are played in this process; the devices' network is in
memory, Python's by a call and the browser's over a pipe to node. Counted is what the device itself spends on a round:

- ``checked_ms``: a round that is only checked: manifest, opening, net tally and step of ``--bins`` bins, and the log;
- ``joined_ms``: what taking part adds: packages, two seals each, one request and its receipt, looks at the log again in
  the window, the canary's shard;
- ``sealed_ms``: of that, packages and both seals alone, one request after the other.

Figures are medians of all rounds but the first, which has no step before it. ``idle_mb`` is memory of a process that
has one device and waits, and ``bare_mb`` of one that has none. With ``--browser`` a real one is asked: the memory (PSS)
of the process that runs the extension and nothing else.

    ./secvm bench browser [--bins 10000] [--features 101] [--rounds 9] [--browser chromium]
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import _idle_device
from benchmarks._measuring import in_a_process, in_turns, memory_mb
from secvm.errors import BadInputError
from secvm.learning import aggregate
from secvm.learning.aggregate.tally import Tally
from secvm.learning.cover_law import Noise, relay_budget
from secvm.learning.experiment import Experiment
from secvm.learning.package import NullPackage
from secvm.participant.dice import system_words
from secvm.protocol.canonical import base64_text
from secvm.protocol.documents.experiment import ExperimentDocument, HashedBins
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.submission import SECRETS_BYTES, draw_order, seal_submission
from secvm.testing.transport import MemoryTransport
from secvm_lab.extension import Package, build
from secvm_lab.node import node
from secvm_lab.rigs.extended import extended
from secvm_lab.rigs.extended.port import patiently
from secvm_lab.rigs.histories.relayed_rounds import RelayedRound, relayed_document, relayed_experiment
from secvm_lab.rigs.lies.heard.listeners import BrowserDevices, Devices, Listener, NodeProcess, PythonDevices
from secvm_lab.rigs.lies.heard.scene import HeardScene

_EXTENSION = Path(__file__).resolve().parents[1] / "extension"
#: Requests that are sealed for their own sake.
_SEALED = 20
#: Other people in every round: the floor is met.
_CROWD = 4
_BOTH = (False, True)
#: A node process is there by then.
_STARTED_S = 2
_WHAT = "its process for extensions"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--bins", type=int, default=10_000)
    parser.add_argument("--features", type=int, default=101, help="of a person, of which B follows")
    parser.add_argument("--rounds", type=int, default=9, help="the first is not counted")
    parser.add_argument(
        "--browser", action="append", default=[], choices=["chromium", "firefox"], help="also the memory of its process"
    )


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Play the rounds for both kinds of devices."""
    if arguments.rounds < 3:
        raise BadInputError(f"--rounds is {arguments.rounds} and must be at least 3: the first is not counted")
    experiment = _experiment(arguments.bins, arguments.features)
    with tempfile.TemporaryDirectory(prefix="secvm-browser-") as folder:
        packages = build(_EXTENSION, Path(folder) / "packages")
        # First what a busy machine may refuse.
        asked = [package for package in packages if package.browser in arguments.browser]
        real = [_in_a_browser(package, Path(folder) / package.browser) for package in asked]
        return {
            "bins": arguments.bins,
            "budget": experiment.budget,
            "rounds": arguments.rounds - 1,
            "python": _of_python(experiment, arguments.rounds, Path(folder)),
            "browser": _of_browser(experiment, arguments.rounds, Path(folder)),
            "packages_kb": {package.browser: [_kb(package.bundled), _kb(package.gzipped)] for package in packages},
            "browsers": real,
        }


def as_text(result: dict[str, Any]) -> str:
    """As a table."""
    python, browser, sizes = result["python"], result["browser"], result["packages_kb"]
    rows = [
        ("CPU of a round that is checked", "checked_ms", "ms"),
        ("CPU that taking part adds", "joined_ms", "ms"),
        ("  of it packages and both seals", "sealed_ms", "ms"),
        ("memory of a device that waits", "idle_mb", "MB"),
        ("  of a process without one", "bare_mb", "MB"),
    ]
    lines = [
        f"{result['bins']} bins, B = {result['budget']}, {result['rounds']} rounds",
        f"{'':36}{'Python':>10}{'browser':>10}",
        *(f"{what:36}{python[name]:>10}{browser[name]:>10} {unit}" for what, name, unit in rows),
        *(
            f"{f'scripts for {name}, gzipped':36}{'':10}{scripts:>10} kB, with all else {whole}"
            for name, (scripts, whole) in sizes.items()
        ),
    ]
    lines += [f"{told['of']:36}{'':10}{told['idle_mb']:>10} MB: {told['version']}" for told in result["browsers"]]
    return "\n".join(lines)


def _kb(size: int) -> float:
    return round(size / 1000, 1)


def _experiment(bins: int, features: int) -> Experiment:
    small = relayed_experiment()
    assert small.cover is not None
    train = Noise(cells=2 * (bins + 1), shape=Fraction(3), odds=Fraction(1, 2))
    return relayed_experiment(
        n_bins=bins,
        features_per_person=features,
        budget=relay_budget(violable=1, features=features),
        cover=replace(small.cover, train=train, packages=4 * (bins + 100)),
    )


# ── one kind of device ───────────────────────────────────────────────────────────────────────────────────────────────


def _of_python(experiment: Experiment, rounds: int, folder: Path) -> dict[str, float]:
    spent = {joins: _rounds(PythonDevices(), _Own(), experiment, rounds, folder / str(joins), joins) for joins in _BOTH}
    sealed = in_turns({"": lambda: _seal(experiment)}, _SEALED)[""]
    idle = float(in_a_process(_idle_device.memory_with, str(folder / "True")))
    return _told(spent, 1000 * statistics.median(sealed), idle=idle, bare=float(in_a_process(_idle_device.memory)))


def _of_browser(experiment: Experiment, rounds: int, folder: Path) -> dict[str, float]:
    spent, idle = {}, 0.0
    for joins in _BOTH:
        with closing(BrowserDevices()) as devices:
            spent[joins] = _rounds(devices, _Node(devices.node), experiment, rounds, folder, joins)
    with closing(BrowserDevices()) as devices:
        _scene(devices, experiment, folder)
        idle = memory_mb("VmRSS", devices.node.pid)
        document, manifest = _round_of(experiment)
        told = {"document": base64_text(document.data), "manifest": base64_text(manifest.data), "turns": _SEALED}
        sealed = devices.node.tell({"do": "seal", **told})
    with subprocess.Popen([node(), "--eval", "setInterval(() => console.log(), 1e9)"]) as waiting:
        time.sleep(_STARTED_S)
        bare = memory_mb("VmRSS", waiting.pid)
        waiting.kill()
    return _told(spent, statistics.median(sealed), idle=idle, bare=bare)


def _told(spent: Mapping[bool, list[float]], sealed_ms: float, *, idle: float, bare: float) -> dict[str, float]:
    checked, joined = (statistics.median(spent[joins][1:]) for joins in _BOTH)
    return {
        "checked_ms": round(checked, 1),
        "joined_ms": round(joined - checked, 1),
        "sealed_ms": round(sealed_ms, 1),
        "idle_mb": round(idle),
        "bare_mb": round(bare),
    }


def _round_of(experiment: Experiment) -> tuple[ExperimentDocument, RelayedManifest]:
    document = _document(experiment)
    return document, RelayedRound(document=document).manifest


def _document(experiment: Experiment) -> ExperimentDocument:
    return relayed_document(experiment=experiment, binning=_binning(experiment))


def _binning(experiment: Experiment) -> HashedBins:
    return HashedBins(bins=experiment.n_bins, salt=bytes(16))


def _seal(experiment: Experiment) -> None:
    document, manifest = _round_of(experiment)
    packages = [NullPackage()] * document.budget
    secrets = os.urandom(SECRETS_BYTES * document.budget)
    order = draw_order(document.budget, system_words(os.urandom))
    seal_submission(document, manifest, packages, order=order, ephemerals=secrets)


# ── rounds ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Own:
    """CPU time of this process, less what the network in memory has spent for others."""

    def __init__(self) -> None:
        self._network = 0.0

    def attach(self, net: MemoryTransport) -> None:
        """Let the network say what it spends."""
        for name in ("fetch", "submit", "relayed_terms"):
            setattr(net, name, self._metered(getattr(net, name)))

    def _metered(self, answer: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def answered(*asked: Any, **named: Any) -> Any:
            begun = time.process_time()
            given = await answer(*asked, **named)
            self._network += time.process_time() - begun
            return given

        return answered

    def read(self) -> float:
        """Milliseconds until now."""
        return 1000 * (time.process_time() - self._network)


class _Node:
    """CPU time of a node process."""

    def __init__(self, process: NodeProcess) -> None:
        self._process = process

    def attach(self, net: MemoryTransport) -> None:
        """The network spends time of another process."""

    def read(self) -> float:
        """Milliseconds until now."""
        spent: float = self._process.tell({"do": "spent"})
        return spent


class _Metered:
    """A device, and what it has spent."""

    def __init__(self, device: Listener, clock: _Own | _Node) -> None:
        self._device, self._clock = device, clock
        self.spent = 0.0

    def join(self, seed: int) -> str | None:
        """Not counted."""
        return self._device.join(seed)

    def drive(self, until: int) -> None:
        """Counted."""
        begun = self._clock.read()
        self._device.drive(until)
        self.spent += self._clock.read() - begun

    def noticed(self) -> str | None:
        """Not counted."""
        return self._device.noticed()

    def close(self) -> None:
        """Not counted."""
        self._device.close()


def _scene(devices: Devices, experiment: Experiment, folder: Path) -> HeardScene:
    dice, binning = random.Random(1), _binning(experiment)
    return HeardScene(dice, devices, folder, most=0, newcomer=False, experiment=experiment, binning=binning)


def _rounds(
    devices: Devices, clock: _Own | _Node, experiment: Experiment, rounds: int, folder: Path, joins: bool
) -> list[float]:
    """CPU milliseconds of each round, from its announcement until something came of the canary."""
    scene = _scene(devices, experiment, folder)
    device = scene.device = _Metered(scene.device, clock)
    clock.attach(scene.net)
    if not joins:
        scene.net.both_terms = {}
    spent, history = [], scene.history
    try:
        for number in range(rounds):
            before = device.spent, history.model.state.step, len(scene.net.requests)
            clients = _CROWD + joins
            scene.round_of(history, crowd=_CROWD, asleep=False, net=_net(history.document, clients, number))
            spent.append(device.spent - before[0])
            if history.model.state.step == before[1] or len(scene.net.requests) - before[2] != joins:
                raise BadInputError(f"round {number + 1} was not stepped, or the device sent what it should not")
        if device.noticed() not in {None, "DECLINED"}:
            raise BadInputError(f"a device refuses honest rounds: {device.noticed()}")
    finally:
        device.close()
    return spent


def _net(document: ExperimentDocument, clients: int, number: int) -> Tally:
    """A net tally that its cover and so many clients explain, with something in every bin."""
    tally, dice = aggregate.known_means(document.experiment), np.random.default_rng(number)
    tally.plus[:] += dice.integers(0, 2, tally.plus.shape)
    tally.minus[:] += dice.integers(0, 2, tally.minus.shape)
    tally.participants[:] += clients
    return tally


# ── real browsers ────────────────────────────────────────────────────────────────────────────────────────────────────


def _in_a_browser(package: Package, folder: Path) -> dict[str, object]:
    """Memory of the process that has the extension's background, which has joined nothing."""
    with extended(package.browser, package, folder) as browser:
        browser.page().close()
        patiently(browser.background_runs, "the extension's background")
        found = [pid for pid in _processes() if _runs_extensions(pid, str(browser.profile))]
        if len(found) != 1:
            raise BadInputError(f"{len(found)} processes of {browser.name} run extensions, and one is looked for")
        return {"version": f"{browser.name} {browser.version}", "idle_mb": round(_pss_mb(found[0])), "of": _WHAT}


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _runs_extensions(pid: int, profile: str) -> bool:
    with suppress(OSError):
        told = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        return _is_of(pid, profile) and ("--extension-process" in told or name == "WebExtensions")
    return False


def _is_of(pid: int, profile: str) -> bool:
    """Whether an ancestor was started with this profile."""
    while pid > 1:
        if profile.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            return True
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return False


def _pss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) / 1024
