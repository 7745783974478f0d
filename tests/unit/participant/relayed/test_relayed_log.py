"""A device holds rounds with two relays to its coordinator's log, in which other experiments stand as well."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from secvm.participant.device import Device
from secvm.participant.person import decisions
from secvm.participant.person.inspection import inspect
from secvm.participant.trust.trust_policy import TrustPolicy
from secvm.protocol.evidence.plain import Kind, examine
from secvm.protocol.evidence.relayed import Finding
from secvm.protocol.log.entries import Entry, ending_entry, experiment_entry, manifest_entry, opening_entry
from secvm.protocol.plain.session_memory import Phase
from secvm.protocol.relays.manifest import RelayedManifest
from secvm_lab.rigs.histories.relayed_rounds import relayed_document
from secvm_lab.rigs.histories.witnessed_log import KnownLog, known_log_terms
from tests.there import there
from tests.unit.participant.relayed.relayed_world import RelayedWorld, trusting
from tests.unit.participant.world import ANYTHING

PLAIN, RELAYED, DIGEST = "a" * 64, "b" * 64, "c" * 64
Lie = Callable[[RelayedWorld, RelayedManifest], None]


def logged_world(folder: Path) -> RelayedWorld:
    return RelayedWorld(folder, relayed_document(log=known_log_terms()))


#: In which the tests here live.
WORLD = logged_world


def enter_others(world: RelayedWorld, *entries: Entry) -> None:
    for entry in entries:
        world.history.log.append(entry)
    world.history.log.show(world.history.files, [world.of.digest])


def finding(world: RelayedWorld) -> Finding[Kind]:
    """What the one piece of evidence shows that the device has, which takes no part any more."""
    assert world.member.distrust is not None
    (file,) = world.state.evidence(world.of.digest)
    return examine(file)


def test_rounds_are_joined_whatever_other_experiments_stand_in_the_log(world: RelayedWorld) -> None:
    enter_others(world, experiment_entry(PLAIN), experiment_entry(RELAYED), manifest_entry(PLAIN, 1, DIGEST))
    device = world.joined()
    world.play_round(device)
    # What is no rule of this experiment is one of others: rounds without openings, and endings.
    enter_others(world, manifest_entry(RELAYED, 1, DIGEST), manifest_entry(PLAIN, 2, DIGEST))
    world.play_round(device)
    enter_others(world, opening_entry(RELAYED, 1, DIGEST), ending_entry(PLAIN, DIGEST))
    world.play_round(device)
    assert [request.label for request in world.net.requests] == [one.label for one in world.history.rounds]
    assert world.member.distrust is None
    seen = there(world.state.relayed.log(world.of.digest))
    assert seen.entry == world.history.rounds[-1].opening.log_entry
    assert seen.frontier.root == world.history.log.tree.root(seen.frontier.size)


def test_fresh_looks_are_taken_in_the_window_and_lines_of_others_are_passed_over(
    world: RelayedWorld, device: Device
) -> None:
    manifest = world.announce_relayed()
    world.drive(device, until=manifest.instants.opens_at)
    enter_others(world, experiment_entry(PLAIN), manifest_entry(PLAIN, 1, DIGEST))
    world.drive(device, until=manifest.instants.mix_by)
    world.finish(device, manifest)
    window = world.history.rounds[0].manifest.window
    asked = [at for path, at in world.net.fetches if path.endswith("/checkpoint")]
    looks = [at for at in asked if window.opens_at <= at < window.closes_at]
    assert len(looks) == TrustPolicy().refetches
    assert world.member.distrust is None
    assert world.state.trust.checks(world.of.digest)["refetched"] == len(looks)
    assert len(world.net.requests) == 1


def test_a_newcomer_reads_the_whole_log(world: RelayedWorld) -> None:
    enter_others(world, experiment_entry(PLAIN))
    for _ in range(2):
        manifest = world.announce_relayed()
        world.history.conclude()
        world.clock.advance(max(0, manifest.instants.open_by - world.clock.now()))
    world.live()
    assert [request.label for request in world.net.requests] == [world.history.rounds[2].label]
    assert world.member.distrust is None


def test_whoever_comes_after_the_end_hears_it(world: RelayedWorld) -> None:
    manifest = world.announce_relayed()
    world.history.conclude()
    world.clock.advance(manifest.instants.open_by - world.clock.now())
    world.history.end()
    device = world.joined()
    world.drive(device, until=world.clock.now() + 3_600_000)
    assert world.member.ended
    assert world.member.distrust is None
    assert not world.net.requests


def test_repro_a_round_whose_opening_is_logged_and_not_fetched_yet_is_believed(world: RelayedWorld) -> None:
    """Whoever was away finds the newest round ended, its opening in the log, and no manifest after it."""
    manifest = world.announce_relayed()
    world.history.conclude()
    world.clock.advance(manifest.instants.open_by - world.clock.now())
    device = world.joined()
    world.drive(device, until=world.clock.now() + 600_000)
    assert world.member._rounds.chain.opening is not None
    assert world.state.relayed.log(world.of.digest) is not None


def test_what_was_seen_survives_a_restart(world: RelayedWorld, device: Device) -> None:
    world.play_round(device)
    device.close()
    again = world.start()
    world.play_round(again)
    assert len(world.net.requests) == 2
    assert world.member.distrust is None
    tiles = [path for path, _ in world.net.fetches if "/tile/entries/" in path]
    assert len(tiles) == len(dict.fromkeys(tiles))


# ── lies ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _instead(entry: Entry) -> Entry:
    return replace(entry, digest=DIGEST)


def _another_manifest(world: RelayedWorld, manifest: RelayedManifest) -> None:
    _show(world, KnownLog([*world.history.log.entries[:-1], _instead(manifest.log_entry).to_bytes()]))


def _two_manifests(world: RelayedWorld, manifest: RelayedManifest) -> None:
    _show(world, KnownLog([*world.history.log.entries, manifest.log_entry.to_bytes()]))


def _before_the_experiment(world: RelayedWorld, _manifest: RelayedManifest) -> None:
    _show(world, KnownLog(world.history.log.entries[::-1]))


def _show(world: RelayedWorld, log: KnownLog) -> None:
    world.history.log = log
    log.show(world.history.files, [world.of.digest])


@pytest.mark.parametrize(
    ("lie", "kind"),
    [
        (_another_manifest, Kind.NOT_IN_LOG),
        (_two_manifests, Kind.TWO_ENTRIES),
        (_before_the_experiment, Kind.TWO_ENTRIES),
    ],
)
def test_a_log_that_holds_something_else_convicts_and_nothing_is_sent(
    world: RelayedWorld, device: Device, lie: Lie, kind: Kind
) -> None:
    manifest = world.announce_relayed()
    lie(world, manifest)
    world.drive(device, until=manifest.instants.mix_by)
    assert not world.net.requests
    assert finding(world).kind is kind


def test_an_opening_other_than_the_logged_one_convicts(world: RelayedWorld, device: Device) -> None:
    manifest = world.announce_relayed()
    world.drive(device, until=manifest.instants.mix_by)
    before = list(world.history.log.entries)
    played = world.history.conclude()
    _show(world, KnownLog([*before, _instead(played.opening.log_entry).to_bytes()]))
    world.drive(device, until=manifest.instants.open_by - 10_000)
    shown = finding(world)
    assert shown.kind is Kind.NOT_IN_LOG
    assert "another opening of round 1" in shown.sentence


def _not_logged(world: RelayedWorld, _manifest: RelayedManifest) -> None:
    _show(world, KnownLog(world.history.log.entries[:-1]))


def _too_few_witnesses(world: RelayedWorld, _manifest: RelayedManifest) -> None:
    world.history.log.show(world.history.files, [world.of.digest], witnesses=1)


def _other_lines(world: RelayedWorld, _manifest: RelayedManifest) -> None:
    lines = [experiment_entry(PLAIN).to_bytes() for _ in world.history.log.entries]
    note = f"/v1/experiment/{world.of.digest}/checkpoint"
    kept = world.history.files[note]
    _show(world, KnownLog(lines))
    world.history.files[note] = kept


def _an_opening_of_nothing(world: RelayedWorld, _manifest: RelayedManifest) -> None:
    enter_others(world, opening_entry(world.of.digest, 2, DIGEST))


@pytest.mark.parametrize("lie", [_not_logged, _too_few_witnesses, _other_lines, _an_opening_of_nothing])
def test_without_proof_nothing_is_believed_and_nobody_accused(world: RelayedWorld, device: Device, lie: Lie) -> None:
    manifest = world.announce_relayed()
    lie(world, manifest)
    world.drive(device, until=manifest.instants.mix_by)
    assert not world.net.requests
    assert world.member.distrust is None
    assert world.state.evidence(world.of.digest) == []
    assert world.member._rounds.chain.last is None


def test_a_fork_that_is_shown_in_the_window_convicts(world: RelayedWorld, device: Device) -> None:
    manifest = world.announce_relayed()
    world.drive(device, until=manifest.instants.opens_at)
    _show(world, KnownLog([*world.history.log.entries[:-1], experiment_entry(PLAIN).to_bytes()]))
    world.drive(device, until=manifest.instants.mix_by)
    assert finding(world).kind is Kind.FORKED_LOG


def test_an_own_line_in_the_window_stops_the_round(world: RelayedWorld, device: Device) -> None:
    manifest = world.announce_relayed()
    world.drive(device, until=manifest.instants.opens_at)
    enter_others(world, opening_entry(world.of.digest, 1, DIGEST))
    world.drive(device, until=manifest.instants.mix_by)
    assert "while the window is still open" in (world.member.distrust or "")
    assert world.state.evidence(world.of.digest) == []


def test_rounds_in_which_no_look_is_answered_end_it(world: RelayedWorld) -> None:
    most = TrustPolicy().most_unseen
    device = world.joined()
    for _ in range(most + 1):
        manifest = world.announce_relayed()
        world.drive(device, until=manifest.instants.opens_at)
        path = f"/v1/experiment/{world.of.digest}/checkpoint"
        note = world.history.files.pop(path)
        world.drive(device, until=manifest.instants.mix_by)
        world.history.files[path] = note
        world.finish(device, manifest)
    # Looks and the request have random moments: in the last round either may come first.
    assert len(world.net.requests) in (most - 1, most)
    assert "no fresh look" in (world.member.distrust or "")


# ── evidence stops a device for good ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("restarted", [False, True])
def test_repro_a_device_that_holds_evidence_sends_nothing_after_a_resume(
    world: RelayedWorld, device: Device, *, restarted: bool
) -> None:
    manifest = world.announce_relayed()
    honest = world.history.log
    _another_manifest(world, manifest)
    world.drive(device, until=manifest.instants.opens_at - 1)
    assert not decisions.resume(device.state, world.of.digest), "the person is told that it does not go on"
    if restarted:
        device.close()
        device = world.start(policy=trusting(world.of, without_log=False))
    device._look()
    # From now on the log is as it should be.
    _show(world, honest)
    world.drive(device, until=manifest.instants.mix_by)
    world.finish(device, manifest)
    world.play_round(device)
    assert not world.net.requests
    assert world.member.distrust is not None


def test_repro_killed_after_storing_why_it_does_not_send_the_round_that_was_sealed(
    world: RelayedWorld, device: Device
) -> None:
    manifest = world.announce_relayed()
    world.drive(device, until=manifest.instants.opens_at - 1)
    assert world.member.session.phase is Phase.SENDING
    world.member._distrust.convict(1, "the log was forked", b"evidence")
    device.close()
    again = world.start()
    world.drive(again, until=manifest.instants.mix_by)
    assert not world.net.requests
    assert world.member.distrust == "the log was forked"


def test_repro_evidence_that_comes_while_it_takes_no_part_is_kept(world: RelayedWorld, device: Device) -> None:
    world.member._distrust.put("two rounds were never opened")
    manifest = world.announce_relayed()
    _another_manifest(world, manifest)
    world.drive(device, until=manifest.instants.mix_by)
    assert finding(world).kind is Kind.NOT_IN_LOG


# ── what a person is shown ───────────────────────────────────────────────────────────────────────────────────────────


def test_repro_a_person_is_shown_the_state_of_the_log(world: RelayedWorld) -> None:
    world.live(2)
    trust = _trust(world)
    assert trust["checkpoint"]["size"] == world.member._rounds.log.trusted.seen_size > 0  # type: ignore[union-attr]
    told = " ".join(trust["told"])
    assert f"Lines of the log that your device has read: all {trust['checkpoint']['size']}" in told
    assert all(name in told for name in trust["witnesses"])
    assert "Looks at the log while a window was open" in told


def test_repro_evidence_against_the_log_is_not_called_a_relays_and_offers_no_way_on(
    world: RelayedWorld, device: Device
) -> None:
    manifest = world.announce_relayed()
    _another_manifest(world, manifest)
    world.drive(device, until=manifest.instants.mix_by)
    trust = _trust(world)
    told = " ".join(trust["told"])
    assert trust["convicted"]
    assert "evidence against the server, and sends nothing more" in told
    assert "a relay left" not in told
    assert "participant resume" not in told


def _trust(world: RelayedWorld) -> dict[str, Any]:
    found = inspect(world.state, now=world.clock.now(), consent=ANYTHING, policy=trusting(world.of))
    trust: dict[str, Any] = found[world.of.digest]["trust"]
    return trust
