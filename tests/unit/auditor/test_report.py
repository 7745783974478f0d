"""What programs read of a report stays; evidence is told in words that a stranger understands."""

import json
from dataclasses import replace

import pytest

from secvm.auditor.explanation import STILL_TO_CHECK, explain
from secvm.auditor.findings import ROUND_CHECKS
from secvm.cli.audit.text import explanation_text, report_text, short
from secvm.protocol.canonical import digest_of
from secvm.protocol.documents.faults import Inconsistency
from secvm.protocol.log.entries import manifest_entry
from secvm_lab.rigs.histories.public_history import PublicHistory
from tests.unit.auditor.histories import audited, history


def at_fault() -> PublicHistory:
    """A history in which round 2 ended in a model that does not follow."""
    made = history(rounds=1)
    made.conclude(made.draw_tally())
    made.announce(evaluation_weights=digest_of(b"other weights"))
    return made


def test_keys_of_the_report_are_these() -> None:
    content = json.loads(json.dumps(audited(at_fault()).to_content()))
    assert list(content) == [
        "audit",
        "experiment",
        "experiments",
        "rounds",
        "steps_replayed",
        "recounted",
        "rounds_recounted",
        "faults",
        "warnings",
        "not_checked",
        "never_run",
    ]
    assert content["audit"] == "failed"
    assert list(content["rounds"][0]) == ["experiment", "number", "verdict", "checks"]
    assert list(content["rounds"][0]["checks"]) == list(ROUND_CHECKS)
    assert list(content["faults"][0]) == ["experiment", "round", "check", "what", "provable"]
    assert list(content["experiments"][0]) == [
        "experiment",
        "title",
        "audit",
        "standing",
        "rounds",
        "steps_replayed",
        "salt",
        "salt_value",
        "log_size",
        "committed_at",
        "recounted",
        "rounds_recounted",
        "capsules_gone",
    ]


def test_text_for_people_has_a_line_for_each_round_and_ends_with_the_sum() -> None:
    made = history(rounds=2, end=True)
    text = report_text(audited(made))
    assert text.count("step follows from the published tally") + text.count("abandoned: state unchanged") == 2
    assert "Something is wrong" not in text
    assert text.endswith("nothing found.")
    assert "1 fault found" not in text


def test_text_names_what_is_wrong_and_that_it_can_be_proved() -> None:
    text = report_text(audited(at_fault()))
    assert "Something is wrong:\n  - round 2: the model after it does not follow" in text
    assert "[signed bytes prove it]" in text


def test_many_rounds_are_shown_in_spans() -> None:
    report = audited(history(rounds=0))
    one = report.rounds[0]
    many = tuple(replace(one, number=number, verdict="same" if number < 60 else "other") for number in range(1, 62))
    experiment = replace(report.experiments[0], rounds=many)
    text = report_text(replace(report, experiments=(experiment,)))
    assert "1 to 59  same" in text
    assert "60 to 61  other" in text


def test_what_a_server_wrote_stays_on_its_line_and_short() -> None:
    assert short("a\nb\rc\u2028d") == "a b c d"
    assert len(short("x" * 10_000)) < 300


def test_evidence_is_explained_with_key_and_what_is_left_to_check() -> None:
    made = at_fault()
    (data, *_) = audited(made).evidence
    explanation = explain(data)
    assert explanation.experiment == made.document.digest
    assert explanation.signed_by == (f"coordinator {made.parties.coordinator.public.key_id.hex()}",)
    text = explanation_text(explanation)
    assert explanation.sentence in text
    assert all(sentence in text for sentence in STILL_TO_CHECK)
    content = explanation.to_content()
    assert list(content) == [
        "evidence",
        "kind",
        "sentence",
        "experiment",
        "title",
        "what",
        "signed_by",
        "parts",
        "still_to_check",
    ]
    assert (content["evidence"], content["kind"]) == ("convicts", "wrong-step")


def test_evidence_about_the_log_names_the_logs_key() -> None:
    made = history(rounds=1)
    other = made.log.branch(made.log.tree.size - 1)
    other.append(manifest_entry(made.document.digest, 2, "cd" * 32))
    signed = other.checkpoint()
    files = {**made.files, f"{made.place}/checkpoint": signed.data}
    (data, *_) = audited(made, files).evidence
    assert explain(data).signed_by[-1].startswith("log log.example/secvm/v2+")


def test_repro_a_sentence_written_anew_changes_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    made = history(rounds=1)
    made.conclude(made.draw_tally())
    made.announce(quota=1)
    monkeypatch.setattr(Inconsistency.QUOTA, "_value_", "in other words")
    (fault,) = audited(made).faults
    assert (fault.check, fault.sentence, fault.round_number) == ("quota", "in other words", 3)
