"""A host in a process of its own, whose CPU time is told by what it was spent on.

A timer of CPU time interrupts it every few milliseconds; what has passed since the last time goes to the innermost
function on the stack that the table below knows. What other threads have used is told apart.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import FrameType

from benchmarks._measuring import memory_mb
from secvm.participant import main
from secvm.participant.settings import ParticipantSettings
from secvm.runtime.lanes import find_lanes
from secvm.runtime.settings import read_settings

_EVERY_S = 0.002
#: By file below ``secvm``.
_WORK = {
    "protocol/relays/submission.py": "sealing",
    "participant/sending/transport.py": "fetching",
    "participant/storage/state.py": "storing",
    "participant/storage/books.py": "storing",
    "participant/trust/model_files.py": "storing",
    "participant/trust/surroundings.py": "storing",
    "participant/consent/ledger.py": "checking",
    "participant/consent/policies.py": "checking",
    "participant/trust/fresh_looks.py": "checking",
    "participant/relayed/canaries.py": "checking",
    "participant/relayed/rounds.py": "checking",
    "protocol/relays/session.py": "checking",
    "learning/individual/contribution.py": "learning",
}
#: Whoever asks a host for its counts pays for all that this calls.
_WATCHED = "participant/status_page.py"
_NETWORK = ("/aiohttp/", "/asyncio/selector_events.py", "/asyncio/sslproto.py")


class _Meter:
    """Samples of the process: when, seconds of the main thread and on what, seconds of all other threads."""

    def __init__(self) -> None:
        self.samples: list[tuple[float, float, str, float]] = []
        self._thread, self._process = time.thread_time(), time.process_time()

    def take(self, _signal: int, frame: FrameType | None) -> None:
        thread, process = time.thread_time(), time.process_time()
        own, all_of_it = thread - self._thread, process - self._process
        self._thread, self._process = thread, process
        self.samples.append((time.monotonic(), own, _work(frame), max(0.0, all_of_it - own)))


def _work(frame: FrameType | None) -> str:
    files = []
    while frame is not None:
        files.append(frame.f_code.co_filename)
        frame = frame.f_back
    return work_of(files)


def work_of(files: Sequence[str]) -> str:
    """What a process is busy with whose stack is in these files, the innermost first."""
    own = [file.rpartition("/secvm/")[2] for file in files]
    if _WATCHED in own:
        return "watched"
    network = "fetching" if any(part in file for file in files for part in _NETWORK) else "other"
    return next((_WORK[file] for file in own if file in _WORK), network)


def carry(settings: Path, told: Path, lanes: bool) -> None:
    """Carry the devices of these settings until SIGTERM, and write all samples; ``lanes``: they may seal with them."""
    if not lanes:
        vars(main)["find_lanes"] = partial(find_lanes, "off")
    meter = _Meter()
    # A stack is as deep as a task and what it calls; none of it is kept.
    signal.signal(signal.SIGPROF, meter.take)
    signal.setitimer(signal.ITIMER_PROF, _EVERY_S, _EVERY_S)
    try:
        main.run(read_settings(settings, ParticipantSettings))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        peak = memory_mb()
        told.write_text(json.dumps({"samples": meter.samples, "peak_mb": peak}))
