"""Faults of the published system of 2018, each as a test that would have caught it."""

import inspect
import os
from collections import Counter
from pathlib import Path

import pytest

from secvm.errors import BadInputError
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.package import ParticipationPackage, TestPackage, TrainPackage
from secvm.participant import device as device_module
from secvm.participant.device import Device
from secvm.participant.dice import SystemDice, safe_dice, system_words
from secvm.participant.membership import Polling
from secvm.participant.person import pinning as joining
from secvm.participant.person.pinning import pin_person
from secvm.participant.storage.state import DeviceState
from secvm.participant.storage.vault import Vault
from secvm.protocol.canonical import digest_of
from secvm.protocol.documents.recomputation import first_model
from tests.there import there
from tests.unit.participant.world import BUDGET, EXPERIMENT, FEATURES, START, World, real_document
from tests.unit.protocol.helpers import GRACE_S, LENGTH_S, document, words


def vector_of(state: DeviceState, digest: str) -> BinnedVector:
    record = there(state.record(digest))
    assert record.person is not None
    return record.person.vector


def test_privacy_3_weights_of_another_length_never_change_the_bins(world: World, device: Device) -> None:
    pinned = vector_of(device.state, world.of.digest)
    larger = Experiment(n_bins=1_000_000, labels=("a", "b"), rule=Pegasos(), budget=BUDGET)
    blob = aggregate.training_weights(larger, aggregate.start(larger)).to_bytes()
    manifest = world.publish(1, model=(first_model(world.of).names[0], digest_of(blob), digest_of(blob)))
    world.net.files[f"/v1/blob/{manifest.training_weights}"] = blob
    world.drive(device, until=manifest.accept_until)
    assert world.net.seen == []
    assert vector_of(device.state, world.of.digest) == pinned


def test_privacy_4_no_second_sample_of_features_is_ever_drawn(tmp_path: Path) -> None:
    few = Experiment(n_bins=2**20, labels=("a", "b"), rule=Pegasos(), budget=BUDGET, features_per_person=3)
    world = World(tmp_path, real_document(experiment=few))
    with Vault(world.folder) as vault:
        vault.put("words", {f"word{i}": 1 for i in range(300)})
        vault.set_label(world.of.digest, "a")
    device = world.start()
    world.join(device)
    pinned = vector_of(device.state, world.of.digest)
    assert len(pinned.values) == 3
    # Whatever happens: a restart, another history, another try to join, forgetting and joining.
    with Vault(world.folder) as vault:
        vault.put("words", {f"other{i}": 1 for i in range(300)})
    device.close()
    device = world.start()
    assert vector_of(device.state, world.of.digest) == pinned
    with pytest.raises(BadInputError):
        world.join(device)
    assert vector_of(device.state, world.of.digest) == pinned
    device.state.forget(world.of.digest)
    with pytest.raises(BadInputError):
        world.join(device)


def test_privacy_5_order_times_and_seals_come_from_the_systems_dice(tmp_path: Path) -> None:
    asked = []

    def counting(count: int) -> bytes:
        asked.append(count)
        return os.urandom(count)

    world = World(tmp_path, document(experiment=EXPERIMENT, test=True, relays=()))
    # Also where what is learnt is seeded.
    device = world.joined(random_bytes=counting, dice_for=safe_dice(counting))
    manifest = world.publish(1)
    asked.clear()
    world.drive(device, until=manifest.accept_until)
    # An ephemeral key for each capsule, and words for times.
    assert asked.count(32) >= BUDGET
    assert SystemDice(counting).words is not None
    assert len(set(zip(range(200), system_words(os.urandom), strict=False))) == 200
    source = inspect.getsource(device_module) + inspect.getsource(joining)
    assert "import random" not in source
    # No id travels: two devices with the same person send capsules that share nothing but header and length.
    capsules = [one.capsule for one in world.net.seen]
    assert len({capsule[:7] for capsule in capsules}) == len({len(capsule) for capsule in capsules}) == 1
    assert len({capsule[7:39] for capsule in capsules}) == BUDGET


@pytest.mark.parametrize("label", ["a", "b"])
def test_privacy_6_every_kind_of_package_waits_for_its_random_time(tmp_path: Path, label: str) -> None:
    kinds: dict[str, list[int]] = {}
    for number in range(12):
        world = World(tmp_path / f"{number}")
        world.fill(label=label)
        device = world.start()
        world.join(device)
        manifest = world.take_part(device)
        at = {one.capsule: one.at for one in world.net.seen}
        for (package, _, _), capsule in zip(world.opened(), dict.fromkeys(at), strict=True):
            kinds.setdefault(type(package).__name__, []).append(at[capsule] - manifest.opens_at)
    assert {ParticipationPackage.__name__, TrainPackage.__name__, "NullPackage"} <= set(kinds)
    assert TestPackage.__name__ in kinds or len(kinds) == 3
    for name, times in kinds.items():
        assert all(0 <= at < 1000 * LENGTH_S for at in times), name
        # Twelve uniform times are not all in the first tenth but once in a million million tries.
        assert len(times) < 5 or max(times) > 100 * LENGTH_S, name


