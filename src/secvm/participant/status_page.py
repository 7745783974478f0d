"""A host's counts over HTTP, on this machine only, and only where a setting asks for it: how many, never who or what.

    /health     {"ok":true}
    /metrics    sums over all experiments, as Prometheus reads them; no labels
    else        counts by experiment and round, one JSON object

Only a request that names this machine as its host is answered: a web page that somebody looks at could otherwise ask
under a name of its own that leads here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from aiohttp import web

from secvm.pages.guarding import is_loopback_address, split_host
from secvm.pages.serving import JSON_MEDIA_TYPE, RunningPage, listen_on, loopback, serve

_PATIENCE_S = 5.0
_TEXT = "text/plain; version=0.0.4; charset=utf-8"
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


async def serve_status(listen: str, status: Callable[[], dict[str, Any]]) -> RunningPage:
    """Answer requests with the counts. ``listen`` is an address of this machine and a port."""

    async def answer(request: web.BaseRequest) -> web.Response:
        response = _answer(request, status)
        response.force_close()
        return response

    host, port = loopback(listen, refusal='the status is shown on this machine only: listen = "127.0.0.1:PORT"')
    door = listen_on(host, port, complaint=f"cannot show the status on {listen}")
    return await serve(door, answer, request_s=_PATIENCE_S)


def _answer(request: web.BaseRequest, status: Callable[[], dict[str, Any]]) -> web.Response:
    if not all(map(_names_this_machine, request.headers.getall("host", []))):
        return web.Response(status=421)
    if request.path == "/health":
        return web.Response(text='{"ok":true}', content_type=JSON_MEDIA_TYPE)
    if request.path == "/metrics":
        return web.Response(body=metrics_page(status()).encode(), headers={"content-type": _TEXT})
    return web.Response(text=json.dumps(status(), sort_keys=True), content_type=JSON_MEDIA_TYPE)


def metrics_page(counts: dict[str, Any]) -> str:
    """Sums over all experiments: which ones somebody takes part in is nobody's business, not even a monitor's."""
    lines = []
    for name, sentence in _HELP.items():
        metric = f"secvm_participant_{name}"
        total = sum(sums[name] for sums in counts.values())
        lines += [f"# HELP {metric} {sentence}", f"# TYPE {metric} gauge", f"{metric} {total}"]
    return "\n".join(lines) + "\n"


def _names_this_machine(text: str) -> bool:
    host = split_host(text)
    return host is not None and (host[0] == "localhost" or is_loopback_address(host[0]))
