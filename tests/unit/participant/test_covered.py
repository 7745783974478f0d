"""A device in an experiment with cover: one unit per bin, exactly B packages, and what its person is told."""

import asyncio
from collections import Counter
from pathlib import Path

from secvm.learning.individual.binning import HashBinning, bin_features
from secvm.learning.package import ParticipationPackage, TestPackage, TrainPackage
from secvm.participant.consent import Consent
from secvm.participant.declining import bytes_of_a_round
from secvm.participant.inspection import as_text, inspect, what_leaves
from secvm.participant.joining import binned
from secvm.privacy.statement import Assumption
from secvm.protocol.experiment_document import ExperimentDocument, HashedBins
from tests.unit.participant.world import FEATURES, START, World
from tests.unit.protocol.helpers import covered_document

#: These documents have no log.
TRUSTING = Consent(assumption=Assumption(without_log=True))


def crowded() -> ExperimentDocument:
    """Four features of three hashes each in ten bins: some must meet."""
    return covered_document(binning=HashedBins(bins=10, hashes=3, salt=bytes(16)))


def test_person_is_pinned_with_one_unit_per_bin(tmp_path: Path) -> None:
    world = World(tmp_path, crowded())
    device = world.joined()
    person = device.state.records()[0].person
    assert person is not None
    assert set(person.vector.values.values()) == {1}
    plain = bin_features(FEATURES, HashBinning(n_bins=10, salt=bytes(16), n_hashes=3), presence=True)
    assert max(plain.values.values()) > 1
    assert person.vector.values.keys() == plain.values.keys()
    device.close()


def test_prediction_looks_at_people_as_training_does() -> None:
    of = crowded()
    vector = binned(of, {**FEATURES, "another": 3, "more": 1}, HashBinning(n_bins=10, salt=bytes(16), n_hashes=3))
    assert set(vector.values.values()) == {1}


def test_every_round_has_exactly_the_budget_and_no_more_of_a_kind_than_its_cap(tmp_path: Path) -> None:
    world = World(tmp_path, crowded())
    device = world.joined()
    cover = world.of.experiment.cover
    assert cover is not None
    assert cover.test is not None
    manifest = world.publish(1)
    asyncio.run(world.drive(device, until=manifest.accept_until))
    device.close()
    sent = Counter(type(package) for package, _, _ in world.opened())
    assert sent.total() == world.of.budget == cover.budget
    assert sent[TrainPackage] <= cover.real_cap + cover.train.cap
    assert 1 <= sent[ParticipationPackage] <= 1 + cover.participation.cap
    assert sent[TestPackage] <= 1 + cover.test.cap


def test_person_is_told_of_cover_of_its_guarantee_and_of_what_it_assumes(tmp_path: Path) -> None:
    world = World(tmp_path, crowded())
    device = world.joined()
    found = inspect(device.state, now=START, consent=TRUSTING)
    one, text = found[world.of.digest], as_text(found)
    device.close()
    assert one["budget"] == world.of.budget
    assert one["bytes_a_round"] == bytes_of_a_round(world.of) > 137 * world.of.budget
    assert one["leakage"] is one["leakage_at_floor"] is None
    for said in (
        f"exactly {world.of.budget} sealed packages",
        "epsilon 2 at delta 1e-06",
        "all its 30 rounds together",
        "500 or more devices are honest",
        "the relay shuffles",
        "of your own at most 6",
    ):
        assert said in text, said
    assert "no formal guarantee" not in text
    assert any("epsilon 2" in sentence for sentence in what_leaves(world.of, TRUSTING.statement(world.of)))
