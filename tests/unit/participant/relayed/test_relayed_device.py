"""A device in an experiment with two relays: one request a round, its receipt, its canary, and what makes it stop."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from secvm.errors import UnreachableError
from secvm.learning.package import NullPackage, ParticipationPackage
from secvm.participant.device import Device
from secvm.participant.person import decisions
from secvm.participant.sending.transport import Fetched
from secvm.participant.trust.evidence import evidence_of
from secvm.protocol.documents.experiment import Relay
from secvm.protocol.plain.session_memory import CLOCK_TOLERANCE_MS, Phase
from secvm.protocol.relays import submission as canary
from secvm.protocol.relays.statements import RelayedTerms
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR
from tests.unit.participant.relayed.relayed_world import RelayedWorld
from tests.unit.participant.world import Fate

#: In which the tests here live.
WORLD = RelayedWorld


def test_a_round_is_one_request_of_exactly_b_packages_in_the_window(world: RelayedWorld) -> None:
    world.live()
    (request,) = world.net.requests
    played = world.history.rounds[0]
    window = played.manifest.window
    assert window.opens_at <= request.at < window.closes_at
    assert (request.label, request.relay) == (played.label, world.of.entry_relay)
    packages = list(played.packages_of.values())
    assert len(packages) == world.of.budget
    assert sum(isinstance(one, ParticipationPackage) for one in packages) == 1
    assert NullPackage() in packages
    assert [(one.acknowledged, one.lost) for one in world.member.rounds.values()] == [(world.of.budget, 0)]
    assert not world.net.seen


def test_the_canary_was_found_and_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # One canary in 64 has its shard counted again, and then fetched once more.
    monkeypatch.setattr(canary, "recounts", lambda _ephemerals: False)
    world = RelayedWorld(tmp_path)
    world.live(2)
    state = world.state
    assert state.trust.checks(world.of.digest)["seen"] == 2
    assert state.relayed.canaries(world.of.digest) == []
    assert world.member.distrust is None
    paths = [path for path, _ in world.net.fetches]
    assert sum("/shards/1" in path for path in paths) == 1
    assert sum("/shard/1/" in path for path in paths) == 1


@pytest.mark.parametrize("fate", [Fate.LOST, Fate.ANSWER_LOST, Fate.BUSY])
def test_a_retry_is_the_same_bytes(world: RelayedWorld, fate: Fate) -> None:
    world.net.script = iter([fate, fate])
    world.live()
    assert len({(one.label, one.body) for one in world.net.requests}) == 1
    assert len(world.net.requests) == 3
    assert [one.acknowledged for one in world.member.rounds.values()] == [world.of.budget]


def test_a_relay_that_never_takes_it_costs_the_round(world: RelayedWorld) -> None:
    world.net.script = iter([Fate.REFUSED])
    world.live()
    assert len(world.net.requests) == 1
    assert [(one.acknowledged, one.lost) for one in world.member.rounds.values()] == [(0, world.of.budget)]
    assert world.member.session.phase is Phase.IDLE
    assert world.state.relayed.canaries(world.of.digest) == []
    # It counts all the same.
    assert world.state.ledger.rounds() == {world.of.digest: 1}


def test_x_leaves_the_canary_out(world: RelayedWorld, device: Device) -> None:
    world.leave_canary_out(device)
    world.play_round(device)
    state = world.state
    assert "left it out" in (world.member.distrust or "")
    assert len(world.net.requests) == 1, "no further round"
    (evidence,) = state.evidence(world.of.digest)
    (held,) = evidence_of(state, state.records())
    assert held.kind == "missing-canary"
    assert held.data == evidence
    # A person who resumes goes on.
    assert decisions.resume(state, world.of.digest)
    device._look()
    world.play_round(device)
    assert len(world.net.requests) == 2


@pytest.mark.parametrize(("unopened", "requests"), [({1, 2}, 2), ({1, 3}, 3), ({2}, 4), (set(), 4)])
def test_two_unopened_rounds_of_any_ten_end_it(
    world: RelayedWorld, device: Device, unopened: set[int], requests: int
) -> None:
    for number in range(1, 5):
        world.play_round(device, unopened=number in unopened)
    assert len(world.net.requests) == requests
    assert world.member.distrusts == (len(unopened) == 2)
    assert world.state.evidence(world.of.digest) == [], "it accuses nobody"


def test_an_opening_that_is_never_served_is_an_unopened_round(world: RelayedWorld, device: Device) -> None:
    manifest = world.history.announce()
    world.drive(device, until=manifest.instants.open_by)
    assert device.state.relayed.unopened(world.of.digest) == set()
    world.drive(device, until=manifest.instants.open_by + 3_600_000)
    assert world.state.relayed.unopened(world.of.digest) == {1}
    assert world.state.relayed.canaries(world.of.digest) == []
    assert not world.member.distrusts


def test_without_any_answer_a_round_is_not_unopened(world: RelayedWorld, device: Device) -> None:
    manifest = world.history.announce()
    world.drive(device, until=manifest.instants.accept_until)
    world.net.files = {}
    world.drive(device, until=manifest.instants.open_by + 3_600_000)
    assert world.state.relayed.unopened(world.of.digest) == set()


@pytest.mark.parametrize("lie", ["none", "short", "other"])
def test_digests_that_are_withheld_or_do_not_verify_end_it_without_evidence(world: RelayedWorld, lie: str) -> None:
    path = f"/v1/experiment/{world.of.digest}/shard/1/0"
    device = world.joined()
    manifest = world.history.announce()
    world.drive(device, until=manifest.instants.mix_by)
    world.history.conclude(publish_shards=lie != "none")
    if lie != "none":
        run = world.history.files[path]
        world.history.files[path] = run[:-1] if lie == "short" else run[:-1] + bytes([run[-1] ^ 1])
    world.drive(device, until=manifest.instants.open_by + 3_600_000)
    assert "although other files are served" in (world.member.distrust or "")
    assert world.state.evidence(world.of.digest) == []


def test_models_that_do_not_follow_stop_it(world: RelayedWorld, device: Device) -> None:
    world.play_round(device)
    model = world.history.model
    bent = replace(model.training, mantissas=model.training.mantissas + np.int32(1))
    world.history.model = type(model)(model.state, bent, model.evaluation)
    assert world.history.model.names != model.names
    world.play_round(device)
    assert len(world.net.requests) == 1
    assert world.member.distrust is not None
    # Whether the round before was stepped depends on its noise.
    assert any(words in world.member.distrust for words in ("does not follow", "changed the state"))


def test_what_was_seen_in_an_earlier_round_is_refused(world: RelayedWorld, device: Device) -> None:
    world.play_round(device)
    world.play_round(device)
    # Round 3 has the count key of round 1 again.
    manifest = world.history.announce()
    first = world.history.rounds[0].manifest
    again = replace(manifest, count_key=first.count_key, count_seed_hash=first.count_seed_hash)
    world.history.files[f"/v1/experiment/{world.of.digest}/manifest/latest"] = again.signed([COORDINATOR])
    world.drive(device, until=manifest.instants.mix_by)
    assert len(world.net.requests) == 2
    assert "another round" in (world.member.distrust or "")


@pytest.mark.parametrize("ahead", [0, -CLOCK_TOLERANCE_MS - 1, CLOCK_TOLERANCE_MS + 1])
def test_repro_files_that_take_their_time_cast_no_doubt_on_the_clock(world: RelayedWorld, ahead: int) -> None:
    slow = CLOCK_TOLERANCE_MS + 1
    quick = world.net.fetch

    async def fetch(path: str, **told: Any) -> Fetched | None:
        # A clock that is off is seen all the same: read as the answer leaves, or as the request comes.
        world.clock.advance(slow if ahead > 0 else 0)
        found = await quick(path, **told)
        world.clock.advance(0 if ahead > 0 else slow)
        return found

    device = world.joined()
    manifest = world.history.announce()
    world.drive(device, until=manifest.instants.mix_by)
    world.history.conclude()
    world.history.announce()
    world.net.fetch = fetch  # type: ignore[method-assign]
    world.net.server_ahead_ms = ahead
    asked = world.clock.now()
    news = asyncio.run(world.member._rounds.ask(world.clock.now))
    # The news came late, which was not the clock's fault.
    assert world.clock.now() >= asked + slow
    assert news is not None
    assert news.ahead == ahead


@pytest.mark.parametrize("away", ["a moment", "for ever"])
def test_repro_a_relay_that_does_not_answer_for_a_moment_costs_no_round(world: RelayedWorld, away: str) -> None:
    asked = list[int]()
    answering = world.net.relayed_terms

    async def terms(relay: Relay) -> RelayedTerms | None:
        asked.append(world.clock.now())
        if away == "for ever" or len(asked) <= 2:
            raise UnreachableError("nobody is there")
        return await answering(relay)

    world.net.relayed_terms = terms  # type: ignore[method-assign]
    world.live()
    manifest = world.history.rounds[0].manifest
    assert len(set(asked[:3])) == 3, "each time at another moment"
    if away == "a moment":
        assert len(world.net.requests) == 1
        assert world.state.abstentions(world.of.digest) == []
    else:
        assert len(asked) == 3
        assert max(asked) < manifest.instants.closes_at
        assert world.net.requests == []
        assert world.state.ledger.rounds() == {}, "nothing is charged"
        ((_, reason, sentence),) = world.state.abstentions(world.of.digest)
        assert reason == "DECLINED"
        assert "the entry relay entry.example has not answered three times" in sentence


# ── after the ending ─────────────────────────────────────────────────────────────────────────────────────────────────


def after_the_ending(world: RelayedWorld, *, away_ms: int = 0, silent: bool = False) -> int:
    """A device whose canary's digests are not served after the ending, days later; how often it looked for them.

    ``away_ms``: it hears of the opening and the ending so late. ``silent``: from then on nobody answers anything.
    """
    device = world.joined()
    manifest = world.history.announce()
    world.drive(device, until=manifest.instants.mix_by)
    world.history.conclude(publish_shards=False)
    world.history.end()
    world.clock.advance(away_ms)
    asyncio.run(world.member.poll(world.clock.now))
    if silent:
        world.net.files = {}
    world.drive(device, until=world.clock.now() + (7 if silent else 1) * 86_400_000)
    assert world.member.ended
    assert world.member.canaries == 0
    return sum("/shards/1" in path for path, _ in world.net.fetches)


def test_repro_digests_that_are_withheld_after_the_ending_are_looked_for_three_times(world: RelayedWorld) -> None:
    looks = after_the_ending(world)
    assert "although other files are served" in (world.member.distrust or "")
    assert looks == 3


def test_repro_whoever_comes_when_the_digests_are_gone_looks_once_and_accuses_nobody(world: RelayedWorld) -> None:
    looks = after_the_ending(world, away_ms=7 * 86_400_000)
    assert world.member.distrust is None
    assert looks == 1
    assert world.state.trust.checks(world.of.digest)["unchecked"] == 1


def test_repro_where_nobody_answers_after_the_ending_looks_come_to_an_end(world: RelayedWorld) -> None:
    looks = after_the_ending(world, silent=True)
    assert world.member.distrust is None
    # Over six days; each time the moment is spread wider, up to 64 times the grace.
    assert 1 <= looks <= 8 * 6 * 86_400 / (64 * world.of.windows.grace_s)
    assert world.state.trust.checks(world.of.digest)["unchecked"] == 1


def test_repro_a_device_that_starts_again_and_again_without_a_network_accuses_nobody(
    world: RelayedWorld, device: Device
) -> None:
    manifest = world.history.announce()
    world.drive(device, until=manifest.instants.mix_by)
    world.history.conclude(publish_shards=False)
    asyncio.run(world.member.poll(world.clock.now))
    world.net.files = {}
    for _ in range(5):
        device.state.close()
        device = world.start()
        world.drive(device, until=world.clock.now() + 300_000)
    assert world.member.distrust is None
    assert world.member.canaries == 1
