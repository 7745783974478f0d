"""CPU time of a device in a host for one round, beside its 2·B bare seals.

Coordinator, two relays, witnesses and two hosts are processes of their own; devices make all checks of a round, with
the limits of a person and not those of a test. One host carries more devices than the other: what both do alike is done
once for a host (``once_ms``), what grows with them is each device's (``device_ms``, and by what it is spent on).
``over_seals`` is ``device_ms`` over ``seals_ms``, the median time of as many bare seals, two a package, made again and
again while the same rounds run, because a CPU that others use as well is slower for both. ``seals_alone_ms`` is the
fastest of several turns after everything has ended. From the end of round 1 on, so that nothing of joining is counted.
``watched_ms`` is what the bench's own questions cost, and is in no other number.

    ./secvm bench device [--devices 150] [--rounds 3] [--bins 1000] [--features 101] [--readable]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Self

from benchmarks import _device_host
from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.layers import PACKAGE_BYTES, seal_both
from secvm.errors import BadInputError
from secvm.protocol.documents.terms import RelayTimes
from secvm.runtime.lanes import find_lanes
from secvm.testing.federation import Federation, HostOf, Pace

_TURNS = 7
#: So long a busy machine may take for one step of a relay, or for a host to end its devices and write its samples.
_PATIENCE_S = 300
#: Bare seals are made so often beside the rounds: they take a hundredth of a core.
_SEALS_EVERY_S = 2.0
#: The smaller host has such a part of the larger one's devices.
_PART = 5
#: Relays have time enough for their cover; the clock leaps over it.
_STEPS = RelayTimes(batch_s=600, mix_s=900, reveal_s=5, open_s=5)
_PACE = Pace(length_s=30, grace_s=4, lead_s=10, rate=20.0, relays=_STEPS)
#: Of a person who has agreed to this experiment; every check is made.
_CONSENT = {"most_epsilon": 64.0, "total_epsilon": 64.0, "delta": 0.001, "total_delta": 0.01}
_LABELS = ("cat", "dog")
#: When, seconds of a host's main thread and what they were spent on, seconds of its other threads.
Sample = tuple[float, float, str, float]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--devices", type=int, default=150, help="of the larger host; the smaller one has a fifth")
    parser.add_argument("--rounds", type=int, default=3, help="the first is not counted")
    parser.add_argument("--bins", type=int, default=1_000)
    parser.add_argument("--features", type=int, default=101, help="of a person, of which B follows")
    parser.add_argument("--epsilon", type=int, default=12, help="large, so that relays have little to add")
    parser.add_argument("--readable", action="store_true", help="devices seal without the machine code for eight lanes")


class _Metered(Federation):
    """A federation whose hosts tell what they spend their time on."""

    def __init__(self, folder: Path, *, lanes: bool, **options: Any) -> None:
        super().__init__(folder, **options)
        self._lanes = lanes
        self._metered: dict[str, SpawnProcess] = {}

    def start_host(self, name: str) -> None:
        told = self.folder / f"{name}.json"
        process = multiprocessing.get_context("spawn").Process(
            target=_device_host.carry, args=(self.folder / f"{name}.toml", told, self._lanes), daemon=True
        )
        process.start()
        self._metered[name] = process

    def spent(self) -> list[dict[str, Any]]:
        """End the hosts; what each has told."""
        for process in self._metered.values():
            process.terminate()
        for process in self._metered.values():
            process.join(_PATIENCE_S)
        return [json.loads((self.folder / f"{name}.json").read_bytes()) for name in self.host_names]


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Play the rounds, and compare both hosts."""
    if arguments.devices < _PART or arguments.rounds < 2:
        raise BadInputError(
            f"--devices is {arguments.devices} and must be at least {_PART}; --rounds is {arguments.rounds} and must be"
            " at least 2, because the first is not counted"
        )
    sizes = [arguments.devices, arguments.devices // _PART]
    with tempfile.TemporaryDirectory(prefix="secvm-device-", dir=_memory()) as name:
        folder = Path(name)
        people = folder / "people.jsonl"
        people.write_text(_people(sum(sizes), arguments.features))
        hosts = [HostOf(people, 0, sizes[0]), HostOf(people, sizes[0], sizes[1])]
        lanes = not arguments.readable
        with _Metered(
            folder,
            lanes=lanes,
            hosts=hosts,
            seed="bench",
            pace=_PACE,
            witnesses=3,
            covered=True,
            consent=_CONSENT,
            patience_s=_PATIENCE_S,
        ) as federation:
            federation.start_servers()
            federation.begin(_specification(arguments, sum(sizes)))
            assert federation.document is not None
            budget, ends = federation.document.budget, []
            with _SealsBeside(budget) as beside:
                for number in range(1, arguments.rounds + 1):
                    federation.play_round(number, attending=sum(sizes), budget=0)
                    ends.append(time.monotonic())
            spent = federation.spent()
    seals = beside.median_ms(ends[0], ends[-1])
    compared = compare([host["samples"] for host in spent], sizes, ends[0], ends[-1], rounds=arguments.rounds - 1)
    return {
        "devices": sizes,
        "lanes": find_lanes("off" if arguments.readable else "auto").reason,
        "budget": budget,
        "over_seals": round(compared["device_ms"] / seals, 2),
        "seals_ms": round(seals, 2),
        "seals_alone_ms": round(min(_seals_ms(budget) for _ in range(_TURNS)), 2),
        **{name: round(value, 2) for name, value in compared.items()},
        "device_kb": round(1000 * (spent[0]["peak_mb"] - spent[1]["peak_mb"]) / (sizes[0] - sizes[1])),
        "peak_mb": round(spent[0]["peak_mb"]),
        "round_s": round((ends[-1] - ends[0]) / (arguments.rounds - 1), 1),
    }


def compare(
    told: Sequence[Sequence[Sample]], sizes: Sequence[int], begin: float, end: float, *, rounds: int
) -> dict[str, float]:
    """Milliseconds of a round that each device costs, by what they are spent on, and that a host costs once: from the
    samples of two hosts of so many devices.
    """
    spent = []
    for samples in told:
        one = defaultdict[str, float](float)
        for at, seconds, work, others in samples:
            if begin < at <= end:
                one[work] += 1000 * seconds / rounds
                one["threads"] += 1000 * others / rounds
        spent.append(one)
    between = sizes[0] - sizes[1]
    each = {work: (spent[0][work] - spent[1][work]) / between for work in sorted({*spent[0], *spent[1]})}
    watched = each.pop("watched", 0.0)
    device = sum(each.values())
    once = sum(spent[0].values()) - spent[0]["watched"] - sizes[0] * device
    return {
        "device_ms": device,
        **{f"{work}_ms": value for work, value in each.items()},
        "once_ms": once,
        "watched_ms": watched,
    }


def _specification(arguments: argparse.Namespace, people: int) -> dict[str, Any]:
    return {
        "title": "A bench of devices",
        "labels": list(_LABELS),
        "people": people,
        "floor": 2,
        "rounds": arguments.rounds,
        "train_share": "7/10",
        "features": {"source": "words", "per_participant": arguments.features},
        "binning": {"bins": arguments.bins, "salt": bytes(range(16)).hex()},
        "privacy": {"epsilon": arguments.epsilon, "delta": "1/1000", "parts": 4},
        "descent": {"rule": "swift", "thinning": "5.9", "step_size": "5"},
    }


def _people(count: int, features: int) -> str:
    dice = random.Random(1)
    words = [f"word-{number}" for number in range(9_000)]
    lines = [{"label": dice.choice(_LABELS), "features": dice.sample(words, 2 * features)} for _ in range(count)]
    return "".join(json.dumps(line) + "\n" for line in lines)


class _SealsBeside:
    """A thread that makes the bare seals of one device every few seconds, under the load of the federation."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._turns: list[tuple[float, float]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(_SEALS_EVERY_S):
            milliseconds = _seals_ms(self._budget)
            self._turns.append((time.monotonic(), milliseconds))

    def median_ms(self, begin: float, end: float) -> float:
        """Median of the turns between two times, and of one turn of now, so that there is always one."""
        during = [milliseconds for at, milliseconds in self._turns if begin < at <= end]
        return statistics.median([*during, _seals_ms(self._budget)])


def _seals_ms(budget: int) -> float:
    """CPU time of two seals for each of so many packages, one after the other."""
    count, mix = (X25519PrivateKey(os.urandom(32)).public_key for _ in range(2))
    secrets = [os.urandom(64) for _ in range(budget)]
    begun = time.thread_time()
    for secret in secrets:
        seal_both(count, mix, bytes(32), secret, bytes(PACKAGE_BYTES))
    return 1000 * (time.thread_time() - begun)


def _memory() -> str | None:
    """Hundreds of devices on one disk would wait for it."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
