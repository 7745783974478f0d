"""A client that strangers wrote takes part: node, npm's @hpke/core and bhttp-js, through our relay.

It asks the relay for the gateway's key for fetches, writes packages by docs/protocol.md, seals and sends over real
sockets. The relay holds what could be a package of this round until the window is over, and deposits it. What may count
is counted once; everything else gets its problem, or is dropped when it is opened, and changes nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from secvm.crypto.sealing.oblivious import decode_key_configurations
from secvm.learning.aggregate.tally import Tally
from secvm.learning.package import Cohort, Package, ParticipationPackage, TestPackage, TrainPackage
from secvm.protocol.documents.blobs import decode_tally
from secvm.protocol.documents.ending import accept_ending
from secvm.protocol.documents.experiment import ExperimentDocument, read_published
from secvm.protocol.documents.manifest import AcceptedManifest, accept
from secvm.protocol.problems import PROBLEMS
from secvm.relay.setting_up import make_key
from tests.deep.strangers.node import Stranger, speaking
from tests.system.parties import Party, Place, party, relay_url

BINS = 50
SPECIFICATION = f"""
title = "North or south?"
labels = ["north", "south"]
privacy = "none"
floor = 3
rounds = 2
budget = 20
test = true
[features]
source = "words"
[binning]
bins = {BINS}
[windows]
length_s = 40
grace_s = 5
[[relays]]
url = "https://relay.example/relay"
key = "KEY"
"""
#: Between the end of the window and of its grace.
DEPOSIT_AFTER_S = 42
MEGABYTE = 1_000_000


@dataclass
class Scene:
    """An experiment that runs, a stranger, and what should count of all that it sent."""

    place: Place
    party: Party
    stranger: Stranger
    document: ExperimentDocument
    last: AcceptedManifest | None = None
    key: str = ""
    counted: list[Package] = field(default_factory=list)

    @property
    def relay(self) -> str:
        return relay_url(self.party)

    def next_round(self) -> None:
        """The manifest's round opens, and the stranger has its key."""
        number = 1 if self.last is None else self.last.manifest.round_number + 1
        envelope = self.place.wait_for(f"/v1/experiment/{self.document.digest}/manifest/{number}")
        self.last = accept(envelope, document=self.document, last=self.last)
        self.place.set_time(self.last.manifest.opens_at)
        (configuration,) = decode_key_configurations(self.last.manifest.gateway_keys)
        # The relay hands out the key for fetches, that of the next slot; packages are sealed to the manifest's.
        # When a slot has just begun, the coordinator still shows the key of the one before for a moment.
        while decode_key_configurations(self.place.wait_for("/v1/keys"))[0].key_id == configuration.key_id:
            pass
        told = self.stranger("keys", relay=self.relay)
        assert told["type"] == "application/ohttp-keys"
        assert set(told["keys"]) == {str((configuration.key_id + 1) % 256)}
        self.key = configuration.to_bytes().hex()
        self.counted = []

    def deposit(self) -> None:
        """The window is over, and the relay hands on what it has."""
        assert self.last is not None
        self.place.set_time(self.last.manifest.opens_at + 1000 * DEPOSIT_AFTER_S)
        self.party.told("deposit", state="accepted", nth=self.last.manifest.round_number)

    def close_round(self) -> None:
        assert self.last is not None
        self.place.set_time(self.last.manifest.accept_until)

    def seal(self, package: Package, *, round_number: int | None = None) -> int:
        """A package of this round, or of another; the number by which the stranger knows it."""
        assert self.last is not None
        kind, a, b, c = fields(package)
        number = self.last.manifest.round_number if round_number is None else round_number
        told = self.stranger(
            "seal", key=self.key, kind=kind, experiment=self.document.experiment_id.hex(), round=number, a=a, b=b, c=c
        )
        return int(told["id"])

    def send(self, sealed: int) -> dict[str, Any]:
        return self.stranger("send", relay=self.relay, id=sealed)

    def contribute(self, *packages: Package) -> list[int]:
        """Packages that should be counted."""
        sent = []
        for package in packages:
            sent.append(self.seal(package))
            assert_taken(self.send(sent[-1]))
            self.counted.append(package)
        return sent

    def participants(self) -> None:
        """As many as the floor wants, and one that tests."""
        for label in (0, 1, 1):
            self.contribute(ParticipationPackage(cohort=Cohort.TRAIN, class_index=label))
        self.contribute(
            ParticipationPackage(cohort=Cohort.TEST, class_index=0), TestPackage(true_class=0, predicted_class=1)
        )

    def tally(self, digest: str | None) -> Tally:
        assert digest is not None
        data = self.place.wait_for(f"/v1/blob/{digest}")
        return decode_tally(data, digest=digest, experiment=self.document.experiment)

    def expected(self) -> Tally:
        n_models = self.document.experiment.models.n_models
        return Tally.empty(n_models=n_models, n_bins=BINS, n_labels=2).count(self.counted)


