"""Tokens on a device: asked for before the window opens, used once, and never a second set, wherever it dies."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from secvm.crypto.oblivious import GatewayKeys
from secvm.crypto.tokens import TokenKey, issue, redeem
from secvm.learning.experiment import Experiment
from secvm.participant.device import Device
from secvm.participant.inspection import what_leaves
from secvm.participant.transport import Issued
from secvm.protocol.codec import decode
from secvm.protocol.manifest import RoundManifest
from secvm.protocol.sealed_requests import package_in
from secvm.protocol.tokens import TokenTerms, split_content
from tests.unit.participant.world import START, Crash, World, real_document

KEY = TokenKey(b"k" * 32, b"round 1")
#: Small: every token is some milliseconds.
BUDGET = 3
EXPERIMENT = Experiment(n_bins=20, labels=("a", "b"), budget=BUDGET)
OF = real_document(experiment=EXPERIMENT, tokens=TokenTerms(issuer="https://relay.example/r"))


class TokenWorld(World):
    """A world with an issuer that remembers who asked for what."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, OF, now=START - 200_000)
        self.requests: list[bytes] = []
        self.asked_at: list[int] = []
        #: What the issuer says before it gives tokens.
        self.answers: list[Issued] = []
        self.net.issuer = self.issue

    def issue(self, request: bytes) -> Issued:
        self.points.pass_by()
        self.requests.append(request)
        self.asked_at.append(self.clock.now())
        answer = self.answers.pop(0) if self.answers else Issued(issue(KEY, request, random.Random(0).randbytes))
        self.points.pass_by()
        return answer

    def begin(self) -> tuple[Device, RoundManifest]:
        device = self.joined()
        return device, self.publish(1, token_key=KEY.public)

    def tokens(self) -> list[bytes]:
        """The token of every distinct capsule that left."""
        keys, found = GatewayKeys([self.key]), []
        for capsule in dict.fromkeys(one.capsule for one in self.net.seen):
            package, token = split_content(package_in(keys.open(capsule).request))
            assert decode(package).round_number == 1
            assert token is not None
            found.append(token)
        return found

    def seeds(self, device: Device) -> bytes | None:
        return device.state.tokens.get(self.of.digest, 1)


def lived(world: TokenWorld, device: Device, until: int) -> None:
    asyncio.run(world.drive(device, until=until))


def test_every_package_carries_its_own_token_and_the_seed_is_forgotten(tmp_path: Path) -> None:
    world = TokenWorld(tmp_path)
    device, manifest = world.begin()
    lived(world, device, manifest.closes_at)
    tokens = world.tokens()
    assert len(set(tokens)) == len(tokens) == BUDGET
    assert all(redeem(KEY, token) for token in tokens)
    assert len({len(one.capsule) for one in world.net.seen}) == 1
    # Asked once, for all of them, before the window opened and not at once.
    (request,), (at,) = world.requests, world.asked_at
    assert len(request) == 32 * (1 + BUDGET)
    assert START - 200_000 < at < START
    assert world.seeds(device) is None
    device.close()


def test_moments_of_asking_are_spread(tmp_path: Path) -> None:
    found = set()
    for i in range(6):
        world = TokenWorld(tmp_path / f"{i}")
        device, _ = world.begin()
        lived(world, device, START - 1)
        found |= set(world.asked_at)
        device.close()
    # Of six uniform moments of more than half a minute two are the same once in some thousand runs.
    assert len(found) > 4


@pytest.mark.slow
@pytest.mark.parametrize("power_cut", [False, True])
def test_death_at_any_moment_leads_to_one_set_of_tokens(tmp_path: Path, power_cut: bool) -> None:
    at, dies = 0, True
    while dies:
        world = TokenWorld(tmp_path / f"{power_cut}{at}")
        device, manifest = world.begin()
        world.points.left = at
        try:
            lived(world, device, START + 1)
            dies = False
        except Crash:
            if power_cut:
                world.cut_power(device)
            else:
                device.state.close()
            device = world.start()
        world.points.left = None
        lived(world, device, manifest.closes_at)
        # However often it asked, it asked for the same; and each token has left once.
        assert len(set(world.requests)) == 1
        assert len(set(world.tokens())) == len(world.tokens()) == BUDGET
        device.close()
        at += 1
    assert at > 8


def test_an_issuer_that_is_away_is_asked_again_and_gets_the_same_bytes(tmp_path: Path) -> None:
    world = TokenWorld(tmp_path)
    device, manifest = world.begin()
    world.answers = [Issued(), Issued()]
    lived(world, device, manifest.closes_at)
    assert len(world.requests) == 3
    assert len(set(world.requests)) == 1
    assert len(world.tokens()) == BUDGET
    device.close()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Issued(final=True), "the issuer gives this device no tokens for the round"),
        (Issued(b"nonsense"), "the issuer's answer has another length"),
        (Issued(bytes(32 * BUDGET + 64)), "the identity, where an element is wanted that says something"),
    ],
)
def test_a_device_without_tokens_abstains_and_says_why(tmp_path: Path, answer: Issued, why: str) -> None:
    world = TokenWorld(tmp_path)
    device, manifest = world.begin()
    world.answers = [answer]
    lived(world, device, manifest.closes_at)
    assert world.net.seen == []
    device.flush()
    assert device.state.abstentions(world.of.digest) == [(1, "DECLINED", why)]
    device.close()


def test_an_issuer_with_a_key_of_its_own_for_this_device_gives_it_nothing(tmp_path: Path) -> None:
    world = TokenWorld(tmp_path)
    device, manifest = world.begin()
    marked = TokenKey(b"m" * 32, b"")
    world.net.issuer = lambda request: Issued(issue(marked, marked.public + request[32:], random.Random(0).randbytes))
    lived(world, device, manifest.closes_at)
    assert world.net.seen == []
    device.flush()
    assert device.state.abstentions(world.of.digest) == [(1, "DECLINED", "The proof does not show what it should.")]
    device.close()


def test_forgetting_the_experiment_forgets_the_seed(tmp_path: Path) -> None:
    world = TokenWorld(tmp_path)
    device, _ = world.begin()
    world.answers = [Issued()] * 50
    lived(world, device, START - 1)
    assert world.seeds(device) is not None
    device.state.forget(world.of.digest)
    assert world.seeds(device) is None
    device.close()


def test_a_person_is_told_that_tokens_are_asked_for() -> None:
    told = [sentence for sentence in what_leaves(OF) if "tokens" in sentence]
    assert len(told) == 1
    assert "https://relay.example/r for 3 anonymous tokens" in told[0]
    assert not [sentence for sentence in what_leaves(real_document()) if "tokens" in sentence]
