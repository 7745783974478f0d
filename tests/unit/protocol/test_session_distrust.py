"""A session that is told to distrust: with evidence for ever, without it for the round that runs."""

import pytest

from secvm.errors import MalformedMessageError
from secvm.protocol.plain.session_events import (
    Abstain,
    Distrusted,
    Finished,
    ManifestArrived,
    Reason,
    SendSucceeded,
    Tick,
)
from secvm.protocol.plain.session_memory import Phase
from tests.unit.protocol.helpers import served
from tests.unit.protocol.test_session import FIRST, OF, ROUNDS, Device, reasons, sends


def in_mid_round() -> tuple[Device, int]:
    """A device that has sent some of its packages, and how many."""
    device = Device().join()
    middle = (FIRST.opens_at + FIRST.closes_at) // 2
    return device, len(device.run(until=middle))


def test_evidence_drops_what_waits_and_stops_for_ever() -> None:
    device, sent = in_mid_round()
    actions = device.tell(Distrusted("it lied", b"a file"))
    assert actions == [
        Finished(1, sent, OF.budget - sent),
        Abstain(Reason.CHEATING, "it lied", (b"a file",)),
    ]
    for _ in range(2):
        assert device.session.phase is Phase.STOPPED
        assert sends(device.tell(Tick(), now=FIRST.closes_at - 1)) == []
        assert reasons(device.tell(ManifestArrived(served(ROUNDS[1])), now=FIRST.accept_until)) == [Reason.CHEATING]
        assert device.tell(Distrusted("it lied again", b"another file")) == []
        device.restart()
    # The file is its owner's: a session is written often.
    assert device.session.evidence == ()


def test_without_evidence_the_next_round_is_joined_again() -> None:
    device, sent = in_mid_round()
    actions = device.tell(Distrusted("an older log was shown"))
    assert actions == [
        Finished(1, sent, OF.budget - sent),
        Abstain(Reason.DISTRUST, "an older log was shown"),
    ]
    device.restart()
    assert sends(device.tell(Tick(), now=FIRST.closes_at - 1)) == []
    assert reasons(device.tell(ManifestArrived(served(ROUNDS[1])), now=FIRST.accept_until - 1)) == []
    assert device.session.phase is Phase.COMPUTING


@pytest.mark.parametrize("evidence", [None, b"a file"])
def test_distrust_before_the_packages_are_ready_or_before_any_round(evidence: bytes | None) -> None:
    device = Device()
    reason = Reason.DISTRUST if evidence is None else Reason.CHEATING
    assert reasons(device.tell(Distrusted("so", evidence))) == [reason]
    device = Device()
    device.tell(ManifestArrived(served(FIRST)))
    actions = device.tell(Distrusted("so", evidence))
    assert reasons(actions) == [reason]
    assert not any(isinstance(action, Finished) for action in actions)


def test_late_acknowledgement_after_distrust_changes_nothing() -> None:
    device, sent = in_mid_round()
    device.tell(Distrusted("so"))
    for package_id in range(OF.budget):
        device.tell(SendSucceeded(package_id))
    assert device.session.progress.waiting == 0
    assert device.session.progress.acknowledged == sent


def test_session_with_one_piece_of_evidence_cannot_be_read() -> None:
    device = Device()
    device.tell(Distrusted("so", b"a file"))
    device.header = device.header.replace(b'"evidence":[]', b'"evidence":[{"envelope":"YQ=="}]')
    assert b"YQ==" in device.header
    with pytest.raises(MalformedMessageError):
        device.read()
