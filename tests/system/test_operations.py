"""Running it: settings that are refused, draining, a proxy in front."""

import http.client
import json
import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from secvm.cli.main import run
from secvm.runtime.disk.secret_files import make_secret
from tests.serving import Answer, serving
from tests.system.parties import PATIENCE_S, Place, get, party

SEALED = {"content-type": "message/ohttp-req"}
#: As long as a capsule, and none.
CAPSULE = bytes(133)

COORDINATOR = '[state]\nfolder = "{folder}"\n[epochs]\nperiod_s = 60\nlead_s = 5\n'
RELAY = '[gateway]\nurl = "http://127.0.0.1:9"\ntoken_file = "{folder}/token"\n[epochs]\nperiod_s = 60\n'
DEVICE = '[device]\nfolder = "{folder}"\n[relay]\nurls = ["http://127.0.0.1:9/relay"]\n'


# ── settings ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("command", "settings", "key"),
    [
        ("coordinator serve", COORDINATOR + "[limits]\nconections = 4711\n", "limits.conections"),
        ("coordinator serve", COORDINATOR + '[[relays]]\nname = "r"\ntoken = "4711"\n', "relays.0.token"),
        ("coordinator serve", COORDINATOR + "[listen]\nport = '4711'\n", "listen.port"),
        ("relay serve", RELAY + "[clients]\nqouta = 4711\n", "clients.qouta"),
        ("relay serve", RELAY + "[qouta]\nclients = 4711\n", "qouta"),
        ("participant run", DEVICE + "[traffic]\ndaily_byte = 4711\n", "traffic.daily_byte"),
        ("participant run", DEVICE + '[testing]\nsede = "4711"\n', "testing.sede"),
    ],
)
def test_a_setting_that_nobody_knows_is_refused_in_one_sentence(
    command: str, settings: str, key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(settings.format(folder=tmp_path / "state"), encoding="utf-8")
    assert run([*command.split(), "--config", str(path)]) == 2
    said = "".join(capsys.readouterr())
    assert re.fullmatch(r"secvm: [^\n]+\n", said), said
    assert key in said
    # What stands there may be a secret.
    assert "4711" not in said


@pytest.mark.parametrize("command", ["coordinator serve", "relay serve", "participant run"])
def test_settings_that_are_not_there_are_told_in_one_sentence(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command.split(), "--config", str(tmp_path / "none.toml")]) == 2
    assert (
        "".join(capsys.readouterr())
        == f"secvm: cannot read the settings {tmp_path}/none.toml: No such file or directory\n"
    )


# ── draining ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Slow:
    """A server that answers when it is told to; ``asked`` is set when it has a request."""

    def __init__(self) -> None:
        self.asked, self.go_on = threading.Event(), threading.Event()
        self.url = ""

    def answer(self, _path: str) -> Answer:
        self.asked.set()
        self.go_on.wait(PATIENCE_S)
        return 200, {"content-type": "message/ohttp-res"}, b"well"

    @contextmanager
    def running(self) -> Iterator["Slow"]:
        with serving() as server:
            server.answer, self.url = self.answer, server.url
            try:
                yield self
            finally:
                self.go_on.set()


@contextmanager
def connected(port: int) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    with closing(connection):
        yield connection


def relay_settings(folder: Path, gateway: str = "http://127.0.0.1:9") -> str:
    """Of a relay that carries fetches alone, whose token lies in the folder."""
    make_secret(folder / "token", b"a-token-of-the-relay")
    return RELAY.format(folder=folder).replace("http://127.0.0.1:9", gateway)


def begin(connection: http.client.HTTPConnection, path: str, body: bytes) -> None:
    """A request of which a byte is still to come."""
    connection.putrequest("POST", path, skip_accept_encoding=True)
    connection.putheader("content-type", SEALED["content-type"])
    connection.putheader("content-length", str(len(body)))
    connection.endheaders(body[:-1])


