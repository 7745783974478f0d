"""A federation in real time, as its operators type it: for browsers, whose clock nobody steers.

    with LiveFederation(folder, people=12, source="history-titles") as federation:
        ...                     # browsers take up federation.invite
        federation.opening(1)

Its parties, and the devices of its made-up people, are processes of their own. Everything is seen from outside.
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from secvm.auditor.audit import audit_files
from secvm.auditor.files import WebFiles
from secvm.federation.folders import ADMIN_KEY_FILE, DEVICE_FILE, EXPERIMENT_FILE, PEOPLE, Sites, Timing, write_folders
from secvm.protocol.documents.experiment import ExperimentDocument, read_published
from secvm.protocol.relays.opening import Opening
from secvm.runtime.clock import SystemClock
from secvm.testing.processes import dying_with_parent
from tests.rigs.federation_ports import move_to_free_ports

_SECVM = (sys.executable, "-P", "-m", "secvm.cli.main")


class LiveFederation:
    """Use it in a ``with``: at the end nothing of it runs."""

    document: ExperimentDocument
    invite: str

    def __init__(self, folder: Path, *, people: int, source: str, rounds: int, period_s: int = 40) -> None:
        """``people`` who do not exist have devices of Python; their features are given as those of ``source``."""
        self.folder = folder / "federation"
        write_folders(self.folder, Sites.on_this_machine(1), Timing.trying(period_s), people=people)
        self.url = move_to_free_ports(self.folder)
        asked = self.folder / EXPERIMENT_FILE
        text, replaced = re.subn(
            r'(?m)^(rounds|source) = (\d+|"words")',
            lambda found: f"{found[1]} = {rounds if found[1] == 'rounds' else json.dumps(source)}",
            asked.read_text(encoding="utf-8"),
        )
        assert replaced == 2
        asked.write_text(text, encoding="utf-8")
        self._children: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        try:
            self._start("run", self.folder, until="All parties run")
            given: list[str | Path] = ["--coordinator", self.url]
            new: list[str | Path] = [
                "new",
                self.folder / EXPERIMENT_FILE,
                "--admin-key-file",
                self.folder / ADMIN_KEY_FILE,
                "--yes",
            ]
            digest = self._told("experiment", *new, *given)["digest"]
            self.invite = self._told("experiment", "invite", digest, *given)["invite"]
            self.document = read_published(self.public(f"experiment/{digest}") or b"", digest=digest)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for child in reversed(self._children):
            child.terminate()
            child.wait(60)

    def let_people_join(self) -> None:
        """Start the devices of the made-up people."""
        self._start("people", self.folder, self.document.digest, until="people who do not exist")

    def _start(self, *arguments: str | Path, until: str) -> None:
        command = dying_with_parent([*_SECVM, "federation", *map(str, arguments)])
        # Whatever is said later nobody reads, and a full pipe would stop who says it.
        log = self.folder.parent / f"{arguments[0]}.log"
        with log.open("w", encoding="utf-8") as written:
            child = subprocess.Popen(command, stderr=written, stdout=written, text=True)
        self._children.append(child)
        while until not in log.read_text(encoding="utf-8"):
            if child.poll() is not None:
                raise RuntimeError(log.read_text(encoding="utf-8"))

    def _told(self, *arguments: str | Path) -> Any:
        ran = subprocess.run(
            [*_SECVM, *map(str, arguments), "--format", "json"], capture_output=True, text=True, check=True
        )
        return json.loads(ran.stdout)

    def public(self, path: str) -> bytes | None:
        """A public file of the coordinator."""
        return _got(f"{self.url}/v1/{path}")

    def status(self) -> Any:
        """Counts of the made-up people's devices."""
        text = (self.folder / PEOPLE / DEVICE_FILE).read_text(encoding="utf-8")
        listens = tomllib.loads(text)["status"]["listen"]
        return json.loads(_got(f"http://{listens}/status") or b"{}")[self.document.digest]

    def opening(self, number: int) -> Opening | None:
        """How a round ended; None: it has not."""
        served = self.public(f"experiment/{self.document.digest}/opening/{number}")
        return None if served is None else self.document.read(Opening, served)

    def faults(self) -> list[str]:
        """What an auditor finds who computes every round again."""
        clock = SystemClock()
        # In a thread of its own: while Playwright runs, this one has an event loop.
        with ThreadPoolExecutor(1) as pool:
            audit = pool.submit(audit_files, WebFiles(self.url, clock), now=clock.now, experiment=self.document.digest)
            return [fault.sentence for fault in audit.result().faults]


def _got(url: str) -> bytes | None:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.netloc, timeout=10)
    try:
        connection.request("GET", place.path)
        answer = connection.getresponse()
        return answer.read() if answer.status == 200 else None
    finally:
        connection.close()
