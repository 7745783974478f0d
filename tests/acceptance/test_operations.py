"""Running it: settings that are refused, health, metrics, draining, a proxy in front, logs that tell of nobody.

Over real processes. Whatever they write is read here: it must not hold what a person's device holds, nor a secret.
"""

import http.client
import http.server
import json
import re
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from secvm.protocol.experiment_document import read_published
from secvm.protocol.manifest import AcceptedManifest, accept
from tests.acceptance.parties import PATIENCE_S, Party, Place, get, party, relay_url

pytestmark = pytest.mark.slow

SEALED = {"content-type": "message/ohttp-req"}
#: As long as a capsule, and none.
CAPSULE = bytes(133)

COORDINATOR = '[state]\nfolder = "{folder}"\n[epochs]\nperiod_s = 60\nlead_s = 5\n'
RELAY = '[gateway]\nurl = "http://127.0.0.1:9"\n[relay]\nmode = "forward"\n[epochs]\nperiod_s = 60\n'
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


def port_of(url: str) -> int:
    return int(url.split(":")[2].partition("/")[0])


@contextmanager
def connected(port: int) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        yield connection
    finally:
        connection.close()


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
        path.write_text("[listen]\nport = 0\n" + RELAY.replace("http://127.0.0.1:9", gateway.url), encoding="utf-8")
        with party("relay", "serve", "--config", str(path)) as relay, connected(port_of(relay_url(relay))) as client:
            client.request("POST", "/relay", CAPSULE, SEALED)
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
        path.write_text(f"[listen]\nport = {port_of(taken.url)}\n" + RELAY, encoding="utf-8")
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
            "[listen]\nport = 0\n"
            + RELAY.replace("http://127.0.0.1:9", gateway.url)
            + f"[clients]\nquota = 1\n{header}",
            encoding="utf-8",
        )
        with party("relay", "serve", "--config", str(path)) as relay:
            sent = iter(range(256))

            def send(forwarded: str) -> int:
                with connected(port_of(relay_url(relay))) as client:
                    body = CAPSULE[:-1] + bytes([next(sent)])
                    client.request("POST", "/relay", body, {**SEALED, "x-forwarded-for": forwarded})
                    return client.getresponse().status

            assert send("192.0.2.1") == 200
            assert send("192.0.2.1") == 429
            assert send("198.51.100.1, 192.0.2.1") == 429
            assert send("192.0.2.2") == (200 if behind_proxy else 429)
            if behind_proxy:
                # A proxy that does not say who it is: nobody is let in unnamed.
                assert send("192.0.2.3, unknown") == 401


# ── what is written ──────────────────────────────────────────────────────────────────────────────────────────────────

PEOPLE = [({"zirkuszelt", f"quittengelee{i}"}, "nordmeer") for i in range(3)] + [
    ({"paukenschlag", f"rhabarber{i}"}, "suedwind") for i in range(3)
]
#: Between the end of the window and of its grace.
DEPOSIT_AFTER_S = 42
SEED = "seed-of-the-small-run-0815"
BUDGET = 12
SPECIFICATION = f"""
title = "Kettledrum"
labels = ["nordmeer", "suedwind"]
floor = 1
rounds = 2
budget = {BUDGET}
train_share = 0.9
test = true
[features]
source = "words"
[binning]
bins = 100
[windows]
length_s = 40
grace_s = 5
[[relays]]
url = "RELAY"
key = "KEY"
"""


