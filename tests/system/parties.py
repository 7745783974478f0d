"""Real processes of all parties, on loopback, with a clock that the test steers: nothing here sleeps."""

import hashlib
import itertools
import json
import os
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
from tests.conftest import ROOT

START = 1_767_225_600_000
#: A party that does nothing for so long does nothing more.
PATIENCE_S = 60


class Party:
    """A process of ``secvm``, and everything that it says."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "secvm.cli.main", *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
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

    def end(self) -> int:
        """The exit code, once there is one; all output has been read then."""
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

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

    def __init__(
        self, folder: Path, *, token: str = "a-token-of-the-relay", period_s: int = 60, lead_s: int = 10
    ) -> None:
        self.folder = folder
        self.token = token
        self.period_s = period_s
        self.clock = folder / "clock"
        self.steering = ClockSteering(self.clock, now=START - 30_000, rate=0.0)
        self.admin_key = initialise(folder / "coordinator")
        self.admin_key_file = self.secret("admin.key", self.admin_key)
        self.url = ""
        self.settings = folder / "coordinator/coordinator.toml"
        self.settings.write_text(
            "[listen]\nport = 0\n"
            '[state]\nfolder = "state"\n[public]\nfolder = "public"\n'
            f"[epochs]\nperiod_s = {period_s}\nlead_s = {lead_s}\n"
            f'[[relays]]\nname = "relay"\ntoken_sha256 = "{hashlib.sha256(token.encode()).hexdigest()}"\n'
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
            self.url = f"http://127.0.0.1:{running.told('listening')['port']}"
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
        self.steering.steer(limit=at, rate=1e6)

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
    return f"http://127.0.0.1:{running.told('listening')['port']}/relay"
