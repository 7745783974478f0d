"""Whatever an honest coordinator publishes, an audit finds nothing wrong with it, and says what it looked at."""

import random
from dataclasses import replace

import pytest

from secvm.auditor.audit import audit_files
from secvm.auditor.files import GivenFiles
from secvm.auditor.findings import ROUND_CHECKS
from secvm.auditor.replay import RUNNING
from secvm.auditor.report import NOT_SEEN
from secvm.auditor.salt_check import DEVELOPMENT, OWN, UNUSED, VOCABULARY
from secvm.auditor.steps import ABANDONED, FOLLOWS
from secvm.errors import BadInputError
from secvm.protocol.documents.ending import Why
from secvm.protocol.documents.experiment import VocabularyBins, publish
from secvm_lab.rigs.histories.public_history import PublicHistory
from secvm_lab.rigs.histories.random_experiments import Parties, draw_document
from tests.unit.auditor.histories import audited, history, listing, told


@pytest.mark.parametrize("seed", range(30))
def test_nothing_is_found_in_any_honest_history(seed: int) -> None:
    dice = random.Random(seed)
    made = PublicHistory.drawn(dice, relays=dice.choice([0, 1, 1, 2]))
    made.play(dice.randint(0, 5), abandoned=dice.random())
    kind = dice.choice(["announced", "ended", "stopped", "between"])
    if kind == "announced":
        made.announce()
    elif kind != "between":
        made.end(Why.FINISHED if kind == "ended" else Why.STOPPED)
    made.cosign()
    report = audited(made)
    assert told(report) == []
    assert report.ok
    assert not report.evidence


def test_every_step_is_replayed_and_every_round_has_its_verdict() -> None:
    made = history(rounds=0)
    for abandoned in (False, True, False):
        made.conclude(None if abandoned else made.draw_tally())
        made.announce()
    report = audited(made)
    assert [one.verdict for one in report.rounds] == [FOLLOWS, ABANDONED, FOLLOWS, RUNNING]
    assert report.steps_replayed == 2
    assert {one.number for one in report.rounds} == {1, 2, 3, 4}


def test_all_checks_of_a_round_pass_where_all_is_there() -> None:
    made = history(2, rounds=0, relays=1)
    made.conclude(made.draw_tally())
    made.announce()
    report = audited(made)
    assert report.to_content()["rounds"][0]["checks"] == dict.fromkeys(ROUND_CHECKS, "ok")


def test_what_cannot_be_seen_from_outside_is_always_listed_and_no_round_is_called_correct() -> None:
    report = audited(history(end=True))
    assert set(NOT_SEEN) <= set(report.not_checked)
    assert "correct" not in str(report.to_content()).lower()


def test_ending_of_an_experiment_without_a_round_is_replayed() -> None:
    made = PublicHistory.drawn(random.Random(4))
    made.end(Why.STOPPED)
    report = audited(made)
    assert report.ok
    assert report.experiments[0].standing == "stopped"
    assert list(report.never_run) == [made.document.digest]


def test_repro_proofs_that_were_made_again_after_a_restart_are_no_news() -> None:
    made = history(rounds=3, end=True)
    before, signed = audited(made), made.cosign()
    for manifest in made.manifests:
        proof = made.log.proof(made.log.index_of(manifest.log_entry), signed)
        made.files[f"{made.place}/proof/{manifest.round_number}"] = proof
    after = audited(made)
    assert (after.ok, after.warnings) == (True, before.warnings)


def test_experiment_that_is_logged_and_never_run_is_named() -> None:
    made = PublicHistory.drawn(random.Random(5))
    report = audited(made)
    assert report.ok
    assert report.to_content()["never_run"] == [
        {"experiment": made.document.digest, "why": "logged, and without a round so far"}
    ]
    assert any("without" in warning or "have no round" in warning for warning in report.warnings)


def test_salt_of_the_authors_own_is_told_so() -> None:
    report = audited(history(beacons=0))
    assert report.experiments[0].salt == OWN
    assert any("nobody can tell how often" in warning for warning in report.warnings)


def test_development_beacon_is_told_so_and_its_salt_is_given() -> None:
    report = audited(history(beacons=2))
    assert report.experiments[0].salt == DEVELOPMENT
    assert len(report.experiments[0].salt_value or "") == 64
    assert any("development beacon" in warning for warning in report.warnings)


def test_repro_an_experiment_that_was_stopped_because_it_was_logged_too_late_is_no_fault() -> None:
    made = PublicHistory.drawn(random.Random(1), witnesses=3, beacons=2)
    made.end(Why.STOPPED)
    # Nobody fetched its beacons' records, and they are long past.
    files = {path: data for path, data in made.files.items() if "/beacon/" not in path}
    report = audited(made, files, now=made.now + 10 * 3_600_000, snapshot=True)
    assert report.faults == []
    assert report.experiments[0].salt == UNUSED


