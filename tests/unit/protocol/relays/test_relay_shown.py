"""What relays show of a round, and how batches are cut into pieces."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import MalformedMessageError
from secvm.protocol.relays.batches import PIECE_CAPSULES, capsules_in_piece, cut, piece_count
from secvm.protocol.relays.counts import MAX_PAPER_BYTES, MAX_SHOWN_BYTES, NAMES, read_shown, write_shown


@given(st.dictionaries(st.sampled_from(NAMES), st.binary(min_size=1, max_size=60)))
def test_what_is_shown_is_read_again(papers: dict[str, bytes]) -> None:
    data = write_shown(papers)
    assert read_shown(data) == papers
    assert sorted(json.loads(data)) == sorted(NAMES)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"null", b"{", b'{"mix_count": 3}', b'{"mix_count": "*"}', b'{"mix_count": "\xc3\xa9"}',
        b'{"mix_count": "' + b"A" * 4 * MAX_PAPER_BYTES + b'"}', b"[" * 10_000, b" " * (MAX_SHOWN_BYTES + 1),
    ],
)  # fmt: skip
def test_what_is_no_such_answer_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        read_shown(data)


def test_names_that_nobody_knows_are_not_looked_at() -> None:
    assert read_shown(b'{"later": 7, "mix_count": null}') == {}


@given(st.integers(0, 5 * PIECE_CAPSULES))
def test_pieces_together_are_the_batch(capsules: int) -> None:
    sizes = [capsules_in_piece(index, capsules) for index in range(piece_count(capsules))]
    assert sum(sizes) == capsules
    assert all(size == PIECE_CAPSULES for size in sizes[:-1])
    assert (capsules_in_piece(len(sizes), capsules), capsules_in_piece(-1, capsules)) == (0, 0)


def test_what_is_left_over_of_a_piece_is_no_capsule() -> None:
    assert cut(b"aabbc", 2) == [b"aa", b"bb"]
