"""What a person decides holds while the device runs in another process, and disturbs nothing of it."""

import pytest

from secvm.errors import BadInputError, RemoteProtocolError
from secvm.participant.device import Device
from secvm.participant.main import opened, way_of
from secvm.participant.person import decisions
from secvm.participant.settings import ParticipantSettings
from secvm.participant.storage.state import DeviceState, Status
from secvm.participant.storage.vault import Vault
from secvm.protocol.documents.experiment import ExperimentDocument
from tests.there import there
from tests.unit.participant.world import BUDGET, RELAY_URLS, World, real_document


def settings_of(world: World) -> ParticipantSettings:
    return ParticipantSettings.model_validate(
        {
            "device": {"folder": world.folder},
            "relay": {"urls": tuple(RELAY_URLS)},
            "trust": {"without_log": True},
            "consent": {"policy": "unsafe-accept-anything"},
        }
    )


def join_beside(world: World, other: ExperimentDocument) -> None:
    """What the command does, while the device runs."""
    envelope, settings = world.serve(other), settings_of(world)
    world.fill(world.of, other)
    with opened(settings) as (state, vault):
        decisions.join(state, other.digest, envelope, vault, way_of(settings, world.net))


def in_mid_round(world: World) -> Device:
    """A device that runs, some of whose packages are acknowledged and written."""
    device = world.joined()
    manifest = world.publish(1)
    world.drive_into(device, manifest)
    device.flush()
    assert 0 < device.memberships[world.of.digest].session.progress.acknowledged < BUDGET
    return device


def test_repro_joining_beside_a_running_device_leaves_its_session_alone(world: World) -> None:
    running = in_mid_round(world)
    other = real_document(title="Another")
    before = running.state.session_parts(world.of.digest)
    world.clock.advance(20_000)
    join_beside(world, other)
    assert running.state.session_parts(world.of.digest) == before
    # As joining once did it, by opening a second device: what it writes back is older than what the first has written.
    second = world.start()
    closes_at = world.before[world.of.digest].closes_at
    world.drive(running, until=closes_at - 1000)
    running.flush()
    second.close()
    with pytest.raises(RemoteProtocolError, match="do not fit together"):
        world.start()
    running.state.close()


def test_running_device_takes_up_what_another_process_has_joined(world: World) -> None:
    running = in_mid_round(world)
    other = real_document(title="Another")
    join_beside(world, other)
    running.look()
    assert set(running.memberships) == {world.of.digest, other.digest}


def test_pause_resume_and_forget_are_the_persons(world: World) -> None:
    running, digest = in_mid_round(world), world.of.digest
    state = DeviceState(world.folder)
    decisions.pause(state, digest)
    running.look()
    assert running.memberships[digest].session.paused
    assert decisions.resume(state, digest)
    running.look()
    assert not running.memberships[digest].session.paused
    decisions.forget(state, digest, lambda: Vault(world.folder))
    running.look()
    assert not running.memberships
    found = there(state.record(digest))
    assert found.status is Status.FORGOTTEN
    with Vault(world.folder) as vault:
        assert vault.label(digest) is None
    with pytest.raises(BadInputError, match="does not take part"):
        decisions.pause(state, digest)
    state.close()


def test_whoever_forgot_the_passphrase_can_still_be_forgotten_by_the_state(world: World) -> None:
    world.joined().close()
    state = DeviceState(world.folder)

    def locked() -> Vault:
        raise BadInputError("wrong passphrase")

    with pytest.raises(BadInputError, match="wrong passphrase"):
        decisions.forget(state, world.of.digest, locked)
    found = there(state.record(world.of.digest))
    assert found.status is Status.FORGOTTEN
    state.close()
