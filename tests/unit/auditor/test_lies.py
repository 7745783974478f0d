"""Every lie that can be seen from outside is found, told in the right words, and proved where it was signed."""

import json
import random
from dataclasses import replace

import pytest

from secvm.auditor.audit import audit_files
from secvm.auditor.files import GivenFiles
from secvm.auditor.findings import MOST_FAULTS
from secvm.auditor.steps import FOLLOWS
from secvm.crypto.beacons.sources import LocalUnsafeBeacon
from secvm.errors import BadInputError
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos, State
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.protocol.canonical import digest_of
from secvm.protocol.documents.blobs import encode_tally
from secvm.protocol.documents.ending import Why
from secvm.protocol.documents.manifest import RelayCount, last_round, read_relay_count
from secvm.protocol.evidence.plain import Kind, examine
from secvm.protocol.log.checkpoints import SignedCheckpoint
from secvm.protocol.log.entries import experiment_entry, manifest_entry
from secvm_lab.rigs.histories.public_history import PublicHistory
from secvm_lab.rigs.histories.random_experiments import draw_key
from secvm_lab.rigs.histories.witnessed_log import WitnessedLog
from tests.unit.auditor.histories import audited, history, listing, rewritten, sentences, told


def kinds(evidence: list[bytes]) -> set[Kind]:
    """What each piece shows, by itself."""
    return {examine(data).kind for data in evidence}


# ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class TooFar(PublicHistory):
    """Takes the first round's step twice."""

    def step(self, state: State, tally: Tally) -> State:
        next_state = super().step(state, tally)
        return super().step(next_state, tally) if len(self.manifests) == 1 else next_state


def test_wrong_step_is_told_once_and_the_rounds_after_it_are_judged_by_themselves() -> None:
    made = TooFar.drawn(random.Random(3))
    made.play(3, abandoned=0)
    made.end()
    report = audited(made)
    assert told(report) == [("step", 1)]
    assert "does not follow: what was signed is another state" in sentences(report)
    assert [one.verdict for one in report.rounds][1:] == [FOLLOWS, FOLLOWS]
    assert report.rounds[0].verdict.startswith("at fault: ")
    assert kinds(report.evidence) == {Kind.WRONG_STEP}
    assert report.faults[0].provable


def test_weights_that_are_not_of_the_state_are_found() -> None:
    made = history(rounds=1)
    made.conclude(made.draw_tally())
    other = digest_of(b"other weights")
    made.announce(evaluation_weights=other)
    report = audited(made)
    assert ("step", 2) in told(report)
    assert "evaluation weights that are not the state's" in sentences(report)
    assert Kind.WRONG_STEP in kinds(report.evidence)


def test_first_model_that_is_not_zero_is_found() -> None:
    made = PublicHistory.drawn(random.Random(5))
    made.announce(training_weights=digest_of(b"something"))
    report = audited(made)
    assert ("step", 1) in told(report)
    assert "the first model is not zero" in sentences(report)
    assert kinds(report.evidence) == {Kind.WRONG_STEP}


def test_abandoned_round_that_changed_the_state_is_found() -> None:
    made = history(rounds=0)
    made.conclude(None)
    made.announce(state=digest_of(b"another"))
    report = audited(made)
    assert ("step", 1) in told(report)
    assert "an abandoned round changed the state" in sentences(report)
    assert kinds(report.evidence) <= {Kind.BAD_DOCUMENT, Kind.WRONG_STEP}
    assert report.evidence


def test_counts_beside_another_tally_are_found() -> None:
    made = history(rounds=0)
    last = made.conclude(made.draw_tally())
    more = tuple(count + 1 for count in last.participants)
    made.announce(last=replace(last, participants=more))
    report = audited(made)
    assert ("counts", 1) in told(report)
    assert kinds(report.evidence) == {Kind.WRONG_COUNTS}


