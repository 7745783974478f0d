"""The load of ``benchmarks/ingest.py``, in a process of its own: raw HTTP over keep-alive connections."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import uvloop

from secvm.crypto.sealing import capsules as packing
from secvm.crypto.sealing.oblivious import REQUEST_MEDIA_TYPE


def request(path: str, media_type: str, body: bytes, token: str = "") -> bytes:
    """The bytes of one request."""
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {media_type}\r\ncontent-length: {len(body)}\r\n"
    if token:
        head += f"authorization: Bearer {token}\r\n"
    return head.encode() + b"\r\n" + body


class _Sender(asyncio.Protocol):
    """Sends the next request when the last is answered; answers are short and have no content."""

    def __init__(self, work: Iterator[bytes], times: list[float], done: asyncio.Future[None]) -> None:
        self._work, self._times, self._done = work, times, done
        self._transport: asyncio.Transport
        self._sent_at = 0.0
        self._got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a stream's
        self._next()

    def _next(self) -> None:
        body = next(self._work, None)
        if body is None:
            if not self._done.done():
                self._done.set_result(None)
            self._transport.close()
            return
        self._sent_at = time.perf_counter()
        self._transport.write(body)

    def data_received(self, data: bytes) -> None:
        self._got += data
        if not self._got.endswith(b"\r\n\r\n"):
            return
        if not self._got.startswith(b"HTTP/1.1 202"):
            self._done.set_exception(RuntimeError(self._got.decode("latin-1")))
            return
        self._got = b""
        self._times.append(time.perf_counter() - self._sent_at)
        self._next()

    def connection_lost(self, _error: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(RuntimeError("the server hung up"))


async def send(ports: list[int], requests: list[bytes], connections: int) -> tuple[float, list[float]]:
    """Send all, each connection one at a time; seconds, and the seconds of each."""
    loop = asyncio.get_running_loop()
    work = iter(requests)
    times: list[float] = []
    ends: list[asyncio.Future[None]] = [loop.create_future() for _ in range(connections)]
    started = time.perf_counter()
    for i, end in enumerate(ends):
        port = ports[i % len(ports)]
        await loop.create_connection(lambda end=end: _Sender(work, times, end), "127.0.0.1", port)  # type: ignore[misc]
    await asyncio.gather(*ends)
    return time.perf_counter() - started, sorted(times)


def send_all(
    kind: str, ports: list[int], file: str, number: int, connections: int, token: str = ""
) -> dict[str, float]:
    """Send the capsules of a file, and tell how many were acknowledged, in how long, and the latencies.

    ``batches``: all capsules, in batches of so many; ``singles``: one capsule a request, so many of them.
    """
    capsules = packing.unpack(Path(file).read_bytes())
    if kind == "batches":
        groups = [capsules[i : i + number] for i in range(0, len(capsules), number)]
        requests = [request("/v1/batch", packing.MEDIA_TYPE, packing.pack(group), token) for group in groups]
    else:
        some = [request("/v1/capsule", REQUEST_MEDIA_TYPE, capsule) for capsule in capsules]
        requests = [some[i % len(some)] for i in range(number)]
    cpu = time.process_time()
    seconds, times = uvloop.run(send(ports, requests, connections))
    return {
        "requests": len(times),
        "seconds": seconds,
        "client_cpu_s": time.process_time() - cpu,
        "p50_ms": 1000 * times[len(times) // 2],
        "p99_ms": 1000 * times[len(times) * 99 // 100],
    }
