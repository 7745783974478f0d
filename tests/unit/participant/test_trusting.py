"""A device and a log: it believes what follows, computes its own weights, and stops before the first package leaves."""

import asyncio
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from secvm.crypto.notes import NoteKey
from secvm.crypto.signing import Envelope
from secvm.errors import BadInputError, StaleRoundError
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm.participant.device import Device
from secvm.participant.storage.state import DeviceState
from secvm.participant.trust.trust_policy import TrustPolicy
from secvm.protocol.documents.recomputation import Caps
from secvm.protocol.evidence.plain import Kind, examine
from secvm.protocol.log.entries import experiment_entry
from secvm.protocol.log.policy import Listed, LogPolicy
from secvm.protocol.log.tiles import Tile
from secvm.protocol.plain.session_memory import Phase
from tests.there import there
from tests.unit.participant.logged_world import LEAD_MS, LoggedWorld
from tests.unit.participant.world import BUDGET, World
from tests.unit.protocol.helpers import document

#: In which the tests here live.
WORLD = LoggedWorld


def reasons(state: DeviceState, world: World) -> list[tuple[int, str]]:
    return [(number, reason) for number, reason, _ in state.abstentions(world.of.digest)]


def test_rounds_of_a_log_are_joined_and_no_weights_are_fetched(world: LoggedWorld, device: Device) -> None:
    world.play(device, 4)
    device.flush()
    assert Counter(number for _, number, _ in world.opened()) == dict.fromkeys(range(1, 5), BUDGET)
    assert reasons(device.state, world) == []
    tallies = {manifest.last.tally for manifest in world.history.manifests if manifest.last is not None}
    blobs = {path.removeprefix("/v1/blob/") for path, _ in world.net.fetches if "/v1/blob/" in path}
    assert blobs == tallies
    checks = device.state.trust.checks(world.of.digest)
    assert (checks["steps"], checks["refetched"]) == (3, 8)
    model = there(device.state.model(world.of.digest))
    assert (world.folder / "models" / model.weights).exists()


def test_repro_while_a_round_is_believed_fetches_are_sealed_to_its_logged_key_alone(
    world: LoggedWorld, device: Device
) -> None:
    world.play(device, 2)
    manifest = world.announce()
    world.drive(device, until=manifest.opens_at)
    device.close()
    device = world.start()
    world.drive(device, until=manifest.accept_until + 1000)
    device.close()
    by_round: dict[int, list[bytes | None]] = {}
    for (path, at), keys in zip(world.net.fetches, world.net.sealed_to, strict=True):
        running = [one for one in world.history.manifests if one.opens_at <= at < one.accept_until]
        if running:
            by_round.setdefault(running[0].round_number, []).append(keys)
        elif path.endswith("/manifest/latest"):
            # Between rounds the log names no key that is there for sure: the relay's is taken.
            assert keys is None
    assert by_round.keys() == {1, 2, 3}
    for one in world.history.manifests:
        assert set(by_round[one.round_number]) == {one.gateway_keys}


def test_repro_weights_without_a_log_are_sealed_to_the_key_that_another_experiments_log_names(tmp_path: Path) -> None:
    world = World(tmp_path)
    device = world.joined()
    manifest = world.publish(1)
    device._around.believed["an experiment with a log"] = manifest
    world.drive(device, until=manifest.opens_at)
    device.close()
    sealed_to = [
        keys for (path, _), keys in zip(world.net.fetches, world.net.sealed_to, strict=True) if "/blob/" in path
    ]
    assert sealed_to
    assert set(sealed_to) == {manifest.gateway_keys}


