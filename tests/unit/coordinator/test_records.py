"""Blocks of records."""

import numpy as np
import pytest

from secvm.coordinator.store.records import view_records, view_words
from secvm.errors import LocalProtocolError
from tests.rigs.opened_blocks import make_block, make_record


def test_block_is_records_side_by_side() -> None:
    pairs = [(b"a", b"p" * 32), (b"b", b"q" * 32)]
    block = make_block(pairs)
    assert block == make_record(*pairs[0]) + make_record(*pairs[1])
    records = view_records(block)
    assert [record.tobytes() for record in records] == [make_record(*pair) for pair in pairs]
    assert make_block([]) == b""


def test_view_copies_nothing_and_changes_nothing() -> None:
    block = make_block([(b"a", bytes(range(32)))])
    for view in (view_records(block), view_words(block)):
        assert np.shares_memory(view, np.frombuffer(block, dtype=np.uint8))
        assert not view.flags.writeable
    assert view_words(block)[0, 4] == 0x0706050403020100


def test_empty_block_has_no_records() -> None:
    assert view_records(b"").shape == (0, 64)
    assert view_words(b"").shape == (0, 8)


@pytest.mark.parametrize("length", [1, 63, 65, 127])
def test_half_a_record_is_refused(length: int) -> None:
    with pytest.raises(LocalProtocolError):
        view_records(b"x" * length)
