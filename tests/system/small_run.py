"""Everybody, as processes, for one small experiment; and all that they write is gathered."""

import http.client
import json
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from secvm.protocol.documents.experiment import read_published
from secvm.protocol.documents.manifest import AcceptedManifest, accept
from tests.system.parties import PATIENCE_S, Party, Place, get, party, relay_url

SEALED = {"content-type": "message/ohttp-req"}
#: As long as a capsule, and none.
CAPSULE = bytes(133)


def port_of(url: str) -> int:
    return int(url.split(":")[2].partition("/")[0])


@contextmanager
def connected(port: int) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        yield connection
    finally:
        connection.close()


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
privacy = "none"
floor = 1
rounds = ROUNDS
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
    """Everybody, for one experiment of a few rounds."""

    def __init__(self, folder: Path, *, rounds: int = 2) -> None:
        self.n_rounds = rounds
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
            self.begun()
            settings = place.relay_settings(
                f'[store]\npath = "{folder}/relay.db"\n[signing]\nkey_file = "{folder}/relay.key"\n',
                epochs=f"deposit_after_s = {DEPOSIT_AFTER_S}",
            )
            with party("relay", "serve", "--config", str(settings)) as relay:
                outside = self.outside(relay)
                specification = SPECIFICATION.replace("RELAY", outside).replace("KEY", made.said.strip())
                digest = place.new_experiment(specification.replace("ROUNDS", str(self.n_rounds)))
                with party("participant", "run", "--config", str(self.device(outside, digest))) as device:
                    self.rounds(digest, device, relay)
                    self.answers = self.refused(relay_url(relay))
                    pages = [place.url, relay_url(relay).removesuffix("/relay"), status_of(device)]
                    self.written += [
                        (get(url + page) or b"").decode() for url in pages for page in ("/metrics", "/health")
                    ]
                    self.stop(device)
                self.stop(relay)
            self.stop(coordinator)

    def begun(self) -> None:
        """The coordinator is up, and the relay is not."""

    def outside(self, relay: Party) -> str:
        """R, as devices know it."""
        return relay_url(relay)

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
        for number in range(1, self.n_rounds + 1):
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
                "/v1/capsule",
                "/v1/batch",
                "/admin/experiments",
                "/nordmeer?zirkuszelt",
            ):
                for body in (b"paukenschlag", CAPSULE, bytes(100_000)):
                    with connected(port_of(url)) as client:
                        client.request("POST", path, body, headers)
                        answer = client.getresponse()
                        # A relay cannot know that bytes are no capsule.
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
