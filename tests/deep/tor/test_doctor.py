"""``secvm doctor`` beside a Tor that works, one that keeps nothing apart, and none."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from secvm.cli.main import run
from secvm.testing.processes import free_port
from secvm_lab.rigs.tor_network import TorClient, TorNetwork


@pytest.fixture
def relay() -> Iterator[str]:
    """Something that has keys."""

    class Keys(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/relay/keys" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Keys) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/relay"
        server.shutdown()


def asked(client: TorClient, *words: str) -> list[str]:
    return ["doctor", *words, "--tor-proxy", str(client.proxy), "--folder", "nowhere"]


@pytest.mark.in_every_slice
def test_two_requests_take_two_circuits(relay: str, tor: TorClient, capfd: pytest.CaptureFixture[str]) -> None:
    control = ["--control-port", str(tor.control.port), "--cookie", str(tor.control.cookie)]
    assert run([*asked(tor, relay), *control, "--format", "json"]) == 0
    told = json.loads(capfd.readouterr().out)
    one, two = told["circuits"]
    assert one["number"] != two["number"]
    assert len(one["path"].split(" → ")) == 3
    assert min(told["seconds"]) > 0
    assert run(asked(tor, relay)) == 0
    said = capfd.readouterr().out
    assert f"{tor.proxy} takes passwords" in said
    assert "not looked at: --control-port tells which were taken" in said


def test_a_tor_that_keeps_nothing_apart_is_found_out(
    relay: str, tor_network: TorNetwork, capfd: pytest.CaptureFixture[str]
) -> None:
    client = tor_network.client("careless", isolated=False)
    control = ["--control-port", str(client.control.port), "--cookie", str(client.control.cookie)]
    # It may take another circuit by chance, where one has failed meanwhile, and mostly does not.
    assert any(run([*asked(client, relay), *control]) == 2 for _ in range(5))
    assert "Tor put both connections on circuit" in capfd.readouterr().err


def test_what_is_wrong_is_one_sentence(relay: str, tor: TorClient, capfd: pytest.CaptureFixture[str]) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    for words, sentence in (
        ([relay, "--tor-proxy", nowhere], f"there is no Tor at {nowhere}: start it"),
        ([relay + "/x", "--tor-proxy", str(tor.proxy)], "is no relay: it has no keys (status 404)"),
        ([f"http://{nowhere}/relay", "--tor-proxy", str(tor.proxy)], "is not reached over Tor"),
        ([relay, "--tor-proxy", str(tor.proxy), "--control-port", "1", "--cookie", "/none"], "control port 1 cannot"),
        ([relay, "--tor-proxy", "tor.example:9050"], "--tor-proxy is an address of this machine"),
        ([], "there is no relay to reach"),
    ):
        assert run(["doctor", *words, "--folder", str(Path("nowhere"))]) == 2, words
        said = capfd.readouterr().err
        assert said.startswith("secvm: ")
        assert sentence in said, said
