"""Running it: settings that are refused, health, metrics, draining, a proxy in front, logs that tell of nobody.

Over real processes. Whatever they write is read here: it must not hold what a person's device holds, nor a secret.
"""

import http.client
import http.server
import json
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from secvm.runtime.disk.secret_files import make_secret
from tests.system.parties import PATIENCE_S, Place, get, party, relay_url
from tests.system.small_run import BUDGET, CAPSULE, PEOPLE, SEALED, SEED, SmallRun, connected, port_of

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
    command: str, settings: str, key: str, tmp_path: Path
) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(settings.format(folder=tmp_path / "state"), encoding="utf-8")
    with party(*command.split(), "--config", str(path)) as running:
        assert running.end() == 2
    assert re.fullmatch(r"secvm: [^\n]+\n", running.said), running.said
    assert key in running.said
    # What stands there may be a secret.
    assert "4711" not in running.said


@pytest.mark.parametrize("command", ["coordinator serve", "relay serve", "participant run"])
def test_settings_that_are_not_there_are_told_in_one_sentence(command: str, tmp_path: Path) -> None:
    with party(*command.split(), "--config", str(tmp_path / "none.toml")) as running:
        assert running.end() == 2
    assert running.said == f"secvm: cannot read the settings {tmp_path}/none.toml: No such file or directory\n"


# ── draining ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Slow:
    """A server that answers when it is told to; ``asked`` is set when it has a request."""

    def __init__(self) -> None:
        self.asked, self.go_on = threading.Event(), threading.Event()
        slow = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", "0")))
                slow.asked.set()
                slow.go_on.wait(PATIENCE_S)
                self.send_response(200)
                self.send_header("content-type", "message/ohttp-res")
                self.send_header("content-length", "4")
                self.end_headers()
                self.wfile.write(b"well")

            do_GET = do_POST = answer  # noqa: N815  (so are they looked for)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def running(self) -> Iterator["Slow"]:
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.go_on.set()
            self._server.shutdown()
            thread.join()
            self._server.server_close()


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
    with place.coordinator() as coordinator, connected(port_of(place.url)) as connection:
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
        with party("relay", "serve", "--config", str(path)) as relay, connected(port_of(relay_url(relay))) as client:
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
        device.process.send_signal(signal.SIGTERM)
        assert device.end() == 0
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


def test_two_cannot_listen_at_one_place_and_say_so_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "relay.toml"
    with Slow().running() as taken:
        path.write_text(f"[listen]\nport = {port_of(taken.url)}\n" + relay_settings(tmp_path), encoding="utf-8")
        with party("relay", "serve", "--config", str(path)) as relay:
            assert relay.end() == 2
    assert re.fullmatch(r"secvm: cannot listen on 127\.0\.0\.1 port \d+: [^\n]+\n", relay.said), relay.said


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
                with connected(port_of(relay_url(relay))) as client:
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


# ── what is written ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_small_run_writes_nothing_of_anybody_and_no_secret(tmp_path: Path) -> None:
    run = SmallRun(tmp_path)
    run.run()
    assert run.acknowledged == 2 * BUDGET * len(PEOPLE)
    assert all(0 < count <= len(PEOPLE) for count in run.participants)
    assert len(run.participants) == 2
    state = tmp_path / "coordinator/state"
    secrets = {
        **run.secrets,
        "admin key": run.place.admin_key,
        "token": run.place.token,
        "seed": SEED,
        "coordinator's signing key": (state / "signing.key").read_bytes().hex(),
        "stranger's token": "token-of-a-stranger",
        "stranger's credential": "credential-0816",
        "stranger's admin key": "admin-key-of-a-stranger",
        "address": "127.0.0.1",
        "path": str(tmp_path),
    }
    for words, label in PEOPLE:
        secrets.update({word: word for word in words}, **{label: label})
    assert len(run.written) == 9
    for text in [*run.written, *run.answers]:
        assert text
        for name, secret in secrets.items():
            assert secret not in text, name
    # Every line of a log is one object, and nothing in it was refused.
    for text in run.written[6:]:
        for line in text.splitlines():
            assert "refused" not in json.loads(line).values(), line
    pages = "".join(run.written[:6])
    for family in ("coordinator_opened", "coordinator_stored", "relay_requests", "participant_acknowledged"):
        assert f"secvm_{family}" in pages, family
    # Labels name doors, outcomes and problems, all of them words of the code.
    labels = set(re.findall(r'="([^"]*)"', pages))
    assert all(re.fullmatch(r"[a-z0-9+.-]+|\+Inf", label) for label in labels), labels
