"""Receipts: a device looks for a few of its capsules, forgets what it finds, and stops where one is missing."""

import asyncio
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from secvm.participant.device import Device
from secvm.participant.inspection import as_text, inspect
from secvm.participant.membership import Due
from secvm.participant.receipts import MAX_TRIES, Receipts
from secvm.participant.state import DeviceState, Status
from secvm.participant.surroundings import TrustPolicy
from secvm.participant.transport import SendResult
from secvm.protocol.receipts import encode_bits
from secvm.protocol.received import side_by_side
from secvm.protocol.session import WaitingRow
from tests.unit.participant.logged_world import LoggedWorld
from tests.unit.participant.world import BUDGET, Fate


def checks(device: Device, world: LoggedWorld) -> dict[str, int]:
    device.flush()
    return device.state.trust.checks(world.of.digest)


def rows(device: Device) -> list[Any]:
    device.flush()
    return device.state._db.execute("SELECT round, digest, acknowledged, root FROM receipt").fetchall()


def receipts_asked(world: LoggedWorld) -> list[tuple[str, int]]:
    return [(path, at) for path, at in world.net.fresh_fetches if "/received/" in path]


async def two_rounds(world: LoggedWorld, device: Device, **concluded: Any) -> None:
    """A whole round, and the next one's whole window."""
    first = world.announce()
    await world.drive(device, until=first.accept_until)
    world.conclude(**concluded)
    second = world.announce()
    await world.drive(device, until=second.accept_until)


def test_capsules_are_found_at_moments_of_their_own_and_forgotten(tmp_path: Path) -> None:
    world = LoggedWorld(tmp_path)
    device = world.joined()
    asyncio.run(two_rounds(world, device))
    second = world.history.manifests[1]
    assert checks(device, world)["receipts"] == 2
    asked = receipts_asked(world)
    assert len(asked) == 4
    assert all(second.opens_at - 120_000 <= at < second.closes_at for _, at in asked)
    assert len({at for _, at in asked}) == 2
    # Those of the round that has just run are kept, and nothing else.
    device.flush()
    assert [(number, acknowledged, root) for number, _, acknowledged, root in rows(device)] == [(2, 1, None)] * 2
    arrived = {hashlib.sha256(one).digest() for one in world.net.arrived}
    assert {digest for _, digest, *_ in rows(device)} <= arrived
    device.close()


def test_capsule_that_was_left_out_makes_the_device_abstain_until_its_person_resumes(tmp_path: Path) -> None:
    world = LoggedWorld(tmp_path)
    device = world.joined(policy=TrustPolicy(receipts=1))

    async def scenario() -> None:
        await two_rounds(world, device, without=BUDGET)
        sentence = device.state.trust.distrust(world.of.digest)
        assert sentence is not None
        assert "acknowledged in round 1" in sentence
        world.conclude()
        sent = len(world.net.seen)
        await world.play(device)
        assert len(world.net.seen) == sent
        other = DeviceState(world.folder)
        record = other.record(world.of.digest)
        assert record is not None
        assert record.status is Status.JOINED
        told = as_text(inspect(other, now=world.clock.now()))
        assert "takes no part for now" in told
        assert "1 were missing" in told
        # As the command does it.
        other.set_status(world.of.digest, Status.JOINED)
        other.close()
        await world.play(device)
        assert world.distinct(4) == BUDGET

    asyncio.run(scenario())
    reasons = [(number, reason) for number, reason, _ in device.state.abstentions(world.of.digest)]
    assert {reason for _, reason in reasons} == {"DISTRUST"}
    assert (3, "DISTRUST") in reasons
    assert device.state.evidence(world.of.digest) == []
    assert checks(device, world)["missing"] == 1
    device.close()


def test_distrust_outlives_a_restart(tmp_path: Path) -> None:
    world = LoggedWorld(tmp_path)
    device = world.joined(policy=TrustPolicy(receipts=1))
    asyncio.run(two_rounds(world, device, without=BUDGET))
    device.close()
    world.conclude()
    sent = len(world.net.seen)
    again = world.start()
    asyncio.run(world.play(again))
    assert len(world.net.seen) == sent
    again.close()


