"""An auditor holds rounds with two relays to the coordinator's one log, in which other experiments stand as well."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from secvm.auditor.audit import audit_files
from secvm.auditor.files import GivenFiles
from secvm.auditor.report import Report
from secvm.protocol.evidence.plain import Kind, examine
from secvm.protocol.log.entries import Entry, experiment_entry, manifest_entry, opening_entry
from secvm_lab.rigs.histories.audited_history import AuditedHistory, draw_history
from secvm_lab.rigs.histories.relayed_rounds import START, relayed_document
from secvm_lab.rigs.histories.witnessed_log import KnownLog, known_log_terms
from tests.seeds import seed_for

LOGGED = relayed_document(log=known_log_terms())
PLAIN, DIGEST = "a" * 64, "c" * 64


def audit(made: AuditedHistory) -> Report:
    return audit_files(GivenFiles(made.files), now=made.now, capsules=False)


def other_log(made: AuditedHistory, lines: list[bytes]) -> None:
    log = KnownLog(lines)
    log.time_s = made.now // 1000
    log.show(made.files, [made.document.digest])


def played(rounds: int = 2) -> AuditedHistory:
    made = AuditedHistory("logged", LOGGED)
    for number in range(rounds):
        made.log.append(manifest_entry(PLAIN, number + 1, DIGEST) if number else experiment_entry(PLAIN))
        made.announce(clients=5)
        made.conclude()
    return made


def sentences(report: Report) -> str:
    return "\n".join(fault.sentence for fault in report.faults)


def test_an_honest_log_of_several_experiments_is_no_fault() -> None:
    made = played()
    made.end()
    report = audit(made)
    assert report.faults == []
    (of,) = report.experiments
    assert (of.log_size, of.committed_at) == (made.log.tree.size, START)
    assert all(one.checks["logged"] == "ok" for one in of.rounds)
    assert not any("log, witnesses" in sentence for sentence in of.findings.not_checked)


def test_histories_at_random_are_no_fault() -> None:
    for case in range(5):
        made = draw_history(random.Random(seed_for(f"logged {case}")), rounds=3, document=LOGGED)
        assert audit(made).faults == []


def _line(entry: Entry) -> bytes:
    return entry.to_bytes()


Lie = Callable[[AuditedHistory], list[bytes]]


def _another_opening(made: AuditedHistory) -> list[bytes]:
    entry = made.openings[0].log_entry
    return [_line(replace(entry, digest=DIGEST)) if line == _line(entry) else line for line in made.log.entries]


def _another_manifest(made: AuditedHistory) -> list[bytes]:
    entry = made.rounds[1].manifest.log_entry
    return [_line(replace(entry, digest=DIGEST)) if line == _line(entry) else line for line in made.log.entries]


def _manifest_twice(made: AuditedHistory) -> list[bytes]:
    return [*made.log.entries, _line(made.rounds[1].manifest.log_entry)]


def _opening_before_its_manifest(made: AuditedHistory) -> list[bytes]:
    *before, manifest, opening = made.log.entries
    return [*before, opening, manifest]


@pytest.mark.parametrize(
    ("lie", "kind", "sentence"),
    [
        (_another_opening, Kind.NOT_IN_LOG, "the opening of round 1 that is shown is another"),
        (_another_manifest, Kind.NOT_IN_LOG, "the manifest of round 2 that is shown is another"),
        (_manifest_twice, Kind.TWO_ENTRIES, "cannot both stand there"),
        (_opening_before_its_manifest, Kind.TWO_ENTRIES, "cannot both stand there"),
    ],
)
def test_a_log_that_holds_something_else_convicts(lie: Lie, kind: Kind, sentence: str) -> None:
    made = played()
    other_log(made, lie(made))
    report = audit(made)
    assert sentence in sentences(report)
    assert kind in {examine(data).kind for of in report.experiments for data in of.findings.evidence}


def _no_opening(made: AuditedHistory) -> list[bytes]:
    return [line for line in made.log.entries if line != _line(made.openings[1].log_entry)]


def _no_opening_before_the_next(made: AuditedHistory) -> list[bytes]:
    return [line for line in made.log.entries if line != _line(made.openings[0].log_entry)]


def _an_opening_too_many(made: AuditedHistory) -> list[bytes]:
    return [*made.log.entries, _line(opening_entry(made.document.digest, 3, DIGEST))]


@pytest.mark.parametrize(
    ("lie", "sentence"),
    [
        (_no_opening, "the opening of round 2 is shown, and not in the log"),
        (_no_opening_before_the_next, "the manifest of round 2, cannot stand where it does"),
        (_an_opening_too_many, "the log holds the opening of round 3, and its document is not shown"),
    ],
)
def test_what_is_shown_and_what_is_logged_are_the_same(lie: Lie, sentence: str) -> None:
    made = played()
    other_log(made, lie(made))
    assert sentence in sentences(audit(made))


def test_without_a_checkpoint_the_rounds_are_audited_all_the_same() -> None:
    made = played()
    del made.files[f"{made.place}/checkpoint"]
    report = audit(made)
    assert "its checkpoint is not served" in sentences(report)
    assert len(report.experiments[0].rounds) == 2


def test_what_was_logged_while_documents_were_read_is_no_fault() -> None:
    made = played(1)
    files = dict(made.files)
    made.announce(clients=5)

    class Growing(GivenFiles):
        """Shows a round more as soon as documents were read."""

        def get(self, path: str, *, most: int) -> bytes | None:
            found = super().get(path, most=most)
            if path.endswith("/ending"):
                files.update(made.files)
            return found

    report = audit_files(Growing(files), now=made.now, capsules=False)
    assert sentences(report) == ""
    assert len(report.experiments[0].rounds) == 1
