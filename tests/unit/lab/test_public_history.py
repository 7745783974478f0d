"""An honest history is believed: round by round, late, over gaps, to its end."""

import random

import pytest

from secvm.crypto.beacons.sources import salt_from, verify_beacon
from secvm.errors import StaleRoundError
from secvm.protocol.documents.experiment import HashedBins, read_published
from secvm.protocol.documents.manifest import read_relay_count
from secvm.protocol.evidence.plausibility import violations
from secvm.protocol.log.tiles import Tile, TileReader
from secvm.protocol.trust.salt import salt_of
from secvm.protocol.trust.trusted_rounds import Trusted, TrustedRounds
from secvm_lab.rigs.histories.public_history import PublicHistory
from secvm_lab.rigs.histories.random_experiments import draw_experiment

SEEDS = range(12)


def history(seed: object, rounds: int, **changes: object) -> PublicHistory:
    made = PublicHistory.drawn(random.Random(str(seed)), **changes)  # type: ignore[arg-type]
    made.play(rounds)
    return made


def device(of: PublicHistory, trusted: Trusted | None = None) -> TrustedRounds:
    return TrustedRounds(read_published(of.files[of.place], digest=of.document.digest), of.files[of.place], trusted)


def look(rounds: TrustedRounds, of: PublicHistory) -> int:
    checked = rounds.check(of.served(rounds), now=of.now)
    rounds.believe(checked)
    return checked.steps


@pytest.mark.parametrize("seed", SEEDS)
def test_an_honest_history_is_believed_round_by_round(seed: int) -> None:
    made = history(seed, 0)
    rounds = device(made)
    for number in range(1, 6):
        made.play(1)
        look(rounds, made)
        assert rounds.last is not None
        assert rounds.last.manifest == made.manifests[-1]
        assert rounds.next_round == number + 1
        with pytest.raises(StaleRoundError):
            rounds.check(made.served(rounds), now=made.now)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_newcomer_replays_every_step_and_keeps_the_same(seed: int) -> None:
    made = history(seed, 0)
    always = device(made)
    for _ in range(5):
        made.play(1)
        look(always, made)
        newcomer = device(made)
        steps = look(newcomer, made)
        assert newcomer.trusted == always.trusted
        assert steps == sum(one.last is not None and one.last.tally is not None for one in made.manifests)


@pytest.mark.parametrize("seed", SEEDS)
def test_whoever_was_away_or_restarted_goes_on_from_what_it_kept(seed: int) -> None:
    made = history(seed, 1)
    rounds = device(made)
    look(rounds, made)
    made.play(3)
    kept = Trusted.from_parts(rounds.trusted.to_bytes(), rounds.trusted.state)
    assert kept == rounds.trusted
    again = device(made, kept)
    look(again, made)
    assert again.last is not None
    assert again.last.manifest == made.manifests[-1]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("played", [0, 1, 4])
def test_the_ending_is_believed_by_followers_and_newcomers(seed: int, played: int) -> None:
    made = history(seed, played)
    follower = device(made)
    if played:
        look(follower, made)
    ending = made.end()
    for one in (follower, device(made)):
        checked = one.check(made.served(one), now=made.now)
        assert checked.ending == ending
        assert checked.model.state.to_bytes() == made.state.to_bytes()
        one.believe(checked)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_salt_follows_from_what_is_public(seed: int) -> None:
    made = history(seed, 1)
    binning = made.document.binning
    assert isinstance(binning, HashedBins)
    found = salt_of(made.document, first=made.first, records=made.records, allow_unsafe=True)
    if binning.salt is not None:
        assert found == binning.salt
    else:
        outputs = [
            verify_beacon(beacon.chain, beacon.round_number, record, allow_unsafe=True).value
            for beacon, record in zip(binning.beacons, made.records, strict=True)
        ]
        assert found == salt_from(outputs, binning.bins)


def test_tiles_give_the_root_that_was_signed() -> None:
    made = history(3, 4)
    signed = made.cosign()
    reader = TileReader(signed.checkpoint.size, lambda tile: made.files[f"{made.log_place}/{tile.path}"])
    assert [reader.node(0, i) for i in range(5)] == [made.log.tree.node(0, i) for i in range(5)]
    lines = made.files[f"{made.log_place}/{Tile(None, 0, made.log.tree.size).path}"]
    assert lines.count(b"secvm-v2-manifest " + made.document.digest.encode()) == 4
    assert made.files["/secvm/v2/checkpoint"].startswith(b"log.example/secvm/v2\n%d\n" % made.log.tree.size)


def test_the_same_seed_is_the_same_history() -> None:
    assert history("same", 3).files == history("same", 3).files
    assert history("same", 3).files != history("other", 3).files


def test_a_branch_has_the_past_and_its_own_future() -> None:
    made = history("branch", 2)
    other = made.branch()
    other.announce()
    assert len(made.manifests) == 2
    assert made.files.items() < {**other.files, **made.files}.items()
    assert f"{made.place}/manifest/3" not in made.files


def test_experiments_at_random_have_either_rule_and_several_models() -> None:
    drawn = [draw_experiment(random.Random(seed)) for seed in range(40)]
    assert {one.rule.name for one in drawn} == {"pegasos", "swift"}
    assert {one.models.n_models for one in drawn} >= {1, 3, 6}


@pytest.mark.parametrize("seed", SEEDS)
def test_tallies_at_random_fit_the_relays_count_and_the_budget(seed: int) -> None:
    made = history(seed, 0)
    made.announce()
    tally = made.draw_tally()
    last = made.conclude(tally)
    assert last.relay_count is not None
    count = read_relay_count(last.relay_count, made.document)
    assert violations(made.document, tally, count, opened_at=made.manifests[-1].opens_at) == []
