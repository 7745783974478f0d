"""One loop carries many devices: each on its own, counted together, stopped cleanly, started again where it was."""

import asyncio
import io
import json
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from secvm.participant.device import Device
from secvm.participant.host import Host
from secvm.participant.storage.state import DeviceState, Status
from secvm.participant.trust.model_files import ModelShelf
from secvm.runtime.logs import Log
from secvm.testing.transport import Fate
from tests.unit.participant.world import BUDGET, World
from tests.unit.protocol.helpers import GRACE_S


def devices(world: World, count: int) -> list[Device]:
    """Many people on one host, with one shelf."""
    return world.crowd(count, shelf=ModelShelf(world.folder / "models"))


async def move(world: World, *, until: int) -> None:
    """Let the time pass from one waking to the next, with turns for everybody between."""
    while True:
        for _ in range(20):
            await asyncio.sleep(0)
        following = world.clock.next_waking()
        if following is None or following >= until:
            world.clock.advance(max(0, until - world.clock.now()))
            return
        world.clock.advance(max(1, following - world.clock.now()))


async def hosted(world: World, host: Host, *, until: int) -> None:
    stop = asyncio.Event()
    running = asyncio.create_task(host.run(stop))
    await move(world, until=until)
    stop.set()
    await running


def test_many_devices_send_their_budget_each_and_are_counted(world: World) -> None:
    host = Host(devices(world, 5), clock=world.clock, parallel_jobs=3)
    manifest = world.publish(1)
    asyncio.run(hosted(world, host, until=manifest.accept_until))
    assert len(world.net.seen) == len(world.net.arrived) == 5 * BUDGET
    assert all(manifest.opens_at <= one.at < manifest.closes_at for one in world.net.seen)
    one = host.status()[world.of.digest]
    assert one == {
        "devices": 5,
        "ended": 0,
        "abstaining": 0,
        "distrusting": 0,
        "waiting": 0,
        "acknowledged": 5 * BUDGET,
        "lost": 0,
        "canaries": 0,
        "rounds": {1: {"joined": 5, "done": 5, "waiting": 0, "acknowledged": 5 * BUDGET, "lost": 0}},
    }
    # Weights by digest were fetched once for all, manifests by each alone.
    asked = Counter(path for path, _ in world.net.fetches)
    assert [count for path, count in asked.items() if path.startswith("/v1/blob/")] == [1]
    assert asked[f"/v1/experiment/{world.of.digest}/manifest/latest"] == 5


def test_host_goes_on_where_it_was_stopped(world: World) -> None:
    manifest = world.publish(1)
    middle = (manifest.opens_at + manifest.closes_at) // 2
    asyncio.run(hosted(world, Host(devices(world, 3), clock=world.clock), until=middle))
    assert 0 < len(world.net.seen) < 3 * BUDGET
    again = Host(devices(world, 3), clock=world.clock)
    status = again.status()[world.of.digest]
    assert status["waiting"] + status["acknowledged"] == 3 * BUDGET
    asyncio.run(hosted(world, again, until=manifest.accept_until))
    # Stopped cleanly, nothing had to be sent twice.
    assert len(world.net.seen) == len(world.net.arrived) == 3 * BUDGET


def test_repro_what_is_due_at_a_restart_leaves_without_waiting_for_another_waking(world: World) -> None:
    """A host came back in a window's last millisecond; what was due at once lay there until the window was over."""
    world.net.script = iter([Fate.LOST] * 1000)
    manifest = world.publish(1)
    asyncio.run(hosted(world, Host(devices(world, 2), clock=world.clock), until=manifest.closes_at - 1))
    assert world.net.arrived == set()
    world.net.script = iter(())
    again = Host(devices(world, 2), clock=world.clock)
    asyncio.run(hosted(world, again, until=manifest.closes_at - 1))
    assert world.clock.now() == manifest.closes_at - 1
    assert len(world.net.arrived) == 2 * BUDGET


async def test_repro_what_came_of_a_window_is_on_the_disk_although_the_clock_stands_still(world: World) -> None:
    """A person's page, which reads the disk, showed packages as waiting until the clock reached the next flush."""
    host = Host(devices(world, 1), clock=world.clock)
    manifest = world.publish(1)
    stop = asyncio.Event()
    running = asyncio.create_task(host.run(stop))
    world.net.script = iter([Fate.LOST] * 1000)
    await move(world, until=manifest.closes_at - 2)
    world.net.script = iter(())
    await move(world, until=manifest.closes_at - 1)
    for _ in range(20):
        await asyncio.sleep(0)
    with sqlite3.connect(f"file:{world.folder / '0' / 'state.sqlite'}?mode=ro", uri=True) as disk:
        assert disk.execute("SELECT COUNT(*) FROM capsule").fetchone() == (0,)
    disk.close()
    assert len(world.net.arrived) == BUDGET
    stop.set()
    await running


async def test_log_says_once_that_no_manifest_can_be_had(world: World) -> None:
    told = io.StringIO()
    host = Host(devices(world, 3), clock=world.clock, log=Log(told, world.clock, party="participant"))
    begun = world.clock.now()

    stop = asyncio.Event()
    running = asyncio.create_task(host.run(stop))
    await move(world, until=begun + 20_000 * GRACE_S)
    manifest = world.publish(1, opens_at=world.clock.now() + 20_000 * GRACE_S)
    await move(world, until=manifest.opens_at)
    stop.set()
    await running

    events = [json.loads(line)["event"] for line in told.getvalue().splitlines()]
    assert events == ["no-manifest", "manifest-again", "stopped"]


def test_stop_does_not_wait_for_ever_for_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secvm.participant.host._DRAIN_S", 0.0)
    world = World(tmp_path)
    world.net.script = iter([Fate.HANGS] * BUDGET)
    manifest = world.publish(1)
    asyncio.run(hosted(world, Host(devices(world, 1), clock=world.clock), until=manifest.closes_at - 1))
    assert len(world.net.seen) == BUDGET
    again = Host(devices(world, 1), clock=world.clock)
    assert again.status()[world.of.digest]["waiting"] == BUDGET
    for device in again._devices:
        device.close()


async def test_pause_by_another_process_is_seen(world: World) -> None:
    host = Host(devices(world, 1), clock=world.clock)
    manifest = world.publish(1)
    middle = (manifest.opens_at + manifest.closes_at) // 2

    stop = asyncio.Event()
    running = asyncio.create_task(host.run(stop))
    await move(world, until=middle)
    other = DeviceState(world.folder / "0")
    other.set_status(world.of.digest, Status.PAUSED)
    other.close()
    sent = len(world.net.seen)
    await move(world, until=manifest.closes_at)
    assert len(world.net.seen) == sent
    stop.set()
    await running


def test_fault_of_ours_ends_the_host_loudly_and_saves_the_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made = devices(world, 2)

    async def fail(_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(made[0], "carry_out", fail)
    host = Host(made, clock=world.clock)
    manifest = world.publish(1)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(hosted(world, host, until=manifest.opens_at))
