"""Every lie that can be seen from outside is found, told in the right words, and proved where it was signed."""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from secvm.auditor.audit import audit_files
from secvm.auditor.files import GivenFiles
from secvm.auditor.findings import MOST_FAULTS
from secvm.auditor.report import Report
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
from secvm.protocol.documents.manifest import LastRound, RelayCount, last_round, read_relay_count
from secvm.protocol.evidence.plain import Kind, examine
from secvm.protocol.log.checkpoints import SignedCheckpoint
from secvm.protocol.log.entries import experiment_entry, manifest_entry
from secvm_lab.rigs.histories.public_history import PublicHistory
from secvm_lab.rigs.histories.random_experiments import draw_key
from secvm_lab.rigs.histories.witnessed_log import WitnessedLog
from tests.unit.auditor.histories import audited, history, listing, rewritten, sentences, told


@dataclass(frozen=True)
class Shown:
    """What an auditor is shown, where it is not a history's own files at its own time."""

    of: PublicHistory
    files: Mapping[str, bytes] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def audited(self) -> Report:
        return audited(self.of, self.files, **self.options)


@dataclass(frozen=True)
class Lie:
    tell: Callable[[], PublicHistory | Shown]
    #: What is found, what is said of it, and what the evidence shows.
    found: list[tuple[str, int | None]]
    said: str
    proof: set[Kind]


LIES: list[Lie] = []
Tell = Callable[[], PublicHistory | Shown]


def lie(
    *found: tuple[str, int | None], said: str = "", proof: Kind | None = None, also: Kind | None = None
) -> Callable[[Tell], Tell]:
    def note(tell: Tell) -> Tell:
        LIES.append(Lie(tell, list(found), said, {proof, also} - {None}))  # type: ignore[arg-type]  # no None is left
        return tell

    return note


def changed(made: PublicHistory, files: Mapping[str, bytes]) -> Shown:
    """A history's files, some of them others, by their place in the experiment."""
    return Shown(made, {**made.files, **{f"{made.place}/{name}": data for name, data in files.items()}})


def without(made: PublicHistory, part: str, **options: Any) -> Shown:
    return Shown(made, {path: data for path, data in made.files.items() if part not in path}, options)


def concluded(rounds: int = 0, **changes: Any) -> tuple[PublicHistory, LastRound]:
    """A history whose last round has ended, and how; the next is not announced."""
    made = history(rounds=rounds, **changes)
    return made, made.conclude(made.draw_tally())


# ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class TooFar(PublicHistory):
    """Takes the first round's step twice."""

    def step(self, state: State, tally: Tally) -> State:
        next_state = super().step(state, tally)
        return super().step(next_state, tally) if len(self.manifests) == 1 else next_state


@lie(("step", 1), said="does not follow: what was signed is another state", proof=Kind.WRONG_STEP)
def step_taken_twice() -> PublicHistory:
    made = TooFar.drawn(random.Random(3))
    made.play(3, abandoned=0)
    made.end()
    return made


@lie(("step", 2), ("blobs", 2), said="evaluation weights that are not the state's", proof=Kind.WRONG_STEP)
def weights_that_are_not_of_the_state() -> PublicHistory:
    made, _ = concluded(1)
    made.announce(evaluation_weights=digest_of(b"other weights"))
    return made


@lie(("step", 1), ("blobs", 1), said="the first model is not zero", proof=Kind.WRONG_STEP)
def first_model_that_is_not_zero() -> PublicHistory:
    made = PublicHistory.drawn(random.Random(5))
    made.announce(training_weights=digest_of(b"something"))
    return made


@lie(
    *(("step", 1), ("step", 1), ("blobs", 1)),
    said="an abandoned round changed the state",
    proof=Kind.BAD_DOCUMENT,
)
def abandoned_round_that_changed_the_state() -> PublicHistory:
    made = history(rounds=0)
    made.conclude(None)
    made.announce(state=digest_of(b"another"))
    return made


@lie(("counts", 1), proof=Kind.WRONG_COUNTS)
def counts_beside_another_tally() -> PublicHistory:
    made, last = concluded()
    made.announce(last=replace(last, participants=tuple(count + 1 for count in last.participants)))
    return made


