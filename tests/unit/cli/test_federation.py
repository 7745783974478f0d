"""All parties' folders match one another, wherever they are carried; what cannot be leaves nothing."""

import asyncio
import hashlib
import json
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import pytest

from secvm.cli.experiment.preview import why_refused
from secvm.coordinator.experiments.new_experiment import make_document, private_plan
from secvm.coordinator.experiments.specification import Specification
from secvm.coordinator.main import log_key
from secvm.coordinator.settings import CoordinatorProgramSettings
from secvm.crypto.signing import SigningKey
from secvm.federation.example import made_up_people
from secvm.federation.folders import Sites, Timing, write_folders
from secvm.participant import main as participant
from secvm.participant.settings import ParticipantSettings
from secvm.people.source import iter_people
from secvm.protocol.documents.experiment import ExperimentDocument, publish
from secvm.relay.batches.experiments import OwnRelay, check_document
from secvm.relay.role import own_terms
from secvm.relay.settings import RelayServiceSettings
from secvm.runtime.disk.secret_files import read_secret, read_signing_key
from secvm.runtime.settings import read_settings
from secvm.witness.settings import WitnessSettings
from tests.program import Program
from tests.rigs.federation_ports import move_to_free_ports
from tests.serving import Server, serving
from tests.unit.protocol.helpers import COORDINATOR, EXPERIMENT, document

HOSTS = "--coordinator c.example --entry e.example --mix m.example --witness w1.example --witness w2.example"


def planned(experiment: Specification, coordinator: CoordinatorProgramSettings) -> ExperimentDocument | None:
    """The document of a small one: planning takes seconds for thousands of people."""
    if not experiment.test:
        return None
    plan = private_plan(experiment)
    assert plan is not None
    key, grid = SigningKey(bytes(32)).public, coordinator.epochs.grid
    return make_document(experiment, key=key, grid=grid, dice=os.urandom, now=0, plan=plan)[0]


def everything_matches(folder: Path) -> None:
    coordinator = read_settings(folder / "coordinator/coordinator.toml", CoordinatorProgramSettings)
    entry, mix = (read_settings(folder / role / "relay.toml", RelayServiceSettings) for role in ("entry", "mix"))
    witnesses = [read_settings(path, WitnessSettings) for path in sorted(folder.glob("witness-*/witness.toml"))]
    person = read_settings(folder / "person/participant.toml", ParticipantSettings)
    assert coordinator.log is not None
    own = log_key(coordinator.state.folder)
    assert all(
        coordinator.log.name in witness.known_logs()[f"{coordinator.log.name}/secvm/v2"].origin for witness in witnesses
    )
    assert all([log.key.key for log in witness.known_logs().values()] == [own] for witness in witnesses)
    keys = [read_signing_key(witness.witness.key_file).public for witness in witnesses]
    assert [witness.note_key.key for witness in coordinator.witnesses] == keys
    experiment = read_settings(folder / "experiment.toml", Specification)
    document = planned(experiment, coordinator)
    assert person.trust.relays is not None
    named = zip((entry, mix), coordinator.relays, experiment.relays, person.trust.relays, strict=True)
    for relay, admitted, specified, trusted in named:
        assert relay.signing is not None
        signing = read_signing_key(relay.signing.key_file)
        assert admitted.token_file is not None
        token = read_secret(relay.gateway.token_file).strip()
        assert token == read_secret(admitted.token_file).strip()
        assert admitted.token_sha256 == hashlib.sha256(token).hexdigest()
        assert relay.relay.url == admitted.url == specified.url == trusted.url
        assert signing.public.data.hex() == specified.key == trusted.key
        assert relay.epochs.period_s == coordinator.epochs.period_s
        # The relay takes the experiment, by the terms that it signs.
        if document is not None:
            # Also in the last round: ε of another answer is larger than that of taking part.
            assert why_refused(document) == []
            check_document(document, OwnRelay(own_terms(relay), signing), lambda _: None)
    # A device for people's own data joins no test, and one for made-up data nothing else.
    assert (person.testing is not None) is experiment.test
    operators = [relay.operator for relay in person.trust.relays] + [person.trust.coordinator]
    assert len(set(operators)) == 3
    secret = {".key", ".token"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.rglob("*") if path.suffix in secret)


