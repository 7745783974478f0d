"""The other side of the page's benchmark: a dashboard process, what it costs, and a reader of events without a page."""

from __future__ import annotations

import contextlib
import http.client
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import orjson

from secvm.runtime.clock import ClockSteering
from secvm.runtime.settings import settings_text
from secvm.testing.processes import Children, free_port

PATIENCE_S = 60.0


@contextlib.contextmanager
def dashboard(coordinator: str, now: int) -> Iterator[tuple[str, int]]:
    """A dashboard that does not audit, at this time of its coordinator's; its address and process."""
    port = free_port()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ClockSteering(folder / "clock", now=now)
        told: dict[str, dict[str, object]] = {
            "listen": {"port": port},
            "coordinator": {"url": coordinator},
            "audit": {"on": False},
            "testing": {"clock": str(folder / "clock")},
        }
        (folder / "dashboard.toml").write_text(settings_text(told), encoding="utf-8")
        children = Children(folder)
        children.start("dashboard", ["dashboard", "serve", "--config", str(folder / "dashboard.toml")])
        try:
            _await_experiment(children, port)
            yield f"http://127.0.0.1:{port}", children.pid("dashboard")
        finally:
            children.stop()


def _await_experiment(children: Children, port: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        children.check()
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            with contextlib.closing(connection):
                connection.request("GET", "/api/now")
                told = orjson.loads(connection.getresponse().read())
            if told["experiments"] and told["experiments"][0]["rounds_told"]:
                return
        time.sleep(0.05)
    raise TimeoutError("the dashboard knows of no experiment")


class Listener:
    """A second reader of the events, without a page: when each came, and its bytes on the wire."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE_S)
        self._connection.request("GET", "/api/events")
        self._answer = self._connection.getresponse()
        #: Kind, bytes, the newest round in it, when.
        self.heard: list[tuple[str, int, int, float]] = []
        self._thread = threading.Thread(target=self._listen)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._connection.sock is not None
        # Ends the waiting read.
        self._connection.sock.shutdown(2)
        self._thread.join()
        self._answer.close()
        self._connection.close()

    def _listen(self) -> None:
        kind, size = "", 0
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            while line := self._answer.readline():
                size += len(line)
                name, _, value = line.partition(b": ")
                if name == b"event":
                    kind = value.strip().decode()
                elif name == b"data" and kind == "rounds":
                    newest = max(orjson.loads(value)["columns"]["number"], default=0)
                    self.heard.append((kind, size, newest, time.monotonic()))
                elif not line.strip():
                    kind, size = "", 0

    def moment_of(self, number: int) -> float:
        """When a round was first told of."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for _, _, newest, when in self.heard:
                if newest >= number:
                    return when
            time.sleep(0.005)
        raise TimeoutError("an update never came")


def cpu_ms(process: int) -> float:
    """What a process has computed so far."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