def test_vocabulary_has_no_salt() -> None:
    dice = random.Random(8)
    parties = Parties.drawn(dice)
    document = draw_document(dice, parties)
    document = replace(document, binning=VocabularyBins(bins=document.experiment.n_bins, digest="ab" * 32))
    made = PublicHistory(dice, document, parties)
    made.play(1)
    report = audited(made)
    assert report.ok
    assert (report.experiments[0].salt, report.experiments[0].salt_value) == (VOCABULARY, None)


def test_experiment_without_a_log_is_replayed_and_that_is_told() -> None:
    dice = random.Random(9)
    parties = Parties.drawn(dice)
    logged = PublicHistory(dice, draw_document(dice, parties, beacons=0), parties)
    document = replace(logged.document, log=None)
    digest = document.digest
    listed = b'{"experiments":[{"digest":"%s","standing":"running","title":"%s"}]}'
    files = {
        f"/v1/experiment/{digest}": publish(document, keys=(parties.coordinator,)),
        "/v1/experiments": listed % (digest.encode(), document.title.encode()),
    }
    report = audited(logged, files)
    assert report.ok
    assert any("no log" in warning for warning in report.warnings)
    assert report.experiments[0].log_size is None


class Growing:
    """Public files of a coordinator that goes on while they are read."""

    def __init__(self, before: PublicHistory, after: PublicHistory, asked: int) -> None:
        self._before, self._after, self._left = before, after, asked
        self.asked = 0

    def get(self, path: str, *, most: int) -> bytes | None:
        self.asked += 1
        return GivenFiles(self._now.files).get(path, most=most)

    def now(self) -> int:
        return self._now.now

    @property
    def _now(self) -> PublicHistory:
        return self._before if self.asked <= self._left else self._after


@pytest.mark.parametrize("how", ["one round", "two rounds", "the end", "a last round and the end", "renewed"])
def test_coordinator_that_goes_on_while_it_is_audited_raises_no_alarm(how: str) -> None:
    before = history(7, rounds=1)
    after = before.branch()
    if how == "renewed":
        after.cosign(after.now + 1_800_000)
    else:
        after.conclude(after.draw_tally())
        for _ in range({"two rounds": 2, "the end": 0}.get(how, 1)):
            after.announce()
            after.conclude(after.draw_tally())
        if "the end" in how:
            after.end()
        else:
            after.announce()
    whole = Growing(before, after, 10**6)
    audit_files(whole, now=whole.now)
    for moment in range(whole.asked + 1):
        files = Growing(before, after, moment)
        assert told(audit_files(files, now=files.now)) == [], moment


def test_two_experiments_of_one_coordinator_are_audited_together_or_one_alone() -> None:
    first = history(3, rounds=1, beacons=0)
    document = replace(first.document, title="Another")
    second = PublicHistory(first.dice, document, first.parties, now=first.now, log=first.log)
    files = {**first.files, **second.files}
    one, other = first.document.digest, second.document.digest
    files["/v1/experiments"] = listing(first, second)
    report = audited(first, files)
    assert [one.experiment for one in report.experiments] == [one, other]
    assert told(report) == []
    assert report.to_content()["experiment"] is None
    assert list(report.never_run) == [other]
    alone = audited(first, files, experiment=one[:12])
    assert alone.to_content()["experiment"] == one
    # The other is still counted.
    assert list(alone.never_run) == [other]
    with pytest.raises(BadInputError, match="no experiment here"):
        audited(first, files, experiment="zz")


def test_what_is_worth_knowing_of_one_of_several_experiments_names_it() -> None:
    first = history(3, rounds=1, beacons=0)
    document = replace(first.document, binning=VocabularyBins(bins=first.document.experiment.n_bins, digest="ab" * 32))
    second = PublicHistory(first.dice, document, first.parties, now=first.now, log=first.log)
    files = {**first.files, **second.files, "/v1/experiments": listing(first, second)}
    of_both = audited(first, files, experiment=document.digest).warnings
    own = set(audited(first).warnings) - set(of_both)
    assert own
    named = {f"experiment {first.document.digest[:8]}…: {sentence}" for sentence in own}
    assert set(audited(first, files).warnings) == named | set(of_both)


@pytest.mark.parametrize("days", [1, 400])
def test_repro_an_experiment_that_ended_long_ago_is_no_fault(days: int) -> None:
    # Nobody renews cosignatures under an ending: an hour later every audit called it stale.
    made = history(rounds=2, end=True)
    report = audited(made, now=made.now + days * 86_400_000)
    assert told(report) == []
