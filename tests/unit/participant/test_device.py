"""A device over whole rounds: joins in time or not at all, sends exactly B packages in the window, stops when told."""

import asyncio
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from secvm.crypto.sealing import kem
from secvm.crypto.sealing.oblivious import GatewayKey, encode_key_configurations
from secvm.errors import InconsistentManifestError, LocalProtocolError, UnknownKeyError
from secvm.learning import aggregate
from secvm.learning.package import Cohort, ParticipationPackage
from secvm.participant.device import Device
from secvm.participant.dice import unsafe_seeded_dice
from secvm.participant.sending.sealing import capsule_bytes, gateway_seal
from secvm.participant.sending.transport import Fetched, relay_for
from secvm.participant.storage.state import DeviceState, Status
from secvm.protocol.documents.experiment import Windows
from secvm.protocol.documents.manifest import accept
from secvm.protocol.evidence.plain import examine
from secvm.protocol.plain.session_memory import Phase
from tests.unit.participant.world import BUDGET, FEATURES, RELAYS, START, Fate, World, real_document
from tests.unit.protocol.helpers import COORDINATOR, GRACE_S, LENGTH_S, SECOND


def test_whole_round_sends_exactly_the_budget_within_the_window(world: World, device: Device) -> None:
    manifest = world.take_part(device)
    packages = world.opened()
    assert len(world.net.seen) == len(packages) == BUDGET
    assert all(manifest.opens_at <= one.at < manifest.closes_at for one in world.net.seen)
    assert {(number, experiment) for _, number, experiment in packages} == {(1, world.of.experiment_id)}
    kinds = Counter(type(package) for package, _, _ in packages)
    assert kinds[ParticipationPackage] == 1
    (participation,) = (package for package, _, _ in packages if isinstance(package, ParticipationPackage))
    assert participation.class_index == 1
    device.close()
    state = DeviceState(world.folder)
    (history,) = state.history(world.of.digest)
    assert (history.packages, history.acknowledged, history.lost) == (BUDGET, BUDGET, 0)
    state.close()


@pytest.mark.parametrize("ahead", [-120_000, 120_000])
def test_wrong_clock_means_abstaining(world: World, device: Device, ahead: int) -> None:
    world.net.server_ahead_ms = ahead
    world.take_part(device)
    assert world.net.seen == []
    device.flush()
    assert [reason for _, reason, _ in device.state.abstentions(world.of.digest)] == ["CLOCK"]


def test_repro_an_answer_that_takes_two_minutes_is_no_wrong_clock(world: World) -> None:
    device, quick = world.joined(), world.net.fetch

    async def fetch(path: str, **told: Any) -> Fetched | None:
        found = await quick(path, **told)
        world.clock.advance(120_000)
        return found

    world.net.fetch = fetch  # type: ignore[method-assign]
    world.take_part(device, opens_at=world.clock.now() + 3_600_000)
    assert len(world.net.arrived) == BUDGET
    assert device.state.abstentions(world.of.digest) == []


def test_lost_answers_are_sent_again_the_same_way_and_count_once(world: World, device: Device) -> None:
    world.net.script = iter([Fate.LOST, Fate.ANSWER_LOST, Fate.BUSY, Fate.LOST] * 3)
    manifest = world.take_part(device)
    assert len(world.net.seen) > BUDGET
    assert len({one.capsule for one in world.net.seen}) == len(world.net.arrived) == BUDGET
    assert all(manifest.opens_at <= one.at < manifest.closes_at for one in world.net.seen)
    for one in world.net.seen:
        assert one.relay == relay_for(one.capsule, RELAYS)


def test_packages_spread_over_all_relays(tmp_path: Path) -> None:
    capsules = [i.to_bytes(4, "little") for i in range(600)]
    counts = Counter(relay_for(capsule, RELAYS) for capsule in capsules)
    assert set(counts) == set(RELAYS)
    assert min(counts.values()) > 130
    assert relay_for(b"", ()) is None


def test_refused_packages_are_given_up_and_counted_as_lost(world: World, device: Device) -> None:
    world.net.script = iter([Fate.REFUSED] * 3)
    world.take_part(device)
    device.flush()
    (history,) = device.state.history(world.of.digest)
    assert (history.acknowledged, history.lost) == (BUDGET - 3, 3)


def test_pause_stops_everything_at_once_and_resume_goes_on(world: World, device: Device) -> None:
    manifest = world.publish(1)
    middle = (manifest.opens_at + manifest.closes_at) // 2
    world.drive(device, until=middle)
    # By another process, as the command does it.
    other = DeviceState(world.folder)
    other.set_status(world.of.digest, Status.PAUSED)
    sent, fetched = len(world.net.seen), len(world.net.fetches)
    world.drive(device, until=middle + 200_000)
    assert (len(world.net.seen), len(world.net.fetches)) == (sent, fetched)
    other.set_status(world.of.digest, Status.JOINED)
    other.close()
    world.drive(device, until=manifest.accept_until)
    assert world.distinct() == BUDGET
    assert all(one.at < manifest.closes_at for one in world.net.seen)