@pytest.mark.parametrize("seed", range(6))
def test_absences_restarts_and_abandoned_rounds_refuse_nothing(tmp_path: Path, seed: int) -> None:
    world = LoggedWorld(tmp_path, seed)
    dice = world.history.dice
    device = world.joined()
    expected: list[int] = []
    for number in range(1, 8):
        if number > 1:
            world.conclude(abandoned=dice.random() < 0.3)
        manifest = world.announce()
        if dice.random() < 0.4:
            # Away for the whole round.
            world.clock.advance(manifest.accept_until - world.clock.now())
            continue
        expected.append(number)
        world.drive(device, until=dice.randint(manifest.opens_at, manifest.closes_at))
        device.close()
        device = world.start()
        world.drive(device, until=manifest.accept_until)
    device.flush()
    told = {number for number, reason in reasons(device.state, world) if reason != "LATE"}
    assert told == set()
    assert sorted(Counter(number for _, number, _ in world.opened())) == expected
    assert device.state.evidence(world.of.digest) == []
    assert device.state.trust.distrust(world.of.digest) is None
    device.close()


def test_late_joiner_replays_from_the_first_round(world: LoggedWorld) -> None:
    # More than are played again at once.
    world.history.play(12, abandoned=0.1)
    world.clock.advance(world.history.now - world.clock.now())
    manifest = world.announce()
    device = world.joined()
    world.drive(device, until=manifest.accept_until)
    assert world.distinct(13) == BUDGET
    concluded = [one.last for one in world.history.manifests if one.last is not None]
    steps = sum(last.tally is not None for last in concluded)
    assert device.state.trust.checks(world.of.digest)["steps"] == steps


def test_newcomer_with_a_bad_network_comes_on(world: LoggedWorld) -> None:
    world.history.play(6, abandoned=0)
    world.clock.advance(world.history.now - world.clock.now())
    manifest = world.announce()
    path = f"{world.history.place}/manifest/5"
    kept = world.net.files.pop(path)
    device = world.joined()
    world.drive(device, until=manifest.opens_at - 65_000)
    assert device.memberships[world.of.digest].session.accepted is None
    world.net.files[path] = kept
    world.drive(device, until=manifest.accept_until)
    assert Counter(path for path, _ in world.net.fetches)[f"{world.history.place}/manifest/2"] == 1
    assert world.distinct(7) == BUDGET


def test_repro_what_does_not_fit_is_fetched_anew(world: LoggedWorld) -> None:
    world.history.play(3, abandoned=0)
    world.clock.advance(world.history.now - world.clock.now())
    manifest = world.announce()
    path = f"{world.history.place}/manifest/2"
    kept, world.net.files[path] = world.net.files[path], world.net.files[f"{world.history.place}/manifest/1"]
    device = world.joined()
    while not world.asked("/manifest/2"):
        world.drive(device, until=world.clock.now() + 1000)
    world.net.files[path] = kept
    world.drive(device, until=manifest.accept_until)
    assert device.memberships[world.of.digest].round_number == 4


def test_newcomer_catches_up_within_the_limit_of_traffic(world: LoggedWorld) -> None:
    world.history.play(6, abandoned=0)
    world.clock.advance(world.history.now - world.clock.now())
    manifest = world.announce()
    device = world.joined(daily_bytes=100_000)
    world.drive(device, until=manifest.accept_until)
    device.flush()
    assert world.net.seen == []
    assert reasons(device.state, world) == [(0, "DECLINED")]
    assert world.asked("/v1/blob/") == []


def test_model_of_another_round_is_never_computed_with(world: LoggedWorld, device: Device) -> None:
    world.play(device, 2)
    rounds = device.memberships[world.of.digest]._rounds
    first, second = world.history.manifests
    assert asyncio.run(rounds.weights(second, world.clock.now)) is not None
    with pytest.raises(StaleRoundError, match="not the newest"):
        asyncio.run(rounds.weights(first, world.clock.now))


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_second_manifest_stops_for_ever_and_leaves_one_file_that_convinces(world: LoggedWorld, device: Device) -> None:
    first = world.announce()
    world.drive(device, until=first.closes_at)
    sent = len(world.net.seen)
    other = replace(first, quota=first.quota + 1)
    path = f"{world.history.place}/manifest/latest"
    world.net.files[path] = other.signed([world.history.parties.coordinator])
    world.drive(device, until=first.accept_until + LEAD_MS)
    assert device.memberships[world.of.digest].session.phase is Phase.STOPPED
    assert len(world.net.seen) == sent
    (data,) = device.state.evidence(world.of.digest)
    assert examine(data).kind is Kind.TWO_DOCUMENTS
    assert reasons(device.state, world) == [(1, "CHEATING")]
    device.close()
    # Also after a restart, and without asking anybody.
    asked = len(world.net.fetches)
    again = world.start()
    assert again.memberships[world.of.digest].session.phase is Phase.STOPPED
    world.drive(again, until=world.clock.now() + 10_000_000)
    assert len(world.net.fetches) == asked


