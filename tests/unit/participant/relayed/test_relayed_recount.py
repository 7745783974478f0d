"""A device counts the shard of its canary again, now and then: what is true, what is withheld, and what was signed."""

import os
from pathlib import Path
from typing import Any

import pytest

from secvm.participant.person.inspection import as_text, inspect
from secvm.participant.trust.evidence import evidence_of
from secvm.protocol.relays import submission as canaries
from secvm.protocol.relays.batches import Place
from secvm.protocol.relays.shards import read_sub_tally, write_sub_tally
from secvm.protocol.relays.submission import Canary
from secvm_lab.rigs.histories.sealed_round import SealedRound
from tests.unit.participant.relayed.relayed_world import RelayedWorld

#: In which the tests here live.
WORLD = RelayedWorld


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every canary's shard is counted again."""
    monkeypatch.setattr(canaries, "RECOUNTED_ONE_IN", 1)


def fetched(world: RelayedWorld) -> list[str]:
    """What was fetched of shards, below the experiment."""
    below = f"/v1/experiment/{world.of.digest}/"
    paths = [path.removeprefix(below) for path, _ in world.net.fetches]
    return [path for path in paths if path.split("/")[0] in ("shards", "shard", "capsules", "tally")]


def play(world: RelayedWorld, lie: Any, **ending: Any) -> None:
    """A round and an hour after it, with a ``lie`` that changes the files before anybody looks."""
    device = world.joined()
    manifest = world.history.announce()
    world.drive(device, until=manifest.instants.mix_by)
    played = world.history.conclude(**ending)
    lie(world.history.files, f"/v1/experiment/{world.of.digest}", played)
    world.drive(device, until=manifest.instants.open_by + 3_590_000)


@pytest.mark.usefixtures("always")
def test_shard_of_the_canary_is_fetched_and_counted_again(world: RelayedWorld) -> None:
    world.live(2)
    assert fetched(world)[:4] == ["shards/1", "shard/1/0", "capsules/1/0", "tally/1/0"]
    state = world.state
    assert state.trust.checks(world.of.digest)["recounted"] == state.trust.checks(world.of.digest)["seen"] == 2
    assert (world.member.distrust, world.member.canaries) == (None, 0)
    told = as_text(inspect(state, now=world.clock.now()))
    assert "Rounds of which it counted a part again: 2." in told


def test_without_luck_the_digests_alone_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Canary, "recounts", property(lambda _: False))
    world = RelayedWorld(tmp_path)
    world.live(2)
    assert fetched(world) == ["shards/1", "shard/1/0", "shards/2", "shard/2/0"]
    assert world.state.trust.checks(world.of.digest)["recounted"] == 0


def test_one_canary_of_64_is_drawn_for_it_by_its_own_secrets() -> None:
    def canary(secrets: bytes) -> Canary:
        place = Place(0, bytes(32), ())
        return Canary(
            round_number=1, label=bytes(32), ephemerals=secrets, inner_digest=bytes(32), place=place, capsules=1
        )

    drawn = [canary(os.urandom(64)).recounts for _ in range(64_000)]
    # Binomial with mean 1,000 and standard deviation 31.4: further off than 160 with a chance below 1e-6.
    assert abs(sum(drawn) - 1000) < 160
    # The same canary, after a restart or a look that nobody answered, is not drawn again.
    one = canary(os.urandom(64))
    assert Canary.from_bytes(one.to_bytes()).recounts is one.recounts


def withheld(kind: str) -> Any:
    def lie(files: dict[str, bytes], path: str, _played: SealedRound) -> None:
        del files[f"{path}/{kind}/1/0"]

    return lie


def changed(kind: str, byte: int) -> Any:
    def lie(files: dict[str, bytes], path: str, _played: SealedRound) -> None:
        data = bytearray(files[f"{path}/{kind}/1/0"])
        data[byte] ^= 1
        files[f"{path}/{kind}/1/0"] = bytes(data)

    return lie


def cut_short(kind: str) -> Any:
    def lie(files: dict[str, bytes], path: str, _played: SealedRound) -> None:
        files[f"{path}/{kind}/1/0"] = files[f"{path}/{kind}/1/0"][:-1]

    return lie


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    "lie",
    [
        withheld("capsules"),
        withheld("tally"),
        changed("capsules", 7),
        changed("tally", 0),
        changed("tally", -1),
        cut_short("capsules"),
        cut_short("tally"),
    ],
)
def test_shard_that_is_withheld_or_does_not_verify_ends_it_without_evidence(world: RelayedWorld, lie: Any) -> None:
    play(world, lie)
    assert "no shard that verifies can be had, although other files are served" in (world.member.distrust or "")
    assert world.state.evidence(world.of.digest) == []
    # Looks at which other files were not asked for meanwhile do not count.
    assert fetched(world).count("capsules/1/0") >= 3


@pytest.mark.usefixtures("always")
def test_false_count_that_was_signed_is_evidence_and_ends_it_for_good(world: RelayedWorld) -> None:
    play(world, lambda *_: None, false_tallies=(write_sub_tally({0: 1}),))
    world.play_round(world.started[-1])
    state = world.state
    assert "shard 0 of round 1" in (world.member.distrust or "")
    (held,) = evidence_of(state, state.records())
    assert (held.kind, held.experiment) == ("wrong-count", world.of.digest)
    assert (world.member._distrust.convicted, world.member.canaries) == (True, 0)
    assert [one for one in fetched(world) if "/2" in one] == [], "no further round was joined"
    world.member._distrust.reread()
    assert world.member.distrust is not None, "a person who resumes does not change what was signed"


@pytest.mark.usefixtures("always")
def test_false_count_whose_documents_are_not_served_any_more_ends_it_without_evidence(world: RelayedWorld) -> None:

    def lie(files: dict[str, bytes], path: str, _played: SealedRound) -> None:
        del files[f"{path}/manifest/1"]

    play(world, lie, false_tallies=(write_sub_tally({0: 1}),))
    assert world.member.distrust is not None
    assert world.state.evidence(world.of.digest) == []


@pytest.mark.usefixtures("always")
def test_whatever_strangers_put_into_a_shard_it_is_counted_by_one_rule(world: RelayedWorld) -> None:
    world.live(2)
    played = world.history.rounds[0]
    counts = read_sub_tally(played.sub_tallies[0], cells=30, capsules=4096)
    # The cover of these relays is bytes that nobody sealed: most of the shard is junk, and no error.
    assert 0 < sum(counts.values()) < len(played.mixed)
    assert world.member.distrust is None
