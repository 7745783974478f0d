"""ristretto255: RFC 9496's values, and the laws of a group."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.crypto import ristretto255 as group
from secvm.errors import MalformedMessageError

#: RFC 9496, appendix A.1: 0, 1, 2, 3 times the generator.
MULTIPLES = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76",
    "6a493210f7499cd17fecb510ae0cea23a110e8d5b901f8acadd3095c73a3b919",
    "94741f5d5d52755ece4f23f044ee27d5d1ea1e2bd196b462166b16152a9d0259",
]
#: Appendix A.3: SHA-512 of this label, as 64 uniform bytes.
LABEL = b"Ristretto is traditionally a short shot of espresso coffee"
ELEMENT_OF_LABEL = "3066f82a1a747d45120d1740f14358531a8f04bbffe6a819f86dfe50f44a0a46"

scalars = st.integers(min_value=0, max_value=group.ORDER - 1)
elements = st.binary(min_size=64, max_size=64).map(group.from_uniform)


def same(one: group.Element, other: group.Element) -> bool:
    return group.encode(one) == group.encode(other)


def test_multiples_of_the_generator_are_the_rfcs() -> None:
    assert [group.encode(group.multiply(i, group.BASE)).hex() for i in range(4)] == MULTIPLES
    assert [group.encode(group.multiply_base(i)).hex() for i in range(4)] == MULTIPLES


def test_uniform_bytes_give_the_rfcs_element() -> None:
    assert group.encode(group.from_uniform(hashlib.sha512(LABEL).digest())).hex() == ELEMENT_OF_LABEL


@settings(max_examples=20, deadline=None)
@given(element=elements)
def test_an_element_is_read_back_and_has_the_groups_order(element: group.Element) -> None:
    data = group.encode(element)
    assert group.encode(group.decode(data)) == data
    assert same(group.multiply(group.ORDER, element), group.IDENTITY)
    assert same(group.add(group.multiply(group.ORDER - 1, element), element), group.IDENTITY)


@settings(max_examples=15, deadline=None)
@given(one=elements, other=elements, a=scalars, b=scalars)
def test_products_and_sums_obey_the_laws(one: group.Element, other: group.Element, a: int, b: int) -> None:
    assert same(group.add(one, other), group.add(other, one))
    assert same(group.multiply(a, group.multiply(b, one)), group.multiply(a * b, one))
    both = group.weighted_sum([(a, one), (b, other)])
    assert same(both, group.add(group.multiply(a, one), group.multiply(b, other)))
    assert same(group.multiply_base(a), group.multiply(a, group.BASE))


def test_a_scalar_is_below_the_order() -> None:
    assert group.decode_scalar(group.encode_scalar(group.ORDER - 1)) == group.ORDER - 1
    for data in (group.ORDER.to_bytes(32, "little"), b"\xff" * 32, bytes(31), bytes(33)):
        with pytest.raises(MalformedMessageError):
            group.decode_scalar(data)