def test_pause_holds_also_for_a_capsule_that_was_just_handed_out(world: World, device: Device) -> None:
    manifest = world.publish(1)
    world.drive(device, until=manifest.opens_at)
    while not (jobs := device.wake()):
        world.clock.advance(device.wake_at - world.clock.now())
    device.state.set_status(world.of.digest, Status.PAUSED)
    device._look()
    for job in jobs:
        asyncio.run(device.carry_out(job))
    assert world.net.seen == []
    device.state.set_status(world.of.digest, Status.JOINED)
    device._look()
    world.drive(device, until=manifest.accept_until)
    assert world.distinct() == BUDGET


def test_paused_device_stays_paused_after_a_restart(world: World, device: Device) -> None:
    device.state.set_status(world.of.digest, Status.PAUSED)
    device.close()
    manifest = world.publish(1)
    world.drive(world.start(), until=manifest.accept_until)
    assert world.net.seen == []
    assert world.net.fetches == []


def test_several_experiments_go_on_independently(tmp_path: Path) -> None:
    other = real_document(title="Another question")
    world = World(tmp_path)
    world.serve(other)
    world.fill(world.of, other)
    device = world.start()
    world.join(device)
    world.join(device, other)
    manifest = world.publish(1)
    world.publish(1, other)
    world.drive(device, until=(manifest.opens_at + manifest.closes_at) // 2)
    device.state.forget(other.digest)
    device._look()
    before = Counter(experiment for _, _, experiment in world.opened())
    world.drive(device, until=manifest.accept_until)
    after = Counter(experiment for _, _, experiment in world.opened())
    assert after[world.of.experiment_id] == BUDGET
    assert after[other.experiment_id] == before[other.experiment_id]


def test_window_outside_the_hours_of_the_day_is_declined(tmp_path: Path) -> None:
    # START is midnight in UTC, one o'clock in Berlin.
    windows: dict[str, Any] = {
        "length_s": LENGTH_S,
        "grace_s": GRACE_S,
        "first_opening": START,
        "time_zone": "Europe/Berlin",
    }
    for hours, expected in (((1, 2),), BUDGET), (((0, 1), (9, 20)), 0):
        world = World(tmp_path / str(expected), real_document(windows=Windows(hours=hours, **windows)))
        device = world.joined()
        world.take_part(device)
        assert world.distinct() == expected
        reasons = [sentence for _, _, sentence in device.state.abstentions(world.of.digest)]
        assert any("hours of the day" in sentence for sentence in reasons) == (expected == 0)


def test_round_beyond_the_limit_of_traffic_is_not_begun(world: World) -> None:
    device = world.joined(daily_bytes=5000)
    world.take_part(device)
    assert world.net.seen == []
    ((_, reason, sentence),) = device.state.abstentions(world.of.digest)
    assert reason == "DECLINED"
    assert "limit of traffic" in sentence


def test_package_of_the_last_moment_is_sent_before_the_window_closes(world: World, device: Device) -> None:
    manifest = world.publish(1)
    world.drive(device, until=manifest.opens_at)
    session = device.memberships[world.of.digest].session
    # All drawn for the very last millisecond, which no timer would meet.
    for package_id, one in list(session._waiting.items()):
        session._put(package_id, replace(one, at=manifest.closes_at - 1))
    world.drive(device, until=manifest.accept_until)
    assert world.distinct() == BUDGET
    assert {one.at for one in world.net.seen} == {manifest.closes_at - 100}


def test_no_more_capsules_are_under_way_than_allowed(world: World) -> None:
    device = world.joined(parallel_sends=2)
    manifest = world.publish(1)
    world.drive(device, until=manifest.opens_at)
    world.clock.advance(manifest.closes_at - 5000 - manifest.opens_at)
    device.wake()
    # All are overdue, and get times in what is left.
    world.clock.advance(4900)
    jobs = device.wake()
    assert len(jobs) == 2
    assert device.wake() == []
    for job in jobs:
        asyncio.run(device.carry_out(job))
    assert len(device.wake()) == 2


def test_weights_that_come_late_are_asked_for_again(world: World, device: Device) -> None:
    manifest = world.publish(1)
    blobs = {path: world.net.files.pop(path) for path in list(world.net.files) if path.startswith("/v1/blob/")}
    world.drive(device, until=manifest.opens_at - 10_000)
    assert device.memberships[world.of.digest].session.phase is Phase.COMPUTING
    world.net.files.update(blobs)
    world.drive(device, until=manifest.accept_until)
    assert world.distinct() == BUDGET


def test_weights_that_are_none_are_a_reason_to_abstain(world: World, device: Device) -> None:
    manifest = world.publish(1)
    for path in [path for path in world.net.files if path.startswith("/v1/blob/")]:
        world.net.files[path] = b"something else"
    world.drive(device, until=manifest.accept_until)
    assert world.net.seen == []
    assert [reason for _, reason, _ in device.state.abstentions(world.of.digest)] == ["DECLINED"]


def test_repro_device_that_lacks_the_experiments_kem_abstains_and_takes_no_other_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, real_document(kem=kem.MLKEM768_X25519))
    key = GatewayKey(1, kem.HybridPrivateKey(bytes(32)))
    device = world.joined()
    manifest = world.publish(1, gateway_keys=encode_key_configurations([key.configuration]))
    monkeypatch.setattr(kem, "hybrid_is_here", lambda: False)
    world.drive(device, until=manifest.accept_until)
    assert world.net.seen == []
    ((_, reason, why),) = device.state.abstentions(world.of.digest)
    assert reason == "DECLINED"
    assert "KEM 0x647a" in why
    both = encode_key_configurations([key.configuration, world.key.configuration])
    with pytest.raises(InconsistentManifestError, match="gateway keys"):
        accept(replace(manifest, gateway_keys=both).signed([COORDINATOR]), document=world.of)
    monkeypatch.undo()
    with pytest.raises(UnknownKeyError):
        gateway_seal(os.urandom)(b"package", both)


