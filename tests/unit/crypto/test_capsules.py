import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.crypto.sealing.capsules import MAGIC, MAX_CAPSULE_BYTES, first_bytes, pack, unpack, unpack_in_groups
from secvm.errors import LocalProtocolError, MalformedMessageError

#: Of many lengths, or of one, as packages are.
CAPSULES = st.lists(st.binary(min_size=1, max_size=300), max_size=20) | st.integers(1, 300).flatmap(
    lambda length: st.lists(st.binary(min_size=length, max_size=length), max_size=20)
)


@given(CAPSULES)
def test_what_was_packed_comes_out_in_order(capsules: list[bytes]) -> None:
    assert unpack(pack(capsules)) == capsules


@given(CAPSULES, st.integers(1, 30))
def test_groups_are_the_same_capsules_so_many_at_a_time(capsules: list[bytes], largest: int) -> None:
    groups = list(unpack_in_groups(pack(capsules), largest))
    assert groups == [capsules[i : i + largest] for i in range(0, len(capsules), largest)]


@given(CAPSULES, st.data())
def test_one_length_or_many_the_same_comes_out(capsules: list[bytes], data: st.DataObject) -> None:
    changed = bytearray(pack(capsules))
    if data.draw(st.booleans()):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        slowly = [capsule for group in unpack_in_groups(bytes(changed), 7) for capsule in group]
    except MalformedMessageError:
        for way in (unpack, first_bytes):
            with pytest.raises(MalformedMessageError):
                way(bytes(changed))
    else:
        assert unpack(bytes(changed)) == slowly
        assert first_bytes(bytes(changed)) == bytes(capsule[0] for capsule in slowly)


def test_a_count_without_capsules_takes_no_memory() -> None:
    with pytest.raises(MalformedMessageError):
        unpack(MAGIC + b"\xff\xff\xff\xff")


@pytest.mark.parametrize("length", [0, MAX_CAPSULE_BYTES + 1])
def test_a_capsule_that_cannot_be_is_not_packed(length: int) -> None:
    with pytest.raises(LocalProtocolError):
        pack([bytes(length)])
    with pytest.raises(MalformedMessageError):
        unpack(MAGIC + b"\1\0\0\0" + length.to_bytes(2, "little") + bytes(length))
