"""Fresh looks at the log: random, over paths of their own, and at the first difference nothing more leaves."""

import asyncio
import os
from pathlib import Path

import pytest

from secvm.participant.device import Device
from secvm.participant.dice import system_words
from secvm.participant.refetching import Refetching
from secvm.participant.surroundings import TrustPolicy
from secvm.protocol.evidence import Kind, examine
from secvm.protocol.log import manifest_entry
from secvm.protocol.schedule import Window
from secvm.protocol.session import Phase
from secvm.protocol.session_memory import NEVER
from tests.unit.participant.logged_world import LoggedWorld
from tests.unit.participant.world import BUDGET


def checkpoint_path(world: LoggedWorld) -> str:
    return f"{world.history.log_place}/checkpoint"


def looks(world: LoggedWorld) -> list[int]:
    return [at for path, at in world.net.fresh_fetches if path == checkpoint_path(world)]


def reasons(device: Device, world: LoggedWorld) -> list[str]:
    device.flush()
    return [reason for _, reason, _ in device.state.abstentions(world.of.digest)]


def test_each_window_has_its_looks_and_they_are_counted(tmp_path: Path) -> None:
    world = LoggedWorld(tmp_path)
    device = world.joined(policy=TrustPolicy(refetches=3, receipts=0))
    asyncio.run(world.play(device, 2))
    windows = [manifest.window for manifest in world.history.manifests]
    found = looks(world)
    assert len(found) == 6
    for window in windows:
        assert sum(window.opens_at <= at < window.closes_at for at in found) == 3
    device.flush()
    assert device.state.trust.checks(world.of.digest)["refetched"] == 6
    assert reasons(device, world) == []
    device.close()


def test_forked_log_stops_the_round_for_ever_and_both_checkpoints_are_kept(tmp_path: Path) -> None:
    world = LoggedWorld(tmp_path)
    device = world.joined(policy=TrustPolicy(refetches=8))
    manifest = world.announce()

    async def scenario() -> None:
        await world.drive(device, until=manifest.opens_at)
        log = world.history.log.branch(1)
        log.append(manifest_entry("0" * 64))
        world.net.files[checkpoint_path(world)] = log.checkpoint().data
        await world.drive(device, until=manifest.accept_until)

    asyncio.run(scenario())
    first = looks(world)[0]
    assert len(looks(world)) == 1
    assert all(one.at <= first for one in world.net.seen)
    assert device.memberships[world.of.digest].session.phase is Phase.STOPPED
    (data,) = device.state.evidence(world.of.digest)
    assert examine(data).kind is Kind.FORKED_LOG
    (history,) = device.state.history(world.of.digest)
    assert history.acknowledged + history.lost == BUDGET
    assert history.lost > 0
    device.close()


@pytest.mark.parametrize("shown", ["older", "longer", "garbage"])
def test_other_differences_end_the_round_but_are_no_evidence(tmp_path: Path, shown: str) -> None:
    world = LoggedWorld(tmp_path)
    old = world.net.files[checkpoint_path(world)]
    device = world.joined(policy=TrustPolicy(refetches=8))
    manifest = world.announce()

    async def scenario() -> None:
        await world.drive(device, until=manifest.opens_at)
        kept = world.net.files[checkpoint_path(world)]
        log = world.history.log.branch()
        log.append(manifest_entry("0" * 64))
        told = {"older": old, "longer": log.checkpoint().data, "garbage": b"nothing"}
        world.net.files[checkpoint_path(world)] = told[shown]
        await world.drive(device, until=manifest.accept_until)
        assert len(looks(world)) == 1
        assert all(one.at <= looks(world)[0] for one in world.net.seen)
        world.net.files[checkpoint_path(world)] = kept
        world.conclude()
        await world.play(device)

    asyncio.run(scenario())
    # The next round is joined again.
    assert world.distinct(2) == BUDGET
    assert reasons(device, world) == ["DISTRUST"]
    assert device.state.evidence(world.of.digest) == []
    assert device.state.trust.distrust(world.of.digest) is None
    device.close()


def test_no_answer_is_asked_once_more_and_noted_but_stops_nothing(tmp_path: Path) -> None:
    world = LoggedWorld(tmp_path)
    device = world.joined()
    manifest = world.announce()

    async def scenario() -> None:
        await world.drive(device, until=manifest.opens_at)
        del world.net.files[checkpoint_path(world)]
        await world.drive(device, until=manifest.accept_until)

    asyncio.run(scenario())
    assert len(looks(world)) == 4
    assert world.distinct(1) == BUDGET
    assert reasons(device, world) == ["UNSEEN"]
    device.flush()
    assert device.state.trust.checks(world.of.digest)["unanswered"] == 2
    device.close()


def test_answer_to_the_second_asking_is_enough(tmp_path: Path) -> None:
    world = LoggedWorld(tmp_path)
    device = world.joined()
    manifest = world.announce()

    async def scenario() -> None:
        await world.drive(device, until=manifest.opens_at)
        kept = world.net.files.pop(checkpoint_path(world))
        while len(looks(world)) < 2:
            await world.drive(device, until=world.clock.now() + 1000)
        world.net.files[checkpoint_path(world)] = kept
        await world.drive(device, until=manifest.accept_until)

    asyncio.run(scenario())
    assert reasons(device, world) == []
    device.flush()
    assert device.state.trust.checks(world.of.digest)["refetched"] >= 1
    device.close()


def test_device_that_slept_draws_its_look_anew(tmp_path: Path) -> None:
    world = LoggedWorld(tmp_path)
    device = world.joined(policy=TrustPolicy(refetches=1))
    manifest = world.announce()
    woke = manifest.closes_at - 60_000

    async def scenario() -> None:
        await world.drive(device, until=manifest.opens_at)
        world.clock.advance(woke - world.clock.now())
        await world.drive(device, until=manifest.accept_until)

    asyncio.run(scenario())
    assert all(woke < at < manifest.closes_at for at in looks(world))
    device.close()


def test_moments_are_uniform_in_the_window_and_afresh_each_time() -> None:
    window = Window(opens_at=1_000_000, closes_at=2_000_000)
    refetching = Refetching(system_words(os.urandom), 2)
    found: list[int] = []
    for _ in range(2000):
        refetching.plan(window, now=0)
        found += [at for at, _ in refetching._moments]
    # Kolmogorov and Smirnov: beyond this by chance less than once in a million.
    places = sorted((at - window.opens_at) / 1_000_000 for at in found)
    worst = max(max(abs((i + 1) / len(places) - u), abs(i / len(places) - u)) for i, u in enumerate(places))
    assert worst < 2.7 / len(places) ** 0.5
    assert len(set(found)) > 3900


def test_restart_in_mid_window_leaves_out_what_has_passed() -> None:
    refetching = Refetching(system_words(os.urandom), 16)
    refetching.plan(Window(opens_at=0, closes_at=1000), now=1000)
    assert refetching.at == NEVER
    assert not refetching.blind
