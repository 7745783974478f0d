"""A device's own counts: for this machine, without names, and not for a page in its browser."""

import asyncio
import json

import pytest

from secvm.errors import BadInputError
from secvm.participant.status_page import metrics_page, serve_status

COUNTED = ("devices", "ended", "abstaining", "distrusting", "waiting", "acknowledged", "lost", "canaries")
ONE = dict(zip(COUNTED, (3, 0, 1, 0, 4, 5, 0, 2), strict=True))
COUNTS = {"d" * 64: {**ONE, "rounds": {}}, "e" * 64: {**ONE, "lost": 2, "rounds": {}}}


async def ask(port: int, request: str) -> tuple[str, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.replace("\n", "\r\n").encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return head.splitlines()[0], body


def answers(*requests: str) -> list[tuple[str, str]]:
    async def scenario() -> list[tuple[str, str]]:
        server = await serve_status("127.0.0.1:0", lambda: COUNTS)
        said = [await ask(server.port, request) for request in requests]
        await server.close()
        return said

    return asyncio.run(scenario())


def test_health_metrics_and_counts() -> None:
    health, metrics, all_of_it = answers(
        "GET /health HTTP/1.1\nHost: 127.0.0.1:80\n\n",
        "GET /metrics HTTP/1.1\nHost: localhost\n\n",
        "GET / HTTP/1.1\nhost: [::1]:80\n\n",
    )
    assert health == ("HTTP/1.1 200 OK", '{"ok":true}')
    assert metrics == ("HTTP/1.1 200 OK", metrics_page(COUNTS))
    assert json.loads(all_of_it[1]) == COUNTS


def test_metrics_are_sums_and_name_no_experiment() -> None:
    page = metrics_page(COUNTS)
    lines = dict(line.split(" ") for line in page.splitlines() if not line.startswith("#"))
    assert lines["secvm_participant_devices"] == "6"
    assert lines["secvm_participant_lost"] == "2"
    assert "d" * 64 not in page
    assert "{" not in page
    doubled = {"f" * 64: {**{name: 2 * ONE[name] for name in COUNTED}, "lost": 2}}
    assert page == metrics_page(doubled)


@pytest.mark.parametrize("host", ["rebound.example", "rebound.example:80", "192.0.2.1", "127.0.0.1.example", ""])
def test_a_request_under_another_name_is_not_answered(host: str) -> None:
    (said,) = answers(f"GET / HTTP/1.1\nHost: {host}\n\n")
    assert said == ("HTTP/1.1 421 Misdirected Request", "")


async def test_a_place_that_is_taken_or_not_on_this_machine_is_one_sentence() -> None:
    for listen in ("0.0.0.0:0", "localhost"):
        with pytest.raises(BadInputError, match="this machine only"):
            await serve_status(listen, dict)
    server = await serve_status("127.0.0.1:0", dict)
    with pytest.raises(BadInputError, match=f"cannot show the status on 127.0.0.1:{server.port}"):
        await serve_status(f"127.0.0.1:{server.port}", dict)
    await server.close()
