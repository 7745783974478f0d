"""A small HTTP server on loopback that answers as a test says."""

import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType

#: Headers of pages.
HTML = {"content-type": "text/html; charset=utf-8"}
#: Status, headers and content.
Answer = tuple[int, Mapping[str, str], bytes]


class Server(ThreadingHTTPServer):
    """Answers with whatever a test says, and remembers what it was asked for."""

    daemon_threads = True

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.answer: Callable[[str], Answer] = lambda _: (404, {}, b"")
        self.asked: list[str] = []

    def serve(self, files: Mapping[str, bytes], headers: Mapping[str, str] = MappingProxyType({})) -> None:
        """From now on these, and nothing else."""
        self.answer = lambda path: (200, headers, files[path]) if path in files else (404, {}, b"")

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", "0")))
        self.server.asked.append(self.path)
        status, headers, content = self.server.answer(self.path)
        self.send_response(status)
        for name, value in {"content-length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815  (so is it looked for)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(
    files: Mapping[str, bytes] | None = None,
    headers: Mapping[str, str] = MappingProxyType({}),
    *,
    tls: ssl.SSLContext | None = None,
) -> Iterator[Server]:
    """These files over HTTP, or over HTTPS, all with these headers."""
    with Server(tls) as running:
        running.serve(files or {}, headers)
        thread = threading.Thread(target=running.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield running
        finally:
            running.shutdown()
            thread.join()
