"""Whole rounds through the coordinator's own parts: sealed packages in, by every way; the estimator's bytes out.

Routes, gateway, ingest, opener, store, count, driver and publisher are the real ones; only sockets are missing, and the
clock goes from one instant to the next. Devices read nothing but public files.
"""

import asyncio
import hashlib
import os
from collections.abc import Awaitable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from secvm.coordinator.driver import Driver
from secvm.coordinator.intake.gateway import Gateway
from secvm.coordinator.intake.ingest import Ingest
from secvm.coordinator.intake.package_routes import PackageRoutes
from secvm.coordinator.intake.running import CurrentRounds
from secvm.coordinator.publisher import Publisher
from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.port import CoordinatorStore
from secvm.coordinator.store.sqlite import SQLiteStore
from secvm.crypto.sealing import capsules as packing
from secvm.crypto.sealing.oblivious import REQUEST_MEDIA_TYPE
from secvm.estimator.training import OfflineTraining, Population
from secvm.learning._kernels.dispatch import kernels
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import HashBinning, bin_features
from secvm.learning.individual.contribution import Individual
from secvm.learning.individual.dice import UnsafeSeededDice, draw_cohort
from secvm.learning.package import Cohort
from secvm.learning.thinning import Thinning
from secvm.protocol.documents.ending import accept_ending
from secvm.protocol.documents.experiment import ExperimentDocument, HashedBins, Relay, Windows
from secvm.protocol.documents.manifest import AcceptedManifest, RelayCount, accept
from secvm.runtime.http.server import HttpRequest, HttpResponse, http_date
from secvm.runtime.metrics import Metrics
from secvm.testing.clock import ManualClock
from tests.seeds import seed_bytes
from tests.system.contributions import contributed
from tests.unit.coordinator.rounds import GRID, add
from tests.unit.protocol.helpers import COORDINATOR, RELAY, SECOND, START, document

TOKEN = "token"
SEED, SALT, BUDGET, BINS, ROUNDS = seed_bytes("sealed rounds"), b"sixteen bytes of", 30, 40, 3
PEOPLE = [
    ({f"w{(7 * i + k * k) % 23}": 1 + (i + k) % 2 for k in range(6)} | {f"side{i % 2}": 1}, i % 2) for i in range(16)
]


class Deployment:
    """All of a coordinator but its sockets."""

    def __init__(self, store: CoordinatorStore, clock: ManualClock) -> None:
        self.clock = clock
        self.publisher = Publisher(store)
        self.ingest = Ingest(store, clock, metrics=Metrics("coordinator"))
        gateway = Gateway(dice=os.urandom, public=self.publisher.public, date=http_date(clock))
        tokens = [hashlib.sha256(TOKEN.encode()).digest()]
        self.routes = PackageRoutes(gateway, self.ingest, clock, tokens=tokens, tests=True)
        self.driver = Driver(
            store=store,
            ingest=self,
            publisher=self.publisher,
            clock=clock,
            key=COORDINATOR,
            grid=GRID,
            dice=os.urandom,
        )

    def update(self, present: CurrentRounds) -> None:
        self.routes.update(present)

    async def finish(self, epoch: int) -> None:
        await self.ingest.finish(epoch)

    def get(self, path: str) -> bytes:
        found = self.publisher.public(path)
        assert found is not None, path
        return found[0]

    async def post(self, path: str, body: bytes, media_type: str = REQUEST_MEDIA_TYPE) -> int:
        headers = {"content-type": media_type, "authorization": f"Bearer {TOKEN}"}
        answer = self.routes.routes[path](HttpRequest("POST", path, "", headers, body, "nobody"))
        answer = await answer if isinstance(answer, Awaitable) else answer
        assert isinstance(answer, HttpResponse)
        return answer.status


def sealed(deployment: Deployment, of: ExperimentDocument, accepted: AcceptedManifest, number: int) -> list[bytes]:
    """Everything one device sends in one round."""
    dice, (features, label) = UnsafeSeededDice(SEED, number), PEOPLE[number]
    vector = bin_features(features, HashBinning(n_bins=BINS, salt=SALT))
    person = Individual(vector=vector, label=label, cohort=draw_cohort(of.train_share, dice))
    return contributed(of, accepted.manifest, person, dice, blob=lambda digest: deployment.get(f"/v1/blob/{digest}"))


async def drive(store: CoordinatorStore, of: ExperimentDocument) -> bytes:
    """All rounds; the last state's bytes."""
    clock = ManualClock(START - 100_000)
    deployment = Deployment(store, clock)
    last: AcceptedManifest | None = None
    deployment.ingest.start()
    try:
        at = await deployment.driver.step()
        for _ in range(ROUNDS):
            last = accept(deployment.get(f"/v1/experiment/{of.digest}/manifest/latest"), document=of, last=last)
            assert at == last.manifest.opens_at
            clock.advance(at - clock.now())
            at = await deployment.driver.step()
            capsules = [c for i in range(len(PEOPLE)) for c in sealed(deployment, of, last, i)]
            assert len(capsules) == BUDGET * len(PEOPLE)
            # A third each by the ways there are, and some a second time by another.
            held = sorted(capsules[0::3], key=lambda one: hashlib.sha256(one).digest())
            count = RelayCount(last.manifest.opens_at, len(PEOPLE), len(held)).signed(RELAY)
            deposit = len(count).to_bytes(4, "little") + count + packing.pack(held)
            assert await deployment.post("/v1/deposit", deposit, packing.MEDIA_TYPE) == 202
            singly = capsules[1::3] + capsules[:20]
            assert set(await asyncio.gather(*(deployment.post("/v1/capsule", one) for one in singly))) == {202}
            batch = packing.pack(capsules[2::3] + capsules[-20:])
            assert await deployment.post("/v1/batch", batch, packing.MEDIA_TYPE) == 202
            for _ in range(2):
                assert at is not None
                clock.advance(at - clock.now())
                at = await deployment.driver.step()
            assert await deployment.post("/v1/capsule", capsules[0]) in (400, 410)
        end = accept_ending(deployment.get(f"/v1/experiment/{of.digest}/ending"), document=of, last=last)
        return deployment.get(f"/v1/blob/{end.state}")
    finally:
        await deployment.ingest.close()


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


@pytest.mark.parametrize("kept", ["memory", "sqlite"])
@pytest.mark.parametrize(
    "how",
    [{"rule": Pegasos()}, {"rule": Swift(), "thinning": Thinning(rho=Fraction(2))}],
    ids=["pegasos", "swift thinned"],
)
def test_driven_rounds_end_in_the_bytes_of_the_estimator(how: dict[str, Any], kept: str, tmp_path: Path) -> None:
    of = document(
        experiment=Experiment(n_bins=BINS, labels=("a", "b"), budget=BUDGET, **how),
        binning=HashedBins(bins=BINS, salt=SALT),
        windows=Windows(length_s=480, grace_s=60, first_opening=START),
        floor=1,
        rounds=ROUNDS,
        # Of several relays one's count bounds nothing, so the other ways of a test may be taken beside it.
        relays=tuple(Relay(f"https://{name}.example/", key.public) for name, key in (("a", RELAY), ("b", SECOND))),
        test=True,
    )
    store: CoordinatorStore = MemoryStore() if kept == "memory" else SQLiteStore(tmp_path / "store")
    add(store, of)
    state = asyncio.run(drive(store, of))
    store.close()
    assert state == offline(of.experiment).state.to_bytes()
