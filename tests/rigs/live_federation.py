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
from secvm.runtime.http.tor import TorProxy
from secvm.runtime.settings import merged, settings_text
from secvm.testing.processes import dying_with_parent, free_port
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
        #: Where devices show their counts that ``federation people`` does not carry.
        self._statuses: list[str] = []

    def __enter__(self) -> Self:
        try:
            self._start("federation", "run", self.folder, until="All parties run")
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

    def let_people_join(self, *, over_tor: TorProxy | None = None) -> None:
        """Start the devices of the made-up people; ``over_tor``: the latter half of them go over it."""
        if over_tor is not None:
            self._send_half(over_tor)
        self._start("federation", "people", self.folder, self.document.digest, until="people who do not exist")

    def _send_half(self, proxy: TorProxy) -> None:
        place = self.folder / PEOPLE / DEVICE_FILE
        tables = tomllib.loads(place.read_text(encoding="utf-8"))
        # As settings are written: a list of tables has its whole name.
        tables["trust.relays"] = tables["trust"].pop("relays")
        testing, status = tables["testing"], f"127.0.0.1:{free_port()}"
        half = testing["count"] // 2
        way = {"relay": {"via": "tor", "tor_proxy": str(proxy)}, "status": {"listen": status}}
        own = {"first": half, "count": testing["count"] - half, "join": [self.document.digest]}
        other = place.with_name("over-tor.toml")
        other.write_text(settings_text(merged(tables, {**way, "testing": own})), encoding="utf-8")
        place.write_text(settings_text(merged(tables, {"testing": {"count": half}})), encoding="utf-8")
        self._statuses.append(status)
        self._start("participant", "run", "--config", other, until='"started"')

    def _start(self, *arguments: str | Path, until: str) -> None:
        command = dying_with_parent([*_SECVM, *map(str, arguments)])
        # Whatever is said later nobody reads, and a full pipe would stop who says it.
        log = self.folder.parent / f"{arguments[0]}-{arguments[1]}.log"
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

    def ended(self) -> int:
        """On how many devices of the made-up people the experiment is over."""
        return sum(one["ended"] for one in self._counts())

    def acknowledged(self, number: int) -> int:
        """How many of their packages have arrived in a round."""
        return sum(one["rounds"].get(str(number), {}).get("acknowledged", 0) for one in self._counts())

    def _counts(self) -> list[Any]:
        text = (self.folder / PEOPLE / DEVICE_FILE).read_text(encoding="utf-8")
        places = [tomllib.loads(text)["status"]["listen"], *self._statuses]
        return [json.loads(_got(f"http://{place}/status") or b"{}")[self.document.digest] for place in places]

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