def test_wrong_model_is_caught_before_the_first_package_leaves(world: LoggedWorld, device: Device) -> None:
    world.play(device)
    sent = len(world.net.seen)
    # The step is taken twice.
    world.history.state = world.history.step(world.history.state, world.history.draw_tally())
    world.take_part(device)
    assert len(world.net.seen) == sent
    (data,) = device.state.evidence(world.of.digest)
    assert examine(data).kind is Kind.WRONG_STEP


@pytest.mark.parametrize("missing", ["checkpoint", "a tile", "stale", "older"])
def test_what_cannot_be_believed_is_noted_once_and_asked_again(
    world: LoggedWorld, device: Device, missing: str
) -> None:
    world.play(device, 2)
    files, place = world.net.files, world.history.place
    manifest = world.announce()
    kept = dict(files)
    if missing == "older":
        files[f"{place}/manifest/latest"] = files[f"{place}/manifest/1"]
    elif missing == "stale":
        # As if witnesses had seen it last two hours ago.
        world.history.cosign(world.clock.now() - 7_200_000)
    elif missing == "a tile":
        del files[f"{world.history.log_place}/{Tile(None, 0, world.history.log.tree.size).path}"]
    else:
        del files[f"{place}/{missing}"]
    sent = len(world.net.seen)
    world.drive(device, until=manifest.opens_at - 20_000)
    device.flush()
    assert len(world.net.seen) == sent
    assert len(world.asked("latest")) >= 3
    assert reasons(device.state, world) == ([] if missing in ("checkpoint", "a tile") else [(2, "BAD_MANIFEST")])
    files.update(kept)
    world.history.cosign(world.clock.now())
    world.drive(device, until=manifest.accept_until)
    assert device.memberships[world.of.digest].round_number == 3
    assert device.state.evidence(world.of.digest) == []


def test_a_newcomer_reads_a_long_log_of_others_in_tiles(world: LoggedWorld) -> None:
    for number in range(700):
        world.history.log.append(experiment_entry(f"{number:064x}"))
    device = world.joined()
    world.play(device, 2)
    assert world.distinct(1) == world.distinct(2) == BUDGET
    asked = Counter(path for path, _ in world.net.fetches if "/tile/entries/" in path)
    assert len(asked) == 4
    # Full tiles once; then only the one that has grown.
    assert asked[f"{world.history.log_place}/tile/entries/000"] == 1


def test_a_log_of_more_than_a_days_traffic_is_read_another_day(world: LoggedWorld) -> None:
    for number in range(700):
        world.history.log.append(experiment_entry(f"{number:064x}"))
    device = world.joined(daily_bytes=100_000)
    world.play(device)
    assert world.distinct(1) == 0
    assert not [path for path, _ in world.net.fetches if "/tile/entries/" in path]


def test_log_that_grows_meanwhile_is_asked_again_at_once(world: LoggedWorld, device: Device) -> None:
    world.announce()
    world.conclude()
    old = dict(world.net.files)
    second = world.announce()
    new = dict(world.net.files)
    # The checkpoint is of the log that has grown; the manifest of the moment before.
    latest, checkpoint = f"{world.history.place}/manifest/latest", f"{world.history.place}/checkpoint"
    world.history.cosign(world.clock.now())
    world.net.files[latest] = old[latest]

    async def first_shows_the_old(path: str, **_: object) -> object:
        found = await fetch(path)
        if path == checkpoint:
            world.net.files[latest] = new[latest]
        return found

    fetch = world.net.fetch
    world.net.fetch = first_shows_the_old  # type: ignore[method-assign,assignment]
    world.drive(device, until=second.opens_at)
    assert device.memberships[world.of.digest].round_number == 2


