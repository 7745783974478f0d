"""A round's token on a device: asked for before the window opens, spent once, and never a second one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from secvm.crypto.tokens import TOKEN_BYTES, TokenKey, issue, redeem
from secvm.participant.device import Device
from secvm.participant.person.disclosure import what_leaves
from secvm.participant.sending.transport import SendReply
from secvm.protocol.relays.manifest import RelayedManifest
from secvm_lab.rigs.histories.relayed_rounds import relayed_document
from tests.unit.participant.relayed.relayed_world import RelayedWorld
from tests.unit.participant.world import Crash

PLAIN = relayed_document()
OF = relayed_document(tokens=True)


class TokenWorld(RelayedWorld):
    """A world whose entry relay remembers who asked for what."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, OF)
        self.asked: list[tuple[bytes, int]] = []
        #: What the relay says before it gives a token.
        self.answers: list[SendReply] = []
        self.net.giver = self.give

    def give(self, label: bytes, request: bytes) -> SendReply:
        self.asked.append((request, self.clock.now()))
        return self.answers.pop(0) if self.answers else self.history.give(label, request)

    def seed(self, device: Device) -> bytes | None:
        return device.state.relayed.token_seed(self.of.digest, 1)


#: In which the tests here live.
WORLD = TokenWorld


def begin(world: TokenWorld) -> tuple[Device, RelayedManifest]:
    return world.joined(), world.history.announce()


def test_the_request_begins_with_a_token_and_the_seed_is_forgotten(world: TokenWorld) -> None:
    device, manifest = begin(world)
    world.drive(device, until=manifest.instants.closes_at)
    (sent,) = world.net.requests
    assert redeem(world.history.token_key, sent.body[:TOKEN_BYTES]) is not None
    assert len(world.history.requests) == 1, "the receipt is over the capsules alone"
    ((request, at),) = world.asked
    assert len(request) == 64
    assert at < manifest.instants.opens_at
    assert world.seed(device) is None


def test_moments_of_asking_are_spread(tmp_path: Path) -> None:
    found = set()
    for i in range(6):
        world = TokenWorld(tmp_path / f"{i}")
        device, manifest = begin(world)
        world.drive(device, until=manifest.instants.opens_at - 1)
        found |= {at for _, at in world.asked}
        device.close()
    # Of six uniform moments of more than half a minute two are the same once in some thousand runs.
    assert len(found) > 4


def test_a_relay_that_is_away_is_asked_again_with_the_same_bytes(world: TokenWorld) -> None:
    device, manifest = begin(world)
    world.answers = [SendReply(), SendReply()]
    world.drive(device, until=manifest.instants.closes_at)
    assert len(world.asked) == 3
    assert len({request for request, _ in world.asked}) == 1
    assert len(world.net.requests) == 1


def test_without_an_answer_until_the_window_closes_nothing_is_sent_or_charged(world: TokenWorld) -> None:
    device, manifest = begin(world)
    world.answers = [SendReply()] * 10_000
    world.drive(device, until=manifest.instants.closes_at + 1)
    assert world.net.requests == []
    assert device.state.ledger.rounds() == {}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (SendReply(final=True), "the entry relay entry.example gives this device no token for the round"),
        (SendReply(b"nonsense"), "the issuer's answer has another length"),
        (SendReply(bytes(32 + 64)), "the identity, where an element is wanted that says something"),
    ],
)
def test_a_device_without_a_token_abstains_and_says_why(world: TokenWorld, answer: SendReply, why: str) -> None:
    device, manifest = begin(world)
    world.answers = [answer]
    world.drive(device, until=manifest.instants.closes_at)
    assert world.net.requests == []
    device.flush()
    assert device.state.abstentions(world.of.digest) == [(1, "DECLINED", why)]
    assert device.state.ledger.rounds() == {}


def test_a_relay_with_a_key_of_its_own_for_this_device_gives_it_nothing(world: TokenWorld) -> None:
    device, manifest = begin(world)
    marked = TokenKey(b"m" * 32, b"")
    world.net.giver = lambda _label, request: SendReply(
        issue(marked, marked.public + request[32:], random.Random(0).randbytes)
    )
    world.drive(device, until=manifest.instants.closes_at)
    assert world.net.requests == []
    device.flush()
    assert device.state.abstentions(world.of.digest) == [(1, "DECLINED", "The proof does not show what it should.")]


def test_forgetting_the_experiment_forgets_the_seed(world: TokenWorld) -> None:
    device, manifest = begin(world)
    world.answers = [SendReply()] * 10_000
    world.drive(device, until=manifest.instants.opens_at)
    assert world.seed(device) is not None
    device.state.forget(world.of.digest)
    assert world.seed(device) is None


def test_wherever_it_dies_it_asks_with_one_request_and_sends_one_token(tmp_path: Path) -> None:
    whole = TokenWorld(tmp_path / "whole")
    device, manifest = begin(whole)
    before = whole.points.passed
    whole.drive(device, until=manifest.instants.closes_at)
    points = whole.points.passed - before
    device.close()
    for point in range(0, points, 3):
        world = TokenWorld(tmp_path / f"{point}")
        device, manifest = begin(world)
        world.points.left = point
        try:
            world.drive(device, until=manifest.instants.closes_at)
        except Crash:
            world.cut_power(device)
            device = world.start()
            world.drive(device, until=manifest.instants.closes_at)
        assert len({request for request, _ in world.asked}) <= 1
        assert len({one.body for one in world.net.requests}) <= 1
        device.close()


def test_a_person_is_told_that_a_token_is_asked_for() -> None:
    (told,) = [sentence for sentence in what_leaves(OF) if "token" in sentence]
    assert "entry.example for one anonymous token" in told
    assert not [sentence for sentence in what_leaves(PLAIN) if "token" in sentence]
