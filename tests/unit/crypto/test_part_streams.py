"""Streams of a part: any place of them is read alike, and nothing is shared. What they are is held to the vectors."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.crypto.sealing.part_streams import MAX_ATTEMPT, PartStream, StreamName, part_key, seals
from secvm.errors import LocalProtocolError

SEED, LABEL, ROOT = bytes(range(32)), bytes(range(32, 64)), bytes(range(64, 96))
KEY = part_key(SEED, label=LABEL, root=ROOT, attempt=0)
NAMES: tuple[StreamName, ...] = ("train", "participation", "test", "seals")


@given(st.integers(0, 300), st.lists(st.integers(0, 100), max_size=4))
def test_any_place_can_be_read_and_pieces_follow_each_other(start: int, sizes: list[int]) -> None:
    whole = PartStream(KEY, "train").take(start + sum(sizes))
    stream = PartStream(KEY, "train", start=start)
    assert b"".join(stream.take(size) for size in sizes) == whole[start:]


@given(st.integers(0, 50), st.integers(0, 20))
def test_each_package_has_its_own_64_bytes_of_seals(first: int, count: int) -> None:
    assert seals(KEY, first, count) == PartStream(KEY, "seals").take(64 * (first + count))[64 * first :]


def test_words_go_on_over_the_end_of_a_piece() -> None:
    data = PartStream(KEY, "test").take(3 * 4096)
    words = list(islice(PartStream(KEY, "test").words(), 3 * 512))
    assert b"".join(word.to_bytes(8, "little") for word in words) == data


def test_seed_label_root_attempt_and_name_each_give_another_stream() -> None:
    keys = [
        KEY,
        part_key(ROOT, label=LABEL, root=ROOT, attempt=0),
        part_key(SEED, label=ROOT, root=ROOT, attempt=0),
        part_key(SEED, label=LABEL, root=LABEL, attempt=0),
        part_key(SEED, label=LABEL, root=ROOT, attempt=1),
    ]
    assert len({PartStream(key, name).take(16) for key in keys for name in NAMES}) == len(keys) * len(NAMES)


@pytest.mark.parametrize(
    "change", [{"seed": SEED[1:]}, {"label": b""}, {"root": bytes(33)}, {"attempt": -1}, {"attempt": MAX_ATTEMPT + 1}]
)
def test_what_is_no_part_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(LocalProtocolError):
        part_key(**({"seed": SEED, "label": LABEL, "root": ROOT, "attempt": 0} | change))  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError):
        PartStream(KEY, "seals", start=-1)


def test_a_stream_does_not_print_its_key() -> None:
    assert repr(PartStream(KEY, "train")) == "PartStream(...)"
