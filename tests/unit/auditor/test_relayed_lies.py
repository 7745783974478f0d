"""Every lie about relays is found, by the check that it is for and by no other, and proved where it was signed."""

import pytest

from secvm.auditor.audit import audit_files
from secvm.auditor.files import GivenFiles
from secvm.auditor.findings import RELAYED_CHECKS, FaultKind
from secvm.protocol.evidence.examination import examine_relayed
from secvm.protocol.evidence.relayed import Who
from secvm_lab.rigs.lies.about_relays import RELAYED_LIES


@pytest.mark.parametrize("name", RELAYED_LIES)
def test_a_lie_is_found_by_its_check_alone_and_proved_where_it_was_signed(name: str) -> None:
    lie = RELAYED_LIES[name]
    made = lie.tell()
    doors = made.door_at if lie.doors else None
    report = audit_files(GivenFiles(made.files), now=made.now, doors=doors, capsules=made.shows_capsules)
    # An auditor without these checks finds nothing at all.
    assert {fault.kind and fault.kind.name for fault in report.faults} == lie.found, [
        fault.sentence for fault in report.faults
    ]
    assert any(fault.provable for fault in report.faults) == lie.proved
    convicted = {examine_relayed(data).who for data in report.evidence}
    accused = {fault.kind.who for fault in report.faults if fault.provable and fault.kind}
    assert convicted == accused
    assert not report.ok


def test_there_is_a_lie_for_every_finding() -> None:
    assert {name for lie in RELAYED_LIES.values() for name in lie.found} == {one.name for one in FaultKind}


def test_findings_say_who_what_and_what_next() -> None:
    for one in FaultKind:
        assert one.check in RELAYED_CHECKS
        assert one.sentence("here").startswith(f"{one.who.value}: ")
        assert "; " in one.sentence()
    assert {one.who for one in FaultKind} == set(Who)


def test_who_only_drops_is_not_blamed_on_the_other_relay() -> None:
    by_entry, by_mix = RELAYED_LIES["cover_never_added_by_entry"], RELAYED_LIES["cover_dropped_by_mix"]
    assert FaultKind[next(iter(by_entry.found))].who is Who.ENTRY
    assert FaultKind[next(iter(by_mix.found))].who is Who.MIX