@pytest.mark.parametrize("how", ["withheld", "garbage", "too many bits"])
def test_receipts_that_cannot_be_had_are_asked_for_three_times(tmp_path: Path, how: str) -> None:
    world = LoggedWorld(tmp_path)
    device = world.joined(policy=TrustPolicy(receipts=1, refetches=0))

    async def scenario() -> None:
        first = world.announce()
        await world.drive(device, until=first.accept_until)
        world.conclude()
        path = f"{world.history.place}/received/1"
        if how == "withheld":
            del world.net.files[path]
        elif how == "garbage":
            for name in [one for one in world.net.files if one.startswith(path + "/")]:
                world.net.files[name] = b"\x00nothing"
        else:
            world.net.files[path] = encode_bits(32)
        second = world.announce()
        # What fails in the last moment of the window is asked for again after it.
        await world.drive(device, until=second.accept_until + 600_000)
        if how == "too many bits":
            assert not any(one.startswith(path + "/") for one, _ in receipts_asked(world))

    asyncio.run(scenario())
    sentence = device.state.trust.distrust(world.of.digest)
    assert sentence is not None
    assert "no receipt can be had" in sentence
    times = sorted({at for path, at in receipts_asked(world) if path.endswith("received/1")})
    assert len(times) == MAX_TRIES
    device.close()


def test_network_that_fails_accuses_nobody(tmp_path: Path) -> None:
    world = LoggedWorld(tmp_path)
    device = world.joined(policy=TrustPolicy(receipts=2, refetches=0))

    async def scenario() -> None:
        first = world.announce()
        await world.drive(device, until=first.accept_until)
        world.conclude()
        second = world.announce()
        await world.drive(device, until=second.opens_at)
        kept = dict(world.net.files)
        world.net.files.clear()
        await world.drive(device, until=second.closes_at - 1000)
        world.net.files.update(kept)
        await world.drive(device, until=second.accept_until)
        world.conclude()
        await world.play(device)

    asyncio.run(scenario())
    assert device.state.trust.distrust(world.of.digest) is None
    assert checks(device, world)["receipts"] >= 2
    assert world.distinct(3) == BUDGET
    device.close()


def test_abandoned_round_is_not_looked_at(tmp_path: Path) -> None:
    world = LoggedWorld(tmp_path)
    device = world.joined()
    asyncio.run(two_rounds(world, device, abandoned=True))
    assert receipts_asked(world) == []
    device.flush()
    assert {number for number, *_ in rows(device)} == {2}
    device.close()


def test_who_was_away_for_too_long_forgets(tmp_path: Path) -> None:
    world = LoggedWorld(tmp_path)
    device = world.joined()

    async def scenario() -> None:
        await world.play(device)
        for _ in range(3):
            manifest = world.announce()
            world.clock.advance(manifest.accept_until - world.clock.now())
            world.conclude()
        await world.play(device)

    asyncio.run(scenario())
    assert checks(device, world)["unchecked"] == 2
    assert receipts_asked(world) == []
    assert device.state.trust.distrust(world.of.digest) is None
    device.close()


def drop_receipts(world: LoggedWorld) -> None:
    for path in [one for one in world.net.files if "/received/" in one]:
        del world.net.files[path]


def test_repro_who_comes_back_long_after_the_end_accuses_nobody(tmp_path: Path) -> None:
    # Buckets are dropped two periods after the end. A device that slept then asked three times, and told its person
    # that an honest server withholds receipts.
    world = LoggedWorld(tmp_path)
    device = world.joined()

    async def scenario() -> None:
        await world.play(device)
        world.history.now = world.clock.now()
        world.history.end()
        world.clock.advance(3 * 1000 * world.history.period_s)
        drop_receipts(world)
        await world.drive(device, until=world.clock.now() + 3_600_000)

    asyncio.run(scenario())
    assert device.memberships[world.of.digest].ended
    assert device.state.trust.distrust(world.of.digest) is None
    assert receipts_asked(world) == []
    assert checks(device, world)["unchecked"] == 2
    assert rows(device) == []
    device.close()


@pytest.mark.parametrize("restarted", [False, True])
def test_repro_who_comes_back_while_the_experiment_rests_accuses_nobody(tmp_path: Path, restarted: bool) -> None:
    # Two rounds later, before there is a manifest that would tell that the second is concluded: a pause, say.
    world = LoggedWorld(tmp_path)
    device = world.joined()

    async def scenario() -> None:
        nonlocal device
        await world.play(device)
        for _ in range(2):
            manifest = world.announce()
            world.clock.advance(manifest.accept_until - world.clock.now())
            world.conclude()
        drop_receipts(world)
        if restarted:
            device.close()
            device = world.start()
        await world.drive(device, until=world.clock.now() + 3_600_000)

    asyncio.run(scenario())
    assert device.state.trust.distrust(world.of.digest) is None
    assert checks(device, world)["unchecked"] == 2
    device.close()


def test_what_was_not_acknowledged_is_not_asked_for(tmp_path: Path) -> None:
    world = LoggedWorld(tmp_path)
    device = world.joined(policy=TrustPolicy(receipts=BUDGET))
    world.net.script = iter([Fate.REFUSED] * 3)
    asyncio.run(two_rounds(world, device, without=0))
    assert checks(device, world)["receipts"] == BUDGET - 3
    assert device.state.trust.distrust(world.of.digest) is None
    device.close()