def test_tally_below_the_floor_is_found() -> None:
    made = history(rounds=0)
    few = aggregate.empty_tally(made.document.experiment)
    few.participants[0] = 1
    last = last_round(few)
    made.conclude(None)
    blob = encode_tally(few, made.document.experiment)
    made.files[f"/v1/blob/{last.tally}"] = blob
    made.announce(last=last)
    report = audited(made)
    assert ("floor", 1) in told(report)
    assert "below the floor" in sentences(report)
    assert Kind.BAD_DOCUMENT in kinds(report.evidence)


def test_forged_tally_within_the_budget_is_not_found_and_the_report_says_that_nobody_can() -> None:
    made = history(rounds=0)
    made.conclude(made.draw_tally())
    made.end()
    report = audited(made)
    assert report.ok
    assert any("invent packages" in sentence for sentence in report.not_checked)


# ── relays' counts ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"capsules": 1}, "the relay had 1 capsules"),
        ({"opens_at": 7}, "count is of the slot that began at 7"),
    ],
)
def test_tally_that_does_not_fit_the_relays_count_is_found(change: dict[str, int], said: str) -> None:
    made = history(rounds=0, relays=1)
    last = made.conclude(made.draw_tally())
    assert last.relay_count is not None
    count = replace(read_relay_count(last.relay_count, made.document), **change)
    made.announce(last=replace(last, relay_count=count.signed(made.parties.relays[0])))
    report = audited(made)
    assert ("plausible", 1) in told(report)
    assert said in sentences(report)


def test_more_people_than_clients_are_doubted_and_no_fault_of_the_coordinators() -> None:
    made = history(rounds=0, relays=1)
    made.conclude(made.draw_tally(), clients=1)
    last = made._last
    assert last is not None
    count = RelayCount(read_relay_count(last.relay_count or b"", made.document).opens_at, 1, 10**6)
    made.announce(last=replace(last, relay_count=count.signed(made.parties.relays[0])))
    report = audited(made)
    assert report.ok
    assert any("the relay had 1 clients" in warning for warning in report.warnings)
    assert report.rounds[0].checks["plausible"] == "doubtful"


def test_relays_count_that_no_relay_signed_is_found() -> None:
    made = history(rounds=0, relays=1)
    last = made.conclude(made.draw_tally())
    assert last.relay_count is not None
    count = read_relay_count(last.relay_count, made.document)
    made.announce(last=replace(last, relay_count=count.signed(draw_key(random.Random(1)))))
    assert ("relay_count", 1) in told(audited(made))


# ── windows and keys ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_shorter_window_is_found_and_proved() -> None:
    made = history(rounds=1)
    made.conclude(made.draw_tally())
    manifest = made.make_manifest()
    made.announce(closes_at=manifest.closes_at - 1000, accept_until=manifest.accept_until - 1000)
    report = audited(made)
    assert ("window", 3) in told(report)
    assert kinds(report.evidence) == {Kind.BAD_DOCUMENT}


def test_window_outside_the_hours_of_the_day_is_found() -> None:
    made = PublicHistory.drawn(random.Random(6))
    windows = replace(made.document.windows, hours=((5, 6),), time_zone="Asia/Kolkata")
    made = rewritten(made, windows=windows)
    made.announce()
    assert ("hours", 1) in told(audited(made))
    # One o'clock in London is half past six in Kolkata.
    windows = replace(windows, hours=((6, 7),))
    made = rewritten(made, windows=windows)
    made.announce()
    assert told(audited(made)) == []


def test_time_zone_that_this_machine_does_not_know_is_told_and_no_fault() -> None:
    made = PublicHistory.drawn(random.Random(6))
    windows = replace(made.document.windows, time_zone="Nowhere/Atlantis")
    made = rewritten(made, windows=windows)
    made.announce()
    report = audited(made)
    assert report.ok
    assert report.rounds[0].checks.get("hours") is None
    assert any("time zone is not known" in sentence for sentence in report.not_checked)


def test_gateway_key_of_an_earlier_round_is_found() -> None:
    made = history(rounds=2)
    made.conclude(made.draw_tally())
    made.announce(gateway_keys=made.manifests[0].gateway_keys)
    report = audited(made)
    assert told(report) == [("gateway_key", 4)]
    assert "that of round 1" in sentences(report)


