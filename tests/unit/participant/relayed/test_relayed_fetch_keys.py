"""To which key a device seals its fetches: to the logged one, once there is one, and to no other ever after."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.oblivious import (
    GatewayKey,
    GatewayKeys,
    decode_key_configurations,
    encode_key_configurations,
    seal_request,
)
from secvm.errors import OpeningError
from secvm.participant.sending.transport import Fetched
from secvm.protocol.plain.sealed_requests import fetch_request
from secvm.testing.transport import MemoryTransport
from secvm_lab.rigs.histories.relayed_rounds import relayed_document
from secvm_lab.rigs.histories.witnessed_log import known_log_terms
from tests.unit.participant.relayed.relayed_world import RelayedWorld, trusting


@dataclass
class HostileGateway:
    """Hands out another key to everybody who asks, and keeps all of them: a key is a name then.

    ``knows``: whether it opens what is sealed to keys that its manifests name, round by round.
    """

    world: RelayedWorld
    knows: bool = True
    handed_out: list[GatewayKey] = field(default_factory=list)
    #: For each fetch: the path, and the round whose manifest names the key it was sealed to; None: one of its own.
    opened: list[tuple[str, int | None]] = field(default_factory=list)

    def hand_out(self) -> bytes:
        self.handed_out.append(GatewayKey(len(self.handed_out) % 256, X25519PrivateKey(os.urandom(32))))
        return encode_key_configurations([self.handed_out[-1].configuration])

    def opens(self, path: str, capsule: bytes) -> bool:
        for one in self.world.history.rounds:
            if self._is_for(one.fetch_key, capsule):
                self.opened.append((path, one.round_number))
                return self.knows
        assert any(self._is_for(key, capsule) for key in self.handed_out)
        self.opened.append((path, None))
        return True

    @staticmethod
    def _is_for(key: GatewayKey, capsule: bytes) -> bool:
        try:
            GatewayKeys([key]).open(capsule)
        except OpeningError:
            return False
        return True


class SealedTransport(MemoryTransport):
    """Seals fetches as the way over relays does, for a gateway that looks at the key."""

    gateway: HostileGateway

    async def fetch(self, path: str, *, most: int = 2**30, gateway_keys: bytes | None = None) -> Fetched | None:
        served = self.gateway.hand_out()
        (key,) = decode_key_configurations(served if gateway_keys is None else gateway_keys)
        capsule = seal_request(key, fetch_request(path), os.urandom).capsule
        return await super().fetch(path, most=most) if self.gateway.opens(path, capsule) else None


def hostile_world(folder: Path) -> tuple[RelayedWorld, HostileGateway]:
    world = RelayedWorld(folder, relayed_document(log=known_log_terms()))
    way = SealedTransport(world.clock.now)
    way.files, way.entry, way.both_terms = world.net.files, world.net.entry, world.net.both_terms
    way.requests, way.fetches = world.net.requests, world.net.fetches
    way.gateway = HostileGateway(world)
    world.transport = way
    return world, way.gateway


def check_all_logged(gateway: HostileGateway) -> None:
    """Before the first manifest is believed a key is what the relay says; after it the key of the newest one believed,
    which everybody has who believes it.
    """
    believed: list[int] = [number for _, number in gateway.opened if number is not None]
    first = next(i for i, (_, number) in enumerate(gateway.opened) if number is not None)
    assert all(number is None for _, number in gateway.opened[:first])
    assert all(number is not None for _, number in gateway.opened[first:])
    assert believed == sorted(believed)


def test_repro_a_gateway_with_a_key_for_each_device_gains_nothing_after_the_first_manifest(tmp_path: Path) -> None:
    """F1: every fetch of every device, fresh looks and canaries too, is sealed to one key that the log names."""
    sealed_to: list[dict[str, set[int | None]]] = []
    for name in ("a", "b", "c"):
        world, gateway = hostile_world(tmp_path / name)
        device = world.joined(policy=trusting(world.of, without_log=False))
        world.play_round(device)
        if name == "c":
            # After a restart the logged key is the only one.
            device.state.close()
            device = world.start(policy=trusting(world.of, without_log=False))
        for _ in range(2):
            world.play_round(device)
        assert world.member.distrust is None
        assert len(world.net.requests) == 3
        check_all_logged(gateway)
        kinds: dict[str, set[int | None]] = {}
        for path, number in gateway.opened:
            if "/shard" in path or "/opening/" in path:
                kinds.setdefault(path, set()).add(number)
        assert any("/shard/" in path for path in kinds)
        sealed_to.append({path: numbers for path, numbers in kinds.items() if "/opening/" in path})
    # The same question of different devices is sealed to the same key.
    assert sealed_to[0] == sealed_to[1] == sealed_to[2]
    assert all(len(numbers) == 1 for numbers in sealed_to[0].values())


@pytest.mark.parametrize("restarted", [False, True])
def test_where_the_logged_key_is_refused_nothing_is_sent_and_no_other_key_is_taken(
    tmp_path: Path, restarted: bool
) -> None:
    world, gateway = hostile_world(tmp_path)
    policy = trusting(world.of, without_log=False)
    device = world.joined(policy=policy)
    world.play_round(device)
    gateway.knows = False
    gateway.opened.clear()
    if restarted:
        device.state.close()
        device = world.start(policy=policy)
    for _ in range(2):
        world.play_round(device)
    assert gateway.opened
    assert {number for _, number in gateway.opened} == {1}
    assert len(world.net.requests) == 1
    assert world.member.unanswered > 0


def test_looks_that_a_refused_key_leaves_unanswered_count_as_such(tmp_path: Path) -> None:
    world, gateway = hostile_world(tmp_path)
    device = world.joined(policy=trusting(world.of, without_log=False, most_unseen=1))
    manifest = world.announce_relayed()
    world.drive(device, until=manifest.instants.opens_at)
    gateway.knows = False
    world.drive(device, until=manifest.instants.mix_by)
    assert "no fresh look" in (world.member.distrust or "")