class SmallRun:
    """Everybody, for one experiment of two rounds."""

    def __init__(self, folder: Path) -> None:
        self.place = Place(folder, token="token-of-the-small-run-4711")
        self.written: list[str] = []
        self.secrets: dict[str, str] = {}
        self.acknowledged = 0
        #: Train participants of each round, as published.
        self.participants: list[int] = []
        self.answers: list[str] = []

    def run(self) -> None:
        place, folder = self.place, self.place.folder
        with party("relay", "key", "--out", str(folder / "relay.key")) as made:
            assert made.end() == 0
        self.secrets["relay's signing key"] = (folder / "relay.key").read_text(encoding="utf-8").strip()
        with place.coordinator() as coordinator:
            settings = place.relay_settings(
                f'[store]\npath = "{folder}/relay.db"\n[signing]\nkey_file = "{folder}/relay.key"\n',
                mode="round",
                clients="floor = 1",
                epochs=f"deposit_after_s = {DEPOSIT_AFTER_S}",
            )
            with party("relay", "serve", "--config", str(settings)) as relay:
                specification = SPECIFICATION.replace("RELAY", relay_url(relay)).replace("KEY", made.said.strip())
                digest = place.new_experiment(specification)
                with party("participant", "run", "--config", str(self.device(relay_url(relay), digest))) as device:
                    self.rounds(digest, device, relay)
                    self.answers = self.refused(relay_url(relay))
                    pages = [place.url, relay_url(relay).removesuffix("/relay"), status_of(device)]
                    self.written += [
                        (get(url + page) or b"").decode() for url in pages for page in ("/metrics", "/health")
                    ]
                    self.stop(device)
                self.stop(relay)
            self.stop(coordinator)

    def device(self, relay: str, digest: str) -> Path:
        folder = self.place.folder
        lines = [json.dumps({"features": sorted(words), "label": label}) for words, label in PEOPLE]
        (folder / "people.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        path = folder / "device.toml"
        path.write_text(
            f'[device]\nfolder = "{folder}/devices"\n[relay]\nurls = ["{relay}"]\n[status]\nlisten = "127.0.0.1:0"\n'
            '[consent]\npolicy = "unsafe-accept-anything"\n'
            f'[testing]\nclock = "{self.place.clock}"\nseed = "{SEED}"\npeople = "{folder}/people.jsonl"\n'
            f'count = {len(PEOPLE)}\njoin = ["{digest}"]\n',
            encoding="utf-8",
        )
        return path

    def rounds(self, digest: str, device: Party, relay: Party) -> None:
        place = self.place
        # Until everybody is there the clock stands.
        device.told("listening")
        document = read_published(place.wait_for(f"/v1/experiment/{digest}"), digest=digest)
        last: AcceptedManifest | None = None
        for number in (1, 2):
            last = accept(place.wait_for(f"/v1/experiment/{digest}/manifest/{number}"), document=document, last=last)
            times = last.manifest
            # Time runs to the edge of each step, and stands there until everybody has done what was to be done.
            place.steering.steer(limit=times.opens_at - 1, rate=50.0)
            wait_until(device, digest, number, "joined", len(PEOPLE))
            place.steering.steer(limit=times.closes_at - 1, rate=50.0)
            wait_until(device, digest, number, "acknowledged", BUDGET * len(PEOPLE))
            self.keep_keys()
            place.steering.steer(limit=times.opens_at + 1000 * DEPOSIT_AFTER_S, rate=50.0)
            relay.told("deposit", state="accepted", nth=number)
            place.steering.steer(limit=times.accept_until, rate=50.0)
        place.wait_for(f"/v1/experiment/{digest}/ending")
        status = json.loads(place.wait_for(f"/v1/experiment/{digest}/status"))
        self.participants = [sum(one["participants"].values()) for one in status["rounds"]]
        self.acknowledged = counts(device)[digest]["acknowledged"]

    def refused(self, relay: str) -> list[str]:
        """Requests that are wrong in many ways and full of what must not be told; how they are answered."""
        headers = {**SEALED, "authorization": "Bearer token-of-a-stranger", "secvm-credential": "credential-0816"}
        said = []
        for url in (relay, self.place.url):
            for path in (
                "/relay",
                "/relay/fetch",
                "/v1/gateway",
                "/v1/batch",
                "/admin/experiments",
                "/nordmeer?zirkuszelt",
            ):
                for body in (b"paukenschlag", CAPSULE, bytes(100_000)):
                    with connected(port_of(url)) as client:
                        client.request("POST", path, body, headers)
                        answer = client.getresponse()
                        # In mode round a relay cannot know that bytes are no capsule.
                        assert answer.status >= 400 or (path, len(body)) == ("/relay", len(CAPSULE))
                        said.append(f"{answer.read().decode()} {answer.headers}")
        wrong = self.place.secret("wrong.key", "admin-key-of-a-stranger")
        order = ["experiment", "pause", "0" * 64, "--coordinator", self.place.url, "--admin-key-file", str(wrong)]
        with party(*order) as command:
            assert command.end() == 2
        return [*said, command.said]

    def keep_keys(self) -> None:
        """The gateway's keys of now, as the coordinator has them in its store."""
        database = sqlite3.connect(f"file:{self.place.folder}/coordinator/state/coordinator.sqlite?mode=ro", uri=True)
        try:
            for (private,) in database.execute("SELECT private FROM keys"):
                self.secrets[f"gateway's key {len(self.secrets)}"] = private.hex()
        finally:
            database.close()

    def stop(self, running: Party) -> None:
        running.process.send_signal(signal.SIGTERM)
        assert running.end() == 0, running.said
        self.written.append(running.said)


def status_of(device: Party) -> str:
    return f"http://127.0.0.1:{device.told('listening')['port']}"


def counts(device: Party) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(get(status_of(device)) or b"")
    return told


def wait_until(device: Party, digest: str, number: int, what: str, count: int) -> None:
    """Until so many devices have joined the round, or packages are acknowledged."""
    end = time.monotonic() + PATIENCE_S
    while True:
        row = counts(device).get(digest, {"rounds": {}})["rounds"].get(str(number), {})
        if row.get(what) == count:
            return
        assert time.monotonic() < end, (number, what, row, device.said)


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