def test_device_that_has_the_experiments_kem_seals_with_it(tmp_path: Path) -> None:
    world = World(tmp_path, real_document(kem=kem.MLKEM768_X25519))
    world.key = GatewayKey(1, kem.HybridPrivateKey(bytes(32)))
    device = world.joined()
    world.take_part(device)
    assert world.distinct() == world.of.budget
    assert {len(one.capsule) for one in world.net.seen} == {capsule_bytes(kem.MLKEM768_X25519)}


def test_equivocation_stops_the_device_for_ever_and_keeps_the_evidence(tmp_path: Path) -> None:
    of = real_document(coordinator_keys=(SECOND.public,))
    assert of.digest != real_document().digest
    world = World(tmp_path)
    device = world.joined()
    manifest = world.publish(1)
    world.drive(device, until=manifest.opens_at - 1)
    world.publish(1, quota=999)
    world.before.clear()
    world.drive(device, until=manifest.accept_until + 200_000)
    assert device.memberships[world.of.digest].session.phase is Phase.STOPPED
    sent = len(world.net.seen)
    world.publish(1)
    second = world.publish(2, opens_at=manifest.accept_until + 400_000)
    world.drive(device, until=second.accept_until)
    assert len(world.net.seen) == sent
    # As one file, which convinces others.
    (data,) = device.state.evidence(world.of.digest)
    assert examine(data).sentence == "The coordinator signed two different manifests for round 1."


@pytest.mark.parametrize("told", [{"dice_for": unsafe_seeded_dice(b"seed", 3)}, {"only_tests": True}])
def test_seeded_dice_and_a_steered_clock_are_refused_for_a_real_experiment(world: World, told: dict[str, Any]) -> None:
    world.fill()
    device = world.start(**told)
    with pytest.raises(LocalProtocolError, match="marked as a test"):
        world.join(device)
    assert device.state.records() == []


def test_last_model_is_kept_when_the_experiment_ends(world: World, device: Device) -> None:
    manifest = world.take_part(device)
    tally = aggregate.empty_tally(world.of.experiment).count(
        [ParticipationPackage(cohort=Cohort.TRAIN, class_index=i) for i in (0, 1)]
    )
    state = aggregate.step(world.of.experiment, aggregate.start(world.of.experiment), tally)
    world.end(aggregate.evaluation_weights(world.of.experiment, state).to_bytes())
    world.drive(device, until=manifest.accept_until + 400_000)
    asked = len(world.net.fetches)
    world.drive(device, until=manifest.accept_until + 4_000_000)
    assert len(world.net.fetches) == asked
    model, record = device.state.model(world.of.digest), device.state.record(world.of.digest)
    assert model is not None
    assert record is not None
    assert record.ending is not None
    assert (world.folder / "models" / model.weights).exists()
    assert len(list((world.folder / "models").iterdir())) == 1


def test_values_around_a_device_do_not_print_what_they_hold(world: World, device: Device) -> None:
    manifest = world.publish(1)
    world.drive(device, until=manifest.opens_at)
    membership = device.memberships[world.of.digest]
    record = device.state.record(world.of.digest)
    shown = "".join(map(repr, (device, membership, record, device.state, membership._around, *device.wake())))
    assert not any(feature in shown for feature in FEATURES)
    assert "Individual(...)" in shown
