"""Commands and services of ``secvm`` as real processes, on loopback, with a clock that a test steers."""

import hashlib
import itertools
import json
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from secvm.cli.experiment.remote import Remote
from secvm.coordinator.main import initialise
from secvm.runtime.clock import ClockSteering
from tests.rigs.clocks import jump

START = 1_767_225_600_000
#: A party that does nothing for so long does nothing more.
PATIENCE_S = 180
#: The program, as a process is started; ``./secvm test`` says where its modules are.
PROGRAM = (sys.executable, "-P", "-m", "secvm.cli.main")
#: A question to which nobody needs a relay.
SPECIFICATION = """
title = "North or south?"
labels = ["north", "south"]
privacy = "none"
floor = 2
rounds = 2
budget = 40
test = true
[features]
source = "words"
[binning]
bins = 200
[windows]
length_s = 40
grace_s = 5
"""


def secvm(*arguments: object, **how: Any) -> subprocess.CompletedProcess[str]:
    """A command that was run to its end. ``how``: as ``subprocess.run`` takes it."""
    how = {"capture_output": True, "text": True, "timeout": PATIENCE_S, **how}
    return subprocess.run([*PROGRAM, *map(str, arguments)], check=False, **how)


class Party:
    """A process of ``secvm``, and everything that it says."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*PROGRAM, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: list[str] = []
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            for line in stream:
                with self._more:
                    self._lines.append(line)
                    self._more.notify_all()

    @property
    def said(self) -> str:
        """All output up to now."""
        with self._more:
            return "".join(self._lines)

    def told(self, event: str, *, nth: int = 1, **fields: object) -> dict[str, Any]:
        """The first line of the log with this event and these fields, or a later one, once it is there."""
        wanted = {"event": event, **fields}

        def find() -> dict[str, Any] | None:
            lines = [json.loads(line) for line in self._lines]
            return next(itertools.islice((line for line in lines if line | wanted == line), nth - 1, None), None)

        with self._more:
            found = self._more.wait_for(find, timeout=PATIENCE_S)
        assert found, self.said
        return found

    def shows(self, pattern: str) -> re.Match[str]:
        """Where its output is so, once it is."""
        with self._more:
            match = self._more.wait_for(lambda: re.search(pattern, "".join(self._lines)), timeout=PATIENCE_S)
        assert match, self.said
        return match

    @property
    def port(self) -> int:
        """Where it listens, once it does."""
        port: int = self.told("listening")["port"]
        return port

    def end(self) -> int:
        """The exit code, once there is one; all output has been read then."""
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it in good order."""
        self.process.send_signal(how)
        assert self.end() == 0, self.said

    def kill(self) -> None:
        self.process.kill()
        self.end()


@contextmanager
def party(*arguments: str) -> Iterator[Party]:
    """A process that is gone afterwards, whatever happens."""
    running = Party(*arguments)
    try:
        yield running
    finally:
        running.kill()


class Place:
    """Settings of a coordinator and what belongs to it, in a folder, and how to ask it when it runs."""

    token = "a-token-of-the-relay"
    #: From the opening of one window to the next.
    period_s = 60

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = folder / "clock"
        self.steering = ClockSteering(self.clock, now=START - 30_000, rate=0.0)
        self.admin_key = initialise(folder / "coordinator")
        self.admin_key_file = self.secret("admin.key", self.admin_key)
        self.url = ""
        self.public = folder / "coordinator/public"
        self.settings = folder / "coordinator/coordinator.toml"
        text = self.settings.read_text(encoding="utf-8")
        ours = {
            "port = 8750": "port = 0",
            "period_s = 3600": f"period_s = {self.period_s}",
            "lead_s = 300": "lead_s = 10",
        }
        for shipped, changed in ours.items():
            assert shipped in text
            text = text.replace(shipped, changed)
        self.settings.write_text(
            f'{text}\n[[relays]]\nname = "relay"\ntoken_sha256 = "{hashlib.sha256(self.token.encode()).hexdigest()}"\n'
            f'[testing]\nclock = "{self.clock}"\n',
            encoding="utf-8",
        )

    def secret(self, name: str, text: str) -> Path:
        """A file that only its owner reads."""
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(text + "\n", encoding="utf-8")
        return path

    @contextmanager
    def coordinator(self) -> Iterator[Party]:
        """The coordinator, running."""
        with party("coordinator", "serve", "--config", str(self.settings)) as running:
            self.url = f"http://127.0.0.1:{running.port}"
            yield running

    def relay_settings(self, more: str = "", *, clients: str = "", epochs: str = "") -> Path:
        """A settings file of a relay before this coordinator; without ``more`` it carries fetches alone."""
        self.secret("relay.token", self.token)
        path = self.folder / "relay.toml"
        path.write_text(
            "[listen]\nport = 0\n"
            f'[gateway]\nurl = "{self.url}"\ntoken_file = "{self.folder}/relay.token"\n'
            f"[epochs]\nperiod_s = {self.period_s}\n{epochs}\n"
            f"[clients]\n{clients}\n"
            f'[testing]\nclock = "{self.clock}"\n' + more,
            encoding="utf-8",
        )
        return path

    def new_experiment(self, specification: str) -> str:
        """Ask a question by the operator's API; its digest comes back."""
        told = Remote(self.url, self.admin_key_file).order("", tomllib.loads(specification))
        return str(told["digest"])

    def set_time(self, at: int) -> None:
        """The clock jumps there, and stands."""
        jump(self.steering, at)

    def wait_for(self, path: str) -> bytes:
        """A public file, once it is there."""
        end = time.monotonic() + PATIENCE_S
        while (data := get(self.url + path)) is None:
            assert time.monotonic() < end, path
        return data


def get(url: str) -> bytes | None:
    """What is there; None: nothing."""
    # A proxy of the environment is for the world outside.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=PATIENCE_S) as answer:
            data: bytes = answer.read()
            return data
    except urllib.error.HTTPError as error:
        with error:
            return None


def relay_url(running: Party) -> str:
    """R of a relay that runs."""
    return f"http://127.0.0.1:{running.port}/relay"