def test_the_parties_of_one_machine_match_and_may_be_carried_away(tmp_path: Path, secvm: Program) -> None:
    assert secvm("federation", "init", tmp_path / "made", "--people 20 --witnesses 2") == 0
    everything_matches(tmp_path / "made")
    (tmp_path / "made").rename(tmp_path / "carried")
    everything_matches(tmp_path / "carried")
    people = read_settings(tmp_path / "carried/people/participant.toml", ParticipantSettings)
    assert people.testing is not None
    assert people.testing.people is not None
    assert len(list(iter_people(people.testing.people))) == people.testing.count == 20
    assert not people.agreed().unsafe
    trial = read_settings(tmp_path / "carried/experiment.toml", Specification)
    # Hundreds of devices need a minute to join: without it the first round goes by without them.
    assert trial.windows.first_opening_s == 90
    assert trial.privacy is not None
    assert trial.privacy.epsilon == 3
    # Where 500 devices wait for the disk, the first round goes by without them.
    assert people.testing.unsafe_unsynced
    ports = sorted(
        [
            read_settings(tmp_path / f"carried/{role}/relay.toml", RelayServiceSettings).listen.port
            for role in ("entry", "mix")
        ]
        + [8750]
        + [read_settings(path, WitnessSettings).listen.port for path in (tmp_path / "carried").glob("*/witness.toml")]
    )
    assert ports == [8480, 8481, 8490, 8491, 8750]


def test_parties_with_hosts_are_for_people_and_stand_behind_proxies(tmp_path: Path, secvm: Program) -> None:
    assert secvm("federation", "init", tmp_path / "made", HOSTS) == 0
    everything_matches(tmp_path / "made")
    assert not read_settings(tmp_path / "made/experiment.toml", Specification).test
    assert not (tmp_path / "made/people").exists()
    coordinator = read_settings(tmp_path / "made/coordinator/coordinator.toml", CoordinatorProgramSettings)
    assert coordinator.relays[0].url == "https://e.example/relay"
    entry = read_settings(tmp_path / "made/entry/relay.toml", RelayServiceSettings)
    assert (entry.listen.port, entry.clients.address_header) == (8480, "x-real-ip")
    assert "machines of their own" in secvm.refused("federation", "run", tmp_path / "made")


@pytest.mark.parametrize("period", [12, 13, 40, 3600])
def test_windows_of_any_period_fit_into_its_slots(period: int) -> None:
    for timing in (Timing.of(period), Timing.trying(period)):
        assert timing.windows["length_s"] + timing.windows["grace_s"] + timing.lead_s <= period
        assert min(timing.windows.values()) > 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--coordinator c.example", "hosts are named for all parties"),
        (HOSTS + " --witnesses 3", "hosts are named for all parties"),
        (HOSTS.replace("m.example", "e.example"), "two parties have one host"),
        (HOSTS.replace("m.example", "https://m.example"), "is no host"),
    ],
)
def test_hosts_that_cannot_be_are_refused_and_nothing_is_made(
    tmp_path: Path, secvm: Program, options: str, sentence: str
) -> None:
    assert sentence in secvm.refused("federation", "init", tmp_path / "made", options)
    assert not (tmp_path / "made").exists()


