"""A real coordinator process on loopback, with a steered clock: the command line makes, watches and exports."""

import asyncio
import json
import tomllib
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from secvm.cli.main import run
from secvm.crypto.sealing import capsules as packing
from secvm.crypto.sealing.oblivious import REQUEST_MEDIA_TYPE
from secvm.learning.individual.binning import HashBinning, bin_features
from secvm.learning.individual.contribution import Individual
from secvm.learning.individual.dice import UnsafeSeededDice
from secvm.learning.package import Cohort
from secvm.protocol.documents.experiment import ExperimentDocument, HashedBins, read_published
from secvm.protocol.documents.manifest import RoundManifest, accept
from tests.system.contributions import contributed
from tests.system.parties import SPECIFICATION, Place

PEOPLE = [
    ({"rain": 1, "kettle": 1, f"n{i}": 1}, 0) if i % 2 else ({"lemon": 1, "sea": 1, f"s{i}": 1}, 1) for i in range(8)
]


def command(place: Place, capfd: pytest.CaptureFixture[str], *arguments: str, key: bool = False) -> dict[str, Any]:
    """What a command of the operator answers."""
    capfd.readouterr()
    keys = ["--admin-key-file", str(place.admin_key_file)] if key else []
    code = run(["experiment", *arguments, "--coordinator", place.url, "--format", "json", *keys])
    out, err = capfd.readouterr()
    assert code == 0, err
    answered: dict[str, Any] = json.loads(out)
    return answered


def everybody(place: Place, of: ExperimentDocument, manifest: RoundManifest) -> list[bytes]:
    assert isinstance(of.binning, HashedBins)
    assert of.binning.salt is not None
    binning = HashBinning(n_bins=of.binning.bins, salt=of.binning.salt)
    capsules = []
    for number, (features, label) in enumerate(PEOPLE):
        cohort = Cohort.TRAIN if number < 6 else Cohort.TEST
        person = Individual(vector=bin_features(features, binning), label=label, cohort=cohort)
        dice = UnsafeSeededDice(b"seed", number)
        capsules += contributed(of, manifest, person, dice, blob=lambda name: place.wait_for(f"/v1/blob/{name}"))
    return capsules


async def send(place: Place, capsules: list[bytes]) -> set[int]:
    """Half of them one by one, half by a relay; the status of the answers."""
    half = len(capsules) // 2
    async with aiohttp.ClientSession() as session:

        async def post(path: str, body: bytes, media_type: str) -> int:
            headers = {"content-type": media_type, "authorization": f"Bearer {place.token}"}
            async with session.post(place.url + path, data=body, headers=headers) as answer:
                return answer.status

        single = [post("/v1/capsule", capsule, REQUEST_MEDIA_TYPE) for capsule in capsules[:half]]
        batch = post("/v1/batch", packing.pack(capsules[half:]), packing.MEDIA_TYPE)
        return set(await asyncio.gather(*single, batch))


def contribute_everybody(place: Place, of: ExperimentDocument, manifest: RoundManifest) -> None:
    """Everybody's packages come in the window of a round, which is over then."""
    place.set_time(manifest.opens_at)
    assert asyncio.run(send(place, everybody(place, of, manifest))) == {202}
    place.set_time(manifest.accept_until)