def test_privacy_7_manifests_are_asked_for_at_a_fresh_random_phase() -> None:
    windows = document().windows
    grace = 1000 * GRACE_S
    phases = [Polling(windows, words(seed)).first(START) - START for seed in range(200)]
    assert all(0 <= phase < grace for phase in phases)
    assert len(set(phases)) > 150
    tenths = Counter(10 * phase // grace for phase in phases)
    assert set(tenths) == set(range(10))
    # Nothing newer: around a bound that doubles up to a quarter of the window.
    polling, dice_bounds = Polling(windows, words("again")), [60_000, 120_000, 150_000, 150_000]
    for bound in dice_bounds:
        wait = polling.again(START) - START
        assert bound // 2 <= wait < bound // 2 + bound
    # Nobody answered: sooner, at random as well, within a bound that grows to the grace.
    for bound in [3_750, 7_500, 15_000, 30_000, 60_000, 60_000]:
        waits = [wait_after_failures(Polling(windows, words(seed)), bound, grace) for seed in range(100)]
        assert max(waits) < bound
        assert len(set(waits)) > 90


def wait_after_failures(polling: Polling, bound: int, grace: int) -> int:
    """The wait after as many failures as make the bound."""
    wait, reached = polling.failed(START) - START, grace // 16
    while reached < bound:
        wait, reached = polling.failed(START) - START, min(2 * reached, grace)
    return wait


@pytest.mark.parametrize("late_by", [0, 1000])
def test_privacy_8_who_joins_late_sends_nothing_rather_than_densely(tmp_path: Path, late_by: int) -> None:
    world = World(tmp_path, now=START + late_by)
    device = world.joined()
    manifest = world.take_part(device)
    assert world.net.seen == []
    # The next round will do.
    world.take_part(device, 2, opens_at=manifest.accept_until + 300_000)
    assert Counter(number for _, number, _ in world.opened()) == {2: BUDGET}
    assert [(number, reason) for number, reason, _ in device.state.abstentions(world.of.digest)] == [(1, "LATE")]


def test_privacy_12_no_time_of_what_was_sent_is_stored(world: World, device: Device) -> None:
    world.take_part(device)
    device.close()
    state = DeviceState(world.folder)
    columns = {
        f"{table}.{row[1]}"
        for (table,) in state._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for row in state._db.execute(f"PRAGMA table_info({table})").fetchall()
    }
    assert {name for name in columns if name.endswith((".at", ".day"))} == {"capsule.at", "traffic.day"}
    assert state._db.execute("SELECT count(*) FROM capsule").fetchone() == (0,)
    state.close()


def test_privacy_13_without_the_persons_own_label_and_yes_nothing_is_joined(world: World) -> None:
    with Vault(world.folder) as vault:
        vault.put("words", FEATURES)
    device = world.start()
    with pytest.raises(BadInputError, match="no label for this experiment"):
        world.join(device)
    world.take_part(device)
    assert world.net.fetches == []
    # A no is kept, and holds for this experiment alone.
    device.state.decline(world.of.digest, world.serve(world.of))
    device._look()
    assert device.memberships == {}


def test_privacy_14_the_sample_can_hold_every_feature_and_nothing_else(tmp_path: Path) -> None:
    features = [f"word{i}" for i in range(6)]
    one = real_document(
        experiment=Experiment(n_bins=2**20, labels=("a", "b"), rule=Pegasos(), budget=BUDGET, features_per_person=1)
    )
    binning = joining.binning_of(one)
    expected = {binning.bins_of(feature)[0]: feature for feature in features}
    drawn: Counter[str] = Counter()
    with Vault(tmp_path / "device") as vault:
        vault.put("words", dict.fromkeys(features, 1))
        vault.set_label(one.digest, "a")
        for _ in range(300):
            (bin_index,) = pin_person(one, vault, SystemDice(os.urandom)).vector.values
            drawn[expected[bin_index]] += 1
    # Each of six is missed 300 times once in 10^23.
    assert set(drawn) == set(features)


def test_reliability_8_the_queue_survives_the_device(world: World, device: Device) -> None:
    manifest = world.publish(1)
    # Times are drawn: that all eight lie in the first sixteenth happens once in 4 * 10^9 runs.
    world.drive(device, until=manifest.opens_at + (manifest.closes_at - manifest.opens_at) // 16)
    sent = world.distinct()
    device.state.close()
    world.drive(world.start(), until=manifest.accept_until)
    assert sent < BUDGET
    assert world.distinct() == BUDGET
