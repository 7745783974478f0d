"""A host's counts over HTTP, on this machine only, and only where a setting asks for it: how many, never who or what.

    /health     {"ok":true}
    /metrics    sums over all experiments, as Prometheus reads them; no labels
    else        counts by experiment and round, one JSON object

Small enough to be read in one look, because a device installs no HTTP server. Only a request that names this machine
as its host is answered: a web page that somebody looks at could otherwise ask under a name of its own that leads here.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
from collections.abc import Callable
from typing import Any

from secvm.errors import BadInputError

#: A request that says more is not one of ours.
_MOST_BYTES = 4096
_PATIENCE_S = 5.0
_JSON, _TEXT = "application/json", "text/plain; version=0.0.4; charset=utf-8"
#: By the name that ``Host.status`` gives them.
_HELP = {
    "devices": "Devices of this process, once for each experiment they take part in.",
    "ended": "Those whose experiment is over.",
    "abstaining": "Those that abstain from the round of now.",
    "distrusting": "Those that take no part because of what they have seen of the server.",
    "waiting": "Packages that are scheduled and not acknowledged.",
    "acknowledged": "Packages that were acknowledged, of rounds that are still remembered.",
    "lost": "Packages whose window ended before they were acknowledged, of the same rounds.",
    "canaries": "Canaries of rounds with two relays that are still to be looked for.",
}


async def serve_status(listen: str, status: Callable[[], dict[str, Any]]) -> asyncio.Server:
    """Answer requests with the counts. ``listen`` is an address of this machine and a port."""
    host, _, port = listen.rpartition(":")
    if not _is_loopback(host) or not port.isdecimal() or int(port) > 65_535:
        raise BadInputError('the status is shown on this machine only: listen = "127.0.0.1:PORT"')

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_PATIENCE_S):
                request = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                code, body, media_type = _answer(request, status)
                head = f"HTTP/1.1 {code}\r\nContent-Type: {media_type}\r\nContent-Length: {len(body)}\r\n"
                writer.write(head.encode() + b"Connection: close\r\n\r\n" + body.encode())
                await writer.drain()
        writer.close()

    try:
        return await asyncio.start_server(answer, host.strip("[]"), int(port), limit=_MOST_BYTES)
    except OSError as error:
        raise BadInputError(f"cannot show the status on {listen}: {error.strerror or 'input/output error'}") from None


def _answer(request: str, status: Callable[[], dict[str, Any]]) -> tuple[str, str, str]:
    first, *fields = request.split("\r\n")
    for line in fields:
        name, _, value = line.partition(":")
        if name.lower() == "host" and not _names_this_machine(value.strip()):
            return "421 Misdirected Request", "", _TEXT
    path = first.partition(" ")[2].partition(" ")[0]
    if path == "/health":
        return "200 OK", '{"ok":true}', _JSON
    if path == "/metrics":
        return "200 OK", metrics_page(status()), _TEXT
    return "200 OK", json.dumps(status(), sort_keys=True), _JSON


def metrics_page(counts: dict[str, Any]) -> str:
    """Sums over all experiments: which ones somebody takes part in is nobody's business, not even a monitor's."""
    lines = []
    for name, sentence in _HELP.items():
        metric = f"secvm_participant_{name}"
        total = sum(one[name] for one in counts.values())
        lines += [f"# HELP {metric} {sentence}", f"# TYPE {metric} gauge", f"{metric} {total}"]
    return "\n".join(lines) + "\n"


def _names_this_machine(host: str) -> bool:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() and not host.endswith("]") else host
    return name.lower() == "localhost" or _is_loopback(name)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
