"""What a session tells its owner to store, and what it takes again."""

import pytest

from secvm.errors import MalformedMessageError
from secvm.protocol.plain.session_events import SendSucceeded
from secvm.protocol.plain.session_memory import Changes, Phase, WaitingRow
from tests.unit.protocol.test_session import Device


def test_one_acknowledgement_is_one_row_less_and_a_header() -> None:
    device = Device().join()
    assert sorted(device.rows) == [0, 1, 2, 3, 4]
    device.stores_each = False
    device.tell(SendSucceeded(3))
    changes = device.store()
    assert (changes.removed, changes.put) == ((3,), ())
    assert changes.header is not None
    assert device.store() == Changes(header=None, put=(), removed=())


def test_parts_that_do_not_belong_together_are_refused() -> None:
    device = Device().join()
    assert device.read().phase is Phase.SENDING
    row = device.rows.pop(0)
    with pytest.raises(MalformedMessageError):
        device.read()
    for bad in (
        WaitingRow(5, row.at, 0, row.capsule),
        WaitingRow(0, -1, 0, row.capsule),
        WaitingRow(0, row.at, 0, b""),
    ):
        device.rows[0] = bad
        with pytest.raises(MalformedMessageError):
            device.read()


def test_rows_and_changes_do_not_print_capsules() -> None:
    row = WaitingRow(0, 1, 0, b"secret capsule")
    assert "secret" not in repr(row) + repr(Changes(header=b"secret", put=(row,), removed=()))