def test_a_coordinator_that_shall_stop_answers_what_is_under_way(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with place.coordinator() as coordinator, connected(coordinator.port) as connection:
        begin(connection, "/v1/capsule", CAPSULE)
        # Another request is answered, so the first has arrived.
        assert get(place.url + "/health") is not None
        coordinator.process.send_signal(signal.SIGTERM)
        coordinator.told("stopping")
        connection.send(CAPSULE[-1:])
        assert connection.getresponse().status == 400
        assert coordinator.end() == 0


def test_a_relay_that_shall_stop_brings_back_the_answer_that_is_under_way(tmp_path: Path) -> None:
    path = tmp_path / "relay.toml"
    with Slow().running() as gateway:
        path.write_text("[listen]\nport = 0\n" + relay_settings(tmp_path, gateway.url), encoding="utf-8")
        with party("relay", "serve", "--config", str(path)) as relay, connected(relay.port) as client:
            client.request("POST", "/relay/fetch", CAPSULE, SEALED)
            assert gateway.asked.wait(PATIENCE_S)
            relay.process.send_signal(signal.SIGTERM)
            assert relay.told("draining")["connections"] == 1
            gateway.go_on.set()
            answer = client.getresponse()
            assert (answer.status, answer.read()) == (200, b"well")
            assert relay.end() == 0
            assert json.loads(relay.said.splitlines()[-1])["event"] == "stopped"


def test_a_device_that_shall_stop_ends_in_order(tmp_path: Path) -> None:
    path = tmp_path / "device.toml"
    path.write_text(DEVICE.format(folder=tmp_path / "device") + '[status]\nlisten = "127.0.0.1:0"\n', encoding="utf-8")
    with party("participant", "run", "--config", str(path)) as device:
        status = f"http://127.0.0.1:{device.told('listening')['port']}"
        assert json.loads(get(status + "/health") or b"") == {"ok": True}
        device.stop()
        assert json.loads(device.said.splitlines()[-1])["event"] == "stopped"


def test_a_device_that_shall_stop_waits_for_the_answer_that_is_under_way(tmp_path: Path) -> None:
    path = tmp_path / "device.toml"
    (tmp_path / "people.jsonl").write_text('{"features": ["one"], "label": "north"}\n', encoding="utf-8")
    with Slow().running() as relay:
        path.write_text(
            DEVICE.format(folder=tmp_path / "device").replace("http://127.0.0.1:9", relay.url)
            + f'[testing]\npeople = "{tmp_path}/people.jsonl"\njoin = ["{"0" * 64}"]\n',
            encoding="utf-8",
        )
        with party("participant", "run", "--config", str(path)) as device:
            assert relay.asked.wait(PATIENCE_S)
            device.process.send_signal(signal.SIGTERM)
            relay.go_on.set()
            assert device.end() == 0, device.said


def test_two_cannot_listen_at_one_place_and_say_so_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "relay.toml"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        path.write_text(f"[listen]\nport = {port}\n" + relay_settings(tmp_path), encoding="utf-8")
        assert run(["relay", "serve", "--config", str(path)]) == 2
    said = "".join(capsys.readouterr())
    assert re.fullmatch(rf"secvm: cannot listen on 127\.0\.0\.1 port {port}: [^\n]+\n", said), said


# ── a proxy in front ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("behind_proxy", [True, False])
def test_behind_a_proxy_a_client_is_whom_the_proxy_names_and_nobody_it_names_itself(
    tmp_path: Path, *, behind_proxy: bool
) -> None:
    """Whatever a client writes into the field stands before what the proxy adds."""
    path = tmp_path / "relay.toml"
    header = 'address_header = "x-forwarded-for"\n' if behind_proxy else ""
    with Slow().running() as gateway:
        gateway.go_on.set()
        path.write_text(
            "[listen]\nport = 0\n" + relay_settings(tmp_path, gateway.url) + f"[clients]\nfetches = 1\n{header}",
            encoding="utf-8",
        )
        with party("relay", "serve", "--config", str(path)) as relay:
            sent = iter(range(256))

            def send(forwarded: str) -> int:
                with connected(relay.port) as client:
                    body = CAPSULE[:-1] + bytes([next(sent)])
                    client.request("POST", "/relay/fetch", body, {**SEALED, "x-forwarded-for": forwarded})
                    return client.getresponse().status

            assert send("192.0.2.1") == 200
            assert send("192.0.2.1") == 429
            assert send("198.51.100.1, 192.0.2.1") == 429
            assert send("192.0.2.2") == (200 if behind_proxy else 429)
            if behind_proxy:
                # A proxy that does not say who it is: nobody is let in unnamed.
                assert send("192.0.2.3, unknown") == 401
