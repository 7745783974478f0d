"""Salts from beacons: verified before anybody joins, pinned with the bins, and never from the development beacon."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from secvm.crypto.notes import NoteKey, SignatureKind
from secvm.crypto.signing import SigningKey
from secvm.errors import BadInputError, BeaconUnavailableError
from secvm.learning.individual.binning import HashBinning, bin_features
from secvm.participant.person.pinning import fetch_salt, predict_for
from secvm.participant.storage.vault import Vault
from secvm.participant.trust.trust_policy import TrustPolicy
from secvm.protocol.documents.experiment import HashedBins
from secvm.protocol.log.policy import LogPolicy
from secvm.protocol.trust.salt import salt_of
from tests.there import there
from tests.unit.participant.logged_world import LoggedWorld
from tests.unit.participant.world import FEATURES, World

#: In which the tests here live.
WORLD = LoggedWorld

UNSAFE = TrustPolicy(unsafe_beacons=True)


def salted_world(tmp_path: Path, **changes: Any) -> LoggedWorld:
    world = LoggedWorld(tmp_path, beacons=2, **changes)
    world.clock.advance(3_600_000)
    return world


def salt_for(world: World, policy: TrustPolicy = UNSAFE) -> bytes | None:
    return asyncio.run(fetch_salt(world.of, world.net, policy, now=world.clock.now()))


def test_salt_is_that_of_the_beacons_and_decides_the_bins(tmp_path: Path) -> None:
    world = salted_world(tmp_path)
    salt = salt_for(world)
    history = world.history
    assert salt == salt_of(world.of, first=history.first, records=history.records, allow_unsafe=True)
    world.fill()
    device = world.start(policy=UNSAFE)
    with Vault(world.folder) as vault:
        device.join(world.of.digest, history.envelope, vault, salt=salt)
    record = there(device.state.record(world.of.digest))
    assert record.person is not None
    assert record.salt == salt
    assert salt is not None
    told = world.of.binning
    assert isinstance(told, HashedBins)
    binning = HashBinning(n_bins=told.bins, salt=salt, n_hashes=told.hashes)
    assert record.person.vector == bin_features(FEATURES, binning, presence=world.of.features.presence)
    # What it says later of the person is binned in the same way.
    world.play(device, 3)
    with Vault(world.folder) as vault:
        assert predict_for(world.of.digest, device.state, vault).label in world.of.experiment.labels
    device.close()


def test_development_beacon_is_refused_unless_the_settings_say_so(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="beacon for development"):
        salt_for(salted_world(tmp_path), TrustPolicy())


def test_before_the_beacons_have_spoken_the_time_is_told(tmp_path: Path) -> None:
    world = LoggedWorld(tmp_path, beacons=1)
    with pytest.raises(BeaconUnavailableError, match=r"not known before 2026-01-01 0\d:\d\d:\d\d UTC"):
        salt_for(world)
    assert world.net.fetches == []


@pytest.mark.parametrize("missing", ["first", "beacon/1"])
def test_record_that_is_not_there_yet_is_no_lie(tmp_path: Path, missing: str) -> None:
    world = salted_world(tmp_path)
    del world.net.files[f"{world.history.place}/{missing}"]
    with pytest.raises(BeaconUnavailableError, match="cannot be had yet"):
        salt_for(world)


@pytest.mark.parametrize("wrong", ["first", "beacon/0"])
def test_forged_record_or_checkpoint_is_refused(tmp_path: Path, wrong: str) -> None:
    world = salted_world(tmp_path)
    other = LoggedWorld(tmp_path / "other", "another", beacons=2)
    world.net.files[f"{world.history.place}/{wrong}"] = other.net.files[f"{other.history.place}/{wrong}"]
    with pytest.raises(BadInputError, match="cannot be believed"):
        salt_for(world)


def test_experiment_with_a_salt_of_its_own_asks_nobody(world: LoggedWorld) -> None:
    assert salt_for(world) is None
    assert world.net.fetches == []


def test_without_the_salt_nobody_joins(tmp_path: Path) -> None:
    world = salted_world(tmp_path)
    with pytest.raises(BadInputError, match="comes from beacons"):
        world.joined()
    assert world.start().state.records() == []


def test_repro_witnesses_that_this_device_does_not_know_fix_no_salt(tmp_path: Path) -> None:
    world = salted_world(tmp_path)
    stranger = NoteKey("w.example", SigningKey(bytes(32)).public, SignatureKind.COSIGNATURE)
    with pytest.raises(BadInputError, match="too few of this experiment's witnesses"):
        salt_for(world, TrustPolicy(unsafe_beacons=True, log_policy=LogPolicy.of_witnesses([stranger])))
