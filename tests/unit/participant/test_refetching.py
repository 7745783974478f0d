"""Fresh looks at the log: random, over paths of their own, and at the first difference nothing more leaves."""

import os
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from secvm.participant.device import Device
from secvm.participant.dice import system_words
from secvm.participant.sending.transport import Fetched
from secvm.participant.storage.state import DeviceState, Status
from secvm.participant.trust import fresh_looks as refetching_module
from secvm.participant.trust.evidence import trust_report
from secvm.participant.trust.fresh_looks import MOST_TRIES, FreshLooks
from secvm.participant.trust.trust_policy import TrustPolicy
from secvm.protocol.evidence.plain import Kind, examine
from secvm.protocol.log.entries import experiment_entry, manifest_entry
from secvm.protocol.plain.session_memory import GRACE_MS, NEVER, Phase
from secvm.protocol.schedule import Window
from tests.unit.participant.logged_world import LoggedWorld
from tests.unit.participant.world import BUDGET

#: In which the tests here live.
WORLD = LoggedWorld


def checkpoint_path(world: LoggedWorld) -> str:
    return f"{world.history.place}/checkpoint"


def looks(world: LoggedWorld) -> list[int]:
    """When the checkpoint was fetched while a window was open."""
    asked = [at for path, at in world.net.fetches if path == checkpoint_path(world)]
    return [at for at in asked if any(one.opens_at <= at < one.closes_at for one in world.history.manifests)]


def reasons(device: Device, world: LoggedWorld) -> list[str]:
    device.flush()
    return [reason for _, reason, _ in device.state.abstentions(world.of.digest)]


def test_each_window_has_its_looks_and_they_are_counted(world: LoggedWorld) -> None:
    device = world.joined(policy=TrustPolicy(refetches=3))
    world.play(device, 2)
    windows = [manifest.window for manifest in world.history.manifests]
    found = looks(world)
    assert len(found) == 6
    for window in windows:
        assert sum(window.opens_at <= at < window.closes_at for at in found) == 3
    device.flush()
    assert device.state.trust.checks(world.of.digest)["refetched"] == 6
    assert reasons(device, world) == []


def test_forked_log_stops_the_round_for_ever_and_both_checkpoints_are_kept(world: LoggedWorld) -> None:
    device = world.joined(policy=TrustPolicy(refetches=8))
    manifest = world.announce()
    world.drive(device, until=manifest.opens_at)
    log = world.history.log.branch(world.history.log.tree.size - 1)
    log.append(experiment_entry("0" * 64))
    world.net.files[checkpoint_path(world)] = log.checkpoint().data
    world.drive(device, until=manifest.accept_until)
    first = looks(world)[0]
    assert len(looks(world)) == 1
    assert all(one.at <= first for one in world.net.seen)
    assert device.memberships[world.of.digest].session.phase is Phase.STOPPED
    (data,) = device.state.evidence(world.of.digest)
    assert examine(data).kind is Kind.FORKED_LOG
    (history,) = device.state.history(world.of.digest)
    assert history.acknowledged + history.lost == BUDGET
    assert history.lost > 0


@pytest.mark.parametrize("shown", ["older", "the next round", "other lines", "garbage"])
def test_other_differences_end_the_round_but_are_no_evidence(world: LoggedWorld, shown: str) -> None:
    old = world.net.files[checkpoint_path(world)]
    device = world.joined(policy=TrustPolicy(refetches=8))
    manifest = world.announce()
    world.drive(device, until=manifest.opens_at)
    kept = world.net.files[checkpoint_path(world)]
    log = world.history.log.branch()
    log.append(manifest_entry(world.of.digest, 2, "0" * 64))
    longer = log.checkpoint()
    told = {"older": old, "garbage": b"nothing"}
    world.net.files[checkpoint_path(world)] = told.get(shown, longer.data)
    for path, data in log.files(longer).items():
        lines = data if shown == "the next round" else data.replace(b"0" * 64, b"1" * 64)
        world.net.files[f"{world.history.log_place}/{path}"] = lines
    world.drive(device, until=manifest.accept_until)
    assert len(looks(world)) == 1
    assert all(one.at <= looks(world)[0] for one in world.net.seen)
    world.net.files[checkpoint_path(world)] = kept
    world.conclude()
    world.play(device)
    # The next round is joined again.
    assert world.distinct(2) == BUDGET
    assert reasons(device, world) == ["DISTRUST"]
    assert device.state.evidence(world.of.digest) == []
    assert device.state.trust.distrust(world.of.digest) is None


