"""Honest histories with two relays are never accused, whatever was lost or killed, and reports tell their numbers."""

import random

import pytest

from secvm.auditor.audit import audit_files
from secvm.auditor.files import GivenFiles
from secvm.auditor.report import Report
from secvm.cli.audit.text import report_text
from secvm_lab.rigs.histories.audited_history import AuditedHistory, draw_history, draw_told
from tests.effort import scaled
from tests.seeds import seed_for

#: Rounds of a history; histories of each kind.
ROUNDS, LIGHT, SEALED = 5, scaled(60, 2_000), scaled(2, 40)


def audited(made: AuditedHistory) -> Report:
    return audit_files(GivenFiles(made.files), now=made.now, doors=made.door_at, capsules=made.shows_capsules)


@pytest.mark.parametrize("part", range(10))
def test_honest_rounds_are_never_accused(part: int) -> None:
    dice = random.Random(seed_for("honest rounds of two relays", part))
    for _ in range(LIGHT // 10):
        made = draw_history(dice, rounds=ROUNDS)
        report = audited(made)
        assert report.faults == []
        assert report.evidence == []
        assert [one.facts.ended for one in report.rounds if one.facts][:ROUNDS] == [
            "opened" if opening.is_opened else "unopened" for opening in made.openings
        ]


@pytest.mark.parametrize("number", range(SEALED))
def test_honest_capsules_are_counted_again_and_never_accused(number: int) -> None:
    dice = random.Random(seed_for("honest capsules of two relays", number))
    made = draw_history(dice, rounds=2, sealed=True)
    report = audited(made)
    assert report.faults == []
    checked = [one for one in report.rounds if one.facts is not None and one.facts.ended == "opened"]
    assert all((one.checks["parts"], one.checks["capsules"]) == ("ok", "ok") for one in checked)


def test_a_report_tells_every_rounds_numbers_and_how_surely_a_lie_had_been_seen() -> None:
    made = AuditedHistory("told")
    told = draw_told(random.Random(1), made.document, 5)
    made.announce(sealed=True, clients=5, told=told)
    made.conclude()
    made.announce(clients=4)
    made.conclude(lost=3)
    made.announce()
    report = audited(made)
    assert report.ok
    first, second, third = (one.facts for one in report.rounds)
    assert first is not None
    assert second is not None
    assert third is not None
    n1 = 7 * 5 + 160
    assert (first.clients, first.entry_capsules, first.mix_capsules, first.refused) == (5, n1, n1 + 160, 0)
    assert first.part == made.rounds[0].entry_reveal.part
    assert first.chances is not None
    assert (str(first.chances.false_cover), str(first.chances.canary)) == ("1/4", "1/7")
    assert second.ended == "unopened"
    assert "the mixing relay has not opened its part" in second.missing
    assert third.ended == "running"
    text = report_text(report)
    assert f"opened: M 5, n₁ {n1}, n₂ {n1 + 160}, refused 0, part {first.part}" in text
    assert "a lie had been seen: false cover with 25 % or more" in text
    assert "unopened: the mixing relay has not opened its part" in text
    content = report.to_content()["rounds"][0]
    assert content["relays"]["seen"]["false_cover"] == "1/4"
    assert content["checks"]["parts"] == "ok"


def test_what_a_door_has_and_the_opening_lacks_is_told_and_accuses_nobody() -> None:
    made = AuditedHistory("lost")
    made.announce()
    made.conclude(lost=3)
    made.doors["mix"] |= made.rounds[0].door()
    report = audited(made)
    assert report.ok
    assert any("mix reveal is not in its opening, and the mixing relay's door has it" in one for one in report.warnings)


def test_a_coordinator_that_is_silent_after_its_time_leaves_the_round_unopened() -> None:
    made = AuditedHistory("silent")
    one = made.announce()
    made.now = one.manifest.instants.open_by
    report = audited(made)
    assert report.ok
    assert report.rounds[0].facts is not None
    assert report.rounds[0].facts.missing == ("no opening was published by its time",)
