"""A real coordinator process on loopback, with a steered clock: the command line makes, watches and exports."""

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from secvm.cli.main import run
from secvm.crypto.sealing import capsules as packing
from secvm.crypto.sealing.oblivious import REQUEST_MEDIA_TYPE, decode_key_configurations, seal_request
from secvm.learning.individual.binning import HashBinning, bin_features
from secvm.learning.individual.contribution import Individual, contribute
from secvm.learning.individual.dice import UnsafeSeededDice
from secvm.learning.package import Cohort
from secvm.protocol.codec import AddressedPackage, encode
from secvm.protocol.documents.blobs import decode_weights
from secvm.protocol.documents.experiment import ExperimentDocument, HashedBins, read_published
from secvm.protocol.documents.manifest import AcceptedManifest, RoundManifest, accept
from secvm.protocol.plain.sealed_requests import package_request
from secvm.runtime.clock import ClockSteering

ROOT = Path(__file__).resolve().parents[2]
START = 1_767_225_600_000
TOKEN = "a token of the relay"
SPECIFICATION = """
title = "North or south?"
labels = ["north", "south"]
privacy = "none"
floor = 2
rounds = 2
budget = 40
test = true
[features]
source = "words"
[binning]
bins = 200
[windows]
length_s = 40
grace_s = 5
"""
PEOPLE = [
    ({"rain": 1, "kettle": 1, f"n{i}": 1}, 0) if i % 2 else ({"lemon": 1, "sea": 1, f"s{i}": 1}, 1) for i in range(8)
]


@dataclass
class Running:
    """A coordinator, its clock, and how to ask it."""

    process: subprocess.Popen[str]
    steering: ClockSteering
    folder: Path
    url: str
    key_file: Path

    def command(self, capfd: pytest.CaptureFixture[str], *arguments: str, key: bool = False) -> dict[str, Any]:
        capfd.readouterr()
        keys = ["--admin-key-file", str(self.key_file)] if key else []
        code = run(["experiment", *arguments, "--coordinator", self.url, "--format", "json", *keys])
        out, err = capfd.readouterr()
        assert code == 0, err
        told: dict[str, Any] = json.loads(out)
        return told

    def get(self, path: str) -> bytes | None:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(self.url + path, timeout=20) as answer:
                data: bytes = answer.read()
                return data
        except urllib.error.HTTPError as error:
            with error:
                return None

    def wait_for(self, path: str) -> bytes:
        """A public file, once it is there."""
        end = time.monotonic() + 120
        while (data := self.get(path)) is None:
            assert time.monotonic() < end, path
            assert self.process.poll() is None
        return data


def launch(folder: Path) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "secvm.cli.main", "coordinator", "serve", "--config", "coordinator.toml"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        told = json.loads(line)
        if told["event"] == "listening":
            return process, f"http://127.0.0.1:{told['port']}"
    raise AssertionError(f"it does not listen: {process.wait()}")