@lie(
    *(("floor", 1), ("relay_count", 1), ("plausible", 1), ("step", 1)),
    said="below the floor",
    proof=Kind.BAD_DOCUMENT,
    also=Kind.WRONG_STEP,
)
def tally_below_the_floor() -> PublicHistory:
    made = history(rounds=0)
    few = aggregate.empty_tally(made.document.experiment)
    few.participants[0] = 1
    last = last_round(few)
    made.conclude(None)
    made.files[f"/v1/blob/{last.tally}"] = encode_tally(few, made.document.experiment)
    made.announce(last=last)
    return made


# ── relays' counts ───────────────────────────────────────────────────────────────────────────────────────────────────


def counted(last: LastRound, made: PublicHistory, **changes: Any) -> PublicHistory:
    """The next round announced with another count of the relay's."""
    count = replace(read_relay_count(last.relay_count or b"", made.document), **changes)
    made.announce(last=replace(last, relay_count=count.signed(made.parties.relays[0])))
    return made


@lie(("plausible", 1), said="the relay had 1 capsules")
def more_packages_than_the_relay_had() -> PublicHistory:
    made, last = concluded(relays=1)
    return counted(last, made, capsules=1)


@lie(("plausible", 1), said="count is of the slot that began at 7")
def count_of_another_slot() -> PublicHistory:
    made, last = concluded(relays=1)
    return counted(last, made, opens_at=7)


@lie(("relay_count", 1))
def count_that_no_relay_signed() -> PublicHistory:
    made, last = concluded(relays=1)
    count = read_relay_count(last.relay_count or b"", made.document)
    made.announce(last=replace(last, relay_count=count.signed(draw_key(random.Random(1)))))
    return made


# ── windows and keys ─────────────────────────────────────────────────────────────────────────────────────────────────


@lie(("window", 3), proof=Kind.BAD_DOCUMENT)
def shorter_window() -> PublicHistory:
    made, _ = concluded(1)
    manifest = made.make_manifest()
    made.announce(closes_at=manifest.closes_at - 1000, accept_until=manifest.accept_until - 1000)
    return made


def in_kolkata(hours: tuple[int, int]) -> PublicHistory:
    made = PublicHistory.drawn(random.Random(6))
    made = rewritten(made, windows=replace(made.document.windows, hours=(hours,), time_zone="Asia/Kolkata"))
    made.announce()
    return made


@lie(("hours", 1))
def window_outside_the_hours_of_the_day() -> PublicHistory:
    return in_kolkata((5, 6))


@lie(("hours", 2))
def window_at_a_time_that_no_calendar_has() -> PublicHistory:
    made, _ = concluded()
    late, windows = 2**52, made.document.windows
    closes_at = late + 1000 * windows.length_s
    made.announce(opens_at=late, closes_at=closes_at, accept_until=closes_at + 1000 * windows.grace_s)
    return made


@lie(("gateway_key", 4), said="that of round 1")
def gateway_key_of_an_earlier_round() -> PublicHistory:
    made, _ = concluded(2)
    made.announce(gateway_keys=made.manifests[0].gateway_keys)
    return made


@lie(("quota", 2), proof=Kind.BAD_DOCUMENT)
def quota_below_the_budget() -> PublicHistory:
    made, _ = concluded()
    made.announce(quota=1)
    return made


@lie(("window", 2), ("log", None))
def end_of_a_round_that_is_told_too_early() -> Shown:
    made = history(rounds=2)
    return Shown(made, options={"now": made.manifests[1].opens_at})


# ── the log ──────────────────────────────────────────────────────────────────────────────────────────────────────────


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


def stale(**options: Any) -> Shown:
    made = history()
    return Shown(made, options={"now": made.now + 1000 * (made.terms.freshness_s + 10), **options})


@lie(("log", None), said="stale")
def stale_checkpoint() -> Shown:
    return stale()


