"""Measure what a connection costs that does nothing, and what its number is multiplied by.

A server of its own process, on uvloop, is given so many connections over loopback, and its resident memory is read
before and after: silent ones, ones that were answered once and are idle, ones with half a head, ones that do not read a
large answer. ``idle_100k_mb`` is the arithmetic for 100,000 of the dearest of the first two. What the kernel keeps for
a socket is not in it.

    ./secvm bench connections [--connections 4000]
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks._measuring import memory_mb

_REQUEST = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
_HALF = b"GET / HTTP/1.1\r\nhost: a\r\nx-field: " + b"x" * 2000
_LARGE = b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n"
_LARGE_BYTES = 2**24
_SETTLE_S = 1.0

_SERVER = f"""
import asyncio, sys
from secvm.runtime.http.server import HttpResponse, HttpServer, Limits
from secvm.runtime.logs import SILENT
from secvm.runtime.service import run_service
LARGE = bytes({_LARGE_BYTES})
def answer(request):
    return HttpResponse(200, LARGE if request.path == "/large" else b"yes")
async def main(stop):
    server = HttpServer(answer, limits=Limits(connections=10**6, head_s=600, idle_s=600))
    print(await server.start("127.0.0.1", 0), flush=True)
    await stop.wait()
    await server.drain(patience_s=0)
run_service(main, log=SILENT)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--connections", type=int, default=4000, help="connections at a time")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Each kind of connection on a server of its own."""
    count: int = arguments.connections
    silent = _cost(count, b"", answered=False)
    idle = _cost(count, _REQUEST, answered=True)
    # Few of these: the kernel's buffers take what the server's do not.
    stuck_count = max(1, count // 40)
    result = {
        "connections": count,
        "silent_bytes": silent,
        "idle_bytes": idle,
        "half_a_head_bytes": _cost(count, _HALF, answered=False),
        "stuck_reader_bytes": _cost(stuck_count, _LARGE, answered=False),
        "large_answer_bytes": _LARGE_BYTES,
        "idle_100k_mb": round(100_000 * max(silent, idle) / 2**20, 1),
    }
    return dict(result)


def _cost(count: int, said: bytes, *, answered: bool) -> int:
    """Bytes of resident memory for each of so many connections that say this."""
    with _serving() as (process, port):
        # The first ones pay for what all share.
        with _connected(port, 50, said, answered=answered):
            time.sleep(_SETTLE_S)
        before = memory_mb("VmRSS", process)
        with _connected(port, count, said, answered=answered):
            time.sleep(_SETTLE_S)
            return round(2**20 * (memory_mb("VmRSS", process) - before) / count)


@contextlib.contextmanager
def _serving() -> Iterator[tuple[int, int]]:
    with subprocess.Popen([sys.executable, "-P", "-c", _SERVER], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.pid, int(process.stdout.readline())
        finally:
            process.terminate()


@contextlib.contextmanager
def _connected(port: int, count: int, said: bytes, *, answered: bool) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            one = stack.enter_context(socket.socket())
            if not answered:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.connect(("127.0.0.1", port))
            if said:
                one.sendall(said)
            if answered:
                assert one.recv(4096)
        yield
