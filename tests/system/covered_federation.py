"""A federation with two relays' cover, held to the same people twice: by kernels, and package by package.

Devices, relays and coordinator are real processes. What they publish after every round must be what ``OfflineTraining``
counts from the same people, dice and openings, and what the devices' own code sends, added up package by package.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from secvm.crypto.signing import Envelope
from secvm.estimator.fitting import Evaluator
from secvm.estimator.round_cover import CoverOrigins, net_cover
from secvm.estimator.training import OfflineTraining, Population
from secvm.learning import aggregate
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import Binning, HashBinning, VocabularyBinning, bin_features
from secvm.learning.individual.contribution import Individual, contribute
from secvm.learning.individual.dice import UnsafeSeededDice
from secvm.learning.individual.update import fixed_target
from secvm.learning.package import Cohort, Package
from secvm.participant.storage.state import DeviceState
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import Opening
from secvm.protocol.relays.recount import Recount, ShardTally
from secvm.protocol.relays.shards import read_run
from secvm.testing.federation import Federation, HostOf, Pace
from secvm_lab.demo.crowd import binned, sampled, who_trains
from secvm_lab.published import Published, from_outside, origins_of, published
from tests.system.verifying import verify

SALT = bytes(range(16))
FLOOR, FEATURES, ROUNDS = 2, 4, 2
TRAIN_SHARE = Fraction(7, 10)
PACE = Pace(length_s=30, grace_s=4, lead_s=10, rate=30.0)
#: So many that noise leaves somebody in nearly every round.
PEOPLE = 45
SWIFT = {"descent": {"rule": "swift", "thinning": "2", "step_size": "5"}}
#: Told at which step of a round a federation is.
Between = Callable[[Federation, str], None]
#: After a round: bytes of the state, and the net tally.
After = tuple[bytes, Tally]


@dataclass(frozen=True, kw_only=True)
class Case:
    """People, and what they are asked."""

    #: Label and features of each.
    people: tuple[tuple[str, tuple[str, ...]], ...]
    labels: tuple[str, ...]
    seed: str
    bins: int = 6
    vocabulary: VocabularyBinning | None = None
    #: Further lines of the specification.
    further: dict[str, Any]

    @property
    def binning(self) -> Binning:
        return self.vocabulary or HashBinning(n_bins=self.bins, salt=SALT)

    def specification(self) -> dict[str, Any]:
        words = self.vocabulary
        return {
            "title": "A small question",
            "labels": list(self.labels),
            "people": len(self.people),
            "floor": FLOOR,
            "rounds": ROUNDS,
            "train_share": str(TRAIN_SHARE),
            "features": {"source": "words", "per_participant": FEATURES},
            "binning": {"bins": self.bins, **({"salt": SALT.hex()} if words is None else {"vocabulary": words.digest})},
            "privacy": {"epsilon": 8, "delta": "1/1000", "parts": 4},
            **self.further,
        }


def a_case(dice: random.Random, labels: tuple[str, ...], *, people: int = PEOPLE, **changes: Any) -> Case:
    """People whose words lean to their label."""
    words = [f"word-{number}" for number in range(12)]

    def person(number: int) -> tuple[str, tuple[str, ...]]:
        code = number % len(labels)
        leaning = words[4 * code % 12 :][:4]
        return labels[code], tuple(sorted(set(dice.choices(words, k=3) + dice.choices(leaning, k=3))))

    told: dict[str, Any] = {"labels": labels, "seed": f"covered {dice.getrandbits(32)}", "further": SWIFT}
    return Case(people=tuple(person(number) for number in range(people)), **{**told, **changes})


def play(
    folder: Path,
    case: Case,
    *,
    between: Between | None = None,
    hosts: int = 1,
    made: Callable[..., Federation] = Federation,
    look: Callable[[Any, list[Published]], int] = lambda _federation, _found: 0,
    rate: float = PACE.rate,
    **options: Any,
) -> tuple[list[Published], Experiment]:
    """All rounds, after which an auditor finds nothing and every device has found all its canaries.

    ``made``: a federation of another kind, from the same options. ``look`` is called at the end with it and with what
    was published, and says how many of the last people have devices of another kind, at which it has looked itself.
    """
    people, words, count = folder / "people.jsonl", folder / "words.txt", len(case.people)
    people.write_text("".join(json.dumps({"label": one, "features": list(has)}) + "\n" for one, has in case.people))
    if case.vocabulary is not None:
        words.write_text("".join(f"{word}\n" for word in case.vocabulary.words))
    cuts = [count * number // hosts for number in range(hosts + 1)]
    carried = [
        HostOf(people, low, high - low, None if case.vocabulary is None else words) for low, high in pairwise(cuts)
    ]
    found = []
    pace = replace(PACE, rate=rate)
    with made(folder, hosts=carried, seed=case.seed, pace=pace, witnesses=1, covered=True, **options) as federation:
        federation.start_servers()
        federation.begin(case.specification())
        assert federation.document is not None
        for number in range(1, ROUNDS + 1):
            told = None if between is None else partial(between, federation)
            counts, _ = federation.play_round(number, attending=count, budget=0, between=told)
            assert counts.acknowledged == count * federation.document.budget
            found.append(published(federation, number))
            check_shards(federation, federation.document, number)
        federation.settle()
        assert [(one["distrusting"], one["canaries"]) for one in federation.status()] == [(0, 0)] * hosts
        assert from_outside(federation)[0] == []
        # A stranger's program, over HTTP as well, comes to the same model.
        code, said = verify(federation.coordinator_url, federation.digest)
        assert (code, said["digest"]) == (0, found[-1].evaluation_weights), said
        cover = 2 * ROUNDS * federation.document.relay_cover.packages
        assert said["recounted"] == sum(one.packages for one in found) + cover
        document, others = federation.document, look(federation, found)
    for number in range(count - others):
        check_device(folder / "devices" / f"{number:06d}", document.digest)
    return found, document.experiment


def check_shards(federation: Federation, document: ExperimentDocument, number: int) -> None:
    """All capsules of a round are served, hash to the digests, and are counted as the opening is bound to."""

    def served(path: str) -> bytes:
        found = federation.public(f"/v1/experiment/{document.digest}/{path}")
        assert found is not None, path
        return found

    opening = document.read(Opening, served(f"opening/{number}"))
    manifest = RelayedManifest.from_bytes(Envelope.from_bytes(served(f"manifest/{number}")).payload)
    recount = Recount.of(document, manifest, opening)
    for shard in range(recount.shards):
        run = read_run(served(f"shard/{number}/{shard}"), shard=shard, capsules=recount.capsules)
        tally = ShardTally.from_bytes(served(f"tally/{number}/{shard}"))
        counted = recount.check(run, served(f"capsules/{number}/{shard}"), tally)
        assert counted.capsules == len(run.digests)
    assert recount.shards > 0


def check_device(folder: Path, digest: str) -> None:
    """Both rounds are in its ledger, both canaries were found, and nothing is kept of them."""
    state = DeviceState(folder)
    try:
        assert state.ledger.rounds() == {digest: ROUNDS}
        assert state.trust.checks(digest)["seen"] == ROUNDS
        assert state.relayed.canaries(digest) == []
        assert state.relayed.request(digest) is None
        assert state.trust.distrust(digest) is None
    finally:
        state.close()


def check(case: Case, deployed: list[Published], experiment: Experiment, *, learns: bool = True) -> None:
    """The same bytes and counts, three times. ``learns``: there are enough people that something is left of them."""
    origins = origins_of(deployed)
    assert origins is not None
    quick, slow = by_kernels(case, experiment, origins), package_by_package(case, experiment, origins)
    assert len(deployed) == len(quick) == len(slow) == ROUNDS
    for theirs, (state, tally), (same_state, same_tally) in zip(deployed, quick, slow, strict=True):
        assert theirs.tally == tally == same_tally
        assert theirs.state == state == same_state
    # Something was learnt: noise leaves nobody in both rounds once in ten million runs.
    assert not learns or deployed[-1].state != aggregate.start(experiment).to_bytes()


def by_kernels(case: Case, experiment: Experiment, origins: CoverOrigins) -> list[After]:
    """As the estimator trains."""
    seed = case.seed.encode()
    features = sampled([dict.fromkeys(has, 1) for _, has in case.people], FEATURES, dice_seed=seed)
    rows, regression = binned(features, case.binning, one_per_bin=True), experiment.loss.regression
    codes = np.array([0 if regression else case.labels.index(label) for label, _ in case.people], dtype=np.int64)
    targets = np.array([target_of(experiment, label) for label, _ in case.people]) if regression else None
    train = who_trains(len(case.people), share=TRAIN_SHARE, dice_seed=seed)
    population = Population(rows=rows, labels=codes, targets=targets, train=train)
    training = OfflineTraining(experiment, seed=seed, floor=FLOOR, origins=origins)
    found = []
    for _ in range(ROUNDS):
        weights = aggregate.evaluation_weights(experiment, training.state)
        training.advance(population, devices=len(case.people))
        assert training.tally is not None
        cells = training.tally.cells
        if not regression:
            cells = cells + Evaluator(experiment, rows.take(np.flatnonzero(~train))).cells(weights, codes[~train])
        found.append((training.state.to_bytes(), replace(training.tally, cells=cells)))
    return found


def package_by_package(case: Case, experiment: Experiment, origins: CoverOrigins) -> list[After]:
    """As devices do it, one after the other."""
    cover = experiment.cover
    assert cover is not None
    state, people, found = aggregate.start(experiment), individuals(case, experiment), list[After]()
    for number in range(1, ROUNDS + 1):
        packages: list[Package] = []
        for person, dice in people:
            packages += contribute(
                person,
                experiment=experiment,
                training=aggregate.training_weights(experiment, state),
                evaluation=aggregate.evaluation_weights(experiment, state),
                dice=dice,
                round_number=number,
            )
        tally = aggregate.empty_tally(experiment).count(packages).merge(net_cover(experiment, origins(number)))
        if aggregate.explains(cover, tally, len(people)) and aggregate.uncovered(cover, tally).participants.any():
            state = aggregate.step(experiment, state, tally)
        found.append((state.to_bytes(), tally))
    return found


def individuals(case: Case, experiment: Experiment) -> list[tuple[Individual, UnsafeSeededDice]]:
    """Everybody as their device pins them."""
    seed, regression = case.seed.encode(), experiment.loss.regression
    features = sampled([dict.fromkeys(has, 1) for _, has in case.people], FEATURES, dice_seed=seed)
    train = who_trains(len(case.people), share=TRAIN_SHARE, dice_seed=seed)
    found = []
    for number, (label, _) in enumerate(case.people):
        person = Individual(
            vector=bin_features(features[number], case.binning, presence=True, one_per_bin=True),
            label=0 if regression else case.labels.index(label),
            target=target_of(experiment, label) if regression else 0,
            cohort=Cohort.TRAIN if train[number] else Cohort.TEST,
        )
        found.append((person, UnsafeSeededDice(seed, number)))
    return found


def target_of(experiment: Experiment, label: str) -> int:
    return fixed_target(float(label), centre=experiment.target_centre, spread=experiment.target_spread, clamp=True)
