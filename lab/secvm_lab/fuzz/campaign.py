"""A campaign: so many inputs over all targets, a few processes side by side.

How many inputs a target gets follows from what one costs: a target whose inputs cost four times as much gets half as
many. So cheap decoders are tried very often, and the dear ones take most of the time.

Bytes changed at random, without a fuzzer: for tests that run anywhere, from a seed.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path

from secvm.errors import BadInputError, LocalProtocolError
from secvm.testing.processes import dying_with_parent
from secvm_lab.fuzz import world
from secvm_lab.fuzz.target import Escape, Target, attempt, read_corpus
from secvm_lab.fuzz.worker import COUNT, Job

#: What numbers and lengths are often wrong by.
_ODD = (b"\0", b"\xff", b"\x7f\xff", b"\xff\xff\xff\xff", b"\0\0\0\0\0\0\0\x80", b"-1", b"1e999", b'"', b"{", b"\r\n")


def _flip(data: bytearray, dice: random.Random) -> None:
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def _replace(data: bytearray, dice: random.Random) -> None:
    at, odd = dice.randrange(len(data)), dice.choice(_ODD)
    data[at : at + len(odd)] = odd


def _insert(data: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(data) + 1)
    data[at:at] = dice.choice((*_ODD, dice.randbytes(dice.randint(1, 8))))


def _erase(data: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(data))
    del data[at : at + dice.randint(1, 16)]


def _repeat(data: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(data))
    data[at:at] = data[at : at + dice.randint(1, 32)] * dice.randint(1, 3)


def _cut(data: bytearray, dice: random.Random) -> None:
    del data[dice.randrange(len(data) + 1) :]


_WAYS: tuple[Callable[[bytearray, random.Random], None], ...] = (_flip, _replace, _insert, _erase, _repeat, _cut)


def mutated(kept: Sequence[bytes], dice: random.Random, *, most_bytes: int) -> bytes:
    """One of these, changed once or a few times; now and then joined with another."""
    data = bytearray(dice.choice(kept))
    if dice.random() < 0.1:
        data += dice.choice(kept)
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        if data:
            dice.choice(_WAYS)(data, dice)
        else:
            _insert(data, dice)
    return bytes(data[:most_bytes])


#: As many at least, however dear.
_LEAST_INPUTS = 1000
_CALIBRATION_S = 0.05
_POLL_S = 0.2


@dataclass(slots=True)
class Outcome:
    """What came of one target."""

    inputs: int
    seconds: float
    #: Inputs that libFuzzer found worth keeping.
    found: list[bytes] = field(default_factory=list)
    #: The most memory that it took.
    rss_mb: float = 0.0
    #: What happened and the input that did it; nothing where nothing did.
    escape: tuple[str, bytes] | None = None


def check_platform() -> None:
    """Say in one sentence where there is no fuzzer."""
    if sys.platform != "linux" or platform.machine() != "x86_64" or find_spec("atheris") is None:
        raise BadInputError(
            "the fuzzer, atheris, is there for Linux on x86-64 alone, and for developers",
            next_step="'./secvm test tests/contract/fuzz' replays the kept corpus anywhere.",
        )


def plan(costs: dict[str, float], inputs: int) -> dict[str, int]:
    """How many inputs each target gets; together at least ``inputs``."""
    weights = {name: 1 / math.sqrt(max(cost, 1e-6)) for name, cost in costs.items()}
    share = inputs / sum(weights.values())
    return {name: max(_LEAST_INPUTS, math.ceil(share * weight)) for name, weight in weights.items()}


def cost_of(target: Target, known: Sequence[bytes], dice: random.Random) -> float:
    """Seconds for one input, about."""
    most_bytes = target.most_bytes
    started, tried = time.perf_counter(), 0
    while tried < 2 or time.perf_counter() - started < _CALIBRATION_S:
        data = mutated(known, dice, most_bytes=most_bytes)
        if tried == 1:
            # The first one made what the target stands on.
            started = time.perf_counter()
        tried += 1
        try:
            attempt(target, data)
        except Escape:
            # The fuzzer shall find it, and tell.
            break
    return (time.perf_counter() - started) / tried


def run_campaign(
    targets: Sequence[Target],
    *,
    inputs: int,
    seed: int,
    corpus: Path,
    processes: int,
    advance: Callable[[int], None],
    tell: Callable[[str, Outcome], None],
) -> dict[str, Outcome]:
    """Fuzz all of them; ``advance`` is told of inputs as they are tried, ``tell`` of every target that is done."""
    dice = random.Random(seed)  # noqa: S311  (no secrets)
    outcomes: dict[str, Outcome] = {}
    with world.memory_folder() as made:
        place = Path(made)
        (place / "own").mkdir()
        world.use(place / "own")
        costs = {target.name: cost_of(target, _known(place, target, corpus), dice) for target in targets}
        world.use(None)
        wanted = plan(costs, inputs)
        # The longest first, so that no process is left alone with it at the end.
        order = sorted(targets, key=lambda target: -wanted[target.name] * costs[target.name])
        runs = {one.name: _Run(place, one, wanted[one.name], seed + number) for number, one in enumerate(order)}
        with _worker([run.job for run in runs.values()], processes) as worker:
            assert worker.stdout is not None
            while len(outcomes) < len(runs):
                ready, _, _ = select.select([worker.stdout], [], [], _POLL_S)
                advance(sum(run.news() for run in runs.values()))
                if ready:
                    line = worker.stdout.readline()
                    if not line:
                        raise LocalProtocolError(f"the fuzzing process ended with {worker.wait()} of its own accord")
                    ended = json.loads(line)
                    name = ended.pop("target")
                    outcomes[name] = runs[name].outcome(**ended)
                    tell(name, outcomes[name])
    return {target.name: outcomes[target.name] for target in targets}


@contextlib.contextmanager
def _worker(jobs: Sequence[Job], processes: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that does these jobs, each in a fork, and tells of each that ends. None of them outlives this block."""
    with subprocess.Popen(  # noqa: S603  (our own program)
        dying_with_parent([sys.executable, "-P", "-m", "secvm_lab.fuzz.worker", str(processes)]),
        stdin=subprocess.PIPE,
        # Lines are waited for with ``select``, which sees no buffer of ours.
        bufsize=0,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # A group of its own, so that nothing of it is left behind.
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        try:
            with process.stdin as told:
                told.write(json.dumps([asdict(job) for job in jobs]).encode())
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _known(place: Path, target: Target, corpus: Path) -> list[bytes]:
    """Seeds and the kept corpus, also as files for the fuzzer."""
    known = [*target.seeds(), *read_corpus(corpus, target)]
    folder = place / "known" / target.name
    folder.mkdir(parents=True)
    for number, data in enumerate(known):
        (folder / str(number)).write_bytes(data)
    return known


class _Run:
    """One target's turn."""

    def __init__(self, place: Path, target: Target, inputs: int, seed: int) -> None:
        self.target = target
        self._inputs = inputs
        self._told = 0
        self.folder = Path(tempfile.mkdtemp(prefix=f"{target.name}-", dir=place))
        (self.folder / "count").write_bytes(bytes(COUNT.size))
        self.job = Job(target.name, inputs, seed, str(self.folder), str(place / "known" / target.name))

    @property
    def _count(self) -> int:
        found: int = COUNT.unpack((self.folder / "count").read_bytes())[0]
        return found

    def news(self) -> int:
        """Inputs since it was asked last."""
        count = self._count
        news, self._told = count - self._told, count
        return news

    def outcome(self, code: int, seconds: float, rss_mb: float) -> Outcome:
        """When it has ended."""
        found = self.folder / "found"
        kept = [file.read_bytes() for file in sorted(found.iterdir())] if found.is_dir() else []
        outcome = Outcome(self._count, seconds, kept, rss_mb)
        if code or self._count < self._inputs:
            outcome.escape = self._escape(code)
        return outcome

    def _escape(self, code: int) -> tuple[str, bytes]:
        if (self.folder / "escape").exists():
            return (self.folder / "escape.txt").read_text(encoding="utf-8"), (self.folder / "escape").read_bytes()
        for file in self.folder.iterdir():
            what, dash, _ = file.name.partition("-")
            if dash and what in {"timeout", "oom", "crash", "slow", "leak"}:
                return f"{self.target.name}: {what}", file.read_bytes()
        said = (self.folder / "said").read_bytes()[-4000:].decode(errors="replace")
        return f"{self.target.name}: the process ended with {code}\n{said}", b""


def write_escapes(outcomes: dict[str, Outcome], folder: Path) -> list[Path]:
    """Inputs that escaped, as files of ``folder``, each with its story beside it; the inputs' paths."""
    written = []
    for name, outcome in outcomes.items():
        if outcome.escape is not None:
            folder.mkdir(parents=True, exist_ok=True)
            told, data = outcome.escape
            path = folder / name
            path.write_bytes(data)
            path.with_suffix(".txt").write_text(told, encoding="utf-8")
            written.append(path)
    return written


def as_result(outcomes: dict[str, Outcome]) -> dict[str, object]:
    """As the command tells it."""
    return {
        "inputs": sum(one.inputs for one in outcomes.values()),
        "targets": {name: {"inputs": one.inputs, "seconds": round(one.seconds, 3)} for name, one in outcomes.items()},
        "escapes": sum(one.escape is not None for one in outcomes.values()),
    }