@pytest.mark.parametrize("late", [False, True])
def test_what_is_acknowledged_after_the_round_may_have_come_too_late(tmp_path: Path, late: bool) -> None:
    world = LoggedWorld(tmp_path)
    device = world.joined(policy=TrustPolicy(receipts=BUDGET))
    manifest = world.announce()
    asyncio.run(world.drive(device, until=manifest.opens_at))
    membership = device.memberships[world.of.digest]
    package_id, waiting = next(iter(membership.session._waiting.items()))
    at = manifest.accept_until - (not late)
    membership.sent(Due(package_id, waiting.capsule), SendResult(acknowledged=True), at)
    assert [acknowledged for *_, acknowledged, _ in rows(device)].count(1) == (not late)
    device.close()


def test_with_uncounted_capsules_and_many_buckets_nothing_is_told(tmp_path: Path) -> None:
    # Two relays, and the manifest has the count of one.
    world = LoggedWorld(tmp_path, relays=2)
    device = world.joined()

    async def scenario() -> None:
        first = world.announce()
        await world.drive(device, until=first.accept_until)
        digests = [hashlib.sha256(one).digest() for one in world.net.arrived]
        many = [os.urandom(32) for _ in range(5000)]
        world.history.conclude(world.history.draw_tally(), capsules=[*digests, *many])
        second = world.announce()
        await world.drive(device, until=second.accept_until)

    asyncio.run(scenario())
    assert all(path.endswith("received/1") for path, _ in receipts_asked(world))
    assert checks(device, world)["unchecked"] == 2
    assert device.state.trust.distrust(world.of.digest) is None
    device.close()


def test_receipts_are_looked_for_after_the_ending_too(tmp_path: Path) -> None:
    world = LoggedWorld(tmp_path)
    device = world.joined()

    async def scenario() -> None:
        await world.play(device)
        world.history.now = world.clock.now()
        world.history.end()
        await world.drive(device, until=world.clock.now() + 3_600_000)

    asyncio.run(scenario())
    assert device.memberships[world.of.digest].ended
    assert checks(device, world)["receipts"] == 2
    assert rows(device) == []
    device.close()


def test_restart_between_acknowledgement_and_check_loses_nothing(tmp_path: Path) -> None:
    world = LoggedWorld(tmp_path)
    device = world.joined()

    async def scenario() -> None:
        nonlocal device
        first = world.announce()
        await world.drive(device, until=first.closes_at)
        device.close()
        device = world.start()
        await world.drive(device, until=first.accept_until)
        world.conclude()
        second = world.announce()
        await world.drive(device, until=second.opens_at)
        device.close()
        device = world.start()
        await world.drive(device, until=second.accept_until)

    asyncio.run(scenario())
    assert checks(device, world)["receipts"] == 2
    device.close()


def test_chosen_capsules_and_moments_are_uniform(tmp_path: Path) -> None:
    world = LoggedWorld(tmp_path)
    device = world.joined()
    around = device.memberships[world.of.digest]._around
    capsules = [WaitingRow(i, 0, 0, bytes([i])) for i in range(10)]
    names = {hashlib.sha256(row.capsule).digest(): row.package_id for row in capsules}
    chosen, times = [0] * 10, []
    last = world.announce()
    start = last.closes_at - 1_000_000
    for _ in range(1500):
        receipts = Receipts(around, world.of, spread_ms=1000)
        with device.state.writing(durable=False):
            receipts.choose(1, capsules)
            for digest in receipts._chosen:
                chosen[names[digest]] += 1
            device.state.trust.put_acknowledged(world.of.digest, receipts._chosen)
            device.state.trust.settle(world.of.digest, 1, root="00" * 32, capsules=None)
            receipts.plan(last, now=start)
            times += [at - start for at in receipts._moments.values()]
            device.state.trust.drop_before(world.of.digest, 9)
    # χ² of nine degrees: beyond 45 by chance less than once in a million.
    assert sum((count - 300) ** 2 / 300 for count in chosen) < 45
    places = sorted(at / 1_000_000 for at in times)
    worst = max(max(abs((i + 1) / len(places) - u), abs(i / len(places) - u)) for i, u in enumerate(places))
    assert worst < 2.7 / len(places) ** 0.5
    device.close()


def test_forgetting_takes_the_digests_along(tmp_path: Path) -> None:
    world = LoggedWorld(tmp_path)
    device = world.joined()
    asyncio.run(world.play(device))
    device.flush()
    digests = [digest for _, digest, *_ in rows(device)]
    assert len(side_by_side(digests)) == 64
    device.state.forget(world.of.digest)
    assert rows(device) == []
    assert device.state.trust.trusted(world.of.digest) is None
    raw = b"".join(path.read_bytes() for path in world.folder.iterdir() if path.is_file())
    assert not any(digest in raw for digest in digests)
    device._look()
    device.close()