def test_a_log_that_other_experiments_let_grow_is_no_difference(world: LoggedWorld) -> None:
    device = world.joined(policy=TrustPolicy(refetches=4))
    manifest = world.announce()
    for part in range(5):
        length = manifest.closes_at - manifest.opens_at
        world.drive(device, until=manifest.opens_at + part * length // 5)
        # Even where the dice let nobody append.
        world.history.log.append(experiment_entry(f"{part:064x}"))
        world.history.let_others_append()
        world.history.cosign(world.clock.now())
    world.drive(device, until=manifest.accept_until)
    assert len(looks(world)) == 4
    assert any("/tile/entries/" in path for path, at in world.net.fetches if at > manifest.opens_at)
    assert world.distinct(1) == BUDGET
    assert reasons(device, world) == []
    device.flush()
    assert device.state.trust.checks(world.of.digest)["refetched"] == 4


@pytest.mark.parametrize("why", ["no checkpoint", "no tile", "too many lines"])
def test_no_answer_is_asked_for_again_and_noted_but_stops_nothing(
    world: LoggedWorld, device: Device, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    manifest = world.announce()
    world.drive(device, until=manifest.opens_at)
    world.history.log.append(experiment_entry("0" * 64))
    world.history.cosign(world.clock.now())
    if why == "no checkpoint":
        del world.net.files[checkpoint_path(world)]
    elif why == "no tile":
        for path in [path for path in world.net.files if "/tile/entries/" in path]:
            del world.net.files[path]
    else:
        monkeypatch.setattr(refetching_module, "MOST_NEW_LINES", 0)
    world.drive(device, until=manifest.accept_until)
    assert len(looks(world)) == 2 * MOST_TRIES
    assert world.distinct(1) == BUDGET
    assert reasons(device, world) == ["UNSEEN"]
    assert device.state.trust.checks(world.of.digest)["unanswered"] == 2


def block_windows(world: LoggedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relay that answers nothing while packages leave: what a device asks for then is fresh looks."""
    real = world.net.fetch

    async def fetch(path: str, **more: Any) -> Fetched | None:
        now, found = world.clock.now(), await real(path, **more)
        return None if any(one.opens_at <= now < one.accept_until for one in world.history.manifests) else found

    monkeypatch.setattr(world.net, "fetch", fetch)


@pytest.mark.parametrize("restarts", [False, True])
def test_repro_two_rounds_in_a_row_without_an_answered_look_end_participation(
    world: LoggedWorld, device: Device, monkeypatch: pytest.MonkeyPatch, restarts: bool
) -> None:
    block_windows(world, monkeypatch)
    for _ in range(4):
        world.take_part(device)
        world.conclude()
        if restarts:
            device.close()
            device = world.start()
    assert world.distinct(1) == BUDGET
    assert world.distinct(3) == world.distinct(4) == 0
    assert set(reasons(device, world)) == {"UNSEEN", "DISTRUST"}
    told = trust_report(device.state, world.of)["told"]
    assert any("in 2 rounds in a row no fresh look at the log was answered" in sentence for sentence in told)
    # The person has seen it and resumes; the relay answers again.
    monkeypatch.undo()
    with closing(DeviceState(world.folder)) as other:
        other.set_status(world.of.digest, Status.JOINED)
    world.play(device)
    assert world.distinct(5) == BUDGET
    assert device.state.trust.distrust(world.of.digest) is None


def test_an_answered_look_in_between_is_enough_to_go_on(
    world: LoggedWorld, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, 6):
        with monkeypatch.context() as patch:
            if number % 2:
                block_windows(world, patch)
            world.play(device)
    assert [world.distinct(number) for number in range(1, 6)] == [BUDGET] * 5
    assert reasons(device, world) == ["UNSEEN"] * 3


@pytest.mark.parametrize("most", [1, 3])
def test_the_settings_say_how_many_rounds_may_be_unseen(
    world: LoggedWorld, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    device = world.joined(policy=TrustPolicy(most_unseen=most))
    block_windows(world, monkeypatch)
    world.play(device, 4)
    joined = [history.round_number for history in device.state.history(world.of.digest)]
    assert joined == list(range(1, most + 1))


async def test_repro_looks_that_the_end_of_a_window_overtakes_after_one_failure_end_nothing(world: LoggedWorld) -> None:
    device = world.joined(policy=TrustPolicy(refetches=1))

    for _ in range(3):
        manifest = world.announce()
        await world.driven(device, until=manifest.opens_at)
        kept, before = world.net.files.pop(checkpoint_path(world)), len(looks(world))
        while len(looks(world)) == before and world.clock.now() < manifest.closes_at:
            await world.driven(device, until=world.clock.now() + 100)
        # A server that is just starting again; then the machine is too busy for another look.
        world.net.files[checkpoint_path(world)] = kept
        world.clock.advance(manifest.closes_at - world.clock.now())
        await world.driven(device, until=manifest.accept_until)
        world.conclude()

    assert len(device.state.history(world.of.digest)) == 3
    assert device.state.trust.distrust(world.of.digest) is None


async def test_repro_a_server_that_is_back_before_the_window_closes_is_seen(
    world: LoggedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each look in the middle of what is left: two that the dice put close together would both be missed.
    monkeypatch.setattr(
        refetching_module, "spread", lambda _count, left, _words: [(left.opens_at + left.closes_at) // 2]
    )
    device = world.joined(policy=TrustPolicy(refetches=1))
    manifest = world.announce()

    await world.driven(device, until=manifest.opens_at)
    kept = world.net.files.pop(checkpoint_path(world))
    while len(looks(world)) < MOST_TRIES - 1 and world.clock.now() < manifest.closes_at:
        await world.driven(device, until=world.clock.now() + 100)
    world.net.files[checkpoint_path(world)] = kept
    await world.driven(device, until=manifest.accept_until)

    assert (len(looks(world)), reasons(device, world)) == (MOST_TRIES, [])


def test_device_that_slept_draws_its_look_anew(world: LoggedWorld) -> None:
    device = world.joined(policy=TrustPolicy(refetches=1))
    manifest = world.announce()
    woke = manifest.closes_at - 60_000
    # What was due a moment before is not late.
    world.drive(device, until=manifest.opens_at)
    due = device.memberships[world.of.digest]._ask_at
    world.clock.advance(woke - world.clock.now())
    world.drive(device, until=manifest.accept_until)
    late = due + GRACE_MS < woke
    assert all(woke + late <= at < manifest.closes_at for at in looks(world))


def fresh_looks(count: int) -> FreshLooks:
    state = SimpleNamespace(trust=SimpleNamespace(unseen=lambda _digest: set()))
    around: Any = SimpleNamespace(state=state, words=system_words(os.urandom), policy=TrustPolicy(refetches=count))
    log: Any = None
    return FreshLooks(around, "digest", log)


def test_moments_are_uniform_in_the_window_and_afresh_each_time() -> None:
    window = Window(opens_at=1_000_000, closes_at=2_000_000)
    looking = fresh_looks(2)
    found: list[int] = []
    for number in range(2000):
        looking.joined(number, window, now=0)
        found += [at for at, _ in looking._moments]
    # Kolmogorov and Smirnov: beyond this by chance less than once in a million.
    places = sorted((at - window.opens_at) / 1_000_000 for at in found)
    worst = max(max(abs((i + 1) / len(places) - u), abs(i / len(places) - u)) for i, u in enumerate(places))
    assert worst < 2.7 / len(places) ** 0.5
    assert len(set(found)) > 3900


def test_restart_in_mid_window_leaves_out_what_has_passed() -> None:
    looking = fresh_looks(16)
    looking.joined(1, Window(opens_at=0, closes_at=1000), now=1000)
    assert looking.at == NEVER
    assert looking.too_many_unseen() is None
