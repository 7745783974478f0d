import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.crypto.capsules import MAGIC, MAX_CAPSULE_BYTES, pack, unpack, unpack_in_groups
from secvm.errors import LocalProtocolError, MalformedMessageError

CAPSULES = st.lists(st.binary(min_size=1, max_size=300), max_size=20)


@given(CAPSULES)
def test_what_was_packed_comes_out_in_order(capsules: list[bytes]) -> None:
    assert unpack(pack(capsules)) == capsules


@given(CAPSULES, st.integers(1, 30))
def test_groups_are_the_same_capsules_so_many_at_a_time(capsules: list[bytes], largest: int) -> None:
    groups = list(unpack_in_groups(pack(capsules), largest))
    assert groups == [capsules[i : i + largest] for i in range(0, len(capsules), largest)]


@given(CAPSULES, st.data())
def test_cut_or_longer_bytes_are_refused(capsules: list[bytes], data: st.DataObject) -> None:
    packed = pack(capsules)
    cut = data.draw(st.integers(0, len(packed) - 1))
    more = data.draw(st.binary(min_size=1, max_size=9))
    for changed in (packed[:cut], packed + more):
        with pytest.raises(MalformedMessageError):
            unpack(changed)


@given(st.binary(max_size=200))
def test_any_bytes_give_capsules_or_the_one_error(data: bytes) -> None:
    for told in (data, MAGIC + data, MAGIC + b"\1\0\0\0" + data):
        with contextlib.suppress(MalformedMessageError):
            assert pack(unpack(told)) == told


def test_a_count_without_capsules_takes_no_memory() -> None:
    with pytest.raises(MalformedMessageError):
        unpack(MAGIC + b"\xff\xff\xff\xff")


@pytest.mark.parametrize("length", [0, MAX_CAPSULE_BYTES + 1])
def test_a_capsule_that_cannot_be_is_not_packed(length: int) -> None:
    with pytest.raises(LocalProtocolError):
        pack([bytes(length)])
    with pytest.raises(MalformedMessageError):
        unpack(MAGIC + b"\1\0\0\0" + length.to_bytes(2, "little") + bytes(length))