def said_by_one_witness(*, of_the_log: bool) -> Shown:
    made = history(witnesses=5)
    signed, key = made.log.checkpoint(), made.parties.witnesses[0].key
    note = signed.cosigned(
        *(signed.checkpoint.cosign(key, name="w0.example", time_s=made.now // 1000 - i) for i in range(5))
    )
    place = made.log_place if of_the_log else made.place
    return Shown(made, {**made.files, f"{place}/checkpoint": note.data})


@lie(("log", None), said="the checkpoint has no quorum: too few witnesses")
def one_witness_many_times() -> Shown:
    return said_by_one_witness(of_the_log=False)


@lie(("log", None), said="the log's own checkpoint has no quorum: too few witnesses")
def one_witness_many_times_of_the_log() -> Shown:
    return said_by_one_witness(of_the_log=True)


@lie(("logged", 4), ("logged", 4), said="not in the log")
def round_that_is_shown_and_not_logged() -> PublicHistory:
    made, _ = concluded(2)
    manifest = made.make_manifest()
    made.show(manifest, manifest.signed([made.parties.coordinator]))
    return made


@lie(("log", None), said="the log holds the manifest of round 3, and its document is not shown")
def entry_that_is_logged_and_not_shown() -> PublicHistory:
    made = history(rounds=1)
    made.log.append(manifest_entry(made.document.digest, 3, "ab" * 32))
    made.cosign()
    return made


@lie(
    ("logged", 2), ("logged", 2), said="is another than the one in the log", proof=Kind.NOT_IN_LOG, also=Kind.FORKED_LOG
)
def log_that_holds_another_document() -> PublicHistory:
    made = history(rounds=1)
    liar = made.branch()
    liar.log = with_another_end(made)
    liar.show_checkpoint(cosigned_by_all(made, liar.log))
    return liar


@lie(("log", None), said="the log was forked", proof=Kind.FORKED_LOG)
def fork_between_the_logs_checkpoint_and_the_experiments() -> Shown:
    made = history(rounds=1)
    return changed(made, {"checkpoint": cosigned_by_all(made, with_another_end(made)).data})


@lie(("logged", 2), said="the log was forked", proof=Kind.FORKED_LOG)
def fork_between_a_proof_and_the_checkpoint() -> Shown:
    made = history(rounds=1)
    other = made.log.branch(made.log.tree.size - 2)
    other.append(experiment_entry("cd" * 32))
    other.append(made.manifests[-1].log_entry)
    return changed(made, {"proof/2": other.proof(other.tree.size - 1, cosigned_by_all(made, other))})


@lie(("first", None), said="another tree", proof=Kind.FORKED_LOG)
def first_checkpoint_of_another_tree() -> Shown:
    made = history(rounds=1)
    index = made.log.index_of(experiment_entry(made.document.digest))
    other = made.log.branch(index + 1)
    # As large as the log is now, of which another root was signed.
    while other.tree.size < made.log.tree.size:
        other.append(experiment_entry(f"{other.tree.size:064x}"))
    return changed(made, {"first": other.proof(index, cosigned_by_all(made, other))})


def logged_again(digest: str | None, number: int | None) -> PublicHistory:
    made = history(rounds=2)
    of = made.document.digest
    made.log.append(experiment_entry(of) if number is None else manifest_entry(of, number, digest or ""))
    made.cosign()
    return made


@lie(("log", None), ("log", None), said="cannot both stand there", proof=Kind.TWO_ENTRIES)
def experiment_that_is_logged_twice() -> PublicHistory:
    return logged_again(None, None)


@lie(("logged", 3), ("log", None), said="cannot both stand there", proof=Kind.TWO_ENTRIES)
def round_that_is_logged_twice() -> PublicHistory:
    return logged_again("ab" * 32, 3)


@lie(("logged", 1), ("log", None), said="cannot both stand there", proof=Kind.TWO_ENTRIES)
def earlier_round_that_is_logged_again() -> PublicHistory:
    return logged_again("ab" * 32, 1)


@lie(("log", None), said="no device believes this log")
def line_that_is_no_entry() -> PublicHistory:
    made = history(rounds=1)
    made.log = WitnessedLog(made.log.origin, made.parties.log, [*made.log.entries, b"secvm-v3-audit\n"])
    made.cosign()
    return made


@lie(("log", None), ("log", None), ("first", None))
def log_that_is_not_served() -> Shown:
    made = history()
    return without(made, made.log_place)


@lie(("log", None), said="names another log than the coordinator's newest experiment")
def another_key_of_the_log() -> Shown:
    old = history(rounds=1, beacons=0)
    renewed = replace(old.parties, log=draw_key(random.Random(77)))
    fresh = tuple(replace(one, seen={}) for one in old.parties.witnesses)
    document = replace(old.document, title="Another", log=replace(old.terms, key=renewed.log.public))
    new = PublicHistory(old.dice, document, replace(renewed, witnesses=fresh), now=old.now)
    return Shown(new, {**old.files, **new.files, "/v1/experiments": listing(old, new)})


# ── the chain of documents ───────────────────────────────────────────────────────────────────────────────────────────


@lie(("chain", 2), proof=Kind.TWO_DOCUMENTS)
def two_manifests_for_one_round() -> Shown:
    made = history(rounds=1)
    other = replace(made.manifests[-1], quota=made.manifests[-1].quota + 1)
    return changed(made, {"manifest/latest": other.signed([made.parties.coordinator])})


@lie(("chain", None), said="manifest/latest is of round 1")
def latest_that_is_an_old_one() -> Shown:
    made = history(rounds=2)
    return changed(made, {"manifest/latest": made.files[f"{made.place}/manifest/1"]})


@lie(("chain", 2), ("log", None), said="under its address stands the manifest of round 1")
def manifest_under_the_address_of_another_round() -> Shown:
    made = history(rounds=2)
    return changed(made, {"manifest/2": made.files[f"{made.place}/manifest/1"]})


@lie(("chain", 2), ("log", None))
def withheld_manifest() -> Shown:
    made = history(rounds=3, seed=4)
    return without(made, f"{made.place}/manifest/2")


@lie(("ending", None), ("ending", None), ("ending", None), proof=Kind.TWO_DOCUMENTS, also=Kind.BAD_DOCUMENT)
def manifest_after_the_ending() -> Shown:
    made, _ = concluded(1)
    early = PublicHistory.end(made.branch(), Why.STOPPED)
    assert made.announce().round_number == 3
    return changed(made, {"ending": early.signed([made.parties.coordinator])})


# ── salt ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@lie(("salt", None), said="was known when it was logged")
def beacon_that_was_known_when_the_experiment_was_logged() -> PublicHistory:
    made = PublicHistory.drawn(random.Random(2), beacons=1)
    beacon = made.document.binning.beacons[0]  # type: ignore[union-attr]
    return rewritten(made, now=1000 * (beacon.round_number + 5))


@lie(("salt", None))
def record_that_is_not_served_though_the_beacon_has_it() -> Shown:
    return without(history(beacons=1), "/beacon/", beacons=LocalUnsafeBeacon())


@lie(("salt", None), ("salt", None), said="no test")
def development_beacon_in_an_experiment_that_is_no_test() -> PublicHistory:
    return rewritten(PublicHistory.drawn(random.Random(2), beacons=1), test=False)


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.tell.__name__)
def test_a_lie_is_found_told_in_the_right_words_and_proved_where_it_was_signed(lie: Lie) -> None:
    shown = lie.tell()
    report = (Shown(shown) if isinstance(shown, PublicHistory) else shown).audited()
    assert told(report) == lie.found, sentences(report)
    assert lie.said in sentences(report)
    assert {examine(data).kind for data in report.evidence} == lie.proof
    assert any(fault.provable for fault in report.faults) == bool(lie.proof)


# ── what else is told of them ────────────────────────────────────────────────────────────────────────────────────────


def test_a_wrong_step_is_told_once_and_the_rounds_after_it_are_judged_by_themselves() -> None:
    report = audited(step_taken_twice())  # type: ignore[arg-type]  # a history
    assert report.rounds[0].verdict.startswith("at fault: ")
    assert [one.verdict for one in report.rounds][1:] == [FOLLOWS, FOLLOWS]
    withheld = withheld_manifest().audited()  # type: ignore[union-attr]  # shown
    assert withheld.rounds[1].verdict.startswith("at fault")
    assert withheld.rounds[2].verdict in (FOLLOWS, "abandoned: state unchanged")


def no_fault(shown: PublicHistory | Shown, *, warned: str = "", unchecked: str = "") -> Report:
    """What is told of these and is nobody's fault."""
    report = (Shown(shown) if isinstance(shown, PublicHistory) else shown).audited()
    assert report.ok, sentences(report)
    assert any(warned in warning for warning in ["", *report.warnings])
    assert any(unchecked in sentence for sentence in report.not_checked)
    return report


def test_what_may_be_honest_is_told_and_no_fault() -> None:
    forged, _ = concluded()
    forged.end()
    no_fault(forged, unchecked="invent packages")
    crowded = history(rounds=0, relays=1)
    last = crowded.conclude(crowded.draw_tally(), clients=1)
    opens_at = read_relay_count(last.relay_count or b"", crowded.document).opens_at
    count = RelayCount(opens_at, 1, 10**6)
    crowded.announce(last=replace(last, relay_count=count.signed(crowded.parties.relays[0])))
    assert no_fault(crowded, warned="the relay had 1 clients").rounds[0].checks["plausible"] == "doubtful"
    # One o'clock in London is half past six in Kolkata.
    no_fault(in_kolkata((6, 7)))
    elsewhere = PublicHistory.drawn(random.Random(6))
    elsewhere = rewritten(elsewhere, windows=replace(elsewhere.document.windows, time_zone="Nowhere/Atlantis"))
    elsewhere.announce()
    assert no_fault(elsewhere, unchecked="time zone is not known").rounds[0].checks.get("hours") is None
    no_fault(stale(snapshot=True), warned="old, as in any copy")
    waiting = without(PublicHistory.drawn(random.Random(2), beacons=1), "/beacon/")
    assert no_fault(waiting).experiments[0].salt.startswith("not fixed yet")
    unlisted = history(rounds=1)
    shown = without(unlisted, "/v1/experiments", experiment=unlisted.document.digest)
    assert no_fault(shown, warned="not in the coordinator's list").steps_replayed == 1


def test_witnesses_who_saw_the_end_of_a_round_before_it_closed_are_told() -> None:
    made = history(rounds=1)
    signed = made.log.checkpoint()
    early = made.manifests[0].opens_at // 1000
    lines = [signed.checkpoint.cosign(one.key, name=one.name, time_s=early) for one in made.parties.witnesses]
    index = made.log.index_of(made.manifests[1].log_entry)
    shown = changed(made, {"proof/2": made.log.proof(index, signed.cosigned(*lines))})
    no_fault(replace(shown, options={"snapshot": True}), warned="before its window had closed")


def test_live_records_replace_what_is_not_served() -> None:
    shown = without(history(beacons=1), "/beacon/", beacons=LocalUnsafeBeacon())
    assert shown.audited().experiments[0].salt_value == audited(shown.of).experiments[0].salt_value


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


@pytest.mark.parametrize("lie", ["participants", "cells", "experiment", "nonsense"])
def test_status_that_tells_another_story_is_found(lie: str) -> None:
    made, last = concluded()
    made.announce()
    labels = made.document.experiment.labels
    told_round = {
        "number": 1,
        "participants": dict(zip(labels, last.participants, strict=True)),
        "cells": [list(row) for row in last.cells],
    }
    content = {"experiment": made.document.digest, "rounds": [told_round]}
    assert changed(made, {"status": json.dumps(content).encode()}).audited().ok
    if lie == "participants":
        told_round["participants"] = dict.fromkeys(labels, 99)
    elif lie == "cells":
        told_round["cells"] = [[99 for _ in labels] for _ in labels]
    elif lie == "experiment":
        content["experiment"] = "ab" * 32
    data = b"[" if lie == "nonsense" else json.dumps(content).encode()
    assert told(changed(made, {"status": data}).audited()) == [("status", None)]


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
    with pytest.raises(BadInputError, match="more than may be read here"):
        audited(history(), most_tally_bytes=8)


def test_repro_experiment_with_states_too_large_is_not_begun() -> None:
    # Averaged over 64 rounds, a state has 32 times as many numbers as the tally by which the size was judged.
    rule = Pegasos(averaging=64)
    made = history(experiment=Experiment(n_bins=20, labels=("a", "b"), rule=rule, budget=8))
    with pytest.raises(BadInputError, match="more than may be read here"):
        audited(made, most_tally_bytes=made.document.tally_bytes)


def listed(count: int, digest: str) -> GivenFiles:
    items = [{"digest": digest.format(i), "standing": "running", "title": ""} for i in range(count)]
    return GivenFiles({"/v1/experiments": json.dumps({"experiments": items}).encode()})


def test_list_of_many_experiments_that_are_not_served_is_left_soon() -> None:
    report = audit_files(listed(2 * MOST_FAULTS, "{:016x}" + 48 * "0"), now=0)
    assert len(report.faults) == MOST_FAULTS
    assert any("so much is wrong" in sentence for sentence in report.not_checked)


def test_list_of_very_many_experiments_is_not_followed() -> None:
    with pytest.raises(BadInputError, match="lists more than"):
        audit_files(listed(2**14 + 1, "{:064x}"), now=0)
