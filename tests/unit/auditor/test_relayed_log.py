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
from tests.unit.auditor.histories import sentences

LOGGED = relayed_document(log=known_log_terms())
PLAIN, DIGEST = "a" * 64, "c" * 64


def audit(made: AuditedHistory) -> Report:
    return audit_files(GivenFiles(made.files), now=made.now, capsules=False)


def played(rounds: int = 2) -> AuditedHistory:
    made = AuditedHistory("logged", LOGGED)
    for number in range(rounds):
        made.log.append(manifest_entry(PLAIN, number + 1, DIGEST) if number else experiment_entry(PLAIN))
        made.announce(clients=5)
        made.conclude()
    return made


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


Lines = Callable[[AuditedHistory], list[bytes]]


def other_in_the_place_of(entry_of: Callable[[AuditedHistory], Entry]) -> Lines:
    """The log with another document's digest where this entry stands."""

    def lines(made: AuditedHistory) -> list[bytes]:
        entry = entry_of(made)
        return [
            replace(entry, digest=DIGEST).to_bytes() if line == entry.to_bytes() else line for line in made.log.entries
        ]

    return lines


def without_opening(number: int) -> Lines:
    return lambda made: [line for line in made.log.entries if line != made.openings[number].log_entry.to_bytes()]


@pytest.mark.parametrize(
    ("lines", "kind", "sentence"),
    [
        (
            other_in_the_place_of(lambda made: made.openings[0].log_entry),
            Kind.NOT_IN_LOG,
            "the opening of round 1 that is shown is another",
        ),
        (
            other_in_the_place_of(lambda made: made.rounds[1].manifest.log_entry),
            Kind.NOT_IN_LOG,
            "the manifest of round 2 that is shown is another",
        ),
        (
            lambda made: [*made.log.entries, made.rounds[1].manifest.log_entry.to_bytes()],
            Kind.TWO_ENTRIES,
            "cannot both stand there",
        ),
        (
            lambda made: [*made.log.entries[:-2], *made.log.entries[:-3:-1]],
            Kind.TWO_ENTRIES,
            "cannot both stand there",
        ),
        (without_opening(1), None, "the opening of round 2 is shown, and not in the log"),
        (without_opening(0), None, "the manifest of round 2, cannot stand where it does"),
        (
            lambda made: [*made.log.entries, opening_entry(made.document.digest, 3, DIGEST).to_bytes()],
            None,
            "the log holds the opening of round 3, and its document is not shown",
        ),
    ],
)
def test_a_log_that_holds_something_else_is_found_and_convicts_where_it_can(
    lines: Lines, kind: Kind | None, sentence: str
) -> None:
    made = played()
    log = KnownLog(lines(made))
    log.time_s = made.now // 1000
    log.show(made.files, [made.document.digest])
    report = audit(made)
    assert sentence in sentences(report)
    found = {examine(data).kind for of in report.experiments for data in of.findings.evidence}
    assert kind is None or kind in found


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
