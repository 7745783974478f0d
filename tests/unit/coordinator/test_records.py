"""Blocks of records."""

import numpy as np
import pytest

from secvm.coordinator.store.records import view_records, view_words
from secvm.errors import LocalProtocolError
from tests.rigs.opened_blocks import make_block


def test_view_copies_nothing_and_changes_nothing() -> None:
    block = make_block([(b"a", bytes(range(32)))])
    for view in (view_records(block), view_words(block)):
        assert np.shares_memory(view, np.frombuffer(block, dtype=np.uint8))
        assert not view.flags.writeable
    assert view_words(block)[0, 4] == 0x0706050403020100


@pytest.mark.parametrize("length", [1, 63, 65, 127])
def test_half_a_record_is_refused(length: int) -> None:
    with pytest.raises(LocalProtocolError):
        view_records(b"x" * length)