def fields(package: Package) -> tuple[str, int, int, int]:
    match package:
        case TrainPackage(model=model, bin_index=bin_index, sign=sign):
            return "train", model, bin_index, 1 if sign == 1 else 2
        case TestPackage(true_class=true, predicted_class=predicted):
            return "test", true, predicted, 0
        case ParticipationPackage(cohort=cohort, class_index=label):
            return "participation", label, 0, 1 if cohort is Cohort.TRAIN else 2
        case _:
            return "null", 0, 0, 0


def train(bin_index: int, sign: Literal[-1, 1]) -> TrainPackage:
    return TrainPackage(model=0, bin_index=bin_index, sign=sign)


def assert_taken(answer: dict[str, Any]) -> None:
    assert (answer["status"], answer["length"], answer["problem"]) == (202, 0, None), answer


def assert_refused(answer: dict[str, Any], problem: str) -> None:
    wanted = PROBLEMS[problem]
    assert (answer["status"], answer["type"]) == (wanted.status, "application/problem+json")
    assert answer["problem"] == wanted.uri


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    place = Place(tmp_path)
    key = make_key(tmp_path / "relay.key").data.hex()
    with place.coordinator():
        digest = place.new_experiment(SPECIFICATION.replace("KEY", key))
        document = read_published(place.wait_for(f"/v1/experiment/{digest}"), digest=digest)
        settings = place.relay_settings(
            f'[store]\npath = "{tmp_path}/relay.db"\n[signing]\nkey_file = "{tmp_path}/relay.key"\n',
            epochs=f"deposit_after_s = {DEPOSIT_AFTER_S}",
        )
        with party("relay", "serve", "--config", str(settings)) as relay, speaking("send.mjs") as stranger:
            yield Scene(place, relay, stranger, document)


def test_a_strangers_packages_count_once_and_what_is_wrong_changes_nothing(scene: Scene) -> None:
    scene.next_round()
    first, *_ = scene.contribute(train(7, 1), train(BINS, -1))
    scene.participants()
    # The same bytes again: the same answer, and no second count.
    assert_taken(scene.send(first))
    relay, stranger = scene.relay, scene.stranger
    # A capsule of which a byte was changed on the way: nobody sees it before it is opened. And one for another key.
    garbled = scene.seal(train(3, 1))
    assert_taken(stranger("send_changed", relay=relay, id=garbled, at=60, bytes="00" * 16))
    elsewhere = f"{(int(scene.key[:2], 16) + 9) % 256:02x}"
    assert_refused(stranger("send_changed", relay=relay, id=garbled, at=0, bytes=elsewhere), "stale")
    # Wrong inside: a bin that is not there, and another round.
    assert_taken(scene.send(scene.seal(train(BINS + 1, 1))))
    assert_taken(scene.send(scene.seal(train(3, 1), round_number=2)))
    # Far too much: no capsule is so large, and the relay need not read it to know.
    for length in (10 * MEGABYTE, 5000):
        assert_refused(stranger("send_bytes", relay=relay, length=length), "too-large")
    kept_back = scene.seal(train(11, 1))
    expected = scene.expected()
    scene.deposit()
    # Late: the epoch was handed on.
    assert_refused(scene.send(scene.seal(train(12, 1))), "stale")
    scene.close_round()

    scene.next_round()
    assert scene.last is not None
    assert scene.last.manifest.last is not None
    assert scene.last.manifest.last.relay_count is not None
    assert scene.tally(scene.last.manifest.last.tally) == expected
    # A round that is over, named under the key of this one.
    assert_taken(scene.send(scene.seal(train(3, 1), round_number=1)))
    # Capsules of the round before.
    assert_refused(scene.send(kept_back), "stale")
    assert_refused(scene.send(first), "stale")
    scene.contribute(train(7, -1))
    scene.participants()
    expected = scene.expected()
    scene.deposit()
    scene.close_round()
    envelope = scene.place.wait_for(f"/v1/experiment/{scene.document.digest}/ending")
    ending = accept_ending(envelope, document=scene.document, last=scene.last)
    assert ending.last is not None
    assert scene.tally(ending.last.tally) == expected
