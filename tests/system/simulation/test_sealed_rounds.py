"""Whole rounds without a network: manifests, sessions, sealed capsules, a gateway that counts; the estimator's bytes.

Every part is the real one but for the wire between them, which here loses answers now and then, so that devices send
again. What comes out must be the state of ``OfflineTraining`` over the same people, dice and cohorts, byte for byte.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from secvm.crypto.sealing.binary_http import Request, decode_request, encode_request
from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.oblivious import (
    GatewayKey,
    GatewayKeys,
    OpenedRequest,
    decode_key_configurations,
    encode_key_configurations,
    seal_request,
)
from secvm.estimator.training import OfflineTraining, Population
from secvm.learning import aggregate
from secvm.learning._kernels.dispatch import kernels
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import HashBinning, bin_features
from secvm.learning.individual.cohort import draw_cohort
from secvm.learning.individual.contribution import Individual, contribute
from secvm.learning.individual.dice import UnsafeSeededDice
from secvm.learning.package import Cohort
from secvm.learning.thinning import Thinning
from secvm.protocol.codec import check_package, decode
from secvm.protocol.documents.blobs import decode_weights, encode_tally
from secvm.protocol.documents.experiment import ExperimentDocument, HashedBins
from secvm.protocol.documents.manifest import LastRound, RoundManifest, last_round, make_manifest, read_tally
from secvm.protocol.plain.session import ParticipantSession
from secvm.protocol.plain.session_events import (
    Compute,
    Finished,
    ManifestArrived,
    PackagesReady,
    SendFailed,
    SendPackage,
    SendSucceeded,
    Tick,
    Wait,
)
from tests.seeds import seed_bytes, seed_for
from tests.unit.protocol.helpers import COORDINATOR, document, opening, words

SEED, SALT, BUDGET, BINS, ROUNDS = seed_bytes("sealed rounds"), b"sixteen bytes of", 30, 40, 3
PEOPLE = [
    ({f"w{(7 * i + k * k) % 23}": 1 + (i + k) % 2 for k in range(6)} | {f"side{i % 2}": 1}, i % 2) for i in range(16)
]


def seal(plaintext: bytes, gateway_keys: bytes) -> bytes:
    """A package as one Oblivious HTTP request, all of the same length."""
    request = Request(method=b"POST", scheme=b"https", authority=b"gateway", path=b"/", content=plaintext)
    return seal_request(decode_key_configurations(gateway_keys)[0], encode_request(request), os.urandom).capsule


class Coordinator:
    """Opens, counts once, steps, publishes. It sees capsules and no one."""

    def __init__(self, of: ExperimentDocument) -> None:
        self.of, self.state = of, aggregate.start(of.experiment)
        self.key = GatewayKey(1, X25519PrivateKey(os.urandom(32)))
        self.before: RoundManifest | None = None
        self.last: LastRound | None = None
        self.capsules: dict[bytes, None] = {}

    def weights(self) -> tuple[bytes, bytes]:
        both = (aggregate.training_weights, aggregate.evaluation_weights)
        training, evaluation = (weights(self.of.experiment, self.state).to_bytes() for weights in both)
        return training, evaluation

    def publish(self, number: int) -> RoundManifest:
        training, evaluation = self.weights()
        self.before = make_manifest(
            self.of,
            opens_at=opening(number),
            state=self.state.to_bytes(),
            training_weights=training,
            evaluation_weights=evaluation,
            gateway_keys=encode_key_configurations([self.key.configuration]),
            before=self.before,
            last=self.last,
        )
        return self.before

    def close(self, number: int) -> Tally:
        packages = []
        for opened in GatewayKeys([self.key]).open_batch(list(self.capsules)):
            assert isinstance(opened, OpenedRequest)
            addressed = decode(decode_request(opened.request).content)
            packages.append(
                check_package(
                    addressed,
                    experiment_id=self.of.experiment_id,
                    experiment=self.of.experiment,
                    round_number=number,
                )
            )
        tally = aggregate.empty_tally(self.of.experiment).count(packages)
        self.state = aggregate.step(self.of.experiment, self.state, tally)
        self.last = last_round(tally)
        self.capsules.clear()
        return tally


class Device:
    """One person: a session, dice, and a wire that sometimes loses the answer."""

    def __init__(self, of: ExperimentDocument, number: int, wire: random.Random) -> None:
        features, label = PEOPLE[number]
        self.of, self.wire = of, wire
        self.dice = UnsafeSeededDice(SEED, number)
        cohort = draw_cohort(of.train_share, self.dice)
        vector = bin_features(features, HashBinning(n_bins=BINS, salt=SALT))
        self.person = Individual(vector=vector, label=label, cohort=cohort)
        self.times: Iterator[int] = words(seed_for("times", number))
        self.session = ParticipantSession(of, seal=seal)
        self.sent: list[int] = []

    def take_part(self, manifest: RoundManifest, coordinator: Coordinator) -> None:
        now, done = manifest.opens_at - 60_000, False
        actions: list[Any] = self.tell(ManifestArrived(manifest.signed([COORDINATOR])), now)
        while not done:
            waits = [action.until for action in actions if isinstance(action, Wait)]
            answers: list[Any] = []
            for action in actions:
                match action:
                    case Compute():
                        answers += self.tell(PackagesReady(self.packages(manifest, coordinator)), now)
                    case SendPackage(package_id=package_id, capsule=capsule):
                        self.sent.append(now)
                        coordinator.capsules[capsule] = None
                        lost = self.wire.random() < 0.2
                        event = SendFailed(package_id) if lost else SendSucceeded(package_id)
                        answers += self.tell(event, now)
                    case Finished():
                        done = True
            if answers:
                actions = answers
                continue
            now = max(now + 1, min(waits)) if waits else now + 1000
            actions = self.tell(Tick(), now)
            # Between two events the device may die: only what it stored goes on.
            self.session = ParticipantSession.from_bytes(self.session.to_bytes(), self.of, seal=seal)

    def tell(self, event: Any, now: int) -> list[Any]:
        return list(self.session.receive(event, now=now, words=self.times))

    def packages(self, manifest: RoundManifest, coordinator: Coordinator) -> tuple[Any, ...]:
        training, evaluation = coordinator.weights()
        return tuple(
            contribute(
                self.person,
                experiment=self.of.experiment,
                training=decode_weights(training, digest=manifest.training_weights, experiment=self.of.experiment),
                evaluation=decode_weights(
                    evaluation, digest=manifest.evaluation_weights, experiment=self.of.experiment
                ),
                dice=self.dice,
                round_number=manifest.round_number,
            )
        )


@pytest.mark.parametrize(
    "how",
    [{"rule": Pegasos()}, {"rule": Swift(), "thinning": Thinning(rho=Fraction(2))}],
    ids=["pegasos", "swift thinned"],
)
def test_sealed_rounds_end_in_the_bytes_of_the_estimator(how: dict[str, Any]) -> None:
    experiment = Experiment(n_bins=BINS, labels=("a", "b"), budget=BUDGET, **how)
    of = document(experiment=experiment, binning=HashedBins(bins=BINS, salt=SALT), floor=1, relays=(), test=True)
    of.check_seeded_dice()
    coordinator, wire = Coordinator(of), random.Random(seed_for("lost answers"))
    devices = [Device(of, i, wire) for i in range(len(PEOPLE))]
    for number in range(1, ROUNDS + 1):
        manifest = coordinator.publish(number)
        for device in devices:
            device.take_part(manifest, coordinator)
        assert len(coordinator.capsules) == BUDGET * len(PEOPLE)
        assert all(manifest.opens_at <= at < manifest.closes_at for device in devices for at in device.sent)
        for device in devices:
            device.sent.clear()
        tally = coordinator.close(number)
        following = coordinator.publish(number + 1)
        assert read_tally(following, encode_tally(tally, experiment), of) == tally
        coordinator.before = manifest
    assert coordinator.state.to_bytes() == offline(experiment).state.to_bytes()


def offline(experiment: Experiment) -> OfflineTraining:
    """The same people, dice and cohorts, in memory."""
    binning = HashBinning(n_bins=BINS, salt=SALT)
    vectors = [bin_features(features, binning).values for features, _ in PEOPLE]
    offsets = np.cumsum([0, *map(len, vectors)]).astype(np.int64)
    bins = np.array([b for vector in vectors for b in vector], dtype=np.int32)
    values = np.array([v for vector in vectors for v in vector.values()], dtype=np.int64)
    train = [draw_cohort(Fraction(7, 10), UnsafeSeededDice(SEED, i)) is Cohort.TRAIN for i in range(len(PEOPLE))]
    people = Population(
        rows=kernels().bin_rows(offsets, bins, values, BINS),
        labels=np.array([label for _, label in PEOPLE], dtype=np.int64),
        train=np.array(train, dtype=np.bool_),
    )
    training = OfflineTraining(experiment, seed=SEED)
    for _ in range(ROUNDS):
        training.advance(people)
    return training
