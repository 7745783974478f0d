"""What two people's browsers send looks the same at the server, byte for byte, whatever tells their profiles apart."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from secvm_lab.extension import Package
from secvm_lab.rigs.extended import BROWSERS, extended
from tests.deep.extension.test_in_browsers import EVERYTHING, ask_for

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
_BODY = bytes(range(256))
#: As `runtime/http/client.ts` asks; whatever else stands in a request is the browser's.
_SEND = """((body) => fetch("URL", {
    body, cache: "no-store", credentials: "omit", headers: { "Content-Type": "message/ohttp-req" }, method: "POST",
    redirect: "manual", referrerPolicy: "no-referrer",
}).then(({ status }) => status, () => null))(Uint8Array.from(BODY))"""


class Recorder:
    """A server that keeps what came, as it came, and answers that all is well."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}/relay"
        self.came: list[bytes] = []

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(10)
                head, _, body = self._read(connection).partition(b"\r\n\r\n")
                if head:
                    self.came.append(head + b"\r\n\r\n" + body)
                    connection.sendall(_ANSWER)

    @staticmethod
    def _read(connection: socket.socket) -> bytes:
        data, size = b"", 0
        # A browser may open a connection and never use it.
        while b"\r\n\r\n" not in data or len(data) - data.index(b"\r\n\r\n") - 4 < size:
            more = connection.recv(65536)
            if not more:
                return b""
            data += more
            lengths = [line for line in data.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            size = int(lengths[0].split(b":")[1]) if lengths else 0
        return data


@contextmanager
def recording() -> Iterator[Recorder]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        recorder = Recorder(listening)
        thread = threading.Thread(target=recorder.serve)
        thread.start()
        try:
            yield recorder
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("name", BROWSERS)
def test_two_profiles_are_the_same_at_the_server(name: str, packages: dict[str, Package], tmp_path: Path) -> None:
    send = _SEND.replace("BODY", json.dumps(list(_BODY)))
    origins = []
    with recording() as recorder:
        for language in ("en-GB", "de-CH"):
            folder = tmp_path / language
            with extended(name, packages[name], folder, granted=True, language=language) as browser:
                tab = browser.page()
                assert tab.evaluate("navigator.languages[0]") == language
                assert ask_for(tab, EVERYTHING) is True
                assert tab.evaluate(send.replace("URL", recorder.url)) == 200
                origins.append(browser.origin.split("//")[1].encode())
    first, second = recorder.came
    assert first == second
    head, _, body = first.partition(b"\r\n\r\n")
    assert body == _BODY
    assert not any(origin in first for origin in origins)
    told = {line.split(b":")[0].lower() for line in head.split(b"\r\n")[1:]}
    # What the fetch itself needs, and what both browsers say to every server in the same words.
    spoken = {b"host", b"connection", b"content-length", b"content-type", b"accept", b"accept-encoding"}
    assert told - spoken <= {b"cache-control", b"pragma", b"priority"}
