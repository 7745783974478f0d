"""Targets under atheris: ``python -m secvm_lab.fuzz.worker N`` takes jobs from its input, and does N at a time.

To import the code with the fuzzer's marks in it takes seconds, so it is done once, and each job runs in a fork. The
fuzzer ends its process without a word to Python, so what is to be told lies in files of the job's folder: how many
inputs were tried, in ``count``, at every moment, and an escape, in ``escape`` (the input) and ``escape.txt`` (what it
did). A hang and too much memory are libFuzzer's to see: it writes ``timeout-…`` and ``oom-…`` there. A job that has
ended is a line of JSON on the standard output.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import resource
import signal
import struct
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from secvm_lab.fuzz.target import Target

_PR_SET_PDEATHSIG = 1
#: An input that takes longer is a hang.
TIMEOUT_S = 20
#: More memory than this is too much, whatever the input.
MOST_RSS_MB = 1536
#: A single demand beyond this fails at once, and is seen as MemoryError.
_MOST_ADDRESSES = 6 << 30
#: What is watched for new ways through the code. Kernels are compiled: numba cannot read what the fuzzer writes there.
_WATCHED = [f"secvm.{name}" for name in (
    "auditor", "coordinator", "crypto", "estimator", "learning", "participant", "people", "protocol", "relay",
    "runtime", "witness",
)]  # fmt: skip
_UNWATCHED = [f"secvm.{name}._kernels" for name in ("coordinator.counting", "learning")]
COUNT = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Job:
    """What one process does."""

    target: str
    inputs: int
    seed: int
    #: For the count, escapes and files of the target.
    folder: str
    #: What is known already.
    corpus: str


def main(processes: int) -> None:
    """Do all jobs, in the order in which they come."""
    import atheris  # type: ignore[import-untyped]  # noqa: PLC0415  (only where it is installed)

    with atheris.instrument_imports(include=_WATCHED, exclude=_UNWATCHED):
        from secvm_lab.fuzz import registry, world  # noqa: PLC0415
    # Made once for all of them.
    world.history()
    world.documents()
    jobs, running = [Job(**told) for told in json.load(sys.stdin)], dict[int, tuple[str, float]]()
    while jobs or running:
        if jobs and len(running) < processes:
            job = jobs.pop(0)
            child = os.fork()
            if child == 0:
                # Nobody is left behind, however the others end.
                ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
                said = os.open(Path(job.folder) / "said", os.O_WRONLY | os.O_CREAT, 0o600)
                os.dup2(said, 1)
                os.dup2(said, 2)
                _fuzz(registry.TARGETS[job.target], job)
                os._exit(1)
            running[child] = job.target, time.monotonic()
        else:
            child, status, used = os.wait3(0)
            target, started = running.pop(child)
            ended = {"code": os.waitstatus_to_exitcode(status), "rss_mb": used.ru_maxrss / 1024}
            told = json.dumps({"target": target, "seconds": time.monotonic() - started, **ended})
            sys.stdout.write(f"{told}\n")
            sys.stdout.flush()


def _fuzz(target: Target, job: Job) -> None:
    """In a process of its own; never returns."""
    import atheris  # noqa: PLC0415

    from secvm_lab.fuzz import world  # noqa: PLC0415
    from secvm_lab.fuzz.target import attempt  # noqa: PLC0415

    folder = Path(job.folder)
    world.use(folder)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_ADDRESSES, hard))
    with (folder / "count").open("r+b") as file:
        counter = mmap.mmap(file.fileno(), COUNT.size)
    tried = 0

    def one(data: bytes) -> None:
        nonlocal tried
        try:
            attempt(target, data)
        except BaseException:
            (folder / "escape").write_bytes(data)
            (folder / "escape.txt").write_text(traceback.format_exc(), encoding="utf-8")
            raise
        tried += 1
        COUNT.pack_into(counter, 0, tried)

    found = folder / "found"
    found.mkdir()
    options = {
        "runs": job.inputs,
        # 0 would mean: any.
        "seed": job.seed + 1,
        "max_len": target.most_bytes,
        "len_control": 0,
        "timeout": TIMEOUT_S,
        "rss_limit_mb": MOST_RSS_MB,
        "artifact_prefix": f"{folder}/",
        "reload": 0,
        "verbosity": 0,
    }
    atheris.Setup([sys.argv[0], *(f"-{name}={value}" for name, value in options.items()), str(found), job.corpus], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(int(sys.argv[1]))