def test_an_experiment_from_its_specification_to_a_model_that_predicts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place, specification = Place(tmp_path), tmp_path / "north.toml"
    specification.write_text(SPECIFICATION)
    with place.coordinator():
        digest = command(place, capfd, "new", str(specification), "--yes", key=True)["digest"]
        assert command(place, capfd, "list")["experiments"] == [
            {"digest": digest, "title": "North or south?", "standing": "running"}
        ]
        of = read_published(place.wait_for(f"/v1/experiment/{digest}"), digest=digest)
        first = accept(place.wait_for(f"/v1/experiment/{digest}/manifest/1"), document=of, last=None)
        too_early = ["export", digest[:8], "--out", str(tmp_path / "early.secvm"), "--coordinator", place.url]
        assert run(["experiment", *too_early]) == 2
        assert "learnt nothing yet" in capfd.readouterr().err
        contribute_everybody(place, of, first.manifest)
        second = accept(place.wait_for(f"/v1/experiment/{digest}/manifest/2"), document=of, last=first)
    # It died before the second window, and comes again.
    with place.coordinator() as coordinator:
        contribute_everybody(place, of, second.manifest)
        place.wait_for(f"/v1/experiment/{digest}/ending")
        shown = command(place, capfd, "show", digest[:8])
        assert shown["standing"] == "finished"
        assert [one["participants"] for one in shown["rounds"]] == [{"north": 3, "south": 3}] * 2
        assert shown["rounds"][1]["accuracy"]["of"] == 2
        model, people = tmp_path / "model.secvm", tmp_path / "people.jsonl"
        assert command(place, capfd, "export", digest[:8], "--out", str(model))["rounds"] == 2
        people.write_text('{"features": ["rain", "kettle"]}\n{"features": ["lemon", "sea"]}\n')
        assert run(["predict", str(model), str(people)]) == 0
        assert capfd.readouterr().out == "north\nsouth\n"
        watched = command(place, capfd, "watch", digest[:8])
        assert [(one["number"], one["state"]) for one in watched["rounds"]] == [(1, "published"), (2, "published")]
        assert run(["experiment", "show", digest[:8], "--coordinator", place.url]) == 0
        assert "north" in capfd.readouterr().out
        # What was answered is what lies in the folder, and nothing that the dead one left half written.
        named = [f"/v1/blob/{one}" for one in (second.manifest.state, second.manifest.evaluation_weights)]
        kept = [f"/v1/experiment/{digest}/{name}" for name in ("manifest/1", "manifest/latest", "ending", "status")]
        answered = {path: place.wait_for(path) for path in [*named, *kept, "/v1/experiments", "/v1/keys"]}
        coordinator.stop()
    public = place.public
    assert {path: (public / path.strip("/")).read_bytes() for path in answered} == answered
    assert (public / f"v1/experiment/{digest}/index").is_file()
    assert not list(public.rglob("*.tmp"))


def test_the_operator_pauses_and_stops_and_sigterm_ends_it_in_order(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place, specification = Place(tmp_path), tmp_path / "north.json"
    specification.write_text(json.dumps(tomllib.loads(SPECIFICATION)))
    with place.coordinator() as coordinator:
        digest = command(place, capfd, "new", str(specification), "--yes", key=True)["digest"]
        for action, standing in (("pause", "paused"), ("resume", "running"), ("stop", "stopped")):
            assert command(place, capfd, action, digest, key=True)["standing"] == standing
        url = ["--coordinator", place.url, "--admin-key-file", str(place.admin_key_file)]
        assert run(["experiment", "resume", digest, *url]) == 2
        assert capfd.readouterr().err == "secvm: the coordinator refuses: the experiment is stopped\n"
        assert run(["experiment", "stop", digest, *url]) == 0
        assert capfd.readouterr().out == f"{digest[:16]}  stopped already: nothing has changed\n"
        other = tmp_path / "real.toml"
        asker = 'operator = "Uni"\ncontact = "study@uni.example"\npurpose = "To see."\n'
        other.write_text(asker + SPECIFICATION.replace("test = true", ""))
        assert run(["experiment", "new", str(other), "--yes", *url]) == 2
        assert "only experiments marked as a test" in capfd.readouterr().err
        assert json.loads(place.wait_for("/health")) == {"status": "ok"}
        assert b"secvm_coordinator_" in place.wait_for("/metrics")
        assert run(["coordinator", "serve", "--config", str(place.settings)]) == 2
        assert "another process runs this coordinator already" in capfd.readouterr().err
        coordinator.stop()
    assert json.loads(coordinator.said.splitlines()[-1])["event"] == "stopping"
    assert run(["experiment", "list", "--coordinator", place.url]) == 2
    assert capfd.readouterr().err == f"secvm: cannot reach the coordinator at {place.url}: Connection refused\n"


def test_keys_are_their_owners_and_the_admin_key_is_not_kept(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["coordinator", "init", str(tmp_path / "new"), "--format", "json"]) == 0
    admin_key = json.loads(capfd.readouterr().out)["admin_key"]
    state = tmp_path / "new/state"
    assert (state / "signing.key").stat().st_mode & 0o777 == 0o600
    kept = [file.read_bytes() for file in (tmp_path / "new").rglob("*") if file.is_file()]
    assert not any(admin_key.encode() in data or bytes.fromhex(admin_key) in data for data in kept)
    assert run(["coordinator", "init", str(tmp_path / "new")]) == 2
    assert "already" in capfd.readouterr().err