@pytest.fixture
def running(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[Running]:
    folder = tmp_path / "coordinator"
    assert run(["coordinator", "init", str(folder), "--format", "json"]) == 0
    admin_key = json.loads(capfd.readouterr().out)["admin_key"]
    settings = (folder / "coordinator.toml").read_text()
    settings = settings.replace("port = 8750", "port = 0").replace("period_s = 3600", "period_s = 60")
    settings = settings.replace("lead_s = 300", "lead_s = 10")
    settings += f'\n[[relays]]\nname = "relay"\ntoken_sha256 = "{hashlib.sha256(TOKEN.encode()).hexdigest()}"\n'
    settings += '\n[testing]\nclock = "clock"\n'
    (folder / "coordinator.toml").write_text(settings)
    key_file = tmp_path / "admin.key"
    key_file.touch(mode=0o600)
    key_file.write_text(admin_key + "\n")
    steering = ClockSteering(folder / "clock", now=START - 30_000, rate=0.0)
    process, url = launch(folder)
    coordinator = Running(process, steering, folder, url, key_file)
    yield coordinator
    coordinator.process.kill()
    coordinator.process.communicate()


def set_time(running: Running, at: int) -> None:
    """The clock jumps there, and stands."""
    running.steering.steer(limit=at, rate=1e6)


def everybody(running: Running, of: ExperimentDocument, manifest: RoundManifest) -> list[bytes]:
    assert isinstance(of.binning, HashedBins)
    assert of.binning.salt is not None
    binning = HashBinning(n_bins=of.binning.bins, salt=of.binning.salt)
    training, evaluation = (
        decode_weights(running.wait_for(f"/v1/blob/{digest}"), digest=digest, experiment=of.experiment)
        for digest in (manifest.training_weights, manifest.evaluation_weights)
    )
    key = decode_key_configurations(manifest.gateway_keys)[0]
    capsules = []
    for number, (features, label) in enumerate(PEOPLE):
        cohort = Cohort.TRAIN if number < 6 else Cohort.TEST
        packages = contribute(
            Individual(vector=bin_features(features, binning), label=label, cohort=cohort),
            experiment=of.experiment,
            training=training,
            evaluation=evaluation,
            dice=UnsafeSeededDice(b"seed", number),
            round_number=manifest.round_number,
        )
        for package in packages:
            plaintext = encode(AddressedPackage(of.experiment_id, manifest.round_number, package))
            capsules.append(seal_request(key, package_request(plaintext), os.urandom).capsule)
    return capsules


async def send(url: str, capsules: list[bytes]) -> set[int]:
    """Half of them one by one, half by a relay."""
    half = len(capsules) // 2
    async with aiohttp.ClientSession() as session:

        async def post(path: str, body: bytes, media_type: str) -> int:
            headers = {"content-type": media_type, "authorization": f"Bearer {TOKEN}"}
            async with session.post(url + path, data=body, headers=headers) as answer:
                return answer.status

        single = [post("/v1/capsule", capsule, REQUEST_MEDIA_TYPE) for capsule in capsules[:half]]
        batch = post("/v1/batch", packing.pack(capsules[half:]), packing.MEDIA_TYPE)
        return set(await asyncio.gather(*single, batch))


def test_an_experiment_from_its_specification_to_a_model_that_predicts(
    running: Running, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    specification = tmp_path / "north.toml"
    specification.write_text(SPECIFICATION)
    made = running.command(capfd, "new", str(specification), key=True)
    digest = made["digest"]
    assert running.command(capfd, "list")["experiments"] == [
        {"digest": digest, "title": "North or south?", "standing": "running"}
    ]
    of = read_published(running.wait_for(f"/v1/experiment/{digest}"), digest=digest)
    last: AcceptedManifest | None = None
    running.wait_for(f"/v1/experiment/{digest}/manifest/1")
    too_early = ["export", digest[:8], "--out", str(tmp_path / "early.secvm"), "--coordinator", running.url]
    assert run(["experiment", *too_early]) == 2
    assert "learnt nothing yet" in capfd.readouterr().err
    for number in (1, 2):
        last = accept(running.wait_for(f"/v1/experiment/{digest}/manifest/{number}"), document=of, last=last)
        if number == 2:
            # It dies before the second window, and comes again.
            running.process.kill()
            running.process.communicate()
            running.process, running.url = launch(running.folder)
        set_time(running, last.manifest.opens_at)
        assert asyncio.run(send(running.url, everybody(running, of, last.manifest))) == {202}
        set_time(running, last.manifest.accept_until)
    running.wait_for(f"/v1/experiment/{digest}/ending")
    shown = running.command(capfd, "show", digest[:8])
    assert shown["standing"] == "finished"
    assert [one["participants"] for one in shown["rounds"]] == [{"north": 3, "south": 3}] * 2
    assert shown["rounds"][1]["accuracy"]["of"] == 2
    model = tmp_path / "model.secvm"
    assert running.command(capfd, "export", digest[:8], "--out", str(model))["rounds"] == 2
    people = tmp_path / "people.jsonl"
    people.write_text('{"features": ["rain", "kettle"]}\n{"features": ["lemon", "sea"]}\n')
    assert run(["predict", str(model), str(people)]) == 0
    assert capfd.readouterr().out == "north\nsouth\n"
    assert run(["experiment", "show", digest[:8], "--coordinator", running.url]) == 0
    assert "north" in capfd.readouterr().out
    assert last is not None
    # What was answered is what lies in the folder, and nothing that the dead one left half written.
    named = [f"/v1/blob/{one}" for one in (last.manifest.state, last.manifest.evaluation_weights)]
    kept = [f"/v1/experiment/{digest}/{name}" for name in ("manifest/1", "manifest/latest", "ending", "status")]
    answered = {path: running.wait_for(path) for path in [*named, *kept, "/v1/experiments", "/v1/keys"]}
    running.process.send_signal(signal.SIGTERM)
    running.process.communicate(timeout=30)
    public = running.folder / "public"
    assert {path: (public / path.strip("/")).read_bytes() for path in answered} == answered
    assert (public / f"v1/experiment/{digest}/index").is_file()
    assert not list(public.rglob("*.tmp"))


def test_the_operator_pauses_and_stops_and_sigterm_ends_it_in_order(
    running: Running, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    specification = tmp_path / "north.json"
    specification.write_text(json.dumps(tomllib.loads(SPECIFICATION)))
    digest = running.command(capfd, "new", str(specification), key=True)["digest"]
    assert running.command(capfd, "pause", digest, key=True)["standing"] == "paused"
    assert running.command(capfd, "resume", digest, key=True)["standing"] == "running"
    assert running.command(capfd, "stop", digest, key=True)["standing"] == "stopped"
    url = ["--coordinator", running.url, "--admin-key-file", str(running.key_file)]
    assert run(["experiment", "resume", digest, *url]) == 2
    assert capfd.readouterr().err == "secvm: the coordinator refuses: the experiment is stopped\n"
    other = tmp_path / "real.toml"
    other.write_text(SPECIFICATION.replace("test = true", ""))
    assert run(["experiment", "new", str(other), *url]) == 2
    assert "only experiments marked as a test" in capfd.readouterr().err
    assert json.loads(running.wait_for("/health")) == {"status": "ok"}
    assert b"secvm_coordinator_" in running.wait_for("/metrics")
    assert run(["coordinator", "serve", "--config", str(running.folder / "coordinator.toml")]) == 2
    assert "another process runs this coordinator already" in capfd.readouterr().err
    running.process.send_signal(signal.SIGTERM)
    _, told = running.process.communicate(timeout=30)
    assert running.process.returncode == 0
    assert json.loads(told.splitlines()[-1])["event"] == "stopping"
    assert run(["experiment", "list", "--coordinator", running.url]) == 2
    assert capfd.readouterr().err == "secvm: cannot reach the coordinator: Connection refused\n"


def test_keys_are_their_owners_and_the_admin_key_is_not_kept(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["coordinator", "init", str(tmp_path / "new"), "--format", "json"]) == 0
    admin_key = json.loads(capfd.readouterr().out)["admin_key"]
    state = tmp_path / "new/state"
    assert (state / "signing.key").stat().st_mode & 0o777 == 0o600
    kept = [file.read_bytes() for file in (tmp_path / "new").rglob("*") if file.is_file()]
    assert not any(admin_key.encode() in data or bytes.fromhex(admin_key) in data for data in kept)
    assert run(["coordinator", "init", str(tmp_path / "new")]) == 2
    assert "already" in capfd.readouterr().err
