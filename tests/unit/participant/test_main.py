"""A device as a program: settings, many test people in one process, stopping, and going on."""

import asyncio
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from secvm.crypto.notes import NoteKey, SignatureKind
from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.oblivious import GatewayKey, encode_key_configurations
from secvm.errors import BadInputError, LocalProtocolError
from secvm.participant.host import Host
from secvm.participant.main import make_clock, make_transport, open_devices, serve
from secvm.participant.settings import ParticipantSettings
from secvm.participant.trust.trust_policy import TrustedRelay, TrustPolicy
from secvm.protocol.documents.recomputation import Caps
from secvm.protocol.log.checkpoints import Quorum
from secvm.protocol.log.policy import Listed, LogPolicy
from secvm.runtime.clock import ClockSteering, SteeredClock, SystemClock
from secvm.runtime.disk.process_lock import FILE as LOCK_FILE
from secvm.runtime.disk.process_lock import only_one
from secvm.runtime.settings import read_settings, settings_text
from secvm.testing.gateway import FakeGateway, GatewayRequest, Reply
from secvm.testing.transport import MemoryTransport
from tests.unit.participant.logged_world import LoggedWorld
from tests.unit.participant.world import BUDGET, EXPERIMENT, START, World
from tests.unit.protocol.helpers import LOG, RELAY, WITNESSES, document

#: A key, but none that cosigns.
TWICE = {"operator": "Others", "url": "https://other.example/r", "key": RELAY.public.data.hex()}
PLAIN_KEY = NoteKey("log.example", LOG.public).to_text()
TEST_OF = document(experiment=EXPERIMENT, test=True, relays=())


def settings_of(tmp_path: Path, **tables: Any) -> ParticipantSettings:
    """Written to a file and read again, as a person would."""
    told = {"device": {"folder": str(tmp_path / "devices")}, "consent": {"policy": "unsafe-accept-anything"}, **tables}
    relays = told.get("trust", {}).get("relays")
    if relays:
        rest = {name: value for name, value in told["trust"].items() if name != "relays"}
        told |= {"trust": rest, "trust.relays": relays}
    path = tmp_path / "settings.toml"
    path.write_text(settings_text(told))
    return read_settings(path, ParticipantSettings)


