"""A passage: one of several parties answers, the dead are gone round, and whoever watches sees it all."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from secvm.testing.processes import free_port
from secvm_lab.chaos.passage import FAIR, Answer, Passage, Request, Weather


@contextmanager
def party(name: bytes) -> Iterator[int]:
    """A server that answers with its name and what it was sent."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.answer(200, name)

        def do_POST(self) -> None:
            self.answer(202, name + b" " + self.rfile.read(int(self.headers["content-length"])))

        def answer(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def asked(port: int, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def wait_for(passage: Passage, well: int) -> None:
    never, looks = threading.Event(), 0
    while passage.well() != well:
        never.wait(0.01)
        looks += 1
        assert looks < 3000


def test_parties_alike_take_turns_and_the_dead_are_gone_round() -> None:
    seen: list[tuple[str, str, bytes, int]] = []

    def watch(request: Request, answer: Answer) -> None:
        seen.append((request.method, request.path, request.body, answer.status))

    with party(b"one") as first:
        with party(b"two") as second:
            places = [("127.0.0.1", first), ("127.0.0.1", second), ("127.0.0.1", free_port())]
            with Passage(places, watch=watch) as passage:
                wait_for(passage, 2)
                assert not passage.all_well()
                told = {asked(passage.port, "GET", "/who") for _ in range(40)}
                assert told == {(200, b"one"), (200, b"two")}
                large = bytes(300_000)
                status, content = asked(passage.port, "POST", "/relay?x=1", large)
                assert status == 202
                assert content[4:] == large
                assert seen[-1] == ("POST", "/relay?x=1", large, 202)
        with Passage([("127.0.0.1", first), ("127.0.0.1", second)]) as passage:
            wait_for(passage, 1)
            assert {asked(passage.port, "GET", "/who") for _ in range(20)} == {(200, b"one")}


def test_one_connection_carries_many_requests() -> None:
    with party(b"one") as port, Passage([("127.0.0.1", port)]) as passage:
        wait_for(passage, 1)
        assert passage.all_well()
        connection = http.client.HTTPConnection("127.0.0.1", passage.port, timeout=10)
        for number in range(20):
            connection.request("POST", "/", b"%d" % number)
            assert connection.getresponse().read() == b"one %d" % number
        connection.close()


def test_with_nobody_there_whoever_asks_is_hung_up_on() -> None:
    with Passage([("127.0.0.1", free_port())]) as passage, pytest.raises((OSError, http.client.HTTPException)):
        asked(passage.port, "GET", "/")


def test_a_liar_answers_in_the_partys_place() -> None:
    def lie(request: Request) -> Answer | None:
        if request.body != b"swallowed":
            return None
        return Answer(202, b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")

    with party(b"one") as port, Passage([("127.0.0.1", port)], instead=lie) as passage:
        wait_for(passage, 1)
        assert asked(passage.port, "POST", "/", b"swallowed") == (202, b"")
        assert asked(passage.port, "POST", "/", b"passed on") == (202, b"one passed on")


def test_a_port_that_is_taken_is_an_error_of_whoever_begins() -> None:
    with (
        party(b"one") as port,
        pytest.raises(OSError, match="in use"),
        Passage([("127.0.0.1", port)], port=port),
    ):
        pass


def test_free_ports_are_none_that_outgoing_connections_are_given() -> None:
    with socket.socket() as outgoing:
        outgoing.bind(("127.0.0.1", 0))
        given: int = outgoing.getsockname()[1]
    ports = {free_port() for _ in range(50)}
    assert len(ports) > 40
    assert all(15_000 <= port < max(given, 32_768) for port in ports)


def test_in_bad_weather_requests_and_answers_are_lost_and_then_no_more() -> None:
    seen: list[int] = []
    with (
        party(b"one") as port,
        Passage([("127.0.0.1", port)], watch=lambda _request, answer: seen.append(answer.status)) as passage,
    ):
        wait_for(passage, 1)
        passage.weather = Weather(lost_share=0.5, delay_s=0.001)
        heard = 0
        for _ in range(40):
            with suppress(OSError, http.client.HTTPException):
                asked(passage.port, "GET", "/")
                heard += 1
        # Some were lost before anybody saw them, and some answers after that.
        assert heard < len(seen) < 40
        passage.weather = FAIR
        assert asked(passage.port, "GET", "/") == (200, b"one")