def test_caps_decline_a_model_that_goes_too_far(world: LoggedWorld) -> None:
    device = world.joined(policy=TrustPolicy(caps=Caps(norm=Fraction(0))))
    world.play(device, 2)
    device.flush()
    # The first model is zero.
    assert Counter(number for _, number, _ in world.opened()) == {1: BUDGET}
    assert [sentence for *_, sentence in device.state.abstentions(world.of.digest)] == [
        "the model's weights are larger than this device allows"
    ]


# ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("away_ms", [0, 86_400_000])
def test_ending_is_checked_and_its_model_computed(world: LoggedWorld, device: Device, away_ms: int) -> None:
    world.play(device)
    if away_ms:
        # The last round goes by without it, and its checkpoint is old when it comes back.
        world.clock.advance(world.announce().accept_until - world.clock.now())
        world.conclude()
    world.history.now = world.clock.now()
    world.history.end()
    if away_ms:
        world.clock.advance(away_ms)
        world.history.cosign(world.clock.now())
    world.drive(device, until=world.clock.now() + 3_600_000)
    membership = device.memberships[world.of.digest]
    assert membership.ended
    model, record = device.state.model(world.of.digest), device.state.record(world.of.digest)
    assert world.history.ending is not None
    assert model is not None
    assert model.weights == world.history.ending.evaluation_weights
    assert (world.folder / "models" / model.weights).exists()
    assert record is not None
    assert record.ending is not None
    assert Envelope.from_bytes(record.ending).payload == world.history.ending.data
    assert reasons(device.state, world) in ([], [(2, "LATE")])


# ── joining ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_experiment_without_a_log_is_refused_unless_it_is_a_test_or_the_person_says_so(tmp_path: Path) -> None:
    world = World(tmp_path)
    with pytest.raises(BadInputError, match="has no log"):
        world.joined(policy=TrustPolicy())
    assert set(world.joined(policy=TrustPolicy(without_log=True)).memberships) == {world.of.digest}


def test_experiment_of_unknown_witnesses_is_refused(world: LoggedWorld) -> None:
    terms = world.history.terms
    one, all_of_them = terms.witness_keys[:1], LogPolicy.of_terms(terms)
    with pytest.raises(BadInputError, match="too few of this experiment's witnesses"):
        world.joined(policy=TrustPolicy(log_policy=LogPolicy.of_witnesses(one)))
    other = replace(all_of_them, logs=(Listed(NoteKey("elsewhere.example/secvm/v2", terms.key)),))
    with pytest.raises(BadInputError, match="log is none of those"):
        world.joined(policy=TrustPolicy(log_policy=other))
    joined = world.joined(policy=TrustPolicy(log_policy=all_of_them))
    assert set(joined.memberships) == {world.of.digest}


def test_repro_a_round_that_was_begun_without_the_log_is_not_gone_on_with(world: LoggedWorld, device: Device) -> None:
    # A version that knew of no log has joined, and sealed its packages: after the update they left unchecked.
    first = world.announce()
    world.drive(device, until=first.opens_at)
    device.close()
    with closing(sqlite3.connect(world.folder / "state.sqlite")) as db, db:
        db.execute("DELETE FROM trusted")
    sent = len(world.net.seen)
    device = world.start()
    world.drive(device, until=first.accept_until)
    assert len(world.net.seen) == sent
    world.conclude()
    world.play(device)
    assert world.distinct(2) == BUDGET
    told = [sentence for _, reason, sentence in device.state.abstentions(world.of.digest) if reason == "DISTRUST"]
    assert told == ["the round that had begun was never held to the experiment's log"]


def test_repro_an_experiment_that_no_memory_holds_is_not_joined(tmp_path: Path) -> None:
    # It would be made whenever the device starts, which then never starts again, for no experiment.
    large = Experiment(n_bins=2**24, labels=tuple(f"label {i}" for i in range(60)), rule=Pegasos(), budget=BUDGET)
    with pytest.raises(BadInputError, match="larger than a device can hold"):
        TrustPolicy(without_log=True).check(document(experiment=large))