def test_a_folder_that_has_a_federation_is_left_as_it_is(tmp_path: Path, secvm: Program) -> None:
    write_folders(tmp_path / "made", Sites.on_this_machine(1), Timing.trying(40), people=2)
    before = {path: path.read_bytes() for path in (tmp_path / "made").rglob("*") if path.is_file()}
    assert "is there already" in secvm.refused("federation", "init", tmp_path / "made")
    assert before == {path: path.read_bytes() for path in (tmp_path / "made").rglob("*") if path.is_file()}
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = str(other.getsockname()[1])
        settings = tmp_path / "made/entry/relay.toml"
        settings.write_text(settings.read_text().replace("port = 8480", f"port = {taken}"))
        # Whether anybody has the others, such as a federation that is being tried here, does not matter.
        refused = secvm.refused("federation", "run", tmp_path / "made")
    assert "of this machine is taken" in refused
    assert "there is no federation" in secvm.refused("federation", "run", tmp_path)


#: Digests that people were to join, and their file.
Carried = tuple[tuple[str, ...], Path | None]
Hosted = tuple[Path, Server, list[Carried]]


@pytest.fixture
def hosted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosted]:
    """A federation whose coordinator is the server; and what devices were to be run with."""
    folder, carried = tmp_path / "made", list[Carried]()
    write_folders(folder, Sites.on_this_machine(1), Timing.trying(40), people=9)
    move_to_free_ports(folder)

    async def serve(settings: ParticipantSettings, _stop: asyncio.Event) -> None:
        assert settings.testing is not None
        carried.append((settings.testing.join, settings.testing.people))

    monkeypatch.setattr(participant, "serve", serve)
    with serving() as server:
        settings = folder / "coordinator/coordinator.toml"
        settings.write_text(re.sub(r"(?m)^port = \d+", f"port = {urlsplit(server.url).port}", settings.read_text()))
        yield folder, server, carried


def asks(server: Server, *experiments: ExperimentDocument) -> list[str]:
    """Let the coordinator show these, and tell their digests."""
    listed = [{"digest": one.digest, "title": one.title, "standing": "running"} for one in experiments]
    shown = {f"/v1/experiment/{one.digest}": publish(one, keys=(COORDINATOR,)) for one in experiments}
    server.serve({"/v1/experiments": json.dumps({"experiments": listed}).encode(), **shown})
    return [one.digest for one in experiments]


def of_labels(*labels: str) -> ExperimentDocument:
    return document(experiment=replace(EXPERIMENT, labels=labels), title=f"{labels[0]}?")


def test_people_join_the_experiment_whose_digest_begins_so(hosted: Hosted, secvm: Program) -> None:
    folder, server, carried = hosted
    own, _ = asks(server, of_labels("north", "south"), of_labels("tea", "coffee"))
    for name in (own[:6], own):
        assert secvm("federation people", folder, name) == 0, secvm.err
    assert "no experiment of this coordinator" in secvm.refused("federation people", folder, "zz")
    assert carried == 2 * [((own,), folder / "people/people.jsonl")]


def test_repro_people_answer_with_the_labels_that_the_operator_has_chosen(hosted: Hosted, secvm: Program) -> None:
    folder, server, carried = hosted
    labels = ("tea", "coffee", "mate")
    (digest,) = asks(server, of_labels(*labels))
    assert secvm("federation people", folder, digest[:8]) == 0, secvm.err
    ((_, file),) = carried
    assert file is not None
    assert str(file) in secvm.err
    people = list(iter_people(file))
    assert len(people) == 9
    assert {person.label for person in people} <= set(labels)
    before = file.read_bytes()
    assert secvm("federation people", folder, digest[:8]) == 0, secvm.err
    assert (carried[1][1], file.read_bytes()) == (file, before), "those who come again are the same"


def test_made_up_people_have_words_of_their_own_side() -> None:
    people = [
        json.loads(line) for line in made_up_people(3000, Random(1).randbytes, ("tea", "coffee", "mate")).splitlines()
    ]
    assert {person["label"] for person in people} == {"tea", "coffee", "mate"}
    words = {label: set[str]() for label in ("tea", "coffee", "mate")}
    for person in people:
        words[person["label"]].update(person["features"])
        assert len(person["features"]) == 4
    assert all(len(told) == 24 for told in words.values()), "everybody may have a word of another side"