def test_quota_below_the_budget_is_found() -> None:
    made = history(rounds=0)
    made.conclude(made.draw_tally())
    made.announce(quota=1)
    assert ("quota", 2) in told(audited(made))


def test_end_of_a_round_that_is_told_too_early_is_found() -> None:
    made = history(rounds=2)
    early = made.manifests[1].opens_at
    assert ("window", 2) in told(audited(made, now=early))


# ── the log ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_stale_checkpoint_is_found_and_in_a_copy_only_told() -> None:
    made = history()
    later = made.now + 1000 * (made.terms.freshness_s + 10)
    report = audited(made, now=later)
    assert ("log", None) in told(report)
    assert "stale" in sentences(report)
    copy = audited(made, now=later, snapshot=True)
    assert copy.ok
    assert any("old, as in any copy" in warning for warning in copy.warnings)


def test_checkpoint_of_too_few_witnesses_is_found() -> None:
    made = history(witnesses=5)
    signed = made.log.checkpoint()
    lines = [made.parties.witnesses[0].key for _ in range(5)]
    note = signed.cosigned(
        *(signed.checkpoint.cosign(key, name="w0.example", time_s=made.now // 1000 - i) for i, key in enumerate(lines))
    )
    for path in (f"{made.place}/checkpoint", f"{made.log_place}/checkpoint"):
        report = audited(made, {**made.files, path: note.data})
        assert told(report) == [("log", None)]
        assert "no quorum: too few witnesses" in sentences(report)


def test_round_that_is_shown_and_not_logged_is_found() -> None:
    made = history(rounds=2)
    made.conclude(made.draw_tally())
    manifest = made.make_manifest()
    made.show(manifest, manifest.signed([made.parties.coordinator]))
    report = audited(made)
    assert ("logged", 4) in told(report)
    assert "not in the log" in sentences(report)


def test_entry_that_is_logged_and_not_shown_is_found() -> None:
    made = history(rounds=1)
    made.log.append(manifest_entry(made.document.digest, 3, "ab" * 32))
    made.cosign()
    report = audited(made)
    assert told(report) == [("log", None)]
    assert "the log holds the manifest of round 3, and its document is not shown" in sentences(report)


def cosigned_by_all(made: PublicHistory, log: WitnessedLog) -> SignedCheckpoint:
    """The log as it is, with every witness's line, whatever they have seen."""
    signed = log.checkpoint()
    return signed.cosigned(
        *(signed.checkpoint.cosign(one.key, name=one.name, time_s=made.now // 1000) for one in made.parties.witnesses)
    )


def with_another_end(made: PublicHistory) -> WitnessedLog:
    """The log with another manifest in the place of the newest."""
    log = made.log.branch(made.log.index_of(made.manifests[-1].log_entry))
    log.append(manifest_entry(made.document.digest, made.manifests[-1].round_number, "cd" * 32))
    return log


def test_log_that_holds_another_document_is_found_and_proved() -> None:
    made = history(rounds=1)
    liar = made.branch()
    liar.log = with_another_end(made)
    liar.show_checkpoint(cosigned_by_all(made, liar.log))
    report = audited(liar)
    assert ("logged", 2) in told(report)
    assert "is another than the one in the log" in sentences(report)
    assert Kind.NOT_IN_LOG in kinds(report.evidence)


def test_fork_between_the_logs_checkpoint_and_the_experiments_is_found_and_proved() -> None:
    made = history(rounds=1)
    note = cosigned_by_all(made, with_another_end(made))
    report = audited(made, {**made.files, f"{made.place}/checkpoint": note.data})
    assert "the log was forked" in sentences(report)
    assert kinds(report.evidence) == {Kind.FORKED_LOG}


def test_fork_between_a_proof_and_the_checkpoint_is_found_and_proved() -> None:
    made = history(rounds=1)
    other = made.log.branch(made.log.tree.size - 2)
    other.append(experiment_entry("cd" * 32))
    other.append(made.manifests[-1].log_entry)
    proof = other.proof(other.tree.size - 1, cosigned_by_all(made, other))
    report = audited(made, {**made.files, f"{made.place}/proof/2": proof})
    assert told(report) == [("logged", 2)]
    assert "the log was forked" in sentences(report)
    assert kinds(report.evidence) == {Kind.FORKED_LOG}


def test_two_manifests_for_one_round_are_found_and_proved() -> None:
    made = history(rounds=1)
    other = replace(made.manifests[-1], quota=made.manifests[-1].quota + 1)
    files = {**made.files, f"{made.place}/manifest/latest": other.signed([made.parties.coordinator])}
    report = audited(made, files)
    assert told(report) == [("chain", 2)]
    assert kinds(report.evidence) == {Kind.TWO_DOCUMENTS}


def test_latest_that_is_an_old_one_is_found() -> None:
    made = history(rounds=2)
    files = {**made.files, f"{made.place}/manifest/latest": made.files[f"{made.place}/manifest/1"]}
    assert "manifest/latest is of round 1" in sentences(audited(made, files))


def test_manifest_under_the_address_of_another_round_is_found() -> None:
    made = history(rounds=2)
    files = {**made.files, f"{made.place}/manifest/2": made.files[f"{made.place}/manifest/1"]}
    report = audited(made, files)
    assert told(report)[0] == ("chain", 2)
    assert "under its address stands the manifest of round 1" in sentences(report)


def test_withheld_manifest_is_told_and_the_others_are_still_judged() -> None:
    made = history(rounds=3, seed=4)
    files = {path: data for path, data in made.files.items() if path != f"{made.place}/manifest/2"}
    report = audited(made, files)
    assert told(report)[0] == ("chain", 2)
    assert report.rounds[1].verdict.startswith("at fault")
    assert report.rounds[2].verdict in (FOLLOWS, "abandoned: state unchanged")


def test_manifest_after_the_ending_is_found_and_proved() -> None:
    made = history(rounds=1)
    made.conclude(made.draw_tally())
    early = PublicHistory.end(made.branch(), Why.STOPPED)
    later = made.announce()
    files = {**made.files, f"{made.place}/ending": early.signed([made.parties.coordinator])}
    report = audited(made, files)
    assert later.round_number == 3
    assert ("ending", None) in told(report)
    assert Kind.TWO_DOCUMENTS in kinds(report.evidence)


def test_first_checkpoint_of_another_tree_is_found() -> None:
    made = history(rounds=1)
    index = made.log.index_of(experiment_entry(made.document.digest))
    other = made.log.branch(index + 1)
    # As large as the log is now, of which another root was signed.
    while other.tree.size < made.log.tree.size:
        other.append(experiment_entry(f"{other.tree.size:064x}"))
    files = {**made.files, f"{made.place}/first": other.proof(index, cosigned_by_all(made, other))}
    report = audited(made, files)
    assert told(report) == [("first", None)]
    assert "another tree" in sentences(report)
    # Both are signed by the log: a fork.
    assert kinds(report.evidence) == {Kind.FORKED_LOG}


def test_witnesses_who_saw_the_end_of_a_round_before_it_closed_are_told() -> None:
    made = history(rounds=1)
    signed = made.log.checkpoint()
    early = made.manifests[0].opens_at // 1000
    lines = [signed.checkpoint.cosign(one.key, name=one.name, time_s=early) for one in made.parties.witnesses]
    index = made.log.index_of(made.manifests[1].log_entry)
    files = {**made.files, f"{made.place}/proof/2": made.log.proof(index, signed.cosigned(*lines))}
    report = audited(made, files, snapshot=True)
    assert report.ok
    assert any("before its window had closed" in warning for warning in report.warnings)


def test_window_at_a_time_that_no_calendar_has_is_found() -> None:
    made = history(rounds=0)
    made.conclude(made.draw_tally())
    late, windows = 2**52, made.document.windows
    closes_at = late + 1000 * windows.length_s
    made.announce(opens_at=late, closes_at=closes_at, accept_until=closes_at + 1000 * windows.grace_s)
    assert ("hours", 2) in told(audited(made))


# ── salt ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_beacon_that_was_known_when_the_experiment_was_logged_is_found() -> None:
    made = PublicHistory.drawn(random.Random(2), beacons=1)
    beacon = made.document.binning.beacons[0]  # type: ignore[union-attr]
    late = rewritten(made, now=1000 * (beacon.round_number + 5))
    assert told(audited(late)) == [("salt", None)]
    assert "was known when it was logged" in sentences(audited(late))


def test_beacon_that_is_still_to_come_is_no_fault_before_the_first_round() -> None:
    made = PublicHistory.drawn(random.Random(2), beacons=1)
    files = {path: data for path, data in made.files.items() if "/beacon/" not in path}
    report = audited(made, files)
    assert report.ok
    assert report.experiments[0].salt.startswith("not fixed yet")


def test_live_records_replace_what_is_not_served_and_that_is_a_fault_all_the_same() -> None:
    made = history(beacons=1)
    files = {path: data for path, data in made.files.items() if "/beacon/" not in path}
    report = audited(made, files, beacons=LocalUnsafeBeacon())
    assert told(report) == [("salt", None)]
    assert report.experiments[0].salt_value == audited(made).experiments[0].salt_value


def test_development_beacon_in_an_experiment_that_is_no_test_is_found() -> None:
    made = PublicHistory.drawn(random.Random(2), beacons=1)
    real = rewritten(made, test=False)
    assert "no test" in sentences(audited(real))


# ── the log as a whole ───────────────────────────────────────────────────────────────────────────────────────────────


def test_experiment_that_is_shown_and_not_in_the_log_is_found() -> None:
    made = history()
    other = experiment_entry("ab" * 32)
    log = WitnessedLog(made.log.origin, made.parties.log, [other.to_bytes()])
    files = {path: data for path, data in made.files.items() if not path.startswith(made.log_place)}
    signed = cosigned_by_all(made, log)
    files |= {f"{made.log_place}/{path}": data for path, data in log.files(signed).items()}
    files[f"{made.place}/checkpoint"] = signed.data
    report = audited(made, files)
    assert ("log", None) in told(report)
    assert "the experiment is shown, and not in the log" in sentences(report)
    assert dict(report.never_run) == {other.experiment: "logged, and not listed"}


def test_log_that_is_not_served_is_found() -> None:
    made = history()
    files = {path: data for path, data in made.files.items() if not path.startswith(made.log_place)}
    assert {check for check, _ in told(audited(made, files))} == {"log", "first"}


@pytest.mark.parametrize("again", ["the experiment", "a round", "an earlier round"])
def test_entry_that_cannot_stand_there_is_found_and_proved(again: str) -> None:
    made = history(rounds=2)
    digest = made.document.digest
    made.log.append(
        {
            "the experiment": experiment_entry(digest),
            "a round": manifest_entry(digest, 3, "ab" * 32),
            "an earlier round": manifest_entry(digest, 1, "ab" * 32),
        }[again]
    )
    made.cosign()
    report = audited(made)
    assert {check for check, _ in told(report)} <= {"log", "logged"}
    assert "cannot both stand there" in sentences(report)
    assert kinds(report.evidence) == {Kind.TWO_ENTRIES}


def test_line_that_is_no_entry_is_found() -> None:
    made = history(rounds=1)
    made.log = WitnessedLog(made.log.origin, made.parties.log, [*made.log.entries, b"secvm-v3-audit\n"])
    made.cosign()
    assert told(audited(made)) == [("log", None)]
    assert "no device believes this log" in sentences(audited(made))


def test_experiment_that_is_not_listed_is_audited_by_its_digest_and_that_is_told() -> None:
    made = history(rounds=1)
    files = {path: data for path, data in made.files.items() if path != "/v1/experiments"}
    report = audited(made, files, experiment=made.document.digest)
    assert report.ok
    assert report.steps_replayed == 1
    assert any("not in the coordinator's list" in warning for warning in report.warnings)


def test_experiment_under_another_key_of_the_log_is_found() -> None:
    old = history(rounds=1, beacons=0)
    renewed = replace(old.parties, log=draw_key(random.Random(77)))
    terms = replace(old.terms, key=renewed.log.public)
    fresh = tuple(replace(one, seen={}) for one in old.parties.witnesses)
    document = replace(old.document, title="Another", log=terms)
    new = PublicHistory(old.dice, document, replace(renewed, witnesses=fresh), now=old.now)
    files = {**old.files, **new.files, "/v1/experiments": listing(old, new)}
    report = audited(new, files)
    assert told(report) == [("log", None)]
    assert "names another log than the coordinator's newest experiment" in sentences(report)


# ── what is told to people ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("lie", ["participants", "cells", "experiment", "nonsense"])
def test_status_that_tells_another_story_is_found(lie: str) -> None:
    made = history(rounds=0)
    last = made.conclude(made.draw_tally())
    made.announce()
    labels = made.document.experiment.labels
    told_round = {
        "number": 1,
        "participants": dict(zip(labels, last.participants, strict=True)),
        "cells": [list(row) for row in last.cells],
    }
    content = {"experiment": made.document.digest, "rounds": [told_round]}
    path = f"{made.place}/status"
    assert audited(made, {**made.files, path: json.dumps(content).encode()}).ok
    if lie == "participants":
        told_round["participants"] = dict.fromkeys(labels, 99)
    elif lie == "cells":
        told_round["cells"] = [[99 for _ in labels] for _ in labels]
    elif lie == "experiment":
        content["experiment"] = "ab" * 32
    data = b"[" if lie == "nonsense" else json.dumps(content).encode()
    assert told(audited(made, {**made.files, path: data})) == [("status", None)]


# ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class Echo:
    """Whatever is asked for, garbage is served."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._files = files
        self.asked = 0

    def get(self, path: str, *, most: int) -> bytes | None:
        self.asked += 1
        return self._files.get(path, b"garbage"[:most])


def test_server_that_serves_garbage_for_ever_is_left_soon() -> None:
    made = PublicHistory.drawn(random.Random(1))
    endless = rewritten(made, rounds=2**20 - 1)
    files = Echo({path: data for path, data in endless.files.items() if "manifest" not in path})
    report = audit_files(files, now=endless.now)
    assert len(report.experiments[0].findings.faults) <= MOST_FAULTS
    assert files.asked < 3 * MOST_FAULTS
    assert any("so much is wrong" in sentence for sentence in report.not_checked)


def test_experiment_with_tallies_too_large_is_not_begun() -> None:
    made = history()
    with pytest.raises(BadInputError, match="more than may be read here"):
        audited(made, most_tally_bytes=8)


def test_repro_experiment_with_states_too_large_is_not_begun() -> None:
    # Averaged over 64 rounds, a state has 32 times as many numbers as the tally by which the size was judged.
    rule = Pegasos(averaging=64)
    made = history(experiment=Experiment(n_bins=20, labels=("a", "b"), rule=rule, budget=8))
    size = made.document.tally_bytes
    with pytest.raises(BadInputError, match="more than may be read here"):
        audited(made, most_tally_bytes=size)


def test_list_of_many_experiments_that_are_not_served_is_left_soon() -> None:
    listed = [{"digest": f"{i:016x}" + 48 * "0", "standing": "running", "title": ""} for i in range(2 * MOST_FAULTS)]
    files = {"/v1/experiments": json.dumps({"experiments": listed}).encode()}
    report = audit_files(GivenFiles(files), now=0)
    assert len(report.faults) == MOST_FAULTS
    assert any("so much is wrong" in sentence for sentence in report.not_checked)


def test_list_of_very_many_experiments_is_not_followed() -> None:
    listed = [{"digest": f"{i:064x}", "standing": "running", "title": ""} for i in range(2**14 + 1)]
    files = {"/v1/experiments": json.dumps({"experiments": listed}).encode()}
    with pytest.raises(BadInputError, match="lists more than"):
        audit_files(GivenFiles(files), now=0)