def people_file(tmp_path: Path, count: int) -> Path:
    path = tmp_path / "people.jsonl"
    lines = [json.dumps({"label": "ab"[i % 2], "features": [f"w{i % 5}", "all"]}) for i in range(count)]
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({}, "either"),
        ({"relay": {"urls": ["https://r.example"]}, "coordinator": {"unsafe_direct_url": "http://x"}}, "either"),
        ({"relay": {"urls": []}}, "relay.urls"),
        ({"relay": {"urls": ["relay.example/relay"]}}, "relay.urls must be URLs"),
        ({"relay": {"urls": ["https://r.example"], "colour": 1}}, "relay.colour"),
        ({"relay": {"urls": ["https://r.example"]}, "traffic": {"daily_bytes": 0}}, "traffic.daily_bytes"),
        ({"relay": {"urls": ["https://r.example"]}, "testing": {"count": 5}}, "belong to people"),
        ({"relay": {"urls": ["https://r.example"]}, "trust": {"colour": 1}}, "trust.colour"),
        ({"relay": {"urls": ["https://r.example"]}, "trust": {"witnesses": ["w.example"]}}, "keys of witnesses"),
        ({"relay": {"urls": ["https://r.example"]}, "trust": {"witnesses": [PLAIN_KEY]}}, "keys of witnesses"),
        ({"relay": {"urls": ["https://r.example"]}, "trust": {"witnesses": []}}, "trust.witnesses"),
        ({"relay": {"urls": ["https://r.example"]}, "trust": {"relays": []}}, "trust.relays"),
        ({"relay": {"urls": ["https://r.example"]}, "trust": {"relays": [TWICE, TWICE]}}, "name a URL twice"),
        ({"relay": {"urls": ["https://r.example"]}, "trust": {"relays": [{**TWICE, "key": "00" * 32}]}}, "anybody can"),
        ({"relay": {"urls": ["https://r.example"]}, "trust": {"norm_cap": "-1"}}, "trust.norm_cap"),
        ({"relay": {"urls": ["https://r.example"]}, "trust": {"refetches": 99}}, "trust.refetches"),
    ],
)
def test_bad_settings_are_one_sentence(tmp_path: Path, tables: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        settings_of(tmp_path, **tables)


def test_what_a_device_demands_stands_in_its_settings(tmp_path: Path) -> None:
    relay = {"urls": ["https://relay.example/r"]}
    known = (TrustedRelay(url="https://relay.example/r"),)
    assert settings_of(tmp_path, relay=relay).policy() == TrustPolicy(relays=known)
    assert settings_of(tmp_path, coordinator={"unsafe_direct_url": "http://x"}).policy() == TrustPolicy()
    key = NoteKey("w.example", WITNESSES[0].public, SignatureKind.COSIGNATURE)
    trust = {
        "relays": [TWICE],
        "witnesses": [key.to_text()],
        "norm_cap": "2.5",
        "bias_cap": "7/3",
        "refetches": 0,
    }
    settings = settings_of(
        tmp_path, relay=relay, trust={**trust, "without_log": True}, testing={"unsafe_beacons": True}
    )
    assert settings.policy() == TrustPolicy(
        relays=(TrustedRelay(url="https://other.example/r", key=RELAY.public, operator="Others"),),
        log_policy=LogPolicy.of_witnesses([key]),
        caps=Caps(norm=Fraction(5, 2), bias=Fraction(7, 3)),
        refetches=0,
        without_log=True,
        unsafe_beacons=True,
    )


def test_witnesses_may_stand_in_a_policy(tmp_path: Path) -> None:
    keys = [NoteKey("w.example", key.public, SignatureKind.COSIGNATURE) for key in WITNESSES[:2]]
    own = LogPolicy(witnesses=tuple(map(Listed, keys)), quorum=Quorum(1, (keys[0].key,)))
    file = tmp_path / "log.policy"
    settings = settings_of(tmp_path, relay={"urls": ["https://r.example"]}, trust={"witnesses": str(file)})
    with pytest.raises(BadInputError, match="cannot read"):
        settings.policy()
    file.write_bytes(own.to_bytes())
    assert settings.policy().log_policy == own
    file.write_bytes(own.to_bytes()[:-1])
    with pytest.raises(BadInputError, match="not whole"):
        settings.policy()


def test_steered_clock_is_for_tests(tmp_path: Path) -> None:
    ClockSteering(tmp_path / "clock", now=START)
    settings = settings_of(tmp_path, relay={"urls": ["https://r.example"]}, testing={"clock": str(tmp_path / "clock")})
    assert isinstance(make_clock(settings), SteeredClock)
    assert isinstance(make_clock(settings_of(tmp_path, relay={"urls": ["https://r.example"]})), SystemClock)


def test_people_of_a_test_get_a_folder_each_and_join_once(tmp_path: Path) -> None:
    world = World(tmp_path, TEST_OF)
    settings = settings_of(
        tmp_path,
        relay={"urls": ["https://r.example"]},
        testing={
            "people": str(people_file(tmp_path, 10)),
            "first": 4,
            "count": 3,
            "seed": "s",
            "join": [TEST_OF.digest],
        },
    )

    async def scenario() -> list[Any]:
        found = []
        for _ in range(2):
            devices = await open_devices(settings, world.net, world.clock, asyncio.Event())
            found.append([device.state.record(TEST_OF.digest).person for device in devices])  # type: ignore[union-attr]
            for device in devices:
                device.close()
        return found

    first, second = asyncio.run(scenario())
    assert first == second
    assert len(first) == 3
    assert sorted(path.name for path in (tmp_path / "devices").iterdir()) == ["000004", "000005", "000006"]


async def test_people_of_a_test_wait_for_the_beacons_and_share_what_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secvm.participant.main._EVERY_S", 0)
    world = LoggedWorld(tmp_path, beacons=2)
    testing = {"people": str(people_file(tmp_path, 3)), "count": 3, "join": [world.of.digest]}

    def settings(**more: bool) -> ParticipantSettings:
        return settings_of(
            tmp_path, relay={"urls": [relay.url for relay in world.of.relays]}, testing={**testing, **more}
        )

    joining = asyncio.create_task(open_devices(settings(unsafe_beacons=True), world.net, world.clock, asyncio.Event()))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not joining.done()
    assert world.asked("/beacon/") == []
    world.clock.advance(3_600_000)
    with pytest.raises(BadInputError, match="beacon for development"):
        await open_devices(settings(), world.net, world.clock, asyncio.Event())
    devices = await joining
    records = [device.state.record(world.of.digest) for device in devices]
    assert len({record.salt for record in records if record is not None} - {None}) == 1
    assert len({id(device._around.checks) for device in devices}) == 1
    for device in devices:
        device.close()


def test_people_of_a_test_join_no_real_experiment(tmp_path: Path) -> None:
    world = World(tmp_path)
    testing = {"people": str(people_file(tmp_path, 2)), "count": 2, "join": [world.of.digest]}
    settings = settings_of(tmp_path, relay={"urls": ["https://r.example"]}, testing=testing)
    with pytest.raises(LocalProtocolError, match="marked as a test"):
        asyncio.run(open_devices(settings, world.net, world.clock, asyncio.Event()))


async def test_device_that_is_run_already_is_not_run_again(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, relay={"urls": ["https://r.example"]})

    stop = asyncio.Event()
    stop.set()
    await serve(settings, stop)
    held = only_one(settings.device.folder / LOCK_FILE, "device")
    with held, pytest.raises(BadInputError, match="another process runs this device"):
        await serve(settings, stop)


async def test_devices_serve_until_they_are_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over sockets, straight to a tiny coordinator, with a clock that the test steers."""
    world = World(tmp_path, TEST_OF)
    manifest = world.publish(1)
    before = manifest.opens_at - 200_000
    steering = ClockSteering(tmp_path / "clock", now=before, rate=0.0)
    capsules: list[bytes] = []
    asked: list[str] = []
    started, polled, enough, stop = (asyncio.Event() for _ in range(4))

    class Watched(Host):
        async def run(self, stop: asyncio.Event) -> None:
            started.set()
            await super().run(stop)

    monkeypatch.setattr("secvm.participant.main.Host", Watched)

    async def handle(request: web.Request) -> web.Response:
        if request.method == "POST":
            capsules.append(await request.read())
            if len(capsules) == 2 * BUDGET:
                enough.set()
            return web.Response(status=202)
        asked.append(request.path)
        if sum(path.endswith("latest") for path in asked) == 2:
            polled.set()
        found = world.net.files.get(request.path)
        return web.Response(status=404) if found is None else web.Response(body=found, headers={"Date": ""})

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    settings = settings_of(
        tmp_path,
        coordinator={"unsafe_direct_url": f"http://127.0.0.1:{runner.addresses[0][1]}"},
        status={"listen": "127.0.0.1:0"},
        testing={
            "clock": str(tmp_path / "clock"),
            "people": str(people_file(tmp_path, 2)),
            "count": 2,
            "seed": "s",
            "join": [TEST_OF.digest],
        },
    )
    serving = asyncio.create_task(serve(settings, stop))
    # Each moves the clock when the one before has happened, so that no machine is too slow.
    for event, limit in (
        (started, before + 60_000),
        (polled, manifest.closes_at - 1),
        (enough, manifest.closes_at - 1),
    ):
        waiting = asyncio.create_task(event.wait())
        await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        steering.steer(rate=4000.0, limit=limit)
    stop.set()
    await serving
    assert enough.is_set()
    await runner.cleanup()

    assert len(set(capsules)) == 2 * BUDGET


def test_experiment_that_is_not_the_one_named_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path, TEST_OF)
    net = MemoryTransport(world.clock.now)
    net.files[f"/v1/experiment/{'0' * 64}"] = world.net.files[f"/v1/experiment/{TEST_OF.digest}"]
    testing = {"people": str(people_file(tmp_path, 2)), "count": 2, "join": ["0" * 64]}
    settings = settings_of(tmp_path, relay={"urls": ["https://r.example"]}, testing=testing)
    with pytest.raises(BadInputError, match="cannot be believed"):
        asyncio.run(open_devices(settings, net, world.clock, asyncio.Event()))
    assert not (tmp_path / "devices").exists()


async def test_people_of_a_test_whom_the_relay_does_not_let_in_are_told_so_at_once(tmp_path: Path) -> None:
    key = GatewayKey(1, X25519PrivateKey(bytes([7]) * 32))

    def answer(request: GatewayRequest) -> Reply:
        if request.path.endswith("/keys"):
            return Reply(200, encode_key_configurations([key.configuration]), "application/ohttp-keys")
        return Reply(401)

    testing = {"people": str(people_file(tmp_path, 2)), "count": 2, "join": [TEST_OF.digest]}
    async with FakeGateway(answer) as relay:
        settings = settings_of(tmp_path, relay={"urls": [relay.url]}, testing=testing)
        transport = make_transport(settings)
        try:
            with pytest.raises(BadInputError, match=r"wants a credential.*\(status 401\)") as refused:
                await open_devices(settings, transport, SystemClock(), asyncio.Event())
        finally:
            await transport.close()
    assert "credentials = true under [testing]" in str(refused.value.next_step)
    assert len(relay.at("/fetch")) == 1
