"""Children: processes that a test or a demonstration starts, and ends again, each by its own id."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

#: How long a process may take to end by itself.
PATIENCE_S = 10.0
#: The processes of a federation of thousands of devices write about a quarter of this.
ROOM_BYTES = 2**29
#: ``secvm``, run by this Python.
OURS = (sys.executable, "-P", "-m", "secvm.cli.main")


class ChildDiedError(Exception):
    """A process ended that should have gone on: its name, how it ended, and the last lines of its log."""

    def __init__(self, name: str, code: int, said: Sequence[str]) -> None:
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        super().__init__("\n".join([f"{name} {how}:", *said]))
        self.name, self.how = name, f"{name} {how}"
        #: What it said itself, in words: its log's events are JSON.
        self.why = next((line.removeprefix("secvm: ") for line in said if line.startswith("secvm: ")), None)


class Children:
    """Processes by name, each with a log file. Whatever happens, ``stop`` leaves none."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._commands: dict[str, tuple[Sequence[str], Sequence[str]]] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self, name: str, arguments: Sequence[str], *, wrapper: Sequence[str] = (), program: Sequence[str] = OURS
    ) -> None:
        """Start ``secvm``, or another program, with these arguments; what it tells on stderr is added to its log.
        ``wrapper`` is a command that becomes the one behind it, such as ``nsenter``.
        """
        command = [*program, *arguments]
        self._commands[name] = command, wrapper
        self._run(name, command, wrapper)

    def _run(self, name: str, command: Sequence[str], wrapper: Sequence[str]) -> None:
        with self.log(name).open("ab") as log:
            # A session of its own: Ctrl-C is for us, and we pass it on in our own time.
            self._running[name] = subprocess.Popen(  # noqa: S603  (our own program)
                [*wrapper, *dying_with_parent(command, signal.SIGTERM)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def log(self, name: str) -> Path:
        """Where a process tells what happens."""
        return self._logs / f"{name}.log"

    def pid(self, name: str) -> int:
        """Its id."""
        return self._running[name].pid

    def names(self) -> list[str]:
        """Those that were started and not ended by us."""
        return list(self._running)

    def check(self) -> None:
        """Raise if one has ended by itself."""
        for name, process in self._running.items():
            code = process.poll()
            if code is not None:
                said = self.log(name).read_text(errors="replace").splitlines()[-12:]
                raise ChildDiedError(name, code, said)

    def ended(self) -> list[str]:
        """Those that have ended by themselves."""
        return [name for name, process in self._running.items() if process.poll() is not None]

    def kill(self, name: str) -> None:
        """SIGKILL: no time for anything."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def restart(self, name: str) -> None:
        """Start again as it was started the first time."""
        self._run(name, *self._commands[name])

    def send(self, name: str, number: signal.Signals) -> None:
        """A signal that it goes on after, such as SIGSTOP and SIGCONT."""
        self._running[name].send_signal(number)

    def stop(self, names: Sequence[str] | None = None) -> None:
        """SIGTERM to all (or these, in this order), patience, and SIGKILL for those that do not listen."""
        wanted = [name for name in (self._running if names is None else names) if name in self._running]
        ending = [self._running.pop(name) for name in wanted]
        for process in ending:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        try:
            deadline = time.monotonic() + PATIENCE_S
            for process in ending:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, deadline - time.monotonic()))
        finally:
            # Also when somebody is out of patience and interrupts the waiting.
            for process in ending:
                process.kill()
                process.wait()


def dying_with_parent(command: Sequence[str], by: signal.Signals = signal.SIGKILL) -> list[str]:
    """The command, run so that it gets a signal when we are gone, and without any Python between fork and exec.

    Where other threads run, in the new process nobody gives back the locks that those threads held, and Python's own
    code (``preexec_fn``) may wait for them there for ever, and we for it.
    """
    return ["setpriv", "--pdeathsig", by.name[3:], *command] if sys.platform == "linux" else list(command)


def in_memory(room_bytes: int = 0) -> Path | None:
    """A file system in memory, where there is one with so much room: hundreds of devices on one disk would wait for it.

    Who has set TMPDIR knows better.
    """
    if os.environ.get("TMPDIR"):
        return None
    memory = Path("/dev/shm")  # noqa: S108  (a private folder is made in it)
    with contextlib.suppress(OSError):
        if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > room_bytes:
            return memory
    return None


def free_port() -> int:
    """A port of this machine that nobody listens on just now, and that this process was not given before. None of those
    that outgoing connections are given: one of them may take it while whoever listens there is being started again.
    """
    for port in [*itertools.islice(_PORTS, 100), 0]:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            free: int = probe.getsockname()[1]
            return free
    raise OSError("no port is free")


def _ports() -> Iterator[int]:
    """One port after the other, round and round, from a random one on: two processes rarely meet."""
    first, end = 15_000, _first_given_away()
    begin = random.SystemRandom().randrange(first, end)
    return itertools.cycle([*range(begin, end), *range(first, begin)])


def _first_given_away() -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return max(16_000, int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]))
    return 32_768


_PORTS = _ports()
